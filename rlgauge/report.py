"""Verdicts as text: one line per test, or a Markdown table for a pull request."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .artifact import Artifact, Outcome
from .progress import number_of
from .rule import CHANGED, INVALID, Finding, is_canary
from .statistics import FEWEST

ORDER = ("error", "slower", "gone", "inconclusive", "faster", "new", "ok", "unchanged", "skipped")
WORDS = {0: "passed", 1: "failed", 2: "invalid run, no verdict"}
NOT_MEASURED = "NOT MEASURED"
UNITS = {-3: "ns", -2: "µs", -1: "ms", 0: "s"}  # by power of a thousand


def duration(seconds: float | None) -> str:
    """Format a time with three digits and a fitting unit, for example ``1.20 ms``; empty for None."""
    if seconds is None:
        return ""
    digits, _, exponent = f"{seconds:.2e}".partition("e")
    power = min(0, max(-3, int(exponent) // 3))
    shift = int(exponent) - 3 * power
    return f"{float(digits) * 10.0**shift:.{max(0, 2 - shift)}f} {UNITS[power]}"


def interval_text(low: float, high: float, count: int) -> str:
    """Format a 95% interval in percent, for example ``[+4.7, +5.3]``, or the extremes of fewer than six values."""
    return f"[{low:+.1f}, {high:+.1f}]" if count >= FEWEST else f"(extremes {low:+.1f}, {high:+.1f})"


def change(finding: Finding) -> str:
    """Return the change in percent with its interval, for example ``+5.1% [+4.7, +5.3]``."""
    if finding.ratio is None or finding.low is None or finding.high is None:
        return ""
    middle, low, high = (100 * (ratio - 1) for ratio in (finding.ratio, finding.low, finding.high))
    return f"{middle:+.1f}% {interval_text(low, high, finding.pairs)}"


def times(finding: Finding) -> str:
    """Return both sides' times per call and the change, for example ``1.20 ms -> 1.32 ms (+10.1% [+9.0, +11.2])``."""
    if finding.ratio is None or finding.low is None or finding.high is None:
        return ""
    middle, low, high = (100 * (ratio - 1) for ratio in (finding.ratio, finding.low, finding.high))
    extremes = "" if finding.pairs >= FEWEST else ", extremes"
    change = f"{middle:+.1f}%{extremes} [{low:+.1f}, {high:+.1f}]"
    base, head = duration(finding.base_seconds), duration(finding.head_seconds)
    return f"{base} -> {head} ({change})" if base else change


def significance(finding: Finding) -> str:
    """Return the p of a confirmation, or the number of pairs after which it was stopped for futility."""
    if finding.stopped_for_futility:
        return f"stopped for futility after {number_of(finding.pairs, 'pair')}"
    return "" if finding.p is None else f"{finding.p:.2g}"


def evidence(finding: Finding) -> str:
    """Return the number of pairs and p, for example ``n = 16 pairs, p = 0.0001``."""
    pairs = f"n = {number_of(finding.pairs, 'pair')}" if finding.pairs and not finding.stopped_for_futility else ""
    p = ("" if finding.p is None else "p = ") + significance(finding)
    return ", ".join(filter(None, [pairs, p]))


def line(name: str, finding: Finding, reason: str = "") -> str:
    """Return the verdict on a benchmark with its times, pairs and notes, and the reason why it is allowed, if any."""
    allowed = f"allowed: {reason}" if reason else ""
    verdict = NOT_MEASURED if reason and finding.verdict == "error" else finding.verdict
    parts = verdict, times(finding), evidence(finding), *finding.notes, allowed
    return f"{name}: " + ", ".join(filter(None, parts))


def headline(finding: Finding) -> str:
    """Return a verdict with its times and notes, for example ``slower, 1.20 ms -> 1.32 ms, +10.1%``."""
    base, head = duration(finding.base_seconds), duration(finding.head_seconds)
    percent = "" if finding.ratio is None else f"{100 * (finding.ratio - 1):+.1f}%"
    return ", ".join(filter(None, [finding.verdict, f"{base} -> {head}" if base else "", percent, *finding.notes]))


