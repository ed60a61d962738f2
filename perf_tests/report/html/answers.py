"""How long it takes from building an op to its first answer, beside the time of a call afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perf_tests.report.order import Row
from perf_tests.report.table import duration, quantity

from .figures import Chapter, Figure, Series, by, name

LEAD = (
    "Up: seconds from building an op to its first answer, tracing and compiling included, imports not, with the "
    "compile caches as the run found them and other backends being prepared meanwhile. To the right: the time of a "
    "call afterwards. On the dashed lines as many calls take as long as the first answer did."
)
COLUMNS = ("benchmark", "form", "backend", "first answer", "a call", "calls in the time of the first answer")


def figure(workload: str, rows: Sequence[Row]) -> Figure:
    """Return the dots of a workload.

    Args:
        workload: its name.
        rows: of which the time to the first answer is known.
    """
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found = {"x": row["seconds_per_call"], "y": row["first_answer_seconds"], "id": row["id"]}
        series.setdefault(row["backend"], []).append(found)
    cells = [
        [
            name(row),
            row["form"],
            row["backend"],
            duration(row["first_answer_seconds"]),
            duration(row["seconds_per_call"]),
            quantity(row["first_answer_seconds"] / row["seconds_per_call"]),
        ]
        for row in rows
    ]
    drawn = [Series(backend, backend, "", points) for backend, points in series.items()]
    return Figure(workload, "all ops", "scatter", drawn, COLUMNS, cells)


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter.

    Args:
        rows: of a result.
    """
    known = [row for row in rows if row["first_answer_seconds"]]
    figures = [figure(workload, found) for (workload,), found in by(known, "workload").items()]
    return Chapter("answers", "Until the first answer", LEAD, figures)
