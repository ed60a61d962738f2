"""Find the commit that slowed a case, by bisection: each commit tried is compared with a good one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from . import revisions
from .benchmarks import origins
from .case import Case
from .layout import laid_out
from .pairs import PairError, Pairs
from .progress import number_of
from .report import interval_text
from .revisions import git
from .rule import GateError, Record, Rule
from .sampling import cores
from .statistics import interval, log_ratio, signed_rank

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks


@dataclass(frozen=True)
class CommitComparison:
    """A commit compared with an earlier one.

    Attributes:
        slowdown: median log-ratio over pairs; 0 means no change.
        low, high: 95% interval of `slowdown`.
        pairs: number of pairs.
        p: one-sided p of the signed-rank test that the commit is slower.
    """

    commit: str
    slowdown: float
    low: float
    high: float
    pairs: int
    p: float

    def __str__(self) -> str:
        middle, low, high = (100 * math.expm1(x) for x in (self.slowdown, self.low, self.high))
        interval = interval_text(low, high, self.pairs)
        return f"{self.commit[:12]} {middle:+.1f}% {interval}, n = {number_of(self.pairs, 'pair')}"


def commits_between(root: Path, good: str, bad: str) -> list[str]:
    """Return the commits after ``good`` up to ``bad``, along first parents, oldest first.

    Raises GateError if there are none.
    """
    first, last = revisions.resolve(root, good), revisions.resolve(root, bad)
    commits = git(root, "rev-list", "--first-parent", last).decode().split()
    if first not in commits[1:]:
        reason = f"{good}..{bad}: no commits; the first revision must be an ancestor of the second along first parents"
        raise GateError("; ".join([reason, *revisions.shallow_hints(root)]))
    return commits[: commits.index(first)][::-1]


def nearest_middle(low: int, high: int, skipped: Collection[int]) -> int | None:
    """Return the number in ``[low, high)`` nearest to the middle that is not skipped; None if all are."""
    candidates = [number for number in range(low, high) if number not in skipped]
    return min(candidates, key=lambda number: abs(number - (low + high) // 2), default=None)


def bisect(source: Benchmarks, good: str, bad: str, case: Case, rule: Rule, limit: float) -> CommitComparison:
    """Return the first commit with more than half of the total slowdown, compared with its predecessor.

    All commits are measured with the working tree's benchmarks. Raises GateError if no commits lie between the
    revisions; see also :func:`search`.
    """
    commits = [revisions.resolve(source.root, good), *commits_between(source.root, good, bad)]
    rng = random.Random(0)
    with laid_out(source, source.root) as layout:

        def compare(base: str, head: str, count: int) -> CommitComparison:
            sides = layout.pair(base, head)
            origins.check(source, sides, [case], limit)
            pairs = Pairs(sides, rule.blocks, limit, {case.id: case.tolerance}, layout.folder, rng)
            records = {case.id: Record()}
            try:
                for _ in range(count):
                    pairs.measure(records, [case.id], cores(case.all_cores), "confirm", thorough=True)
            except PairError as error:
                raise GateError(str(error)) from error
            record = records[case.id]
            if record.state != "timed":
                raise GateError(f"{case.id} cannot be compared at {head[:12]}: {record.state}, {record.words}")
            values = [log_ratio(pair) for pair in record.confirm]
            return CommitComparison(head, median(values), *interval(values), count, signed_rank(values, rule.tolerated))

        return search(commits, compare, case.id, rule, print)


def search(
    commits: Sequence[str],
    compare: Callable[[str, str, int], CommitComparison],
    name: str,
    rule: Rule,
    log: Callable[[str], None],
) -> CommitComparison:
    """Return the first commit with more than half of the total slowdown, compared with its predecessor.

    The last commit and the commit found are measured with ``rule.confirm`` pairs and must be slower at the rule's
    level; other commits get half as many pairs. A commit in between that cannot be measured is skipped.

    Args:
        commits: full hashes; the first is not slow.
        compare: ``compare(base, head, count)`` measures `count` pairs of two commits.
        name: id of the case, for messages.
        rule: the decision rule.
        log: prints a line of progress.

    Raises:
        GateError: the rule has too few pairs, the case is not slower or fails at either end, or the commit cannot be
            determined with certainty.
    """
    if 2.0**-rule.confirm > rule.level:  # the smallest p, since bisect tests only once
        raise GateError(
            f"rule: bisect cannot reach the level {rule.level} with confirm {rule.confirm}; raise confirm or level"
        )
    total = compare(commits[0], commits[-1], rule.confirm)
    if total.p > rule.level:
        raise GateError(f"{name} is not slower: {total}, p = {total.p:.2g}; give revisions before and after a slowdown")
    log(f"{total}: the total slowdown, in {number_of(len(commits) - 1, 'commit')}")
    low, high = 1, len(commits) - 1
    skipped: set[int] = set()
    while low < high:  # invariant: the commit before low is fast, and high is slow
        middle = nearest_middle(low, high, skipped)
        if middle is None:
            names = ", ".join(commit[:12] for commit in commits[low : high + 1])
            raise GateError(f"{name}: the first slow commit is one of {names}; only the last of them can run the test")
        try:
            tried = compare(commits[0], commits[middle], math.ceil(rule.confirm / 2))
        except GateError as error:
            log(f"{commits[middle][:12]} skipped: {error}")
            skipped.add(middle)
            continue
        slow = tried.slowdown > total.slowdown / 2
        log(f"{tried}: {'slow' if slow else 'fast'}")
        low, high = (low, middle) if slow else (middle + 1, high)
    found = compare(commits[low - 1], commits[low], rule.confirm)
    if found.p > rule.level:
        raise GateError(
            f"uncertain: the most likely commit, compared with its parent, is {found}, p = {found.p:.2g}; "
            "repeat the command on an idle machine"
        )
    return found
