"""What the gate concludes from paired samples: pure functions of the numbers, without clock or process.

A block holds the seconds both sides took, in turns. A pair of fresh processes gives the median log-ratio of its blocks,
and is the unit of all statistics: two processes of the same code differ by more than the error inside of one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from .fields import FieldError, parse
from .statistics import alike, holm, interval, log_ratio, rank_correlation, signed_rank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Block = tuple[float, float]  # seconds of base, of head
Pair = list[Block]
Verdict = Literal["ok", "faster", "slower", "unchanged", "new", "gone", "skipped", "inconclusive", "error"]
FAILING = ("slower", "gone", "error")
VOID = 2  # exit code of a run without a verdict
CHANGED = "answer changed"
# Share of the level for an early end. The looks leave it over, as the second has the pairs of the first too: both
# together find 0.79 to 0.88 of what the level allows, in a family of 1 to 200 (6 million simulated confirmations).
EARLY = 0.1
DRIFT, DRIFT_PAIRS = 0.1, 3  # of samples within a pair, and the pairs that must agree
# Rank correlation of samples with their order, and the share of pairs that have it: noise may go as far in all pairs,
# not as steadily.
STEADY, MOST = 0.7, 0.75
# A rise of fresh memory is named where it is more than this, and more than this share of base's. On identical code, in
# 40 pairs of 42 cases, 1 of 1,680 was by page faults and none by growth.
MARGIN, SHARE = {"page_faults": 8, "grown_bytes": 1 << 19}, 0.05
SAME, SLOWED = "canary[same]", "canary[slowed]"  # must not fail; must be found
SAME_ON_ALL, SLOWED_ON_ALL = "canary[same-wide]", "canary[slowed-wide]"  # likewise, on all cores; names are kept
WANTED: Mapping[bool, Mapping[str, Sequence[Verdict]]] = {  # right verdicts on the canaries of each pass
    False: {SAME: ("ok", "inconclusive"), SLOWED: ("slower",)},
    True: {SAME_ON_ALL: ("ok", "inconclusive"), SLOWED_ON_ALL: ("slower",)},
}


AT = "@"  # before the number of the shard that a canary is of, in a merged run


class GateError(Exception):
    """Why there is nothing to compare or to decide, in one line."""


@dataclass(frozen=True)
class Rule:
    """The numbers of the decision rule.

    Attributes:
        screen: fresh pairs that every case gets.
        confirm: further fresh pairs that a suspect gets while they can still make a verdict; the screen's do not count
            again.
        looks: how often such a confirmation is tested, each time after so many pairs more; p is the least of all looks,
            times their number (Bonferroni). Where there are two or more, it ends before where its pairs are all about
            as far beyond the tolerated, see :func:`confirmed`.
        blocks: blocks of a case in each pair.
        tolerated: slowdown that is none, as a fraction.
        promised: slowdown that is to be found; a suspect whose interval reaches to it without being `slower` is not
            decided.
        level: largest Holm-adjusted p of a confirmed suspect.
        version: of the rule; 1, which artifacts without a version were measured by, has no early end.
    """

    screen: int = 4
    confirm: int = 16
    looks: int = 2
    blocks: int = 8
    tolerated: float = 0.01
    promised: float = 0.05
    level: float = 0.01
    version: int = field(default=2, metadata={"absent": 1})

    def __post_init__(self) -> None:
        """Refuse numbers that are out of range or contradict each other."""
        for name in ("screen", "confirm", "looks", "blocks"):
            if (number := getattr(self, name)) < 1:
                raise FieldError([name], f"got {number}; give 1 or more")
        if not 0 <= self.tolerated < math.inf:
            raise FieldError(["tolerated"], f"got {self.tolerated}; give 0 or more")
        if not self.tolerated < self.promised < math.inf:
            raise FieldError(["promised"], f"got {self.promised}; give more than tolerated, {self.tolerated}")
        if not 0 < self.level < 1:
            raise FieldError(["level"], f"got {self.level}; give a number between 0 and 1")
        if self.version not in (1, 2):
            raise FieldError(["version"], f"got {self.version}; give 1 or 2")
        if self.looks * 2.0**-self.most > self.level:
            numbers = f"confirm {self.confirm} and looks {self.looks}"
            raise FieldError([], f"{numbers} cannot reach the level {self.level}; raise confirm or level")

    @property
    def most(self) -> int:
        """Pairs of a confirmation that no look ends before the last."""
        return self.looks * self.confirm

    @property
    def early(self) -> float:
        """Share of the level for ending a confirmation before its first look."""
        return EARLY if self.version > 1 and self.looks > 1 else 0.0


def rule_with(changes: Mapping[str, Any], rule: Rule | None = None) -> Rule:
    """Return a rule with some of its numbers changed.

    Args:
        changes: the numbers to change, by name; text is parsed.
        rule: what is changed; the default rule unless given.

    Raises:
        GateError: an unknown name, or a number out of range.
    """
    try:
        changed: Rule = parse(
            Rule, asdict(rule or Rule()) | {name: as_number(value) for name, value in changes.items()}
        )
    except FieldError as error:
        raise GateError(f"rule, {error}") from error
    return changed


def as_number(value: Any) -> Any:
    """Return the number that a text is, or the value itself where it is none."""
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return kind(value)
    return value


@dataclass
class Record:
    """What was found out about one case; the JSON artifact holds nothing else, so a verdict can be given again.

    Attributes:
        state: ``timed``, or why not.
        all_cores: it belongs to the pass on all cores; called ``wide`` in older artifacts.
        screen: blocks of each pair of the screen.
        confirm: blocks of each pair of the confirmation.
        answer_changed: on the same inputs base and head return something else.
        counters: exact counts of base and of head.
        memory: counts of their fresh memory, which differ a little on identical code.
        words: last words of a worker that failed.
    """

    state: Literal["timed", "unchanged", "new", "gone", "skipped", "error"] = "timed"
    all_cores: bool = field(default=False, metadata={"older": "wide"})
    screen: list[Pair] = field(default_factory=list)
    confirm: list[Pair] = field(default_factory=list)
    answer_changed: bool = False
    counters: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    memory: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    words: str = ""

    def __post_init__(self) -> None:
        """Refuse pairs without blocks, and times that are not positive."""
        for phase, pairs in (("screen", self.screen), ("confirm", self.confirm)):
            for at, pair in enumerate(pairs):
                if not pair:
                    raise FieldError([phase, str(at)], "the pair has no blocks; measure again")
                for place, block in enumerate(pair):
                    if not all(0 < seconds < math.inf for seconds in block):
                        where = [phase, str(at), str(place)]
                        raise FieldError(where, f"got {block}, not positive finite seconds; measure again")


@dataclass
class Finding:
    """The verdict on one case.

    Attributes:
        ratio: seconds of head over seconds of base, median over pairs.
        low, high: 95 % interval of that median, distribution-free; the extremes where there are fewer than six pairs.
        pairs: how many pairs these are of.
        p: Holm-adjusted, of a suspect whose confirmation came to its end.
        stopped_for_futility: the confirmation of a suspect ended early, as it could no longer become significant.
        notes: what else there is to say.
    """

    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    p: float | None = None
    stopped_for_futility: bool = False
    notes: list[str] = field(default_factory=list)


def drifting(record: Record) -> float | None:
    """Return by what factor samples change from the first third of a pair's blocks to the last, where all pairs agree.

    A benchmark that changes what it works on, as a list that it appends to, does other work at every call: its samples
    go one way, far and steadily, in all pairs and on both sides. Of too few pairs nothing is said.

    Args:
        record: what is known of the case.
    """
    pairs = [blocks for blocks in (*record.screen, *record.confirm) if len(blocks) >= 3]
    trends = [trend([block[side] for block in blocks]) for blocks in pairs for side in (0, 1)]
    far = math.log1p(DRIFT)
    if len(pairs) < DRIFT_PAIRS or not (min(trends) > far or max(trends) < -far):
        return None
    steady = sum(steadiness(blocks) >= STEADY for blocks in pairs)
    return math.exp(median(trends)) if steady >= MOST * len(pairs) else None


def steadiness(blocks: Pair) -> float:
    """Return how far the samples of a pair go one way, from 0 to 1: their rank correlation with their order (Spearman).

    Args:
        blocks: of the pair, three or more.
    """
    seconds = [base * head for base, head in blocks]
    return abs(rank_correlation(range(len(seconds)), seconds))


def trend(seconds: Sequence[float]) -> float:
    """Return the logarithm of what the last third of some samples take over the first third, median over median.

    Args:
        seconds: three or more, in their order.
    """
    third = len(seconds) // 3
    return math.log(median(seconds[-third:]) / median(seconds[:third]))


def suspected(screen: Sequence[float], rule: Rule) -> int:
    """Return 1 where the screen's pairs look slower, their median, -1 where all of them look faster, else 0.

    A slowdown is not to be missed; a speed-up that is not sure of itself is not worth the time.

    Args:
        screen: log-ratio of each pair.
        rule: the numbers to decide by.
    """
    tolerated = math.log1p(rule.tolerated)
    return (median(screen) > tolerated) - (max(screen) < -tolerated)


def unscreened(records: Mapping[str, Record], rule: Rule) -> list[str]:
    """Return the cases whose screen is to go on: those that further pairs can still make suspects.

    Where three pairs of four do not look slower, nor all of them faster, the last changes nothing. Fewer than tell a
    drift are not enough.

    Args:
        records: what is known of each case, by name.
        rule: the numbers to decide by.
    """
    found = []
    for name, record in records.items():
        missing = rule.screen - len(record.screen)
        if record.state == "timed" and missing > 0:
            values = [log_ratio(pair) for pair in record.screen]
            open_still = any(suspected([*values, *[side * math.inf] * missing], rule) for side in (1, -1))
            if open_still or len(values) < DRIFT_PAIRS:
                found.append(name)
    return found


def stopped_for_futility(
    rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule, end: int | None = None
) -> npt.NDArray[np.bool_]:
    """Return which confirmations, as far as they have come, are over: what the screen saw is not seen again.

    That is looked at after every so many pairs as a screen has, or before, where no outcome of those up to the look
    could change it. It can only end in `ok`, so it makes no false alarm.  f[R, n] -> bool[R]

    Args:
        rows: log-ratios f[R, n], a row for each confirmation.
        rule: the numbers to decide by.
        end: pairs before which they are over; those of a whole confirmation unless given.
    """
    import numpy as np

    values = at_best(rows, rule)
    looks = range(rule.screen, end or rule.most, rule.screen)
    over = [np.median(values[:, :n], axis=1) <= math.log1p(rule.tolerated) for n in looks]
    return np.any(over, axis=0) if over else np.zeros(len(values), dtype=bool)


def at_best(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule) -> npt.NDArray[np.float64]:
    """Return confirmations as whole ones: the pairs to come are slower than any so far.  f[R, n] -> f[R, most]

    Args:
        rows: log-ratios f[R, n], a row for each confirmation.
        rule: the numbers to decide by.
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    missing = max(0, rule.most - values.shape[1])
    slower = 1 + np.abs(values).max(initial=rule.tolerated) + np.arange(missing)
    return np.hstack([values, np.tile(slower, (len(values), 1))])


