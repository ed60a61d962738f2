"""Results as tables: a row per benchmark, ranked as far as its samples tell, beside the machine's limit."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from perf_tests.suite.limits import complaints, share_words

from .order import Row, Span, items, per_item, ranks, with_default_malloc

SEEN = 0.10  # a change with default malloc beyond which both figures are shown
COLUMNS = {"op": "left", "rank": "left", "form": "left", "backend": "left", "a call": "right", "±": "right",
           "rate": "right", "of limit": "right", "": "left"}  # fmt: skip
LEGEND = (
    "± is half of the interval in which a row's time stands. Rows share ranks unless the passes of the run tell them "
    "apart by more than processes differ. Ranks go by the time of an item, as calls of different forms may hold "
    "different numbers of them."
)


def quantity(value: float) -> str:
    """Return three significant digits with a prefix: 12.3k, 4.56M.

    Args:
        value: a number.
    """
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{prefix}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return three significant digits in us, ms or s.

    Args:
        seconds: the time.
    """
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def percent(part: float) -> str:
    """Return two significant digits, whole per cents from 10 on: 0.013 %, 4.2 %, 140 %.

    Args:
        part: of 1.
    """
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def factor(value: float) -> str:
    """Return a ratio with two decimals, below 0.1 and from 10 on with as many as it takes for two or three digits.

    Args:
        value: a number.
    """
    return f"{value:.2f}" if 0.1 <= value < 10 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def axes(row: Row) -> str:
    """Return the axes as in ``batch 32, io host``.

    Args:
        row: of a result.
    """
    return ", ".join(f"{name} {value}" for name, value in row["axes"].items())


def title(row: Row) -> str:
    """Return what a row is compared within: op, axes, and the precision where it is not float32.

    Args:
        row: of a result.
    """
    precision = "" if row["precision"] == "float32" else f"in {row['precision']}"
    return " ".join(filter(None, [f"{row['workload']}.{row['op']}", axes(row), precision]))


def rate(row: Row) -> str:
    """Return the items per second, as in ``12.3k samples/s``.

    Args:
        row: of a result.
    """
    return f"{quantity(row['items_per_second'])} {row['unit']}/s"


def marked(row: Row) -> float | None:
    """Return how many times as long a row takes with default malloc, where that is seen to be more than 10 % off.

    Args:
        row: of a result.
    """
    changed = with_default_malloc(row)
    return changed.middle if changed and abs(changed.middle - 1) > SEEN else None


def phases(row: Row) -> str:
    """Return the shares of a loop's phases, longest first, and the lag of the policy that acts.

    Args:
        row: of a result.
    """
    spent: Mapping[str, float] = row.get("phases") or {}
    whole = sum(spent.values())
    told = [f"{name} {100 * part / whole:.0f} %" for name, part in sorted(spent.items(), key=lambda item: -item[1])
            if part > 0.005 * whole]  # fmt: skip
    lag = [f"policy lag {row['policy_lag_steps']:.0f} steps"] if "policy_lag_steps" in row else []
    return ", ".join(told + lag)


def notes(row: Row) -> str:
    """Return all that qualifies a row: what disturbed it, default malloc, latencies, phases.

    Args:
        row: of a result.
    """
    changed = marked(row)
    return "; ".join(
        filter(
            None,
            [
                f"disturbed {percent(row['disturbed'])}" if row["disturbed"] else "",
                f"default malloc: {duration(changed * row['seconds_per_call'])}" if changed else "",
                f"p50 {duration(row['latency_p50_s'])}, p99 {duration(row['latency_p99_s'])}"
                if "latency_p50_s" in row
                else "",
                phases(row),
            ],
        )
    )


def warnings(machine: Mapping[str, Any], rows: Iterable[Row]) -> list[str]:
    """Return what a reader has to know first: a tree that is in no commit, a loud machine, rows that cannot be.

    Args:
        machine: what :func:`perf_tests.suite.machine.info` returned, and the machine's limits.
        rows: of a result.
    """
    dirty = f"The working tree had changes that are in no commit: {machine['git']}."
    loudness = machine.get("loudness", {}).get("text", "")
    return [
        *([dirty] if machine["git"].endswith("+dirty") else []),
        *filter(None, [loudness]),
        *complaints(rows, machine.get("limits", {})),
    ]


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each op, axes and precision, fastest item first, in the order in which they first came.

    Args:
        rows: of a result.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(title(row), []).append(row)
    return {name: sorted(group, key=lambda row: (stale(row), per_item(row).middle)) for name, group in groups.items()}


