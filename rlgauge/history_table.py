"""A history as JSON data, for plots, and as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .chain import Point, series
from .history import Entry
from .report import as_code
from .steps import Judged, Step, judged

SHORT = 12  # characters of an abbreviated hash


def drawn(entries: Sequence[Entry], order: Sequence[str]) -> list[dict[str, Any]]:
    """Return the series of each test and its conclusions as JSON data.

    - A test has ``case`` (its id), ``version``, ``root`` (the commit to which its ratios are relative), ``points``,
      ``steps``, ``verdict`` (``slower``, ``faster`` or ``ok``, at the end) and ``end``.
    - A point has ``commit``, ``anchor`` (the commit it was compared with), ``state`` (``timed`` or ``unchanged``),
      ``n`` (pairs), ``ratio``, ``low`` and ``high``.
    - A step has ``commit``, ``ratio`` (of the time from there on to the time before), ``low``, ``high`` and ``p``. The
      end has the same keys; its ratio is relative to the root.

    Ratios are of seconds: above 1 is slower. `order` lists commits, oldest first; other commits are left out.
    """
    return [case_data(found) for found in judged(series(entries, order))]


def case_data(found: Judged) -> dict[str, Any]:
    """Return one test's data, see :func:`drawn`."""
    return {
        "case": found.series.case,
        "version": found.series.version,
        "root": found.series.root,
        "points": [
            {"commit": point.commit, "anchor": point.anchor, "state": point.state, "n": point.n, **ratio_data(point)}
            for point in found.series.points
        ],
        "steps": [{"commit": step.commit, **ratio_data(step), "p": step.p} for step in found.steps],
        "verdict": found.verdict,
        "end": {"commit": found.end.commit, **ratio_data(found.end), "p": found.end.p},
    }


def ratio_data(change: Point | Step) -> dict[str, float]:
    """Return a ratio and the ends of its interval."""
    logs = {"ratio": change.log_ratio, "low": change.low, "high": change.high}
    return {name: round(math.exp(value), 5) for name, value in logs.items()}


def percent(ratio: Mapping[str, Any]) -> str:
    """Format a ratio as a change in percent with its interval, for example ``+5.1% [+4.7, +5.5]``."""
    middle, low, high = (100 * (ratio[name] - 1) for name in ("ratio", "low", "high"))
    return f"{middle:+.1f}% [{low:+.1f}, {high:+.1f}]"


def markdown(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with one row per test, followed by the commits of each test that changed."""
    worst = sorted(cases, key=lambda case: (("slower", "faster", "ok").index(case["verdict"]), case["case"]))
    lines = ["| test | change at the end | verdict | commits | steps |", "|---|---:|---|---:|---|"]
    for case in worst:
        steps = "; ".join(f"`{step['commit'][:SHORT]}` {percent(step)}" for step in case["steps"]) or "-"
        end = percent(case["end"])
        lines.append(f"| {as_code(case['case'])} | {end} | {case['verdict']} | {len(case['points'])} | {steps} |")
    for case in worst:
        if case["steps"] or case["verdict"] != "ok":
            lines += ["", *commits(case)]
    return "\n".join(lines)


def commits(case: Mapping[str, Any]) -> list[str]:
    """Return the table of a test's commits with its steps marked."""
    lines = [f"`{case['case']}`, relative to `{case['root'][:SHORT]}`:", ""]
    lines += ["| commit | time | pairs | step |", "|---|---:|---:|---|"]
    steps = {step["commit"]: f"**{percent(step)}, p = {step['p']:.2g}**" for step in case["steps"]}
    for point in case["points"]:
        pairs = point["n"] if point["state"] == "timed" else "unchanged"
        lines.append(f"| `{point['commit'][:SHORT]}` | {percent(point)} | {pairs} | {steps.get(point['commit'], '')} |")
    return lines
