"""Which commit slowed a case: halves the commits between a good and a bad one, each compared with the good one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from perf_tests.suite.case import Variant
from perf_tests.suite.process import CACHE

from . import revisions
from .pairs import PairError, Pairs, cores
from .revisions import git
from .rule import GateError, Record, Rule, interval, log_ratio, signed_rank
from .run import LIMIT, side_of


@dataclass(frozen=True)
class Step:
    """A commit compared with the good one: median log-ratio of its pairs, interval, and p of being slower."""

    commit: str
    slowdown: float
    low: float
    high: float
    pairs: int
    p: float

    def __str__(self) -> str:
        """Return the commit and its slowdown in per cent."""
        middle, low, high = (100 * math.expm1(x) for x in (self.slowdown, self.low, self.high))
        return f"{self.commit[:12]} {middle:+.1f} % [{low:+.1f}, {high:+.1f}], n = {self.pairs} pairs"


def between(root: Path, good: str, bad: str) -> list[str]:
    """Return the commits after ``good`` up to ``bad``, along first parents, oldest first.

    Raises:
        GateError: an unknown revision, or ``good`` does not come before ``bad``.
    """
    first, last = revisions.resolve(root, good), revisions.resolve(root, bad)
    found = git(root, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").decode().split()
    parents = git(root, "rev-list", "--first-parent", last).decode().split()
    if not found or first not in parents:
        raise GateError(f"{good} does not come before {bad}: there is no commit to find")
    return found


@contextmanager
def comparison(
    root: Path, good: str, variant: Variant, rule: Rule, seed: int, limit: float, cache: Path
) -> Iterator[Callable[[str, int], Step]]:
    """Return ``compare(commit, pairs)``: this commit against the good one, with the working tree's benchmarks."""
    chance = random.Random(seed)
    with revisions.workspace(cache) as folder:
        revisions.snapshot(root, folder / "benchmarks")
        commit = revisions.resolve(root, good)
        revisions.export(root, commit, folder / commit)
        python = revisions.python_for(folder / commit, folder / "benchmarks", cache)
        base = side_of("base", folder, folder / commit, folder / "benchmarks", python)

        def compare(commit: str, times: int) -> Step:
            if not (folder / commit).exists():
                revisions.export(root, commit, folder / commit)
            python = revisions.python_for(folder / commit, folder / "benchmarks", cache)
            head = side_of(commit, folder, folder / commit, folder / "benchmarks", python)
            pairs = Pairs((base, head), rule.blocks, limit, {variant.id: variant.case.tolerance}, folder, chance)
            records = {variant.id: Record()}
            try:
                for _ in range(times):
                    pairs.measure(records, [variant.id], cores(variant.case.wide), "confirm")
            except PairError as error:
                raise GateError(str(error)) from error
            record = records[variant.id]
            if record.state != "timed":
                raise GateError(f"{variant.id} cannot be compared at {commit[:12]}: {record.state}, {record.words}")
            values = [log_ratio(pair) for pair in record.confirm]
            return Step(commit, median(values), *interval(values), times, signed_rank(values, rule.tolerated))

        yield compare


def bisect(
    root: Path,
    good: str,
    bad: str,
    variant: Variant,
    rule: Rule,
    seed: int = 0,
    limit: float = LIMIT,
    cache: Path = CACHE / "gate",
    tell: Callable[[str], None] = print,
) -> Step:
    """Return the first commit that has more than half of the whole slowdown.

    The bad commit gets the pairs of a confirmation and must be slower by the gate's rule; each other half of them.

    Raises:
        GateError: an unknown revision, nothing between them, a case that is not slower or cannot be run.
    """
    commits = between(root, good, bad)
    with comparison(root, good, variant, rule, seed, limit, cache) as compare:
        found = compare(commits[-1], rule.confirm)
        if found.p > rule.level:
            raise GateError(f"{variant.id} is not slower at {bad}: {found}, p = {found.p:.2g}")
        tell(f"{found}: the whole slowdown, {len(commits)} commits")
        half, low, high = found.slowdown / 2, 0, len(commits) - 1
        while low < high:
            middle = (low + high) // 2
            step = compare(commits[middle], rule.confirm // 2)
            tell(f"{step}: {'after' if step.slowdown > half else 'before'} it")
            if step.slowdown > half:
                high, found = middle, step
            else:
                low = middle + 1
    return found
