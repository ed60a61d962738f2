"""Chapter on where loops spend their time: a stacked bar for each form and backend."""

from __future__ import annotations

from collections.abc import Sequence

from perf_tests.report.order import Row, items
from perf_tests.report.table import duration

from .figures import Chapter, Figure, Series, by, label, name

LEAD = (
    "Each bar is one loop: the time per item, or the share of each phase. Phases are shades of the backend's colour. A "
    "loop that is compiled into one program has a single phase."
)
CHOICES = ("share of the time", "time per item")


def figure(rows: Sequence[Row], phases: Sequence[str]) -> Figure:
    """Return the bars of one op and axes; ``phases`` fixes the order of phases across plots."""
    here = [phase for phase in phases if any(row["phases"].get(phase) for row in rows)]
    series = []
    for phase in here:
        for at, row in enumerate(rows):
            seconds = row["phases"].get(phase, 0.0)
            share = seconds / sum(row["phases"].values())
            point = {"at": at, "y": seconds / items(row), "share": share, "id": row["id"]}
            series.append(Series(phase, row["backend"], "", [point], part=phase))
    cells = [
        [label(row), duration(row["seconds_per_call"] / items(row))]
        + [f"{100 * row['phases'].get(phase, 0.0) / sum(row['phases'].values()):.1f}%" for phase in here]
        for row in rows
    ]
    labels = {"categories": [label(row) for row in rows], "parts": here}
    columns = ["loop", f"time per item ({rows[0]['unit']})", *here]
    return Figure(rows[0]["workload"], name(rows[0]), "bars", series, columns, cells, labels)


def chapter(rows: Sequence[Row]) -> Chapter:
    """Return the chapter, with one plot per op and axes whose rows have phases."""
    loops = [{**row, "name": name(row)} for row in rows if sum(row["phases"].values()) > 0]
    phases = list(dict.fromkeys(phase for row in loops for phase in row["phases"]))
    figures = [figure(group, phases) for group in by(loops, "workload", "name").values()]
    return Chapter("phases", "Where loops spend their time", LEAD, figures, CHOICES)
