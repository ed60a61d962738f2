"""Verdicts on measured claims, and the rows of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rlgauge.statistics import FEWEST, interval

from .catalogue import Claim, Comparison, Figure, node_id
from .measure import Measured
from .returns import AGAINST, FOR, SOME

FORMAT, VERSION = "rlgauge-claims", 3
NEAR = 0.10  # distance from a promised slowdown within which it holds, relative to it
WIDE = 0.10  # half-width above which an interval is wide, relative to the median
MOST = 24  # maximum number of pairs of a comparison
Known = Mapping[Comparison, Measured]
WORDS = {  # verdicts on a ratio with the interval [l, u], where a or more was promised
    "holds": "l >= a: as much as promised, or more. Also if only equal outputs were promised and they are equal, "
    "or if the claim is about learning and the evidence supports it",
    "partly": "l > 1.02 and u < a: a gain, but less than promised",
    "not met": "l <= 1.02 < u < a: less than promised, and perhaps no gain",
    "refuted": "u <= 1.02: no gain, or a loss. Also if outputs differ, or the evidence is against the claim",
    "unclear": "l < a <= u: a lies inside the interval. Also if nothing was promised and the interval is wide, or "
    "evidence is missing or undecided",
    "measured": "nothing was promised, and the interval is narrow",
    "needs ...": "this machine lacks hardware or a package that the claim needs, so it is not measured",
}
SLOWDOWN = (
    "A slowdown may be promised, a < 1. It `holds` if the interval is narrow and either includes a or lies between 0.9 "
    "a and 1.1 a. It is `refuted` if the whole interval lies below 0.9 a or above 1.1 a, and `unclear` otherwise."
)


def verdict(low: float, high: float, least: float | None) -> str:
    """Return the verdict on a ratio with the interval ``low`` to ``high``, see ``WORDS`` and ``SLOWDOWN``.

    ``least`` is the lower end of the promised ratio; None if no ratio was promised.
    """
    if least is None:
        return "measured"
    if least < 1:
        return on_slowdown(low, high, least)
    if low >= least:
        return "holds"
    if high <= SOME:
        return "refuted"
    if high >= least:
        return "unclear"
    return "partly" if low > SOME else "not met"


def on_slowdown(low: float, high: float, promised: float) -> str:
    """Return the verdict on a promised slowdown, a promise below 1; too high a ratio refutes it as well."""
    nearest, farthest = promised * (1 - NEAR), promised * (1 + NEAR)
    if low <= promised <= high or (nearest <= low and high <= farthest):
        return "holds"
    return "refuted" if high < nearest or low > farthest else "unclear"


def is_wide(ratios: Sequence[float]) -> bool:
    """Return whether there are too few ratios, or their interval extends over 10% from the median on either side."""
    (low, high), middle = interval(ratios), median(ratios)
    return len(ratios) < FEWEST or max(middle - low, high - middle) > WIDE * middle


def behind(claim: Claim, context: str, claims: Mapping[str, Claim]) -> list[Comparison]:
    """Return the comparisons behind a claim's ratio: its own, then those of the claims in ``most_of``."""
    return [claims[name].comparison(context) for name in (claim.id, *claim.most_of)]


def ratios_of(comparisons: Sequence[Comparison], known: Known) -> list[float]:
    """Return one ratio per pair: the first comparison's ratio over the largest of the others'."""
    own, *others = ([*known[one].values] if one in known else [] for one in comparisons)
    return [each[0] / max(each[1:], default=1.0) for each in zip(own, *others)]


def same_of(claim: Claim, context: str, findings: Mapping[str, str]) -> bool | None:
    """Return whether learning stays the same, by the evidence; None if unknown, True for a claim without evidence.

    ``findings`` has what :func:`.returns.evidence` returns, by trial.
    """
    if claim.same != "returns":
        return True
    return {FOR: True, AGAINST: False}.get(findings[claim.evidence[context]])


def judged(claim: Claim, ratios: Sequence[float], same: bool | None) -> str:
    """Return the verdict on a claim, given the ratios of all pairs, and whether outputs or learning stay the same."""
    if not same:
        return "unclear" if same is None else "refuted"
    word = verdict(*interval(ratios), claim.least)
    if word == "holds" and (claim.least or 1) < 1 and is_wide(ratios):
        return "unclear"
    if word != "measured":
        return word
    if claim.promises_same:
        return "holds"
    return "unclear" if is_wide(ratios) else word