def confirmed(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule) -> list[float]:
    """Return the p of confirmations, as far as they have come: the least of the looks, times how many there can be.

    A look that comes after it was stopped for futility does not count. Before the first look p is 1, but where all
    pairs are about as far beyond the tolerated: then it is theirs over the share of the level that is for that.
    f[R, n] -> R values

    Args:
        rows: log-ratios f[R, n], a row for each confirmation.
        rule: the numbers to decide by.
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    p = np.ones(len(values))
    for end in range(rule.confirm, min(values.shape[1], rule.most) + 1, rule.confirm):
        over = stopped_for_futility(values, rule, end)
        looked = zip(values[:, :end].tolist(), over, strict=True)
        p = np.minimum(p, [1.0 if ended else rule.looks * signed_rank(row, rule.tolerated) for row, ended in looked])
    if rule.early:
        p = np.minimum(p, [alike(row, rule.tolerated) / rule.early for row in values.tolist()])
    return list(map(float, p))


def suspects(records: Mapping[str, Record], rule: Rule) -> dict[str, int]:
    """Return the cases that need confirmation: 1 looks slower, -1 faster.

    Args:
        records: what is known of each case, by name.
        rule: the numbers to decide by.
    """
    found = {
        name: suspected([log_ratio(pair) for pair in record.screen], rule)
        for name, record in records.items()
        if record.state == "timed" and record.screen
    }
    return {name: side for name, side in found.items() if side}


def unsettled(records: Mapping[str, Record], rule: Rule, elsewhere: int = 0) -> list[str]:
    """Return the suspects that are to get further pairs: those not significant yet that these can still make so.

    Args:
        records: what is known of each case, by name.
        rule: the numbers to decide by.
        elsewhere: cases of other shards, all of which may be suspects.
    """
    found, directions = [], suspects(records, rule)
    family = Counter(side for name, side in directions.items() if not is_canary(name))
    for name, side in directions.items():
        row, tests = confirmation(records[name], side), 1 if is_canary(name) else family[side] + elsewhere
        significant = tests * confirmed([row], rule)[0] <= rule.level
        possible = confirmed(at_best([row], rule), rule)[0] <= rule.level
        if len(row) < rule.most and possible and not significant:
            found.append(name)
    return found


def confirmation(record: Record, side: int) -> list[float]:
    """Return what a suspect's further pairs say, positive where they agree with the screen.

    Args:
        record: what is known of the case.
        side: 1 where the screen looks slower, -1 where it looks faster.
    """
    return [side * log_ratio(pair) for pair in record.confirm]


def is_canary(name: str) -> bool:
    """Return whether this is a canary, of either pass.

    Args:
        name: of the case.
    """
    return any(without_shard(name) in wanted for wanted in WANTED.values())


def without_shard(name: str) -> str:
    """Return the name of a canary without the number of its shard."""
    return name.partition(AT)[0]


def decide(records: Mapping[str, Record], rule: Rule) -> dict[str, Finding]:
    """Return the verdict on every case, canaries included.

    Args:
        records: what is known of each case, by name.
        rule: the numbers to decide by.
    """
    directions = suspects(records, rule)
    settled = directions.keys() - set(unsettled(records, rule))
    p: dict[str, float] = {}
    for family in (1, -1):
        names = [name for name, side in directions.items() if side == family and name in settled]
        raw = {name: confirmed([confirmation(records[name], family)], rule)[0] for name in names}
        cases = [name for name in names if not is_canary(name)]
        p |= raw | dict(zip(cases, holm([raw[name] for name in cases]), strict=True))
    return {name: find(record, directions.get(name, 0), p.get(name), rule) for name, record in records.items()}


def find(record: Record, direction: int, p: float | None, rule: Rule) -> Finding:
    """Return the verdict on one case, given where the screen points and the adjusted p of its confirmation.

    Args:
        record: what is known of the case.
        direction: 1 where the screen looks slower, -1 where faster, 0 where neither.
        p: adjusted p of the confirmation; None for no suspect, or one still to be measured.
        rule: the numbers to decide by.
    """
    if record.state != "timed":
        return Finding(verdict=record.state, notes=[record.words] if record.words else [])
    pairs = [log_ratio(pair) for pair in (direction and record.confirm) or record.screen]
    if not pairs:
        return Finding(verdict="error", notes=["no pair was measured"])
    drift = drifting(record) or 1.0
    if drift > 1:
        words = f"its samples drift, in each pair by {100 * (drift - 1):+.0f} %: its calls do not all do the same work"
        return Finding(verdict="error", pairs=len(pairs), notes=[words])
    low, high = interval(pairs)
    over = bool(direction and stopped_for_futility([confirmation(record, direction)], rule)[0])
    early = p is not None and (over or (p > rule.level and len(record.confirm) < rule.most))
    notes = [CHANGED] if record.answer_changed else []
    risen = rises(*record.counters)
    counted = risen | {name: found for name, found in rises(*record.memory).items() if beyond(name, *found)}
    notes += [f"{name} {before} -> {after}" for name, (before, after) in counted.items()]
    notes += [record.words] if record.words else []
    notes += [f"its samples shrink, in each pair by {100 * (drift - 1):+.0f} %"] if drift < 1 else []

    verdict: Verdict = "ok"
    if direction and p is None:
        verdict = "inconclusive"
    elif p is not None and p <= rule.level:
        verdict = "slower" if direction > 0 else "faster"
    elif direction and high >= math.log1p(rule.promised) and not over:
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
        p=None if early else p,
        stopped_for_futility=early,
        notes=notes,
    )


def rises(base: Mapping[str, int], head: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the exact counters that are higher at head, with both values.

    Args:
        base: base's counts, by name.
        head: head's counts, by name.
    """
    return {name: (base[name], head[name]) for name in base if name in head and head[name] > base[name]}


def beyond(name: str, base: int, head: int) -> bool:
    """Return whether a count of fresh memory has risen by more than it does on identical code.

    Args:
        name: of the count.
        base: base's count.
        head: head's count.
    """
    return head - base > max(MARGIN[name], SHARE * base)
