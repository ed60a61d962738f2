"""Verdicts on measured claims, and the rows of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rlgauge.statistics import FEWEST, interval

from .catalogue import Claim, Comparison, Figure, node_id
from .measure import Measured

FORMAT, VERSION = "rlgauge-claims", 2
SOME = 1.02  # smallest ratio that counts as a gain
WIDE = 0.10  # half-width above which an interval is wide, relative to the median
MOST = 24  # maximum number of pairs of a comparison
Known = Mapping[Comparison, Measured]


def verdict(low: float, high: float, least: float | None, same: bool | None = None, promised: bool = False) -> str:
    """Return the verdict on a ratio with the interval ``low`` to ``high``.

    - ``holds``: the interval lies at or above ``least``, the lower end of what was promised.
    - ``partly``: there is a gain, but the interval lies below ``least``.
    - ``refuted``: there is no gain, or something changed that was to stay the same.
    - ``measured``: no ratio was promised (``least`` is None).
    - ``unclear``: anything else.

    ``promised`` tells whether something had to stay the same, and ``same`` whether it did (None: unknown).
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
    """Return whether there are too few ratios, or their interval extends over 10 % from the median on either side."""
    (low, high), middle = interval(ratios), median(ratios)
    return len(ratios) < FEWEST or max(middle - low, high - middle) > WIDE * middle


def behind(claim: Claim, context: str, claims: Mapping[str, Claim]) -> list[Comparison]:
    """Return the comparisons behind a claim's ratio: its own, then those of the claims in ``most_of``."""
    return [claims[name].comparison(context) for name in (claim.id, *claim.most_of)]


def ratios_of(comparisons: Sequence[Comparison], known: Known) -> list[float]:
    """Return one ratio per pair: the first comparison's ratio over the largest of the others'."""
    own, *others = ([*known[one].values] if one in known else [] for one in comparisons)
    return [each[0] / max(each[1:], default=1.0) for each in zip(own, *others)]


def judged(claim: Claim, ratios: Sequence[float], same: bool | None) -> str:
    """Return the verdict on a claim, given the ratios of all pairs; a wide interval makes ``measured`` ``unclear``."""
    word = verdict(*interval(ratios), claim.least, same, claim.same is not None)
    if word != "measured":
        return word
    if claim.tolerance:
        return "holds"
    return "unclear" if is_wide(ratios) else word


def unclear(claims: Sequence[Claim], known: Known) -> list[Comparison]:
    """Return the comparisons that more pairs may decide, widest interval first.

    Claims that are unclear only because evidence is missing are left out: more pairs do not decide them.
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


def context_row(
    claim: Claim, context: str, claims: Mapping[str, Claim], known: Known, same: bool | None
) -> dict[str, Any]:
    """Return the ledger row of a claim in one context.

    ``known`` holds all measured comparisons; ``same`` tells, for claims about returns, whether learning was unaffected.
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
    """Return the ledger row of a published figure with our value of it.

    ``info`` has the ``extra_info`` of the tests that were timed for figures, by pytest id.
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
    same: bool | None,
) -> dict[str, Any]:
    """Return the ledger row of a claim; for the arguments, see :func:`context_row` and :func:`beside`."""
    names = ("id", "workload", "words", "source", "promised", "least", "same", "note")
    return {
        **{name: getattr(claim, name) for name in names},
        "contexts": [context_row(claim, context, claims, known, same) for context in claim.contexts],
        "figures": [beside(claim, figure, known, info) for figure in claim.figures],
    }