def unclear(claims: Sequence[Claim], known: Known, findings: Mapping[str, str]) -> list[Comparison]:
    """Return the comparisons that more pairs may decide, widest interval first.

    Claims whose evidence is missing, undecided or against them are left out: more pairs do not decide them.
    """
    by_id = {claim.id: claim for claim in claims}
    found: dict[Comparison, float] = {}
    for claim in claims:
        for context in claim.contexts:
            comparisons = behind(claim, context, by_id)
            ratios = ratios_of(comparisons, known)
            same = same_of(claim, context, findings)
            if same and ratios and len(ratios) < MOST and judged(claim, ratios, same) == "unclear":
                low, high = interval(ratios)
                width = (high - low) / median(ratios)
                found |= {one: max(width, found.get(one, 0.0)) for one in comparisons}
    return sorted(found, key=lambda one: -found[one])


def context_row(
    claim: Claim, context: str, claims: Mapping[str, Claim], known: Known, findings: Mapping[str, str]
) -> dict[str, Any]:
    """Return the ledger row of a claim in one context.

    ``known`` holds all measured comparisons, and ``findings`` what the evidence says, by trial. ``why`` in the row
    gives the reason if the ratio alone does not explain the verdict.
    """
    base, change = claim.contexts[context]
    kept = {"context": context, "base": base, "change": change, "measure": claim.measure}
    nothing = {"ratio": None, "low": None, "high": None, "n": 0, "same_holds": None}
    if needs := claim.needs(base, change):
        return {**kept, **nothing, "verdict": f"needs {needs}"}
    comparisons = behind(claim, context, claims)
    measured = known[comparisons[0]]
    if measured.differs:
        return {**kept, **nothing, "same_holds": False, "verdict": "refuted", "why": "different output"}
    if error := next((known[one].error for one in comparisons if one in known and known[one].error), ""):
        return {**kept, **nothing, "verdict": "error", "error": error}
    ratios = ratios_of(comparisons, known)
    (low, high), same = interval(ratios), same_of(claim, context, findings)
    figures = {"ratio": median(ratios), "low": low, "high": high, "n": len(ratios), "wide": is_wide(ratios)}
    why = "" if same else f"evidence {findings[claim.evidence[context]]}"
    holds = same if claim.same else None
    return {**kept, **figures, "same_holds": holds, "verdict": judged(claim, ratios, same), "why": why}


def beside(claim: Claim, figure: Figure, known: Known, info: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the ledger row of a published figure with our value of it.

    ``info`` has the ``extra_info`` of the tests that were timed for figures, by pytest id.
    """
    kept = {"what": figure.what, "side": figure.test, "theirs": figure.theirs}
    if needs := claim.needs(figure.test):
        unit = {"rate": "items/s", "peak_rss": "bytes"}.get(figure.of, "s")
        return {**kept, "unit": unit, "ours": None, "needs": needs}
    if figure.of == "peak_rss":
        return {**kept, "unit": "bytes", "ours": peak_of(claim, figure.test, known)}
    about = info.get(node_id(claim.workload, figure.test))
    if about is None:
        return {**kept, "unit": "s", "ours": None, "error": "its benchmark fails"}
    if figure.of != "rate":
        return {**kept, "unit": "s", "ours": about["seconds_per_call" if figure.of == "seconds" else figure.of]}
    rate = (figure.items or about["items"]) / about["seconds_per_call"]
    return {**kept, "unit": f"{figure.unit or about['unit']}/s", "ours": rate}


def peak_of(claim: Claim, test: str, known: Known) -> float | None:
    """Return a test's peak memory in bytes from the claim's own comparison; None if not measured."""
    for context, pair in claim.contexts.items():
        sides = known[claim.comparison(context)].sides
        if test in pair and sides:
            return sides[pair.index(test)]
    return None


def row(
    claim: Claim,
    claims: Mapping[str, Claim],
    known: Known,
    info: Mapping[str, Mapping[str, Any]],
    findings: Mapping[str, str],
) -> dict[str, Any]:
    """Return the ledger row of a claim; for the arguments, see :func:`context_row` and :func:`beside`."""
    names = ("id", "workload", "words", "source", "promised", "least", "same", "note")
    return {
        **{name: getattr(claim, name) for name in names},
        "contexts": [context_row(claim, context, claims, known, findings) for context in claim.contexts],
        "figures": [beside(claim, figure, known, info) for figure in claim.figures],
    }
