"""From processes to verdicts: ratios with their intervals, one word for each context, kept as JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from rlgauge.statistics import FEWEST, interval

from ..suite.claim import Claim, Figure, Side

FORMAT, VERSION = "rlgauge-claims", 1
SOME = 1.02  # a ratio that is some gain at all
WIDE = 0.10  # half of an interval, as a part of the ratio, beyond which it is wide
Process = Mapping[str, Any]  # what :func:`.measure.measured` returned


def verdict(low: float, high: float, least: float | None, same: bool | None = None, promised: bool = False) -> str:
    """Return one word for a comparison.

    ``holds``: the interval lies beyond what was promised. ``partly``: there is a gain, less than that. ``refuted``:
    there is none, or what was to stay the same has not. ``measured``: nothing was promised. Else ``unclear``.

    Args:
        low: end of the interval of the ratio base over change.
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


def is_wide(ratio: float, low: float, high: float) -> bool:
    """Return whether an interval is wider than a tenth of its ratio to either side.

    Args:
        ratio: the median.
        low: end of its interval.
        high: the other end.
    """
    return max(ratio - low, high - ratio) > WIDE * ratio


def gains(claim: Claim, context: str, processes: Sequence[Process]) -> list[float]:
    """Return what each process says of a comparison.

    Args:
        claim: of the workload.
        context: of the claim.
        processes: that measured it.
    """
    if not claim.most_of:
        found = [process["claims"].get(claim.name, {}).get(context, {}) for process in processes]
        return [each["ratio"] for each in found if "ratio" in each]
    said = []
    for process in processes:
        own = process["claims"].get(claim.name, {}).get(context, {}).get("ratio")
        others = [process["claims"].get(name, {}).get(context, {}).get("ratio") for name in claim.most_of]
        if own is not None and None not in others:
            said.append(own / max(others))
    return said


def told(claim: Claim, context: str, processes: Sequence[Process], evidence: bool | None) -> dict[str, Any]:
    """Return what is kept of a comparison.

    Args:
        claim: of the workload.
        context: of the claim.
        processes: that measured it.
        evidence: of a claim about returns, whether they stay the same; None where nobody knows.
    """
    pair = claim.contexts[context]
    kept = {"context": context, "base": pair.base.label, "change": pair.change.label, "measure": pair.measure}
    nothing = {"ratio": None, "low": None, "high": None, "n": 0, "same_holds": None}
    for side in (pair.base, pair.change):
        if side.missing() is not None:
            return {**kept, **nothing, "verdict": f"needs {device_of(side)}"}
    errors = [process["claims"].get(claim.name, {}).get(context, {}).get("error") for process in processes]
    if any(errors):
        return {**kept, **nothing, "verdict": "error", "error": next(filter(None, errors))}
    ratios = gains(claim, context, processes)
    if not ratios:
        return {**kept, **nothing, "verdict": "unclear"}
    low, high = interval(ratios)
    same = evidence
    if claim.same in ("bits", "close"):
        said = [process["claims"].get(claim.name, {}).get(context, {}) for process in processes]
        same = all(each["same"] for each in said if "same" in each)
    word = verdict(low, high, claim.least, same, claim.same is not None)
    wide = is_wide(median(ratios), low, high) or len(ratios) < FEWEST
    if word == "measured" and wide:
        word = "unclear"
    figures = {"ratio": median(ratios), "low": low, "high": high, "n": len(ratios)}
    return {**kept, **figures, "same_holds": same, "wide": wide, "verdict": word}


def device_of(side: Side) -> str:
    """Return what a side needs that is not here, in a word.

    Args:
        side: of a claim.
    """
    return {"cuda": "CUDA", "neuron": "Neuron"}.get(side.device(), side.missing() or "nothing")


def beside(figure: Figure, processes: Sequence[Process]) -> dict[str, Any]:
    """Return a figure of ours beside the published one.

    Args:
        figure: of a claim.
        processes: that measured it.
    """
    side, name = figure.side, "peak" if figure.of == "peak" else "seconds"
    found = [process["sides"][side.label].get(name) for process in processes if side.label in process["sides"]]
    values = [value for value in found if value is not None]
    unit = {"rate": f"{figure.unit or side.unit}/s", "seconds": "s", "peak": "bytes"}[figure.of]
    kept = {"what": figure.what, "side": side.label, "unit": unit, "theirs": figure.theirs}
    if side.missing() is not None:
        return {**kept, "ours": None, "needs": device_of(side)}
    ours = median(values) if values else math.nan
    return {**kept, "ours": side.items / ours if figure.of == "rate" else ours} if values else {**kept, "ours": None}


def row(claim: Claim, processes: Sequence[Process], evidence: bool | None) -> dict[str, Any]:
    """Return what is kept of a claim.

    Args:
        claim: of a workload.
        processes: that measured it.
        evidence: of a claim about returns, whether they stay the same; None where nobody knows.
    """
    return {
        "id": claim.name,
        "workload": claim.sides[0].op.partition(".")[0],
        "words": claim.words,
        "source": claim.source,
        "promised": claim.promised,
        "least": claim.least,
        "same": claim.same,
        "note": claim.note,
        "contexts": [told(claim, context, processes, evidence) for context in claim.contexts],
        "figures": [beside(figure, processes) for figure in claim.figures],
    }


def still_open(claims: Sequence[Claim], processes: Sequence[Process]) -> list[Claim]:
    """Return what more processes may decide: the claims with those contexts alone whose ratio is unclear so far.

    Where none is, those whose interval is wide. What a claim must gain more than comes with it, and so does another
    claim of the same comparison, which has the same ratio.

    Args:
        claims: of a workload.
        processes: that measured them.
    """
    unclear, wide = set[tuple[str, str, str]](), set[tuple[str, str, str]]()
    of_name = {claim.name: claim for claim in claims}
    for claim in claims:
        for context in claim.contexts:
            if ratios := gains(claim, context, processes):
                low, high = interval(ratios)
                word, is_broad = verdict(low, high, claim.least), is_wide(median(ratios), low, high)
                pairs = {of_name[name].contexts[context].key for name in (claim.name, *claim.most_of)}
                unclear |= pairs if word == "unclear" or (word == "measured" and is_broad) else set()
                wide |= pairs if is_broad else set()
    keys = unclear or wide
    return narrowed(claims, {(c.name, name) for c in claims for name, pair in c.contexts.items() if pair.key in keys})


def narrowed(claims: Sequence[Claim], chosen: Collection[tuple[str, str]]) -> list[Claim]:
    """Return claims with some of their contexts, and without figures of other machines.

    Args:
        claims: of a workload.
        chosen: name and context of each that is kept.
    """
    found = []
    for claim in claims:
        if contexts := {name: pair for name, pair in claim.contexts.items() if (claim.name, name) in chosen}:
            found.append(replace(claim, contexts=contexts, figures=()))
    return found


def joined(earlier: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a ledger with new ones in their places; those of claims that are gone are left out.

    Args:
        earlier: rows that are kept.
        rows: that were measured now.
    """
    from ..suite.claims import claims_of, workloads

    found = {row["id"]: row for row in (*earlier, *rows)}
    names = [claim.name for workload in workloads() for claim in claims_of(workload)]
    return [found[name] for name in names if name in found]
