"""The gate's decision rule: pure functions of paired samples, without clock or processes.

A block holds the seconds both sides took, in alternating turns. A pair of fresh processes yields the median log-ratio
of its blocks. The pair is the unit of all statistics, because two processes running the same code differ by more than
the error within one of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from .drift import MIN_DRIFT_PAIRS, drift_factor
from .fields import FieldError, parse
from .statistics import Block, holm, interval, log_ratio, signed_rank, similar_excess_p

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Pair = list[Block]
Verdict = Literal["ok", "faster", "slower", "unchanged", "new", "gone", "skipped", "inconclusive", "error"]
FAILING = ("slower", "gone", "error")
INVALID = 2  # exit code of an invalid run
CHANGED = "output changed"
# Share of the level for an early end. The looks leave that much unused, because they share pairs: together, both use
# 0.79 to 0.88 of the level, in families of 1 to 200 tests (6 million simulated confirmations).
EARLY_SHARE = 0.1
# A rise in page faults or growth is reported if it exceeds both this margin and this share of base's count. On
# identical code, in 40 pairs of 42 cases, 1 of 1,680 was reported for page faults and none for growth.
MEMORY_MARGIN, MEMORY_SHARE = {"page_faults": 8, "grown_bytes": 1 << 19}, 0.05
SAME, SLOWED = "canary[same]", "canary[slowed]"  # must not fail; must be detected
SAME_ON_ALL, SLOWED_ON_ALL = "canary[same-wide]", "canary[slowed-wide]"  # on all cores, as named in old artifacts
EXPECTED: Mapping[bool, Mapping[str, Sequence[Verdict]]] = {  # verdicts on canaries, by whether on all cores
    False: {SAME: ("ok", "inconclusive"), SLOWED: ("slower",)},
    True: {SAME_ON_ALL: ("ok", "inconclusive"), SLOWED_ON_ALL: ("slower",)},
}
SHARD_SEPARATOR = "@"  # between a canary's name and its shard number in a merged run


class GateError(Exception):
    """The comparison is impossible or has no verdict; the message gives the reason in one line."""


@dataclass(frozen=True)
class Rule:
    """Parameters of the decision rule.

    Attributes:
        screen: maximum number of pairs of fresh processes in the screen.
        confirm: additional pairs of a suspect before each look, while they can still change the verdict; the
            screen's pairs are not used again.
        looks: number of times a confirmation is tested, each after `confirm` more pairs. p is the smallest of all looks
            times their number (Bonferroni). With two or more looks, a confirmation ends early if its pairs exceed the
            tolerated slowdown by similar amounts, see :func:`confirmed`.
        blocks: blocks of a case in each pair.
        tolerated: largest slowdown, as a fraction, that does not count as one.
        promised: slowdown, as a fraction, that should be detected; a suspect whose interval reaches it is
            `inconclusive`, unless it is significant or its confirmation was stopped for futility.
        level: significance level: largest Holm-adjusted p of a confirmed suspect.
        version: version of the rule. Version 1, which is assumed if an artifact's rule has none, has no early end.
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
        """Reject values that are out of range or contradict each other."""
        for name in ("screen", "confirm", "looks", "blocks"):
            if (number := getattr(self, name)) < 1:
                raise FieldError([name], f"{number} is too small; choose 1 or more")
        if not 0 <= self.tolerated < math.inf:
            raise FieldError(["tolerated"], f"{self.tolerated} is out of range; choose 0 or more, for example 0.01")
        if not self.tolerated < self.promised < math.inf:
            raise FieldError(["promised"], f"{self.promised} is not above tolerated ({self.tolerated}); raise it")
        if not 0 < self.level < 1:
            raise FieldError(["level"], f"{self.level} is out of range; choose a number between 0 and 1")
        if self.version not in (1, 2):
            raise FieldError(["version"], f"unknown version {self.version} (choose from 1, 2)")
        if self.looks * 2.0**-self.most > self.level:
            numbers = f"confirm {self.confirm} and looks {self.looks}"
            raise FieldError([], f"{numbers} cannot reach the level {self.level}; raise confirm or level")

    @property
    def most(self) -> int:
        """Number of pairs in a confirmation that does not end early."""
        return self.looks * self.confirm

    @property
    def early(self) -> float:
        """Share of the level that is spent on ending a confirmation before its first look."""
        return EARLY_SHARE if self.version > 1 and self.looks > 1 else 0.0


