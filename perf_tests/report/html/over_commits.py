"""Chapter on speed over commits: one curve per benchmark, with its steps marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlgauge.history import in_order
from rlgauge.history import read as read_entries
from rlgauge.history_table import SHORT, drawn, percent
from rlgauge.rule import GateError

from .figures import Chapter, Figure, Series, workload_of
from .runs import BadInput

ROOT = Path(__file__).parents[3]
LEAD = (
    "Time of each commit divided by that of one earlier commit, with its interval, in pairs of fresh processes. "
    "Diamonds mark steps, which are changes at a single commit. Smaller changes add up to a visible drift."
)
COLUMNS = ("commit", "time", "pairs", "step")
WORST = ("slower", "faster", "ok")
Case = Mapping[str, Any]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the series of a file that ``rlgauge history`` writes, as :func:`rlgauge.history_table.drawn` does."""
    if not path.exists():
        raise BadInput(f"{path}: no such file; to write it, run: rlgauge history --since REVISION")
    try:
        return drawn(read_entries(path), in_order(ROOT))
    except GateError as error:
        raise BadInput(str(error)) from error


def figure(case: Case) -> Figure:
    """Return the curve of a benchmark, given its series."""
    commits, steps = case["points"], {step["commit"]: step for step in case["steps"]}
    points = [
        {
            "x": at,
            "y": one["ratio"],
            "low": one["low"],
            "high": one["high"],
            "id": f"{one['commit'][:SHORT]} {percent(one)}",
        }
        for at, one in enumerate(commits)
    ]
    marks = [
        {**points[at], "id": f"step at {one['commit'][:SHORT]}: {percent(steps[one['commit']])}"}
        for at, one in enumerate(commits)
        if one["commit"] in steps
    ]
    rows = [
        [
            one["commit"][:SHORT],
            percent(one),
            str(one["n"]) if one["state"] == "timed" else "unchanged",
            percent(steps[one["commit"]]) if one["commit"] in steps else "",
        ]
        for one in commits
    ]
    series = [Series("commits", "", "", points, part="ok"), Series("steps", "", "", marks, part=case["verdict"])]
    labels = {"commits": [one["commit"][:7] for one in commits], "y": f"time relative to {case['root'][:SHORT]}"}
    words = [f"At the last commit: {case['verdict']}, {percent(case['end'])}."]
    return Figure(workload_of(case["case"]), case["case"], "history", series, COLUMNS, rows, labels, words)


def chapter(cases: Sequence[Case] | None) -> Chapter:
    """Return the chapter, with regressed benchmarks first; ``cases`` is what :func:`read` returned, if anything."""
    found = sorted(cases or (), key=lambda case: (WORST.index(case["verdict"]), case["case"]))
    return Chapter("history", "Speed over commits", LEAD, [figure(case) for case in found])
