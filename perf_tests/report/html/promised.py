"""Chapter on published claims: promised and measured ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from perf_tests.report.order import Span
from perf_tests.report.table import factor, quantity, ratio_words

from .claims import Claim, Claims, Context
from .figures import Chapter, Figure, Series, by_verdict
from .markup import table

LEAD = (
    "How many times as fast the code is with each claimed change. For other measures, such as memory, the ratio is the "
    "value without the change divided by the value with it. Bars are intervals from pairs of fresh processes. A "
    "diamond marks the lowest promised ratio."
)
COLUMNS = ("claim", "source", "promised", "compared", "measured", "pairs", "verdict", "same output or returns")
SAME: Mapping[bool | None, str] = {True: "yes", False: "no", None: ""}


def measured(context: Context) -> str:
    """Return the measured ratio of a context in words."""
    if context.ratio is None:
        return "not measured"
    if context.low is None or context.high is None:
        return factor(context.ratio)
    return ratio_words(Span(context.ratio, context.low, context.high))


def cells(claim: Claim, context: Context) -> list[str]:
    """Return the table row of a claim in one context."""
    compared = f"{context.context}: {context.change} against {context.base}"
    same = " ".join(filter(None, [SAME[context.same_holds], f"({claim.same})" if claim.same else ""]))
    pairs = str(context.n) if context.n else ""
    return [claim.words, claim.source, claim.promised, compared, measured(context), pairs, context.verdict, same]


def figure(workload: str, claims: list[Claim]) -> Figure:
    """Return the dot plot of a workload's claims."""
    pairs = [(claim, context) for claim in claims for context in claim.contexts]
    categories = [f"{claim.id}, {context.context}" for claim, context in pairs]
    points = [
        (
            found.verdict,
            {"at": at, "y": found.ratio, "low": found.low, "high": found.high, "id": f"{claim.words} {found.verdict}"},
        )
        for at, (claim, found) in enumerate(pairs)
        if found.ratio
    ]
    least = [
        {"at": at, "y": claim.least, "id": f"promised: {claim.promised}"}
        for at, (claim, _) in enumerate(pairs)
        if claim.least
    ]
    drawn = [*by_verdict(points), Series("promised", "", "", least, part="promised")]
    rows = [cells(claim, context) for claim, context in pairs]
    labels = {"categories": categories, "x": "times as fast (or ratio of the measure)", "ratio": True}
    return Figure(workload, "all claims", "dots", drawn, COLUMNS, rows, labels)


def stated(claims: Sequence[Claim]) -> str:
    """Return a folded table of published figures next to ours; empty if there are none."""
    rows = [
        [claim.id, one.what, f"{quantity(one.ours)} {one.unit}" if one.ours is not None else "not measured", one.theirs]
        for claim in claims
        for one in claim.figures
    ]
    if not rows:
        return ""
    summary = "<summary>Published figures, and ours</summary>"
    return f"<details>{summary}{table(('claim', 'figure', 'here', 'published'), rows)}</details>"


def notes(claims: Sequence[Claim]) -> str:
    """Return a folded list of the notes on claims; empty if there are none."""
    lines = "".join(f"<li><b>{escape(claim.id)}</b>: {escape(claim.note)}</li>" for claim in claims if claim.note)
    return f"<details><summary>Notes</summary><ul>{lines}</ul></details>" if lines else ""


def chapter(claims: Claims | None) -> Chapter:
    """Return the chapter: the count of each verdict, a dot plot per workload, figures and notes."""
    if claims is None:
        return Chapter("claims", "Claims, promised and measured", LEAD, ())
    groups: dict[str, list[Claim]] = {}
    for claim in claims.claims:
        groups.setdefault(claim.workload, []).append(claim)
    verdicts = [context.verdict for claim in claims.claims for context in claim.contexts]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    dirty = "+dirty" * claims.dirty
    lead = f"{LEAD} {counts}. Measured {claims.date[:10]} at commit {claims.commit[:12]}{dirty}."
    below = {workload: stated(found) + notes(found) for workload, found in groups.items()}
    html = "".join(f'<div data-workload="{escape(name)}">{words}</div>' for name, words in below.items() if words)
    figures = [figure(workload, found) for workload, found in groups.items() if any(one.contexts for one in found)]
    return Chapter("claims", "Claims, promised and measured", lead, figures, html=html)