def rule_with(changes: Mapping[str, Any], rule: Rule | None = None, source: str = "rule") -> Rule:
    """Return a copy of `rule` with some values changed; text values are parsed, and errors begin with `source`."""
    values = asdict(rule or Rule()) | {name: as_number(value) for name, value in changes.items()}
    try:
        changed: Rule = parse(Rule, values)
    except FieldError as error:
        raise GateError(f"{source}: {error}") from error
    return changed


def as_number(value: Any) -> Any:
    """Parse a text that is a number; return any other value as it is."""
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return kind(value)
    return value


@dataclass
class Record:
    """Measurements of one case. The JSON artifact stores these but no verdicts, which are recomputed from them.

    Attributes:
        state: ``timed``, or the reason why not.
        all_cores: whether the case is in the pass on all cores; called ``wide`` in older artifacts.
        screen: blocks of each pair of the screen.
        confirm: blocks of each pair of the confirmation.
        calls: calls of each side in a block, one number per pair of the screen and then of the confirmation; older
            artifacts have none.
        output_changed: whether the outputs of base and head differ for the same inputs.
        counters: exact counts of base and head.
        memory: page faults and growth per call of base and head, which vary slightly on identical code.
        words: message for the report, such as the last error output of a worker that failed.
    """

    state: Literal["timed", "unchanged", "new", "gone", "skipped", "error"] = "timed"
    all_cores: bool = field(default=False, metadata={"older": "wide"})
    screen: list[Pair] = field(default_factory=list)
    confirm: list[Pair] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    output_changed: bool = field(default=False, metadata={"older": "answer_changed"})
    counters: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    memory: tuple[dict[str, int], dict[str, int]] = field(default_factory=lambda: ({}, {}))
    words: str = ""

    def __post_init__(self) -> None:
        """Reject pairs without blocks, and times and calls that are not positive."""
        for index, calls in enumerate(self.calls):
            if calls < 1:
                raise FieldError(["calls", str(index)], f"{calls} is below 1; measure again")
        for phase, pairs in (("screen", self.screen), ("confirm", self.confirm)):
            for index, pair in enumerate(pairs):
                if not pair:
                    raise FieldError([phase, str(index)], "the pair has no blocks; measure again")
                for number, block in enumerate(pair):
                    if not all(0 < seconds < math.inf for seconds in block):
                        path = [phase, str(index), str(number)]
                        raise FieldError(path, f"{block} are not positive finite seconds; measure again")


@dataclass
class Finding:
    """The verdict on one case.

    Attributes:
        ratio: seconds of head over seconds of base, median over pairs.
        low, high: distribution-free 95% interval of that median; the extremes if there are fewer than six pairs.
        pairs: number of pairs.
        base_seconds: time per call of base, median over pairs; None if the calls are not recorded.
        head_seconds: ``base_seconds`` times ``ratio``; the median of head's own times could contradict the ratio.
        p: Holm-adjusted p of a suspect whose confirmation is complete.
        stopped_for_futility: whether the confirmation ended early because it could no longer become significant.
        notes: further remarks for the report.
    """

    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    base_seconds: float | None = None
    head_seconds: float | None = None
    p: float | None = None
    stopped_for_futility: bool = False
    notes: list[str] = field(default_factory=list)


def suspect_direction(screen: Sequence[float], rule: Rule) -> int:
    """Return 1 if the median of the screen's log-ratios looks slower, -1 if all of them look faster, else 0.

    The two are asymmetric because a slowdown must not be missed, while an uncertain speed-up is not worth the time.
    """
    tolerated = math.log1p(rule.tolerated)
    return (median(screen) > tolerated) - (max(screen) < -tolerated)


def unscreened(records: Mapping[str, Record], rule: Rule) -> list[str]:
    """Return the cases that need more pairs in the screen: those that can still become suspects.

    For example, a case cannot become one if none of its first three pairs looks slower and not all look faster.
    Each case gets at least as many pairs as the detection of drift needs.
    """
    found = []
    for name, record in records.items():
        missing = rule.screen - len(record.screen)
        if record.state == "timed" and missing > 0:
            values = [log_ratio(pair) for pair in record.screen]
            undecided = any(suspect_direction([*values, *[side * math.inf] * missing], rule) for side in (1, -1))
            if undecided or len(values) < MIN_DRIFT_PAIRS:
                found.append(name)
    return found


