"""Chapter on the number of threads: rates over several runs, and benchmarks that more threads slow down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from perf_tests.report.order import Row, Span
from perf_tests.report.table import duration, quantity

from .figures import Chapter, Figure, Series, label, name, span_words
from .runs import Run
from .scaling import point

LEAD = (
    "Items per second by number of threads. make bench-threads makes one run for each number. A benchmark is listed as "
    "slower with more threads only if the two intervals do not overlap."
)
COLUMNS = ("benchmark", "form", "backend", "threads", "time", "rate")


def apart(row: Row) -> Span:
    """Return the seconds per call with their interval."""
    return Span(row["seconds_per_call"], row["low"], row["high"])


def over_threads(runs: Sequence[Run]) -> dict[str, dict[int, Row]]:
    """Return the rows of each benchmark id by number of threads, for benchmarks measured at several.

    Of two runs with equally many threads, the later one counts.
    """
    found: dict[str, dict[int, Row]] = {}
    for run in runs:
        for row in run.rows:
            threads = row["threads"] or run.threads
            if threads:
                found.setdefault(row["id"], {})[threads] = row
    return {identity: dict(sorted(rows.items())) for identity, rows in found.items() if len(rows) > 1}


def slower(identity: str, rows: Mapping[int, Row]) -> str:
    """Return a sentence if a benchmark is significantly slower with more threads, else an empty string.

    Of all such pairs of thread counts, it describes the one with the largest slowdown.
    """
    ratios = [(more, fewer, apart(rows[more]) / apart(rows[fewer])) for more in rows for fewer in rows if fewer < more]
    worse = [(more, fewer, ratio) for more, fewer, ratio in ratios if ratio.low > 1]
    if not worse:
        return ""
    more, fewer, ratio = max(worse, key=lambda found: found[2].middle)
    return (
        f"{identity}: {more} threads take {span_words(ratio)} times as long as {fewer}, "
        f"{duration(rows[more]['seconds_per_call'])} per call instead of {duration(rows[fewer]['seconds_per_call'])}."
    )


def figure(found: Mapping[str, Mapping[int, Row]]) -> Figure:
    """Return the line plot of one op and axes; ``found`` holds rows by id and number of threads."""
    series, cells = [], []
    for rows in found.values():
        first = next(iter(rows.values()))
        points = [{"x": threads, **point(row)} for threads, row in rows.items()]
        series.append(Series(label(first), first["backend"], first["form"], points))
        cells += [
            [
                name(row),
                row["form"],
                row["backend"],
                str(threads),
                duration(row["seconds_per_call"]),
                f"{quantity(row['items_per_second'])} {row['unit']}/s",
            ]
            for threads, row in rows.items()
        ]
    labels = {"x": "threads", "unit": first["unit"], "rate": True}
    return Figure(first["workload"], name(first), "lines", series, COLUMNS, cells, labels)


def chapter(runs: Sequence[Run]) -> Chapter:
    """Return the chapter, with a list of the benchmarks that more threads slow down."""
    groups: dict[tuple[str, str], dict[str, Mapping[int, Row]]] = {}
    flagged: dict[str, list[str]] = {}
    for identity, rows in over_threads(runs).items():
        first = next(iter(rows.values()))
        groups.setdefault((first["workload"], name(first)), {})[identity] = rows
        if words := slower(identity, rows):
            flagged.setdefault(first["workload"], []).append(words)
    figures = [figure(found) for found in groups.values()]
    compared = sum(len(one.series) for one in figures)
    count = f" {sum(map(len, flagged.values()))} of {compared} benchmarks here are slower with more threads."
    html = "".join(flags(workload, words) for workload, words in flagged.items())
    return Chapter("threads", "More threads", LEAD + count * bool(figures), figures, html=html)


def flags(workload: str, sentences: Sequence[str]) -> str:
    """Return the benchmarks of a workload that more threads slow down, as HTML."""
    lines = "".join(f"<li>{escape(words)}</li>" for words in sentences)
    head = f'<div data-workload="{escape(workload)}"><h3>Slower with more threads</h3>'
    return f'{head}<ul class="flags">{lines}</ul></div>'
