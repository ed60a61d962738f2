"""What is shown of a history: plain data for a picture, and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .chain import Point, series
from .entries import Entry
from .steps import Judged, Step, judged

SHORT = 12  # letters of a commit's hash


def drawn(entries: Sequence[Entry], order: Sequence[str]) -> list[dict[str, Any]]:
    """Return what there is to draw of each case, as JSON can hold it.

    A case has ``case``, ``workload``, ``version``, ``root`` (the commit to which its ratios are relative), ``points``,
    ``steps``, ``verdict`` (``slower``, ``faster`` or ``ok``, by the end) and ``end``. A point has ``commit``,
    ``anchor`` (what it was compared with), ``state`` (``timed`` or ``unchanged``), ``n`` (pairs), ``ratio``, ``low``
    and ``high``; a step, and the end, have ``commit``, ``ratio`` (of the speed from there on to that before, or to the
    root's), ``low``, ``high`` and ``p``. Ratios are of seconds: more than 1 is slower.

    Args:
        entries: what is kept.
        order: commits, oldest first; others are left out.
    """
    return [case_of(found) for found in judged(series(entries, order))]


def case_of(found: Judged) -> dict[str, Any]:
    """Return what there is to draw of a case.

    Args:
        found: what is concluded of it.
    """
    return {
        "case": found.series.case,
        "workload": found.series.case.partition(".")[0],
        "version": found.series.version,
        "root": found.series.root,
        "points": [
            {"commit": point.commit, "anchor": point.anchor, "state": point.state, "n": point.n, **ratio_of(point)}
            for point in found.series.points
        ],
        "steps": [{"commit": step.commit, **ratio_of(step), "p": step.p} for step in found.steps],
        "verdict": found.verdict,
        "end": {"commit": found.end.commit, **ratio_of(found.end), "p": found.end.p},
    }


def ratio_of(found: Point | Step) -> dict[str, float]:
    """Return a ratio and the ends of its interval.

    Args:
        found: what has their logarithms.
    """
    logs = {"ratio": found.log_ratio, "low": found.low, "high": found.high}
    return {name: round(math.exp(value), 5) for name, value in logs.items()}


def percent(found: Mapping[str, Any]) -> str:
    """Return a ratio as a change in per cent with its interval, as in ``+5.1 % [+4.7, +5.5]``.

    Args:
        found: with ``ratio``, ``low`` and ``high``.
    """
    middle, low, high = (100 * (found[name] - 1) for name in ("ratio", "low", "high"))
    return f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


def markdown(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return tables of cases over commits: one line on each case, then the commits of those that changed.

    Args:
        cases: as :func:`drawn` returns them.
    """
    worst = sorted(cases, key=lambda case: (("slower", "faster", "ok").index(case["verdict"]), case["case"]))
    lines = ["| case | by the end | verdict | commits | steps |", "|---|---:|---|---:|---|"]
    for case in worst:
        steps = "; ".join(f"`{step['commit'][:SHORT]}` {percent(step)}" for step in case["steps"]) or "-"
        ended = percent(case["end"])
        lines.append(f"| `{case['case']}` | {ended} | {case['verdict']} | {len(case['points'])} | {steps} |")
    for case in worst:
        if case["steps"] or case["verdict"] != "ok":
            lines += ["", *commits(case)]
    return "\n".join(lines)


def commits(case: Mapping[str, Any]) -> list[str]:
    """Return the table of a case's commits, its steps marked.

    Args:
        case: as :func:`drawn` returns it.
    """
    lines = [f"`{case['case']}`, relative to `{case['root'][:SHORT]}`:", ""]
    lines += ["| commit | time | pairs | step |", "|---|---:|---:|---|"]
    steps = {step["commit"]: f"**{percent(step)}, p = {step['p']:.2g}**" for step in case["steps"]}
    for point in case["points"]:
        pairs = point["n"] if point["state"] == "timed" else "unchanged"
        lines.append(f"| `{point['commit'][:SHORT]}` | {percent(point)} | {pairs} | {steps.get(point['commit'], '')} |")
    return lines
