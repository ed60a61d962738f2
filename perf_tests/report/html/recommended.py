"""The recommendation at the top of the page: which backend to use for each op, as far as the intervals decide it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from perf_tests.report.order import Row, Span, items, per_item
from perf_tests.report.table import factor, joined, quantity
from rlgauge.statistics import FEWEST

from .figures import by, label
from .runs import is_number

LEAD = (
    "These recommendations use a single run. A backend counts as slower if its interval does not overlap that of the "
    "fastest. To confirm a difference, run rlgauge compare."
)


def backends(rows: Sequence[Row]) -> int:
    """Return the number of backends."""
    return len({row["backend"] for row in rows})


def rate(row: Row) -> float:
    """Return the items per second."""
    return float(row["items_per_second"])


def gain(row: Row, other: Row) -> Span:
    """Return how many times as fast ``row`` is as ``other``."""
    return per_item(other) / per_item(row)


def faster(row: Row, other: Row) -> bool:
    """Return whether ``row`` is significantly faster than ``other``; False if either has too few samples."""
    return min(row["samples"], other["samples"]) >= FEWEST and gain(row, other).low > 1


def size(row: Row) -> float:
    """Return the size of the problem, as the sum of the numeric axes."""
    return float(sum(value for value in row["axes"].values() if is_number(value)))


def contenders(rows: Sequence[Row]) -> list[Row]:
    """Return the best form of each backend, or all forms if there is one backend, by decreasing rate."""
    groups = by(rows, "backend" if backends(rows) > 1 else "form").values()
    return sorted((max(group, key=rate) for group in groups), key=rate, reverse=True)


def chosen(rows: Sequence[Row]) -> list[Row]:
    """Return the contenders at the recommended axes, for rows of one op and precision.

    Only axes with the most backends count. Of these, the smallest size wins whose rate is not significantly below the
    highest. If calls of all sizes have equally many items, such as one update, the largest size wins.
    """
    groups = by([{**row, "at": where(row)} for row in rows], "at").values()
    found = sorted(map(contenders, groups), key=lambda one: size(one[0]))
    most = max((backends(one), len(one)) for one in found)
    found = [one for one in found if (backends(one), len(one)) == most]
    if len({round(items(one[0])) for one in found}) == 1:
        return found[-1]
    highest = max((one[0] for one in found), key=rate)
    return next(one for one in found if not faster(highest, one[0]))


def where(row: Row) -> str:
    """Return the axes in words: ``batch size 1,024, io host``."""
    axes = {name: f"{value:,}" if is_number(value) else value for name, value in row["axes"].items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in axes.items())


def advice(rows: Sequence[Row]) -> str:
    """Return the recommendation for one op as a sentence; it compares rows of one precision at equal axes."""
    best, *others = chosen(max(by(rows, "precision").values(), key=lambda found: (backends(found), len(found))))
    slower = [row for row in others if faster(best, row)]
    tied = [best, *(row for row in others if not faster(best, row))]
    at = f" at {where(best)}" if best["axes"] else ""
    rates = joined([quantity(rate(row)) for row in tied], "and")
    use = f"Use {joined([label(row) for row in tied], 'or')}{at}: {rates} {best['unit']}/s"
    if not others:
        return f"{use}, the only one measured."
    gains = " to ".join(dict.fromkeys(factor(gain(best, row).middle) for row in [*slower[:1], *slower[-1:]]))
    compared = f"{gains} times as fast as {joined([label(row) for row in slower], 'and')}" if slower else ""
    if len(tied) == 1:
        return f"{use}, {compared}."
    few = any(row["samples"] < FEWEST for row in tied)
    verdict = "too few samples to tell which is faster" if few else "no significant difference"
    return f"{use}, {verdict}; {label(best)} is {compared}." if slower else f"{use}, {verdict}."


def section(rows: Sequence[Row]) -> str:
    """Return the card as HTML: for each workload the op with the most backends, and the others folded."""
    shown = []
    for (workload,), found in by(rows, "workload").items():
        ops = sorted(by(found, "op").values(), key=lambda one: (backends(one), len(one)), reverse=True)
        name = escape(workload)
        first, *rest = [f"<b>{name}.{escape(one[0]['op'])}</b>: {escape(advice(one))}" for one in ops]
        lines = "".join(f"<li>{line}</li>" for line in rest)
        more = f"<details><summary>Other ops: {len(rest)}</summary><ul>{lines}</ul></details>" if rest else ""
        shown.append(f'<div data-workload="{name}"><p class="advice">{first}</p>{more}</div>')
    return f'<section id="recommended"><h2>Recommendation</h2>{"".join(shown)}<p>{escape(LEAD)}</p></section>'
