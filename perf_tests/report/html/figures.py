"""What a plot shows, as data: :mod:`.page` writes it into the page, ``plots.js`` draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from perf_tests.report.order import Row, Span
from perf_tests.report.table import axes as axis_words
from perf_tests.report.table import duration, ratio_words

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """What belongs together in a plot: points of one colour and one line.

    Attributes:
        name: as hovering and legends show it.
        backend: that a reader can switch off; empty for what stays.
        form: that a reader can switch off within the plot; empty for what stays.
        points: each with ``x`` or ``at``, ``y``, ``low``, ``high`` and ``text``, as the kind of plot needs.
        part: name of the part of a whole that it is, as a phase is; empty for what is none.
    """

    name: str
    backend: str
    form: str
    points: Sequence[Point]
    part: str = ""


@dataclass(frozen=True)
class Figure:
    """One plot, and the table of its data.

    Attributes:
        workload: that a reader has to have chosen to see it; empty for one that is always shown.
        title: which names it among the others of its chapter.
        kind: name of the function in ``plots.js`` that draws it.
        series: what it shows.
        columns: heads of its table.
        rows: of its table.
        labels: words for its axes, and what else drawing it needs, by name.
        words: sentences that stand below it.
    """

    workload: str
    title: str
    kind: str
    series: Sequence[Series]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: Mapping[str, Any] = field(default_factory=dict)
    words: Sequence[str] = ()

    def data(self) -> dict[str, Any]:
        """Return it as JSON can hold it, with None for what is not known."""
        found: dict[str, Any] = plain(asdict(self))
        return found


@dataclass(frozen=True)
class Chapter:
    """A part of the page.

    Attributes:
        name: its anchor.
        title: its heading.
        lead: what it shows and how to read it.
        figures: its plots, of which a reader sees one at a time.
        choices: names of what a reader may choose to see in each plot, as time or rate; none or several.
        html: what stands below the plot.
    """

    name: str
    title: str
    lead: str
    figures: Sequence[Figure]
    choices: Sequence[str] = ()
    html: str = ""


def plain(value: Any) -> Any:
    """Return a value with None in the place of numbers that JSON does not have, and others to six digits.

    Args:
        value: nested dicts, lists, numbers and words.
    """
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def label(row: Row) -> str:
    """Return what tells a row from others of its op: form, backend, and a precision other than float32.

    Args:
        row: of a result.
    """
    precision = "" if row["precision"] in ("float32", row["form"]) else f"({row['precision']})"
    return " ".join(filter(None, [row["form"], row["backend"], precision]))


def name(row: Row) -> str:
    """Return the op of a row and its axes.

    Args:
        row: of a result.
    """
    return " ".join(filter(None, [row["op"], axis_words(row)]))


def known(row: Row) -> bool:
    """Return whether the interval of a row is known: it has more than one sample.

    Args:
        row: of a result.
    """
    return not math.isnan(row["low"])


def time_words(row: Row) -> list[str]:
    """Return the time of a call and its interval.

    Args:
        row: of a result.
    """
    between = f"{duration(row['low'])} to {duration(row['high'])}" if known(row) else "one sample"
    return [duration(row["seconds_per_call"]), between]


def span_words(span: Span) -> str:
    """Return a ratio with its interval, and whether it can be told apart from 1.

    Args:
        span: the ratio.
    """
    return ratio_words(span) if math.isfinite(span.low + span.high) else f"{span.middle:.3g} (one sample)"


def by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows in groups that have the same values, in the order in which they first came.

    Args:
        rows: of a result.
        names: of the values.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[one] for one in names), []).append(row)
    return groups
