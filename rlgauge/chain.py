"""A test's speed relative to one commit, across releases: log-ratios and variances add along a chain of anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
import numpy.typing as npt

from .history import Entry

Measurement = tuple[str, str]  # a commit and its anchor
# Lower bound of the standard deviation of pairs' log-ratios: every machine so far had at least that. With few pairs, an
# estimate may be smaller by chance.
MIN_STD = 0.01
STD_PER_MAD = 1.4826  # standard deviation over median absolute deviation (normal)
MEDIAN_ERROR = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean


@dataclass(frozen=True)
class Point:
    """A commit's speed relative to the root of its series.

    Attributes:
        anchor: commit it was compared with.
        log_ratio: log of its seconds over those of the root.
        low, high: 95% interval of `log_ratio`.
        n: pairs in its own comparison.
        state: ``timed`` or ``unchanged``.
        pairs: number of pairs of each measurement in its sum; points that share a measurement share its error.
    """

    commit: str
    anchor: str
    log_ratio: float
    low: float
    high: float
    n: int
    state: str
    pairs: Mapping[Measurement, int] = field(default_factory=dict)

    def relative_to_root_of(self, anchor: Point) -> Point:
        """Return this point relative to the root of its anchor: log-ratios and squared errors add up."""
        middle = self.log_ratio + anchor.log_ratio
        low = middle - math.hypot(self.log_ratio - self.low, anchor.log_ratio - anchor.low)
        high = middle + math.hypot(self.high - self.log_ratio, anchor.high - anchor.log_ratio)
        return replace(self, log_ratio=middle, low=low, high=high, pairs={**anchor.pairs, **self.pairs})


@dataclass(frozen=True)
class Series:
    """A test over commits, with all ratios relative to the commit `root`.

    `std` is the standard deviation of a pair's log-ratio, and `freedom` its degrees of freedom.
    """

    case: str
    version: str
    root: str
    points: Sequence[Point]
    std: float
    freedom: int

    def covariance(self, points: Sequence[Point]) -> npt.NDArray[np.float64]:
        """Return the covariance of the errors of the root (index 0) and the points.  f[1 + n, 1 + n]"""
        covariance = np.zeros((1 + len(points), 1 + len(points)))
        for i, one in enumerate(points, start=1):
            for j, other in enumerate(points, start=1):
                shared = one.pairs.keys() & other.pairs.keys()
                covariance[i, j] = sum((MEDIAN_ERROR * self.std) ** 2 / one.pairs[name] for name in shared)
        return covariance


def series(entries: Sequence[Entry], order: Sequence[str]) -> list[Series]:
    """Return each test's points in its newest version, relative to the root of its last point.

    `entries` are in the order of measurement. `order` lists commits, oldest first; others are left out.
    """
    newest = {entry.case: entry.version for entry in entries}
    found = []
    for case, version in newest.items():
        of_case = [e for e in entries if (e.case, e.version) == (case, version) and e.state != "missing"]
        chained = {(e.commit, e.anchor): relative_to_root(e, of_case, ()) for e in of_case}
        index = {commit: number for number, commit in enumerate(order)}
        ordered = sorted((key for key in chained if key[0] in index), key=lambda key: index[key[0]])
        if ordered:
            root = chained[ordered[-1]][0]
            points = {key[0]: chained[key][1] for key in ordered if chained[key][0] == root}
            found.append(Series(case, version, root, tuple(points.values()), *std_of(of_case)))
    return found


def relative_to_root(entry: Entry, entries: Sequence[Entry], visited: tuple[str, ...]) -> tuple[str, Point]:
    """Follow an entry from anchor to anchor; return the last anchor (root) and the entry's point relative to it.

    `entries` are all entries of the test, and `visited` the commits of the chain so far.
    """
    n = len(entry.log_ratios)
    measured = {(entry.same_as or entry.commit, entry.anchor): n} if n else {}
    own = Point(entry.commit, entry.anchor, entry.middle, *entry.interval, n, entry.state, measured)
    of_anchor = [e for e in entries if e.commit == entry.anchor and e.anchor not in (*visited, entry.commit)]
    if not of_anchor:
        return entry.anchor, own
    root, anchor = relative_to_root(of_anchor[-1], entries, (*visited, entry.commit))
    return root, own.relative_to_root_of(anchor)


def std_of(entries: Sequence[Entry]) -> tuple[float, int]:
    """Return a robust standard deviation of a pair's log-ratio, and its degrees of freedom."""
    deviations, freedom = [], 0
    for entry in entries:
        n = len(entry.log_ratios)
        if n > 1 and entry.state == "timed":
            bessel = math.sqrt(n / (n - 1))  # correction for the estimated median
            deviations += [bessel * abs(value - entry.middle) for value in entry.log_ratios]
            freedom += n - 1
    return max(MIN_STD, STD_PER_MAD * median(deviations)) if deviations else 2 * MIN_STD, max(1, freedom)
