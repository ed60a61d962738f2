"""Results as text tables: one row per benchmark with time, spread, rate and share of the machine's limit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perf_tests.suite.limits import above_peak, above_peak_warnings, share_words

from .order import Row, Span

WIDTH = 80  # columns of the terminal
NAMES = "  {form:<17} {backend:<20}"
FIGURES = "  {time:>7}  {spread:>5}  {rate:>7}  {share:>8}"
PLAIN = (
    "The time is the median per call, and IQR is the interquartile range as a fraction of it. Rows are not ranked: to "
    "find the faster of two benchmarks, use `rlgauge compare`. "
    '"of limit" is the shortest possible time, at the peak rates that the same run measured, divided by the time. '
    '"in cache" means more bytes per second than main memory delivers, and "-" means that the work of the op is not '
    "counted, or that the run measured no peak rate in its precision."
)
UNBROKEN = re.compile(r"(?<=\d) (?=µs\b|ms\b|s\b)")  # spaces between a number and its unit


def quantity(value: float, space: str = "") -> str:
    """Format three significant digits with a prefix, and `space` before the prefix and a unit: 12.3k, 4.56M."""
    rounded = float(f"{value:.3g}")  # first, because 999.6 is 1k and not 1e+03
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded >= factor:
            return f"{rounded / factor:.3g}{space}{prefix}"
    return f"{rounded:.3g}{space}"


def duration(seconds: float) -> str:
    """Format seconds with three significant digits in µs, ms or s."""
    rounded = float(f"{seconds:.3g}")  # first, as in :func:`quantity`
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if rounded >= factor:
            return f"{rounded / factor:.3g} {unit}"
    return f"{rounded / 1e-6:.3g} µs"


def percent(part: float) -> str:
    """Format a fraction as a percentage with at least two significant digits: 0.013%, 4.2%, 140%."""
    return f"{100 * part:.0f}%" if part >= 0.1 else f"{100 * part:.2g}%"


def factor(value: float) -> str:
    """Format a ratio: two decimals from 0.1 to 10, else two (below) or three (above) significant digits."""
    if value >= 10:
        return quantity(value)
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def axes(row: Row) -> str:
    """Return the axes in words: ``batch_size 32, io host``."""
    return ", ".join(f"{name} {value}" for name, value in row["axes"].items())


def title(row: Row) -> str:
    """Return the op, the axes and, if it is not float32, the precision of a row."""
    precision = "" if row["precision"] == "float32" else f"in {row['precision']}"
    return " ".join(filter(None, [f"{row['workload']}.{row['op']}", axes(row), precision]))


def phases(row: Row) -> str:
    """Return the shares of a loop's phases, longest first, and the acting policy's lag."""
    spent: Mapping[str, float] = row.get("phases") or {}
    whole = sum(spent.values())
    shares = [f"{name} {100 * part / whole:.0f}%" for name, part in sorted(spent.items(), key=lambda item: -item[1])
            if part > 0.005 * whole]  # fmt: skip
    lag = [f"policy lag {row['policy_lag_steps']:.0f} steps"] if "policy_lag_steps" in row else []
    return ", ".join(shares + lag)


def notes(row: Row) -> str:
    """Return remarks on a row: a share above the peak, latencies, phases."""
    return "; ".join(
        filter(
            None,
            [
                "above the measured peak" if above_peak(row) else "",
                f"p50 {duration(row['latency_p50_s'])}, p99 {duration(row['latency_p99_s'])}"
                if "latency_p50_s" in row
                else "",
                phases(row),
            ],
        )
    )


def warnings(machine: Mapping[str, Any], rows: Iterable[Row]) -> list[str]:
    """Return warnings about a run: uncommitted changes, and rows above the machine's measured peak."""
    dirty = f"The working tree had uncommitted changes: {machine['git']}."
    return [
        *([dirty] if machine["git"].endswith("+dirty") else []),
        *above_peak_warnings(rows, machine.get("limits", {})),
    ]


def ratio_words(ratio: Span) -> str:
    """Format a ratio with its interval, ``1.26 (1.20-1.31)``, and mark one without a significant difference."""
    shown = f"{factor(ratio.middle)} ({factor(ratio.low)}-{factor(ratio.high)})"
    return f"{shown}: no significant difference" if ratio.undecided else shown


def wrapped(text: str, indent: int = 0, hanging: int | None = None) -> str:
    """Wrap a paragraph to 80 columns, but never between a number and its unit.

    ``indent`` is the number of columns before the first line, ``hanging`` before the others (default: the same).
    """
    lines = textwrap.wrap(
        UNBROKEN.sub("\xa0", text),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\xa0", " ")


def joined(words: Sequence[str], last: str) -> str:
    """Return words as a list in a sentence, with ``last`` (and, or) before the last one."""
    *head, tail = words
    return f"{', '.join(head)} {last} {tail}" if head else tail


def listed(text: str) -> str:
    """Return text that :func:`wrapped` breaks only after commas and semicolons."""
    return re.sub(r"(?<![,;]) ", "\xa0", text)


def text_row(row: Row) -> list[str]:
    """Return the lines of a benchmark in a text table."""
    names = NAMES.format(form=row["form"], backend=row["backend"])
    said = FIGURES.format(
        time=duration(row["seconds_per_call"]),
        spread=percent(row["spread"]) if row["samples"] > 1 else "",
        rate=f"{quantity(row['items_per_second'])}/s",
        share=share_words(row["limit_share"], row["bound"]),
    )
    blank = " " * len(NAMES.format(form="", backend=""))
    shown = [names + said] if len(names) == len(blank) else [names, blank + said]
    return [*shown, *filter(None, [wrapped(listed(notes(row)), 8)])]


def text_tables(rows: Iterable[Row]) -> str:
    """Return all results as text of at most 80 columns: a heading per op and axes, a line per benchmark."""
    head = NAMES.format(form="form", backend="backend")
    head += FIGURES.format(time="time", spread="IQR", rate="rate", share="of limit")
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["workload"]):
        groups.setdefault(title(row), []).append(row)
    shown, workload = [], None
    for name, group in groups.items():
        if group[0]["workload"] != workload:
            workload = group[0]["workload"]
            shown += [head, "-" * WIDTH]
        shown.append(wrapped(listed(f"{name} ({group[0]['unit']}/s)"), hanging=4))
        for row in group:
            shown += text_row(row)
        shown.append("")
    return "\n".join([*shown, wrapped(PLAIN)])
