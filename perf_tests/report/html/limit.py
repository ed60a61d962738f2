"""Chapter on the share of the machine's limit that each benchmark reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perf_tests.report.order import Row
from perf_tests.report.table import duration
from perf_tests.suite.limits import share_words

from .figures import Chapter, Figure, Series, by, name

LEAD = (
    "Each dot is a benchmark: its shortest possible time at this machine's measured peak, divided by its time. Small "
    "batches are far below 100%, because the overhead of a call dominates. Above 100%, the data was in the caches, or "
    "the measured peak was too low."
)
COLUMNS = ("benchmark", "form", "backend", "time", "of limit", "bound by")


def figure(workload: str, rows: Sequence[Row]) -> Figure:
    """Return the strip plot of a workload, with a line for each op."""
    ops = list(dict.fromkeys(row["op"] for row in rows))
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found = {"at": ops.index(row["op"]), "y": row["limit_share"], "id": row["id"]}
        series.setdefault(row["backend"], []).append(found)
    cells = [
        [
            name(row),
            row["form"],
            row["backend"],
            duration(row["seconds_per_call"]),
            share_words(row["limit_share"], row["bound"]),
            {"flops": "arithmetic", "bytes": "memory"}.get(row["bound"], ""),
        ]
        for row in sorted(rows, key=lambda row: (ops.index(row["op"]), -row["limit_share"]))
    ]
    drawn = [Series(backend, backend, "", points) for backend, points in series.items()]
    return Figure(workload, "all ops", "strip", drawn, COLUMNS, cells, {"categories": ops})


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter, with one plot per workload that has shares."""
    shared = [row for row in rows if row["limit_share"]]
    figures = [figure(workload, found) for (workload,), found in by(shared, "workload").items()]
    return Chapter("limit", "Share of the machine's limit", LEAD, figures)
