"""What the gate concludes from paired samples: pure functions of the numbers, without clock or process.

A block holds the seconds both sides took, in turns. A pair of fresh processes gives the median log-ratio of its blocks,
and is the unit of all statistics: two processes of the same code differ by more than the error inside of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from perf_tests.interleaved import log_ratio

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Block = tuple[Seconds, Seconds]  # of base, of head
Pair = Annotated[list[Block], Field(min_length=1)]
Verdict = Literal["ok", "faster", "slower", "unchanged", "new", "gone", "inconclusive", "error"]
FAILING, VOIDING = ("slower", "gone"), ("error",)
PASSED, FAILED, VOID = 0, 1, 2  # exit codes
SAME, SLOWED = "canary[same]", "canary[slowed]"  # must not fail; must be found


class GateError(Exception):
    """Why there is nothing to compare or to decide, in one line."""


class Rule(BaseModel):
    """The numbers of the decision rule.

    Attributes:
        screen: fresh pairs that every case gets.
        confirm: further fresh pairs that a suspect gets while they can still make a verdict; the screen's do not count
            again.
        blocks: blocks of a case in each pair.
        tolerated: slowdown that is none, as a fraction.
        promised: slowdown that is to be found; a suspect whose interval reaches to it without being `slower` is not
            decided.
        level: largest Holm-adjusted p of a confirmed suspect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    screen: int = Field(default=4, ge=1)
    confirm: int = Field(default=16, ge=1)
    blocks: int = Field(default=8, ge=1)
    tolerated: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    promised: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    level: float = Field(default=0.01, gt=0, lt=1)

    @model_validator(mode="after")
    def consistent(self) -> Rule:
        """Refuse numbers that contradict each other."""
        if self.promised <= self.tolerated:
            raise ValueError(f"promised {self.promised} is not above tolerated {self.tolerated}")
        if 2.0**-self.confirm > self.level:
            raise ValueError(f"{self.confirm} pairs to confirm cannot reach the level {self.level}")
        return self


