"""The first page's figures: of ten ops, what all optimisations together are worth, as a table and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, zip_longest
from typing import Any

from perf_tests.suite.limits import share_words
from rlgauge.machine import called

from .fronts import cell, line
from .order import Row, Span, fastest, for_a_user, items, leaders
from .table import grouped, ratio_words, stale

COUNT = 10
OWN = ("torch", "numpy")  # what the programs that are made faster are written in
COLORS = ("#4c78a8", "#f58518")  # of the same library, of JAX
WIDTH, BAR, LEFT, RIGHT, TOP = 860, 12, 300, 40, 84  # of the picture, in pixels


@dataclass(frozen=True)
class Best:
    """The fastest row of a library, the names of all that cannot be told apart from it, and its gain over naive.

    Attributes:
        row: the fastest.
        names: form and backend of each that may be the fastest, fastest first.
        gain: how many times as fast as naive the fastest is.
    """

    row: Row
    names: Sequence[str]
    gain: Span


@dataclass(frozen=True)
class Headline:
    """An op as it is commonly written, and the fastest of the same library and of JAX.

    Attributes:
        name: op, axes and precision.
        naive: the row of the form ``naive`` in torch, or in NumPy where the op has none in torch.
        bests: of the same library and of JAX, None where there is none.
    """

    name: str
    naive: Row
    bests: tuple[Best | None, Best | None]


def library(row: Row) -> str:
    """Return the library of a row's backend.

    Args:
        row: of a result.
    """
    return str(row["backend"].partition("-")[0])


def best(naive: Row, rows: Sequence[Row]) -> Best | None:
    """Return the fastest of some rows, None of none.

    Args:
        naive: the baseline's row.
        rows: those that are compared with it.
    """
    if not rows:
        return None
    found = fastest(rows)
    names = leaders({f"{row['form']} {row['backend']}": for_a_user(row) for row in rows})
    return Best(found, names, for_a_user(naive) / for_a_user(found))


def headline(name: str, group: Sequence[Row]) -> Headline | None:
    """Return what is said of the rows of one op, or None where there is no baseline, or nothing beside it.

    Args:
        name: op, axes and precision.
        group: rows of one op, axes and precision.
    """
    fresh = [row for row in group if not stale(row)]
    naive = [row for own in OWN for row in fresh if (row["form"], row["backend"]) == ("naive", own)]
    if not naive:
        return None
    others = [row for row in fresh if row is not naive[0]]
    same, jax = ([row for row in others if library(row) == name] for name in (library(naive[0]), "jax"))
    return Headline(name, naive[0], (best(naive[0], same), best(naive[0], jax))) if same or jax else None


def chosen(rows: Iterable[Row]) -> list[Headline]:
    """Return ten ops: of each the axes with the most rows, of each workload in turn the op whose call is longest.

    Args:
        rows: of a result.
    """
    found: dict[str, dict[str, tuple[int, Headline]]] = {}
    for name, group in grouped(rows).items():
        told, ops = headline(name, group), found.setdefault(group[0]["workload"], {})
        if told and len(group) > ops.get(group[0]["op"], (0,))[0]:
            ops[group[0]["op"]] = len(group), told
    longest = (
        sorted((told for _, told in ops.values()), key=lambda told: -told.naive["seconds_per_call"])
        for ops in found.values()
    )
    in_turn = [told for told in chain.from_iterable(zip_longest(*longest)) if told]
    return sorted(in_turn[:COUNT], key=lambda told: told.name)


def taken_on(results: Mapping[str, Any]) -> str:
    """Return when, where and on what the figures were taken.

    Args:
        results: what is kept of a run: its date, machine and rows.
    """
    machine = results["machine"]
    return f"{results['date']}, {called(machine)}, {machine['cores']} cores, commit {machine['git']}"


def cells(found: Best | None, count: float) -> list[str]:
    """Return what is said of the fastest of a library: its names, the time of so many items, its gain and its limit.

    Args:
        found: what is said of it, if there is one.
        count: how many items.
    """
    if found is None:
        return [""] * 3
    share = share_words(found.row["limit_share"], found.row["bound"])
    return [f"{cell(found.row, count)}: {' or '.join(found.names)}", ratio_words(found.gain), share]


def headlines(results: Mapping[str, Any], rows: Sequence[Row], page: str) -> str:
    """Return the picture, the table, and where all the others are, as Markdown; ``page`` without its ending.

    Args:
        results: what is kept of a run: its date, machine and rows.
        rows: of a result.
        page: path of the page of all results, without its ending.
    """
    told = [
        f"![How many times as fast as naive: ten ops]({page}.svg)",
        "",
        line("op", "naive", "best in the same library", "gain", "of limit", "best in JAX", "gain", "of limit"),
        line("---", "---:", "---", "---:", "---:", "---", "---:", "---:"),
    ]
    for one in chosen(rows):
        count = items(one.naive)
        naive = f"{cell(one.naive, count)}: {one.naive['backend']}"
        told.append(line(f"`{one.name}`", naive, *(shown for found in one.bests for shown in cells(found, count))))
    return "\n".join([*told, "", f"{taken_on(results)}. All {len(rows)} benchmarks: [{page}.md]({page}.md)."])


def picture(results: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the gains as bars on a logarithmic axis, each with its interval, as SVG.

    Args:
        results: what is kept of a run: its date, machine and rows.
        rows: of a result.
    """
    told = chosen(rows)
    gains = [found.gain for one in told for found in one.bests if found]
    low, high = min([1.0, *(gain.low for gain in gains)]), max([2.0, *(gain.high for gain in gains)])
    step = 2 * BAR + 8
    bottom = TOP + step * len(told)

    def at(gain: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(gain / low) / math.log(high / low)

    def text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'

    def bar(left: float, right: float, y: float, color: str) -> str:
        return f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{BAR}" fill="{color}"/>'

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{bottom + 30}" fill="#fff"/>',
        text(16, 24, "How many times as fast as naive", size=16),
        text(16, 44, taken_on(results)),
    ]
    for k, words in enumerate(("best in the same library", "best in JAX")):
        drawn += [bar(16 + 190 * k, 28 + 190 * k, 54, COLORS[k]), text(34 + 190 * k, 64, words)]
    for tick in (tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= tick <= high):
        x = f'x1="{at(tick):.1f}" x2="{at(tick):.1f}"'
        drawn.append(f'<line {x} y1="{TOP - 6}" y2="{bottom}" stroke="#ccc"/>')
        drawn.append(text(at(tick), bottom + 18, f"{tick}x", "middle"))
    for k, one in enumerate(told):
        drawn.append(text(LEFT - 8, TOP + step * k + BAR + 4, one.name, "end"))
        for n, found in enumerate(one.bests):
            if found:
                y = TOP + step * k + BAR * n
                left, right = sorted((at(1), at(found.gain.middle)))
                x = f'x1="{at(found.gain.low):.1f}" x2="{at(found.gain.high):.1f}"'
                middle = f'y1="{y + BAR / 2:.1f}" y2="{y + BAR / 2:.1f}"'
                drawn += [bar(left, right, y, COLORS[n]), f'<line {x} {middle} stroke="#222" stroke-width="1.5"/>']
    return "\n".join([*drawn, "</svg>"]) + "\n"
