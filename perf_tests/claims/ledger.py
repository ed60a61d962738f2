"""Verdicts on what was measured: one word for each comparison, and rows as they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rlgauge.statistics import FEWEST, interval

from .catalogue import Claim, Comparison, Figure, node_id
from .measure import Measured

FORMAT, VERSION = "rlgauge-claims", 2
SOME = 1.02  # a ratio that is some gain at all
WIDE = 0.10  # half of an interval, as a part of the ratio, beyond which it is wide
MOST = 24  # pairs of a comparison
Known = Mapping[Comparison, Measured]


def verdict(low: float, high: float, least: float | None, same: bool | None = None, promised: bool = False) -> str:
    """Return one word for a comparison.

    ``holds``: the interval lies beyond what was promised. ``partly``: there is a gain, less than that. ``refuted``:
    there is none, or what was to stay the same has not. ``measured``: nothing was promised. Else ``unclear``.

    Args:
        low: end of the interval of the ratio.
        high: the other end.
        least: the lower end of what was promised; None where nothing was.
        same: whether what was to stay the same has; None where it is not known.
        promised: whether something was to stay the same.
    """
    if promised and same is None:
        return "unclear"
    if promised and not same:
        return "refuted"
    if least is None:
        return "measured"
    if low >= least:
        return "holds"
    if high <= SOME:
        return "refuted"
    return "partly" if low > SOME and high < least else "unclear"


def is_wide(ratios: Sequence[float]) -> bool:
    """Return whether ratios are few, or their interval is wider than a tenth of the median to either side."""
    (low, high), middle = interval(ratios), median(ratios)
    return len(ratios) < FEWEST or max(middle - low, high - middle) > WIDE * middle


def behind(claim: Claim, context: str, claims: Mapping[str, Claim]) -> list[Comparison]:
    """Return the comparisons that a claim's ratio comes from: its own, then those that it must gain more than."""
    return [claims[name].comparison(context) for name in (claim.id, *claim.most_of)]


def ratios_of(comparisons: Sequence[Comparison], known: Known) -> list[float]:
    """Return the ratio of each pair; of several comparisons, that of the first over the best of the others."""
    own, *others = ([*known[one].values] if one in known else [] for one in comparisons)
    return [each[0] / max(each[1:], default=1.0) for each in zip(own, *others)]


def judged(claim: Claim, ratios: Sequence[float], same: bool | None) -> str:
    """Return one word for a claim in a context.

    Args:
        claim: that is judged.
        ratios: of all pairs.
        same: whether what was to stay the same has; None where it is not known.
    """
    word = verdict(*interval(ratios), claim.least, same, claim.same is not None)
    if word != "measured":
        return word
    if claim.tolerance:
        return "holds"
    return "unclear" if is_wide(ratios) else word


def unclear(claims: Sequence[Claim], known: Known) -> list[Comparison]:
    """Return the comparisons that more pairs may decide, the widest interval first.

    A claim whose evidence is missing is not among them: more pairs do not decide it.
    """
    by_id = {claim.id: claim for claim in claims}
    found: dict[Comparison, float] = {}
    for claim in claims:
        for context in claim.contexts:
            comparisons = behind(claim, context, by_id)
            ratios = ratios_of(comparisons, known)
            if ratios and len(ratios) < MOST and judged(claim, ratios, True) == "unclear":
                low, high = interval(ratios)
                width = (high - low) / median(ratios)
                found |= {one: max(width, found.get(one, 0.0)) for one in comparisons}
    return sorted(found, key=lambda one: -found[one])


def told(claim: Claim, context: str, claims: Mapping[str, Claim], known: Known, same: bool | None) -> dict[str, Any]:
    """Return what is kept of a comparison.

    Args:
        claim: that is judged.
        context: of the claim.
        claims: of its workload, by id.
        known: all comparisons that were measured.
        same: of a claim about returns, whether as much is learned; None where that is not known.
    """
    base, change = claim.contexts[context]
    kept = {"context": context, "base": base, "change": change, "measure": claim.measure}
    nothing = {"ratio": None, "low": None, "high": None, "n": 0, "same_holds": None}
    if needs := claim.needs(base, change):
        return {**kept, **nothing, "verdict": f"needs {needs}"}
    comparisons = behind(claim, context, claims)
    measured = known[comparisons[0]]
    if measured.differs:
        return {**kept, **nothing, "same_holds": False, "verdict": "refuted"}
    if error := next((known[one].error for one in comparisons if known[one].error), ""):
        return {**kept, **nothing, "verdict": "error", "error": error}
    ratios = ratios_of(comparisons, known)
    low, high = interval(ratios)
    same = True if claim.same == "close" else same
    figures = {"ratio": median(ratios), "low": low, "high": high, "n": len(ratios), "same_holds": same}
    return {**kept, **figures, "wide": is_wide(ratios), "verdict": judged(claim, ratios, same)}


def beside(claim: Claim, figure: Figure, known: Known, info: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a figure of ours beside the published one.

    Args:
        claim: of the figure.
        figure: of another machine.
        known: all comparisons that were measured.
        info: ``extra_info`` of tests that were timed alone, by pytest's ids.
    """
    kept = {"what": figure.what, "side": figure.test, "theirs": figure.theirs}
    if needs := claim.needs(figure.test):
        unit = {"rate": "items/s", "seconds": "s", "peak_rss": "bytes"}[figure.of]
        return {**kept, "unit": unit, "ours": None, "needs": needs}
    if figure.of == "peak_rss":
        return {**kept, "unit": "bytes", "ours": peak_of(claim, figure.test, known)}
    about = info[node_id(claim.workload, figure.test)]
    if figure.of == "seconds":
        return {**kept, "unit": "s", "ours": about["seconds_per_call"]}
    rate = (figure.items or about["items"]) / about["seconds_per_call"]
    return {**kept, "unit": f"{figure.unit or about['unit']}/s", "ours": rate}


def peak_of(claim: Claim, test: str, known: Known) -> float | None:
    """Return the peak memory of a test, from the claim's own comparison; None if that could not be measured."""
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
    same: bool | None,
) -> dict[str, Any]:
    """Return what is kept of a claim; the arguments are those of :func:`told` and :func:`beside`."""
    names = ("id", "workload", "words", "source", "promised", "least", "same", "note")
    return {
        **{name: getattr(claim, name) for name in names},
        "contexts": [told(claim, context, claims, known, same) for context in claim.contexts],
        "figures": [beside(claim, figure, known, info) for figure in claim.figures],
    }
