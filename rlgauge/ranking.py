"""Rank benchmarks of the working tree by time or another measure, with ties."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from .allowed import matches
from .case import Case
from .compare import MAX_WIDTH, WIDE, WIDE_HINT, Comparisons, all_cases, no_match
from .kept_pairs import KeptPairs
from .layout import laid_out
from .plan import MEMORY, TIMED, Plan
from .progress import number_of
from .rule import GateError
from .statistics import interval
from .two_tests import SkippedError

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks


@dataclass
class Ranking:
    """Several benchmarks in order, with ties: fastest first, or smallest first by another measure.

    Attributes:
        baseline: id of the benchmark that the others are compared with.
        speedups: each benchmark's speedup over the baseline in each pair, by id; for another measure, the baseline's
            value over the benchmark's.
        per: what the times refer to: ``call``, or ``item (UNIT)``.
        machine: machine on which it was measured.
        skipped: why benchmarks are left out, by id.
        measure: see :class:`.plan.Plan`.
    """

    baseline: str
    speedups: dict[str, list[float]]
    per: str = "call"
    machine: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    measure: str = "seconds"

    def faster(self, first: str, second: str) -> bool:
        """Return whether the first benchmark is significantly faster: the interval of their ratio is above 1."""
        ratios = [a / b for a, b in zip(self.speedups[first], self.speedups[second], strict=True)]
        return interval(ratios)[0] > 1

    def ranks(self) -> dict[str, tuple[int, int]]:
        """Return the best and worst possible rank of each benchmark, fastest first."""
        names = sorted(self.speedups, key=lambda name: -median(self.speedups[name]))
        return {
            name: (
                1 + sum(self.faster(other, name) for other in names),
                len(names) - sum(self.faster(name, other) for other in names),
            )
            for name in names
        }

    def __str__(self) -> str:
        lines = []
        for name, (best, worst) in self.ranks().items():
            low, high = interval(self.speedups[name])
            speedup = f"{median(self.speedups[name]):.3g}x [{low:.3g}, {high:.3g}]"
            lines.append(f"{best if best == worst else f'{best}-{worst}':>5}  {speedup:<24}  {name}")
        count = len(self.speedups[self.baseline])
        if any(high > MAX_WIDTH * low for low, high in map(interval, self.speedups.values())):
            lines.append(f"Some intervals are {WIDE}; {WIDE_HINT}.")
        what = f"Speedup per {self.per} over {self.baseline}"
        if self.measure != "seconds":
            what = f"{self.measure} of {self.baseline} divided by that of each benchmark, highest ratio first"
        lines.append(f"{what}, {number_of(count, 'pair')}. A rank such as 2-3 is a tie.")
        return "\n".join([*lines, *self.skipped.values()])

    def to_json(self) -> str:
        """Return all fields and the ranks as JSON text."""
        return json.dumps({**asdict(self), "ranks": self.ranks()}, indent=2) + "\n"


def rank(
    source: Benchmarks, patterns: Sequence[str], plan: Plan, log: Callable[[str], None], resume: bool = False
) -> Ranking:
    """Rank the benchmarks that match any of the patterns, without those that are skipped.

    With `resume`, the pairs of an interrupted run are reused. Raises GateError if a pattern matches none, fewer than
    two match, one fails, or outputs differ.
    """
    if plan.measure == "difference":
        choices = ", ".join(name for name in (*TIMED, *MEMORY) if name != plan.measure)
        raise GateError(f"--measure: difference cannot be ranked (choose from {choices}, or a figure)")
    cases = all_cases(source, patterns)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in cases):
            raise no_match(pattern, cases, "rlgauge rank", source.broken)
    chosen = [case for name, case in cases.items() if any(matches(name, pattern) for pattern in patterns)]
    if len(chosen) < 2:
        only = f"only {chosen[0].id} matches; give patterns that match two or more benchmarks"
        raise GateError(f"{' '.join(patterns)}: {only}")
    skipped: dict[str, str] = {}
    while True:
        try:
            return rank_cases(source, chosen, skipped, plan, log, resume)
        except SkippedError as error:
            if error.test != chosen[0].id or len(chosen) == 2:
                raise
            skipped[error.test] = str(error)
            chosen = chosen[1:]


def rank_cases(
    source: Benchmarks,
    cases: Sequence[Case],
    skipped: Mapping[str, str],
    plan: Plan,
    log: Callable[[str], None],
    resume: bool,
) -> Ranking:
    """Rank benchmarks; raise SkippedError if the first one, the baseline, or all the others are skipped.

    `skipped` says why other benchmarks are left out, by id.
    """
    baseline, *others = cases

    def log_pair() -> None:
        count = 1 + len(others) - len(comparisons.failed)
        log(f"rank: pair {max(map(len, speedups.values()))} of {number_of(count, 'benchmark')}")

    with laid_out(source, source.root) as layout:
        tests = {case.id: (baseline, case) for case in others}
        comparisons = Comparisons(source, layout, tests, dict.fromkeys(tests, plan))
        speedups = {name: result.values for name, result in comparisons.results.items()}
        kept = KeptPairs("rank", source, layout, plan, [*skipped, *(case.id for case in cases)])
        kept.measure(comparisons, resume, log, log_pair)
    measured = {name: values for name, values in speedups.items() if name not in comparisons.failed}
    left_out = {**skipped, **{name: str(error) for name, error in comparisons.failed.items()}}
    first = comparisons.results[next(iter(measured))]
    measured = {baseline.id: [1.0] * len(first.values)} | measured
    return Ranking(baseline.id, measured, first.per, first.machine, left_out, plan.measure)