def rule_with(changes: Mapping[str, Any], rule: Rule | None = None) -> Rule:
    """Return a rule with some of its numbers changed.

    Raises:
        GateError: an unknown name, or a number out of range.
    """
    try:
        return Rule.model_validate({**(rule or Rule()).model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{first['loc'][0]}: {first['msg']}, got {first['input']!r}" if first["loc"] else first["msg"]
        raise GateError(f"rule, {where}") from error


class Record(BaseModel):
    """What was found out about one case; the JSON artifact holds nothing else, so a verdict can be given again.

    Attributes:
        state: ``timed``, or why not.
        screen: blocks of each pair of the screen.
        confirm: blocks of each pair of the confirmation.
        answer_changed: on the same inputs base and head return something else.
        counters: exact counts of base and of head.
        words: last words of a worker that failed.
    """

    model_config = ConfigDict(extra="forbid")
    state: Literal["timed", "unchanged", "new", "gone", "error"] = "timed"
    screen: list[Pair] = []
    confirm: list[Pair] = []
    answer_changed: bool = False
    counters: tuple[dict[str, int], dict[str, int]] = ({}, {})
    words: str = ""


class Finding(BaseModel):
    """The verdict on one case.

    Attributes:
        ratio: seconds of head over seconds of base, median over pairs.
        low, high: 95 % interval of that median, distribution-free; the extremes where there are fewer than six pairs.
        pairs: how many pairs these are of.
        p: Holm-adjusted, of a suspect; of one whose confirmation ended early the least that it could still have become.
        notes: what else there is to say.
    """

    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    p: float | None = None
    notes: list[str] = []


def suspected(screen: Sequence[float], rule: Rule) -> int:
    """Return 1 where the screen's pairs look slower, their median, -1 where all of them look faster, else 0.

    A slowdown is not to be missed; a speed-up that is not sure of itself is not worth the time.
    """
    tolerated = math.log1p(rule.tolerated)
    return (median(screen) > tolerated) - (max(screen) < -tolerated)


def signed_rank(values: Sequence[float], tolerated: float) -> float:
    """Return the exact one-sided p of Wilcoxon's signed-rank test of H0: the slowdown is at most the tolerated."""
    return float(signed_ranks([values], tolerated)[0])


def signed_ranks(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], tolerated: float) -> list[float]:
    """Return the p of every row.  f[R, n] -> R values"""
    import numpy as np
    from scipy.stats import wilcoxon

    beyond = np.asarray(rows, dtype=float) - math.log1p(tolerated)
    found = np.ones(len(beyond))
    nonzero = np.any(beyond != 0, axis=1)  # of nothing but zeros there is no p
    if nonzero.any():
        found[nonzero] = wilcoxon(beyond[nonzero], alternative="greater", method="exact", axis=1).pvalue
    return list(map(float, found))


def let_go(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule) -> npt.NDArray[np.bool_]:
    """Tell of confirmations, as far as they have come, whether they are over: what the screen saw is not seen again.

    That is looked at after every so many pairs as a screen has. It can only end in `ok`, so it makes no false alarm.
    f[R, n] -> bool[R]
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    looks = range(rule.screen, min(rule.confirm, values.shape[1] + 1), rule.screen)
    over = [np.median(values[:, :n], axis=1) <= math.log1p(rule.tolerated) for n in looks]
    return np.any(over, axis=0) if over else np.zeros(len(values), dtype=bool)


def confirmed(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule) -> list[float]:
    """Return the least p that confirmations can have once they are whole, or 1 where they are let go.

    It is least where all pairs to come are slower than any so far, so of a whole one it is the p.  f[R, n] -> R values
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    missing = max(0, rule.confirm - values.shape[1])
    slower = 1 + np.abs(values).max(initial=rule.tolerated) + np.arange(missing)
    whole = np.hstack([values, np.tile(slower, (len(values), 1))])
    return [
        1.0 if over else p for over, p in zip(let_go(values, rule), signed_ranks(whole, rule.tolerated), strict=True)
    ]


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down method: none is significant unless all smaller ones are."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, distribution-free; of fewer than six values the extremes."""
    from scipy.stats import quantile_test

    if len(values) < 6:
        return min(values), max(values)
    found = quantile_test(values, q=median(values), p=0.5).confidence_interval(0.95)
    return float(found.low), float(found.high)


def suspects(records: Mapping[str, Record], rule: Rule) -> dict[str, int]:
    """Return the cases that need confirmation: 1 looks slower, -1 faster."""
    found = {
        name: suspected([log_ratio(pair) for pair in record.screen], rule)
        for name, record in records.items()
        if record.state == "timed" and record.screen
    }
    return {name: side for name, side in found.items() if side}


def unsettled(records: Mapping[str, Record], rule: Rule) -> list[str]:
    """Return the suspects that are to get further pairs: those that these can still make significant."""
    return [
        name
        for name, side in suspects(records, rule).items()
        if len(records[name].confirm) < rule.confirm
        and confirmed([confirmation(records[name], side)], rule)[0] <= rule.level
    ]


def confirmation(record: Record, side: int) -> list[float]:
    """Return what a suspect's further pairs say, positive where they agree with the screen."""
    return [side * log_ratio(pair) for pair in record.confirm]


def decide(records: Mapping[str, Record], rule: Rule) -> dict[str, Finding]:
    """Return the verdict on every case, canaries included."""
    directions = suspects(records, rule)
    settled = directions.keys() - set(unsettled(records, rule))
    p: dict[str, float] = {}
    for family in (1, -1):
        names = [name for name, side in directions.items() if side == family and name in settled]
        raw = {name: confirmed([confirmation(records[name], family)], rule)[0] for name in names}
        cases = [name for name in names if name not in (SAME, SLOWED)]
        p |= raw | dict(zip(cases, holm([raw[name] for name in cases]), strict=True))
    return {name: find(record, directions.get(name, 0), p.get(name), rule) for name, record in records.items()}


def find(record: Record, direction: int, p: float | None, rule: Rule) -> Finding:
    """Return the verdict on one case, given where the screen points and the adjusted p of its confirmation."""
    if record.state != "timed":
        return Finding(verdict=record.state, notes=[record.words] if record.words else [])
    pairs = [log_ratio(pair) for pair in (direction and record.confirm) or record.screen]
    if not pairs:
        return Finding(verdict="error", notes=["no pair was measured"])
    low, high = interval(pairs)
    notes = ["answer changed"] if record.answer_changed else []
    risen = rises(*record.counters)
    notes += [f"{name} {before} -> {after}" for name, (before, after) in risen.items()]

    verdict: Verdict = "ok"
    if direction and p is None:
        verdict = "inconclusive"
    elif p is not None and p <= rule.level:
        verdict = "slower" if direction > 0 else "faster"
    elif direction and high >= math.log1p(rule.promised) and not let_go([confirmation(record, direction)], rule)[0]:
        verdict = "inconclusive"
    if "graphs" in risen:
        verdict = "slower"
    if verdict == "faster" and record.answer_changed:
        verdict = "ok"  # a speed-up that changes what is computed is not one
    return Finding(
        verdict=verdict,
        ratio=math.exp(median(pairs)),
        low=math.exp(low),
        high=math.exp(high),
        pairs=len(pairs),
        p=p,
        notes=notes,
    )


def rises(base: Mapping[str, int], head: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the exact counters that are higher at head, with both values."""
    return {name: (base[name], head[name]) for name in base if name in head and head[name] > base[name]}


def complaints(records: Mapping[str, Record], findings: Mapping[str, Finding]) -> list[str]:
    """Return why nothing of this run can be believed: a canary on the wrong side, or a case without a measurement."""
    timed = [name for name, record in records.items() if record.state in ("timed", "error")]
    if not timed:
        return []
    wrong = [f"{name}: {' '.join(findings[name].notes)}" for name in timed if findings[name].verdict in VOIDING]
    for name, wanted in ((SAME, ("ok", "inconclusive")), (SLOWED, ("slower",))):
        if name not in findings:
            wrong.append(f"{name} was not measured")
        elif findings[name].verdict not in wanted:
            wrong.append(f"{name} came out as {findings[name].verdict}, wanted {' or '.join(wanted)}")
    return wrong


def exit_code(findings: Mapping[str, Finding], wrong: Sequence[str], allowed: bool) -> int:
    """Return 2 where the run is void, 1 where a case is slower or gone and that is not allowed, else 0."""
    if wrong:
        return VOID
    failing = [name for name, found in findings.items() if found.verdict in FAILING and name != SLOWED]
    return FAILED if failing and not allowed else PASSED
