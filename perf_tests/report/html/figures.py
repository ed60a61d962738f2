"""The data of a plot: :mod:`.page` embeds it in the page, and ``plots.js`` draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf_tests.report.order import Row, Span
from perf_tests.report.table import axes as axis_words
from perf_tests.report.table import duration, ratio_words

Point = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """Points that share a colour and a line.

    Attributes:
        backend: backend whose button hides the series; empty if it is always shown.
        form: form whose button hides the series within the plot; empty if it is always shown.
        points: dicts with ``x`` or ``at``, ``y`` and further keys that depend on the kind of plot.
        part: name that sets the colour in place of the backend, such as a phase or a verdict; empty for none.
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
        workload: workload that must be selected to see the plot; empty if it is always shown.
        kind: name of the function in ``plots.js`` that draws it.
        labels: axis labels and other parameters of that function.
        words: sentences below the plot.
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
        """Return the figure as JSON-compatible data, with None for unknown numbers."""
        found: dict[str, Any] = plain(asdict(self))
        return found


@dataclass(frozen=True)
class Chapter:
    """A section of the page; the reader sees one of its ``figures`` at a time.

    Attributes:
        name: anchor of the section.
        lead: what the plots show, and how to read them.
        choices: views of each plot to switch between, such as time or rate.
        html: HTML below the plot.
    """

    name: str
    title: str
    lead: str
    figures: Sequence[Figure]
    choices: Sequence[str] = ()
    html: str = ""


def plain(value: Any) -> Any:
    """Round floats to six digits and replace NaN and infinity, which JSON lacks, by None, in nested dicts and lists."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def workload_of(test: str) -> str:
    """Return the workload of a test, given its pytest id."""
    return Path(test.partition("::")[0]).stem.removeprefix("test_")


def label(row: Row) -> str:
    """Return what distinguishes a row within its op: form, backend, and a precision other than float32."""
    precision = "" if row["precision"] in ("float32", row["form"]) else f"({row['precision']})"
    return " ".join(filter(None, [row["form"], row["backend"], precision]))


def name(row: Row) -> str:
    """Return the op and the axes of a row."""
    return " ".join(filter(None, [row["op"], axis_words(row)]))


def known(row: Row) -> bool:
    """Return whether the interval of a row is known, i.e. it has more than one sample."""
    return not math.isnan(row["low"])


def time_words(row: Row) -> list[str]:
    """Return the time per call, and its interval, in words."""
    between = f"{duration(row['low'])} to {duration(row['high'])}" if known(row) else "one sample"
    return [duration(row["seconds_per_call"]), between]


def span_words(span: Span) -> str:
    """Format a ratio like :func:`ratio_words`; mark one without an interval as that of one sample."""
    return ratio_words(span) if math.isfinite(span.low + span.high) else f"{span.middle:.3g} (one sample)"


def by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by the values of some keys, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[one] for one in names), []).append(row)
    return groups


def by_verdict(points: Iterable[tuple[str, Point]]) -> list[Series]:
    """Return a series for each verdict, which sets its colour; each point comes with its verdict."""
    groups: dict[str, list[Point]] = {}
    for verdict, point in points:
        groups.setdefault(verdict, []).append(point)
    return [Series(verdict, "", "", found, part=verdict) for verdict, found in groups.items()]