def cases(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Return the findings without canaries, worst first."""
    real = [(name, finding) for name, finding in findings.items() if not is_canary(name)]
    return dict(sorted(real, key=lambda item: (ORDER.index(item[1].verdict), item[0])))


def canaries(findings: Mapping[str, Finding]) -> str:
    """Return the measurements of the canaries in one line."""
    return "; ".join(line(name, finding) for name, finding in findings.items() if is_canary(name))


def counted(outcome: Outcome) -> str:
    """Return the number of cases by verdict, and the number whose output changed."""
    findings = cases(outcome.findings)
    unmeasured = [name for name, finding in findings.items() if finding.verdict == "error" and name in outcome.excused]
    verdicts = [NOT_MEASURED if name in unmeasured else finding.verdict for name, finding in findings.items()]
    changed = sum(CHANGED in finding.notes for finding in findings.values())
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in (NOT_MEASURED, *ORDER) if verdict in verdicts]
    return ", ".join(counts) + (f"; {changed} {CHANGED}" if changed else "")


def failure(name: str, outcome: Outcome) -> str:
    """Return why a case does not pass, or an empty text; in an invalid run no case passes.

    The first line is short, as pytest's summary prints only that one, after the id.
    """
    lines = list[str]()
    if name in outcome.findings and (outcome.wrong or name in outcome.failed):
        finding = outcome.findings[name]
        interval = change(finding).partition(" ")[2]
        lines += [] if name in outcome.failed else [WORDS[INVALID]]
        lines += [headline(finding), ", ".join(filter(None, [interval, evidence(finding)]))]
        lines += [f"invalid run: {reason}" for reason in outcome.wrong[:1]]
    older = failure(name, outcome.anchor) if outcome.anchor else ""
    return "\n".join(filter(None, [*lines, older and f"against the anchor: {older}"]))


def summary(outcome: Outcome) -> list[str]:
    """Return a line for each case that has notes or is neither `ok` nor `unchanged`, and one for the canaries."""
    lines = [
        line(name, finding, outcome.excused.get(name, ""))
        for name, finding in cases(outcome.findings).items()
        if finding.verdict not in ("ok", "unchanged") or finding.notes
    ]
    return [*lines, *filter(None, [canaries(outcome.findings)])]


def as_code(name: str) -> str:
    """Format a test's id as code in a Markdown table, in which a pipe would end the cell."""
    fence = "`" * (1 + max(map(len, re.findall("`+", name)), default=0))
    space = " " if "`" in name else ""
    return f"{fence}{space}{name}{space}{fence}".replace("|", "\\|")


def as_cell(text: str) -> str:
    """Format a text as part of a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def markdown(artifact: Artifact, outcome: Outcome) -> str:
    """Return a Markdown summary of a run, followed by that of the comparison with the anchor, if any."""
    text = comparison(artifact, outcome, "")
    if artifact.anchor and outcome.anchor:
        text += "\n" + comparison(artifact.anchor, outcome.anchor, "the anchor ")
    return text


def comparison(artifact: Artifact, outcome: Outcome, role: str) -> str:
    """Return the Markdown summary of a comparison with one revision: outcome, counts, and a table of cases.

    `role` precedes the revision if it is not the base.
    """
    findings = cases(outcome.findings)
    shown = {name: finding for name, finding in findings.items() if finding.verdict not in ("unchanged", "new")}
    lines = [
        f"### Speed of {artifact.head} against {role}{artifact.base[:12]}: {WORDS[outcome.own_code]}",
        "",
        f"{counted(outcome)}; {artifact.seconds / 60:.1f} min on {artifact.machine['cpu_model']}.",
        *artifact.notes,
    ]
    lines += [f"\n**{reason}**" for reason in outcome.wrong]
    if shown:
        ratio = f"change [95% interval] (extremes if fewer than {FEWEST} pairs)"
        columns = "benchmark", "verdict", "base", "head", ratio, "pairs", "p", "notes"
        lines += ["", f"| {' | '.join(columns)} |", "|---|---|---:|---:|---|---:|---|---|"]
    for name, finding in shown.items():
        reason = [f"allowed: {outcome.excused[name]}"] if name in outcome.excused else []
        notes = "; ".join(map(as_cell, [*finding.notes, *reason]))
        pairs = finding.pairs or ""
        verdict = NOT_MEASURED if finding.verdict == "error" and reason else finding.verdict
        sides = f"{duration(finding.base_seconds)} | {duration(finding.head_seconds)}"
        numbers = f"{sides} | {change(finding)} | {pairs} | {significance(finding)}"
        lines.append(f"| {as_code(name)} | {verdict} | {numbers} | {notes} |")
    lines += ["", canaries(outcome.findings)] if canaries(outcome.findings) else []
    return "\n".join(lines) + "\n"
