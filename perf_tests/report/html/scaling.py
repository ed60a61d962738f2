"""Chapter on time and rate of each op, over the axis with the most values, by form and backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perf_tests.report.order import Row, items
from perf_tests.report.table import quantity

from .figures import Chapter, Figure, Series, by, label, name, time_words
from .runs import is_number

LEAD = (
    "Each line or dot is a form on a backend, and each bar is its interval. One run cannot rank benchmarks whose "
    "intervals overlap; rlgauge compare and rlgauge rank can."
)
CHOICES = ("time per call", "items per second")
COLUMNS = ("benchmark", "form", "backend", "time", "interval", "rate")


def varied(rows: Sequence[Row]) -> str:
    """Return the numeric axis with the most values, preferring ``batch_size``; empty if no axis varies."""
    values: dict[str, set[Any]] = {}
    for row in rows:
        for axis, value in row["axes"].items():
            if is_number(value):
                values.setdefault(axis, set()).add(value)
    several = {axis: len(found) for axis, found in values.items() if len(found) > 1}
    return max(several, key=lambda axis: (several[axis], axis == "batch_size")) if several else ""


def point(row: Row) -> dict[str, Any]:
    """Return the plot point of a row: time with interval, items per call, id."""
    return {"y": row["seconds_per_call"], "low": row["low"], "high": row["high"], "items": items(row), "id": row["id"]}


def over_axis(rows: Sequence[Row], axis: str, title: str) -> Figure:
    """Return the line plot of rows over an axis; their other axes are equal."""
    series = []
    for (form, backend, _), found in by(rows, "form", "backend", "precision").items():
        points = [{"x": row["axes"][axis], **point(row)} for row in sorted(found, key=lambda row: row["axes"][axis])]
        series.append(Series(label(found[0]), backend, form, points))
    in_order = sorted(rows, key=lambda row: (row["axes"][axis], -row["items_per_second"]))
    return Figure(
        rows[0]["workload"], title, "lines", series, COLUMNS, cells(in_order), {"x": axis, "unit": rows[0]["unit"]}
    )


def side_by_side(rows: Sequence[Row], title: str) -> Figure:
    """Return the dot plot of rows with equal axes, by decreasing rate."""
    rows = sorted(rows, key=lambda row: -row["items_per_second"])
    series: dict[str, list[dict[str, Any]]] = {}
    for at, row in enumerate(rows):
        series.setdefault(row["backend"], []).append({"at": at, **point(row)})
    labels = {"categories": [label(row) for row in rows], "unit": rows[0]["unit"]}
    drawn = [Series(backend, backend, "", points) for backend, points in series.items()]
    return Figure(rows[0]["workload"], title, "dots", drawn, COLUMNS, cells(rows), labels)


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return the table rows of a plot."""
    return [
        [
            name(row),
            row["form"],
            row["backend"],
            *time_words(row),
            f"{quantity(row['items_per_second'])} {row['unit']}/s",
        ]
        for row in rows
    ]


def figures(rows: Sequence[Row]) -> list[Figure]:
    """Return a plot for each op and each combination of the axes that are not on the x axis."""
    found = []
    for of_op in by(rows, "workload", "op").values():
        axis = varied(of_op)
        groups: dict[str, list[Row]] = {}
        for row in of_op:
            rest = {one: value for one, value in row["axes"].items() if one != axis}
            groups.setdefault(name({**row, "axes": rest}), []).append(row)
        for title, group in groups.items():
            if axis and len({row["axes"].get(axis) for row in group}) > 1 and all(axis in row["axes"] for row in group):
                found.append(over_axis(group, axis, title))
            else:
                named = [{**row, "name": name(row)} for row in group]
                found += [side_by_side(same, title) for (title,), same in by(named, "name").items()]
    return found


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter, which has all rows."""
    return Chapter("scaling", "Time and rate", LEAD, figures(rows), CHOICES)
