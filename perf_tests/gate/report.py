"""Verdicts as text: a line for a test, a table for a pull request."""

from __future__ import annotations

from collections.abc import Mapping

from .rule import FAILING, SAME, SLOWED, Finding
from .run import Artifact, Outcome

ORDER = ("error", "slower", "gone", "inconclusive", "faster", "new", "ok", "unchanged")
WORDS = {0: "passed", 1: "failed: slower, or gone", 2: "void: nothing of it can be believed"}


def change(finding: Finding) -> str:
    """Return the change in per cent with its interval, as in ``+5.1 % [+4.7, +5.3]``."""
    if finding.ratio is None or finding.low is None or finding.high is None:
        return ""
    middle, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in (finding.ratio, finding.low, finding.high))
    return f"{middle} % [{low}, {high}]"


def line(name: str, finding: Finding) -> str:
    """Return the verdict on one case, with its change, the number of pairs and the notes."""
    measured = f"{change(finding)}, n = {finding.pairs} pairs" if finding.pairs else ""
    p = f"p = {finding.p:.2g}" if finding.p is not None else ""
    return f"{name}: " + ", ".join(filter(None, [finding.verdict, measured, p, *finding.notes]))


def cases(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Return the findings without the canaries', worst first."""
    real = [(name, finding) for name, finding in findings.items() if name not in (SAME, SLOWED)]
    return dict(sorted(real, key=lambda item: (ORDER.index(item[1].verdict), item[0])))


def canaries(findings: Mapping[str, Finding]) -> str:
    """Return what was measured of the canaries."""
    return "; ".join(line(name, findings[name]) for name in (SAME, SLOWED) if name in findings)


def counted(findings: Mapping[str, Finding]) -> str:
    """Return how many cases got each verdict."""
    verdicts = [finding.verdict for finding in cases(findings).values()]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ORDER if verdict in verdicts)


def markdown(artifact: Artifact, outcome: Outcome) -> str:
    """Return the summary of a run: what was compared, the outcome, and a table of what was timed or is gone."""
    rows = cases(outcome.findings)
    told = {name: finding for name, finding in rows.items() if finding.verdict not in ("unchanged", "new")}
    lines = [
        f"### Speed of {artifact.head} against {artifact.base[:12]}: {WORDS[outcome.code]}",
        "",
        f"{counted(outcome.findings)}; {artifact.seconds / 60:.1f} min on {artifact.machine['cpu_model']}.",
    ]
    lines += [f"\n**{words}**" for words in outcome.wrong]
    if artifact.allowed and any(finding.verdict in FAILING for finding in rows.values()):
        lines.append(f"\nAllowed: {artifact.allowed}")
    if told:
        lines += ["", "| case | verdict | time [95 % interval] | pairs | p | notes |", "|---|---|---|---|---|---|"]
    for name, finding in told.items():
        p = "" if finding.p is None else f"{finding.p:.2g}"
        notes = "; ".join(note.replace("|", "\\|") for note in finding.notes)
        lines.append(f"| `{name}` | {finding.verdict} | {change(finding)} | {finding.pairs or ''} | {p} | {notes} |")
    lines += ["", canaries(outcome.findings)] if canaries(outcome.findings) else []
    return "\n".join(lines) + "\n"
