"""One fresh process: all claims of a workload, their sides in turns, each ratio taken within a round of them.

Sides of one op, and of ops that are compared, are prepared together, settled and visited in rounds, in an order that is
drawn anew for each. A sample
that follows another side's does not count where it is short: that side's data fill the caches. The process is the unit:
of each comparison it says one ratio, the median over its rounds.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from ..suite.claim import NOTED, Claim, Comparison, Side
from ..suite.prepared import leaves
from .resident import memory
from .sides import Ready, limited, ready

LONG = 0.1  # seconds of a sample beside which what another side left in the caches is nothing
BUDGET = 0.8  # seconds of samples of a side
ROUNDS = (3, 24)  # least and most, but for rounds that take long
DEAR = (20.0, 60.0)  # seconds of a round, beyond which two are enough, and one
SPREAD = 6  # rounds, at least, of sides whose spread is asked for
NOTHING = 1e-6  # what counts as none: a second of waiting less than a clock can tell
TOLERANCE = 1e-3  # of answers that are close: after two steps of Adam 1.4e-4 was seen, and another gradient makes 1e-2


@dataclass
class Taken:
    """What a process measured of a side.

    Attributes:
        seconds: of a call, in each round.
        noted: what the op counted in each round, for a sample.
        answer: of a few calls from the start.
        allocated: bytes of a call.
        memory: ``resident`` and ``peak``, of a process of its own.
        error: why there is nothing else.
    """

    seconds: list[float] = field(default_factory=list)
    noted: list[Mapping[str, float]] = field(default_factory=list)
    answer: Any = None
    allocated: float = 0.0
    memory: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


def measures_of(claims: Sequence[Claim]) -> dict[str, set[str]]:
    """Return what is asked of each side, by its label.

    Args:
        claims: all of a workload.
    """
    found: dict[str, set[str]] = {}
    for claim in claims:
        for pair in claim.contexts.values():
            for side in (pair.base, pair.change):
                found.setdefault(side.label, set()).add(pair.measure)
                if claim.same in ("bits", "close"):
                    found[side.label].add("answer")
        for figure in claim.figures:
            found.setdefault(figure.side.label, set()).add("peak" if figure.of == "peak" else "seconds")
    return found


def visit(here: Ready, side: Side, taken: Taken) -> None:
    """Take a sample.

    Args:
        here: the side, settled.
        side: of a claim.
        taken: gets what is measured.
    """
    with limited(side.threads):
        seconds = here.sample()
        if seconds < LONG:
            seconds = here.sample()
    taken.seconds.append(seconds / here.calls)
    taken.noted.append(here.noted())


def rounds_of(seconds: float, sides: int) -> int:
    """Return how many rounds a group gets: as many as its budget pays for.

    Args:
        seconds: of a round.
        sides: in it.
    """
    least = ROUNDS[0] - sum(seconds > dear for dear in DEAR)
    return max(least, min(ROUNDS[1], int(BUDGET * sides / seconds)))


def round_of(group: Sequence[tuple[Side, Ready]], found: Mapping[str, Taken], coin: random.Random) -> float:
    """Take a sample of each side, in an order that is drawn; return the seconds that it took.

    Args:
        group: sides that are settled.
        found: what is known of each side, by its label; gets what is measured.
        coin: draws the order.
    """
    start = time.perf_counter()
    for side, here in coin.sample(group, len(group)):
        visit(here, side, found[side.label])
    return time.perf_counter() - start


def together(sides: Sequence[Side], asked: Mapping[str, set[str]], seed: int, coin: random.Random) -> dict[str, Taken]:
    """Measure sides of one op in turns.

    Args:
        sides: of the op.
        asked: what of each, by its label.
        seed: of all inputs.
        coin: draws the order.
    """
    found = {side.label: Taken() for side in sides}
    with ExitStack() as stack:
        group: list[tuple[Side, Ready]] = []
        for side in sides:
            taken = found[side.label]
            try:
                with limited(side.threads):
                    here = ready(side, seed)
                    stack.push(here)
                    taken.answer = settled(here, side, asked[side.label])
                    if needs_time(asked[side.label]):
                        here.measure_calls()
                if "allocated" in asked[side.label]:
                    taken.allocated = here.allocated()
                group.append((side, here))
            except Exception as error:  # of one side: the others are measured
                taken.error = f"{type(error).__name__}: {error}".partition("\n")[0]
        timed = [(side, here) for side, here in group if needs_time(asked[side.label])]
        if timed:
            rounds = rounds_of(round_of(timed, found, coin), len(timed))
            for _ in range(rounds - 1):
                round_of(timed, found, coin)
            for _ in range(SPREAD - rounds):
                round_of([one for one in timed if "spread" in asked[one[0].label]], found, coin)
    return found


def settled(here: Ready, side: Side, asked: set[str]) -> Any:
    """Make a side ready to be timed, if it is, or counted; return its answer.

    One with processes of its own, whose answer nobody asks for, is warm after a sample: its epochs take seconds, and
    that they are repeatable is seen where it is a benchmark.

    Args:
        here: the side, built.
        side: of a claim.
        asked: what is measured of it.
    """
    if not needs_time(asked) and "allocated" not in asked:
        return here.answer()
    if side.starts_processes and not asked & {"answer", "difference"}:
        return here.sample()
    return here.settle()


def needs_time(asked: set[str]) -> bool:
    """Return whether samples are asked for.

    Args:
        asked: measures of a side.
    """
    return any(measure in ("seconds", "spread") or measure.startswith(NOTED) for measure in asked)


def grouped(claims: Sequence[Claim], sides: Mapping[str, Side]) -> list[list[Side]]:
    """Return the sides that are prepared together: all of an op, and of those ops that it is compared with.

    Args:
        claims: all of a workload.
        sides: that can run here, by their labels.
    """
    group_of = {side.op: {side.op} for side in sides.values()}
    for claim in claims:
        for pair in claim.contexts.values():
            if {pair.base.label, pair.change.label} <= sides.keys():
                both = group_of[pair.base.op] | group_of[pair.change.op]
                group_of |= dict.fromkeys(both, both)
    ops = {frozenset(group) for group in group_of.values()}
    return [[side for side in sides.values() if side.op in group] for group in sorted(ops, key=sorted)]


def measured(claims: Sequence[Claim], workload: str, seed: int) -> dict[str, Any]:
    """Return what this process says: of each claim and context a ratio, of each side what stands beside it.

    Args:
        claims: all of the workload, or some.
        workload: its name.
        seed: of all that is drawn, the number of this process; the first measures what is judged nowhere too.
    """
    asked, coin = measures_of(claims), random.Random(seed)
    judged = {side.label for claim in claims for side in claim.compared}
    sides = {
        side.label: side
        for claim in claims
        for side in claim.sides
        if side.missing() is None and (seed == 0 or side.label in judged or not side.starts_processes)
    }
    groups = grouped(claims, sides)
    coin.shuffle(groups)
    found: dict[str, Taken] = {}
    for group in groups:
        coin.shuffle(group)
        inside = [side for side in group if asked[side.label] - {"peak", "resident"}]
        found |= {side.label: Taken() for side in group} | together(inside, asked, seed, coin)
    weighed = [side for group in groups for side in group if asked[side.label] & {"peak", "resident"}]
    for label, figures in memory(workload, weighed, seed).items():
        found[label].memory = figures
    ratios: dict[str, dict[str, Any]] = {}
    for claim in claims:
        for context, pair in claim.contexts.items():
            if pair.base.label in found and pair.change.label in found:
                ratios.setdefault(claim.name, {})[context] = compared(claim, pair, found)
    return {"claims": ratios, "sides": {label: told(taken) for label, taken in found.items()}}


def told(taken: Taken) -> dict[str, Any]:
    """Return what is kept of a side.

    Args:
        taken: of a process.
    """
    kept: dict[str, Any] = {"error": taken.error} if taken.error else dict(taken.memory)
    if taken.seconds:
        kept["seconds"] = median(taken.seconds)
    return kept


def compared(claim: Claim, pair: Comparison, found: Mapping[str, Taken]) -> dict[str, Any]:
    """Return the ratio of a comparison, base over change, and whether what must stay the same has.

    Args:
        claim: that asks.
        pair: two sides.
        found: what was measured of each side, by its label.
    """
    base, change = found[pair.base.label], found[pair.change.label]
    for taken in (base, change):
        if taken.error:
            return {"error": taken.error}
    same = alike(base.answer, change.answer, claim, pair) if claim.same in ("bits", "close") else None
    return {"ratio": ratio(pair, base, change), "same": same}


def ratio(pair: Comparison, base: Taken, change: Taken) -> float:
    """Return base over change, of what is compared.

    Args:
        pair: two sides.
        base: what was measured of the first.
        change: of the second.
    """
    if pair.measure == "seconds":
        work = pair.change.items / pair.base.items
        return math.exp(median(math.log(a / b * work) for a, b in zip(base.seconds, change.seconds)))
    if pair.measure == "spread":
        return max(spread(base.seconds), NOTHING) / max(spread(change.seconds), NOTHING)
    if pair.measure == "allocated":
        return base.allocated / max(change.allocated, 1.0)
    if pair.measure == "resident":
        return base.memory["resident"] / change.memory["resident"]
    if pair.measure == "difference":
        return 1e-7 / max(difference(base.answer, change.answer), 1e-12)
    names = pair.measure.removeprefix(NOTED).split("+")
    first, second = (median(sum(noted[name] for name in names) for noted in taken.noted) for taken in (base, change))
    return max(first, NOTHING) / pair.base.items / (max(second, NOTHING) / pair.change.items)


def spread(seconds: Sequence[float]) -> float:
    """Return the interquartile range of samples over their median.

    Args:
        seconds: of a call, in each round.
    """
    first, middle, third = quantiles(seconds, n=4, method="inclusive")
    return (third - first) / middle


def difference(a: Any, b: Any) -> float:
    """Return the largest difference of two answers.

    Args:
        a: arrays in nested lists and dicts.
        b: the same of the other.
    """
    import numpy as np

    pairs = zip(leaves(a), leaves(b), strict=True)
    return max((float(np.max(np.abs(x.astype(float) - y.astype(float)), initial=0.0)) for x, y in pairs), default=0.0)


def alike(a: Any, b: Any, claim: Claim, pair: Comparison) -> bool:
    """Return whether two answers are the same, in bits or nearly.

    Args:
        a: arrays in nested lists and dicts.
        b: the same of the other.
        claim: that says how near.
        pair: whose cases' tolerance is taken, where it is the larger.
    """
    import numpy as np

    first, second = leaves(a), leaves(b)
    if claim.same == "bits":
        return len(first) == len(second) and all(np.array_equal(x, y) for x, y in zip(first, second))
    cases = [side.variant.case.tolerance for side in (pair.base, pair.change) if side.make is None]
    near = max([TOLERANCE, *cases])
    return len(first) == len(second) and all(x.shape == y.shape and apart(x, y) <= near for x, y in zip(first, second))


def apart(a: Any, b: Any) -> float:
    """Return the norm of the difference of two arrays over the larger norm; infinite where other values are no numbers.

    One weight whose gradient is nearly none may go either way by a whole step of Adam: the largest difference says
    little.

    Args:
        a: an array of NumPy.
        b: another, of its shape.
    """
    import numpy as np

    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return math.inf
    largest = max(np.linalg.norm(x[finite]), np.linalg.norm(y[finite]))
    return float(np.linalg.norm(x[finite] - y[finite]) / largest) if largest else 0.0