def stopped_for_futility(
    rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule, end: int | None = None
) -> npt.NDArray[np.bool_]:
    """Return which confirmations are over because they do not reproduce the slowdown seen in the screen.

    The check is made after every `rule.screen` pairs, or earlier if no outcome of the pairs remaining until then could
    change it. Its only outcome is `ok`, so it cannot raise a false alarm.  f[R, n] -> bool[R]

    The rows are the log-ratios of confirmations. `end` is the number of pairs before which to check, by default a whole
    confirmation.
    """
    import numpy as np

    values = completed_by_slow_pairs(rows, rule)
    looks = range(rule.screen, end or rule.most, rule.screen)
    over = [np.median(values[:, :n], axis=1) <= math.log1p(rule.tolerated) for n in looks]
    return np.any(over, axis=0) if over else np.zeros(len(values), dtype=bool)


def completed_by_slow_pairs(
    rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule
) -> npt.NDArray[np.float64]:
    """Complete confirmations with pairs that are slower than any measured so far.  f[R, n] -> f[R, most]"""
    import numpy as np

    values = np.asarray(rows, dtype=float)
    missing = max(0, rule.most - values.shape[1])
    slower = 1 + np.abs(values).max(initial=rule.tolerated) + np.arange(missing)
    return np.hstack([values, np.tile(slower, (len(values), 1))])


