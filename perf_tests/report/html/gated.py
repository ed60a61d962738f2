"""Chapter on a gate run: the verdict on each benchmark."""

from __future__ import annotations

from html import escape
from pathlib import Path

from rlgauge import artifact
from rlgauge.artifact import Artifact, Outcome
from rlgauge.report import WORDS, canaries, cases, change, counted, line, significance
from rlgauge.rule import Finding, GateError

from .figures import Chapter, Figure, by_verdict, workload_of
from .markup import table
from .runs import BadInput

LEAD = "Time of head divided by time of base: the median over pairs of fresh processes, with its 95% interval."
COLUMNS = ("benchmark", "verdict", "change", "pairs", "p", "notes")


def read(path: Path) -> Artifact:
    """Read the artifact of a gate run."""
    try:
        return artifact.read(path)
    except GateError as error:
        raise BadInput(str(error)) from error


def cells(name: str, finding: Finding, reason: str) -> list[str]:
    """Return the table row of a benchmark; ``reason`` says why a regression is allowed, if it is."""
    notes = "; ".join([*finding.notes, *([f"allowed: {reason}"] if reason else [])])
    return [name, finding.verdict, change(finding), str(finding.pairs or ""), significance(finding), notes]


def figure(workload: str, outcome: Outcome) -> Figure:
    """Return the dot plot of a workload's benchmarks."""
    found = {name: one for name, one in cases(outcome.findings).items() if workload_of(name) == workload}
    timed = {name: one for name, one in found.items() if one.ratio is not None}
    points = [
        (
            one.verdict,
            {"at": at, "y": one.ratio, "low": one.low, "high": one.high, "id": f"{one.verdict} {change(one)}"},
        )
        for at, one in enumerate(timed.values())
    ]
    rows = [cells(name, one, outcome.excused.get(name, "")) for name, one in found.items()]
    labels = {"categories": list(timed), "x": "time of head / time of base", "ratio": True}
    return Figure(workload, "all benchmarks", "dots", by_verdict(points), COLUMNS, rows, labels)


def chapter(artifact: Artifact | None) -> Chapter:
    """Return the chapter: the outcome in words, the failed benchmarks, and a dot plot per workload."""
    if artifact is None:
        return Chapter("gate", "The gate", LEAD, ())
    try:
        outcome = artifact.decide()
    except (GateError, ValueError, KeyError) as error:
        raise BadInput(f"the artifact has no verdict: {error}") from error
    found = cases(outcome.findings)
    said = [
        f"<p><b>{escape(artifact.head)} against {escape(artifact.base[:12])}: {escape(WORDS[outcome.code])}.</b> "
        f"{escape(counted(outcome))}; {artifact.seconds / 60:.1f} min.</p>",
        *(f"<p><b>{escape(words)}</b></p>" for words in outcome.wrong),
    ]
    if artifact.anchor and outcome.anchor:
        older = outcome.anchor
        words = [
            f"against the anchor {artifact.anchor.base[:12]}: {WORDS[older.own_code]}; {counted(older)}",
            *older.wrong,
        ]
        words += [line(name, older.findings[name]) for name in older.failed]
        said += [f"<p>{escape(each)}</p>" for each in words]
    failed: dict[str, list[list[str]]] = {}
    for name, one in found.items():
        if name in outcome.failed:
            row = cells(name, one, outcome.excused.get(name, ""))
            failed.setdefault(workload_of(name), []).append(row)
    said += [f'<div data-workload="{escape(name)}">{table(COLUMNS, rows)}</div>' for name, rows in failed.items()]
    said += [f"<p>{escape(canaries(outcome.findings))}</p>"] if canaries(outcome.findings) else []
    workloads = dict.fromkeys(map(workload_of, found))
    return Chapter("gate", "The gate", LEAD, [figure(name, outcome) for name in workloads], html="".join(said))
