"""The first plot: how many times as fast as naive the best of each library is, of ten ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perf_tests.report.headlines import chosen
from perf_tests.report.order import Row
from perf_tests.report.table import percent, ratio_words

from .figures import Chapter, Figure, Series

LEAD = (
    "How many times as fast as naive, op by op: the fastest form of the same library, and of JAX, with the interval in "
    "which that stands. Of each op the axes that most benchmarks have, of each workload the ops with the longest calls."
)
COLUMNS = ("op", "naive", "fastest, and all that cannot be told apart", "gain", "of limit")


def figure(rows: Sequence[Row]) -> Figure | None:
    """Return the dots; None where no op has a baseline and something beside it.

    Args:
        rows: of a result.
    """
    found = chosen(rows)
    series: dict[str, list[dict[str, Any]]] = {}
    cells = []
    for at, one in enumerate(found):
        for best in filter(None, one.bests):
            span, names = best.gain, " or ".join(best.names)
            shown = {"at": at, "y": span.middle, "low": span.low, "high": span.high, "id": f"{one.name}: {names}"}
            series.setdefault(best.row["backend"], []).append(shown)
            share = best.row["limit_share"]
            of_limit = percent(share) if share else "-"
            cells.append([one.name, one.naive["backend"], names, ratio_words(span), of_limit])
    labels = {"categories": [one.name for one in found], "x": "times as fast as naive", "ratio": True}
    drawn = [Series(backend, backend, "", points) for backend, points in series.items()]
    return Figure("", "ten ops", "dots", drawn, COLUMNS, cells, labels) if found else None


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter.

    Args:
        rows: of a result.
    """
    found = figure(rows)
    return Chapter("overview", "What optimising is worth", LEAD, [found] if found else [])