def confirmed(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], rule: Rule) -> list[float]:
    """Return the p-values of confirmations so far: the smallest of the looks times their maximum number.

    Looks after a stop for futility do not count, and before the first look p is 1. If the first pairs exceed the
    tolerated slowdown by similar amounts, p is at most that of :func:`.statistics.similar_excess_p`, divided by the
    share of the level that is reserved for an early end.  f[R, n] -> R values
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    p = np.ones(len(values))
    for end in range(rule.confirm, min(values.shape[1], rule.most) + 1, rule.confirm):
        over = stopped_for_futility(values, rule, end)
        looked = zip(values[:, :end].tolist(), over, strict=True)
        p = np.minimum(p, [1.0 if ended else rule.looks * signed_rank(row, rule.tolerated) for row, ended in looked])
    if rule.early:
        p = np.minimum(p, [similar_excess_p(row, rule.tolerated) / rule.early for row in values.tolist()])
    return list(map(float, p))


def suspects(records: Mapping[str, Record], rule: Rule) -> dict[str, int]:
    """Return the cases that need confirmation: 1 for those that look slower, -1 for faster."""
    found = {
        name: suspect_direction([log_ratio(pair) for pair in record.screen], rule)
        for name, record in records.items()
        if record.state == "timed" and record.screen
    }
    return {name: side for name, side in found.items() if side}


def open_suspects(records: Mapping[str, Record], rule: Rule, elsewhere: int = 0) -> list[str]:
    """Return the suspects that need more pairs: not significant yet, but could still become so.

    `elsewhere` is the number of cases in other shards; for the adjustment of p, all of them may be suspects.
    """
    found, directions = [], suspects(records, rule)
    family = Counter(side for name, side in directions.items() if not is_canary(name))
    for name, side in directions.items():
        row, tests = confirm_log_ratios(records[name], side), 1 if is_canary(name) else family[side] + elsewhere
        significant = tests * confirmed([row], rule)[0] <= rule.level
        possible = confirmed(completed_by_slow_pairs([row], rule), rule)[0] <= rule.level
        if len(row) < rule.most and possible and not significant:
            found.append(name)
    return found


def confirm_log_ratios(record: Record, side: int) -> list[float]:
    """Return the log-ratios of a suspect's confirmation, positive where they agree with the screen.

    `side` is 1 if the screen looks slower, -1 if it looks faster.
    """
    return [side * log_ratio(pair) for pair in record.confirm]


def is_canary(name: str) -> bool:
    """Return whether a name is that of a canary, of either pass."""
    return any(without_shard(name) in canaries for canaries in EXPECTED.values())


def without_shard(name: str) -> str:
    """Remove the shard number from the name of a canary."""
    return name.partition(SHARD_SEPARATOR)[0]


def decide(records: Mapping[str, Record], rule: Rule) -> dict[str, Finding]:
    """Return the verdict on every case, including canaries."""
    directions = suspects(records, rule)
    settled = directions.keys() - set(open_suspects(records, rule))
    p: dict[str, float] = {}
    for family in (1, -1):
        names = [name for name, side in directions.items() if side == family and name in settled]
        raw = {name: confirmed([confirm_log_ratios(records[name], family)], rule)[0] for name in names}
        cases = [name for name in names if not is_canary(name)]
        p |= raw | dict(zip(cases, holm([raw[name] for name in cases]), strict=True))
    return {name: finding_of(record, directions.get(name, 0), p.get(name), rule) for name, record in records.items()}


def finding_of(record: Record, direction: int, p: float | None, rule: Rule) -> Finding:
    """Return the verdict on one case.

    `direction` is 1 if the screen looks slower, -1 if faster, 0 if neither. `p` is the adjusted p of the confirmation;
    None if the case is no suspect or needs more pairs.
    """
    if record.state != "timed":
        return Finding(verdict=record.state, notes=[record.words] if record.words else [])
    phase: Literal["screen", "confirm"] = "confirm" if direction and record.confirm else "screen"
    pairs = [log_ratio(pair) for pair in getattr(record, phase)]
    if not pairs:
        return Finding(verdict="error", notes=["no pair was measured"])
    base, ratio = seconds_per_call(record, phase), math.exp(median(pairs))
    drift = drift_factor(record) or 1.0
    if drift > 1:
        note = f"its calls become {100 * (drift - 1):.0f}% slower in each pair: make every call do the same work"
        return Finding(verdict="error", pairs=len(pairs), notes=[note])
    low, high = interval(pairs)
    futile = bool(direction and stopped_for_futility([confirm_log_ratios(record, direction)], rule)[0])
    significant = p is not None and p <= rule.level
    early = p is not None and not significant and (futile or len(record.confirm) < rule.most)
    notes = [CHANGED] if record.output_changed else []
    risen = increases(*record.counters)
    memory = {name: both for name, both in increases(*record.memory).items() if exceeds_noise(name, *both)}
    notes += [f"{name} {before} -> {after}" for name, (before, after) in (risen | memory).items()]
    notes += [record.words] if record.words else []
    notes += [f"its calls take {100 * (1 - drift):.0f}% less time at the end of each pair"] if drift < 1 else []

    verdict: Verdict = "ok"
    if direction and p is None:
        verdict = "inconclusive"
    elif significant:
        verdict = "slower" if direction > 0 else "faster"
    elif direction and high >= math.log1p(rule.promised) and not futile:
        verdict = "inconclusive"
    if "graphs" in risen:
        verdict = "slower"
    if verdict == "faster" and record.output_changed:
        verdict = "ok"  # a speed-up that changes the output is not one
    return Finding(
        verdict=verdict,
        ratio=ratio,
        low=math.exp(low),
        high=math.exp(high),
        pairs=len(pairs),
        base_seconds=base,
        head_seconds=None if base is None else base * ratio,
        p=None if early else p,
        stopped_for_futility=early,
        notes=notes,
    )


def seconds_per_call(record: Record, phase: Literal["screen", "confirm"]) -> float | None:
    """Return base's time per call in a phase: the median over pairs of the median over blocks.

    It is None if the calls of some pair are not recorded.
    """
    if len(record.calls) != len(record.screen) + len(record.confirm):
        return None
    start = 0 if phase == "screen" else len(record.screen)
    pairs = zip(getattr(record, phase), record.calls[start:])
    seconds: float = median(median(block[0] for block in pair) / calls for pair, calls in pairs)
    return seconds


def increases(base: Mapping[str, int], head: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the counts that are higher on head, with base's and head's values."""
    return {name: (base[name], head[name]) for name in base if name in head and head[name] > base[name]}


def exceeds_noise(name: str, base: int, head: int) -> bool:
    """Return whether a memory count has risen by more than it varies on identical code."""
    return head - base > max(MEMORY_MARGIN[name], MEMORY_SHARE * base)