def stale(row: Row) -> bool:
    """Return whether a row was measured under another version of its case than the present one.

    Args:
        row: of a result.
    """
    return bool(row.get("stale"))


def ranked(group: list[Row]) -> list[str]:
    """Return the rank of each row, as in ``1`` or ``2-3``; of a stale one none.

    Args:
        group: rows of one op, axes and precision, fastest first.
    """
    found = iter(ranks([per_item(row) for row in group if not stale(row)]))
    return ["" if stale(row) else "-".join(map(str, dict.fromkeys(next(found)))) for row in group]


def lines(rows: Iterable[Row]) -> list[list[list[str]]]:
    """Return the cells of every row, by group; a stale row says so in the place of its figures.

    Args:
        rows: of a result.
    """
    return [
        [
            [
                name if k == 0 else "",
                rank,
                row["form"],
                row["backend"],
                *(["stale", "", "", "", ""] if stale(row) else figures(row)),
            ]
            for k, (row, rank) in enumerate(zip(group, ranked(group)))
        ]
        for name, group in grouped(rows).items()
    ]


def figures(row: Row) -> list[str]:
    """Return the time of a call, half of its interval, rate, share of the limit, notes.

    Args:
        row: of a result.
    """
    half = percent(per_item(row).half)
    return [
        duration(row["seconds_per_call"]),
        half,
        rate(row),
        share_words(row["limit_share"], row["bound"]),
        notes(row),
    ]


def row_line(row: Row) -> str:
    """Return a row as a line of progress: id, time of a call, half of its interval if it has one, rate, share, notes.

    Args:
        row: of a result.
    """
    call, half, per_second, of_limit, said = figures(row)
    reached = f"{of_limit} of limit" if of_limit.endswith("%") else of_limit.strip("-")
    call = f"{call} ± {half}" if row["samples"] > 1 else call
    return f"{row['id']}: {', '.join(filter(None, [call, per_second, reached, said]))}"


def ratio_words(ratio: Span) -> str:
    """Return a ratio with its interval, as in ``1.26 (1.20-1.31)``, and a word where the interval includes 1.

    Args:
        ratio: of two times.
    """
    shown = f"{factor(ratio.middle)} ({factor(ratio.low)}-{factor(ratio.high)})"
    return f"{shown}: not told apart" if ratio.undecided else shown


def call_words(row: Row, count: float) -> str:
    """Return the time of so many items, with default malloc in brackets if more than 10 % off, and what disturbed it.

    Args:
        row: of a result.
        count: how many items.
    """
    seconds, changed = row["seconds_per_call"] * count / items(row), marked(row)
    shown = f"{duration(seconds)} ({duration(changed * seconds)})" if changed else duration(seconds)
    return f"{shown}, disturbed {percent(row['disturbed'])}" if row["disturbed"] else shown


def text_tables(rows: Iterable[Row], machine: Mapping[str, Any] | None = None) -> str:
    """Return all results for a terminal; with the machine's facts, what a reader has to know first is said above them.

    Args:
        rows: of a result.
        machine: facts of the machine, if they are to be told.
    """
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    table = Table(
        box=None, pad_edge=False, title="time per call, rate, and share of what this machine could do at most"
    )
    for name, justify in COLUMNS.items():
        table.add_column(name, justify=justify, no_wrap=bool(name))  # type: ignore[arg-type]
    for group in lines(rows):
        for cells in group:
            table.add_row(*cells)
        table.add_section()
    out = io.StringIO()
    console = Console(file=out, width=170)
    for words in [*(warnings(machine, rows) if machine else ()), LEGEND]:
        console.print(words, markup=False, highlight=False)
    console.print(table)
    return out.getvalue()
