"""Detect lasting changes in a test's speed, and decide whether it is slower at the end.

A piecewise constant fit proposes steps (Potts functional: least squares weighted by the error of each ratio, with a
penalty per step). Each proposed step is then tested against these errors, including those that commits share through a
release. p-values are adjusted for all positions at which a step could have been proposed, and by Holm's method for the
tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .chain import Point, Series
from .statistics import holm, t_tail

LEVEL, TOLERATED = 0.01, math.log1p(0.01)  # neutral changes move code in memory, which may cost 1%
PENALTY = 9.0  # of a step, in squared standard errors: low, because proposed steps are tested
HALF_INTERVAL = 1.96  # standard errors in half a 95% interval


@dataclass(frozen=True)
class Step:
    """A change of speed at a commit, from there on.

    Attributes:
        commit: full hash.
        log_ratio: log of the new time over the previous one; positive means slower.
        low, high: 95% interval of `log_ratio`.
        p: adjusted for the possible positions and, by :func:`judged`, for the tests.
    """

    commit: str
    log_ratio: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Judged:
    """Conclusions about a series: its steps, oldest first, and whether it is slower at the end than at the root.

    `end` holds the time at the end relative to the root, with the p of the verdict; its commit is the last one.
    """

    series: Series
    steps: Sequence[Step]
    verdict: str
    end: Step


@dataclass(frozen=True)
class Fit:
    """Numbers of a series to be tested: the root, which is exact, then every commit that has pairs of its own.

    `values` are log-ratios. Their errors have this `covariance`, and `freedom` degrees of freedom. `points` are the
    commits without the root.
    """

    points: Sequence[Point]
    values: npt.NDArray[np.float64]
    covariance: npt.NDArray[np.float64]
    freedom: int

    def level(self, start: int, end: int) -> npt.NDArray[np.float64]:
        """Return the weights of the mean over a segment; a segment that includes the root uses the root alone."""
        weights: npt.NDArray[np.float64] = np.zeros(len(self.values))
        if start == 0:
            weights[0] = 1.0
        else:
            weights[start:end] = 1 / np.diag(self.covariance)[start:end]
        weights /= weights.sum()
        return weights

    def change(self, weights: npt.NDArray[np.float64]) -> tuple[float, float]:
        """Return a weighted sum of the values, and its standard error."""
        return float(weights @ self.values), math.sqrt(float(weights @ self.covariance @ weights))

    def p_of(self, change: float, error: float) -> float:
        """Return the one-sided p-value: the probability of a change at least this large if the speed is the same."""
        return t_tail(change / error, self.freedom) if error else 1.0


def fit_of(series: Series) -> Fit:
    """Return the numbers of a series, without commits that have the same files as an earlier one."""
    seen: dict[frozenset[tuple[str, str]], Point] = {}
    for point in series.points:
        if point.pairs:
            seen.setdefault(frozenset(point.pairs), point)
    points = list(seen.values())
    values = np.array([0.0, *(point.log_ratio for point in points)])
    return Fit(points, values, series.covariance(points), series.freedom)


def proposed_starts(fit: Fit) -> list[int]:
    """Return where the segments of the best piecewise constant fit begin, without the first, which is at the root.

    Dynamic programming over the end of the last segment: each fit is the best fit before it plus one segment.
    """
    values = fit.values[1:]
    weights = 1 / np.diag(fit.covariance)[1:]
    zeroth, first, second = (np.concatenate([[0.0], np.cumsum(weights * values**power)]) for power in range(3))
    best: list[tuple[float, list[int]]] = []
    for end in range(len(fit.values)):
        fits = [(float(second[end]), list[int]())]  # no step yet
        for start, (cost, starts) in enumerate(best):
            total, mean = zeroth[end] - zeroth[start], first[end] - first[start]
            residual = second[end] - second[start] - mean**2 / total
            fits.append((cost + PENALTY + float(residual), [*starts, start + 1]))
        best.append(min(fits))
    return best[-1][1]


def significant_steps(fit: Fit, starts: Sequence[int]) -> list[Step]:
    """Return the steps that remain after removing those that could be chance or are too small to matter.

    The least certain step is removed first; the segments on its two sides are then merged.
    """
    starts = list(starts)
    while starts:
        bounds = [0, *starts, len(fit.values)]
        steps = []
        for before, start, end in zip(bounds, bounds[1:], bounds[2:]):
            change, error = fit.change(fit.level(start, end) - fit.level(before, start))
            p = min(1.0, 2 * len(fit.points) * fit.p_of(abs(change), error))
            half = HALF_INTERVAL * error
            steps.append(Step(fit.points[start - 1].commit, change, change - half, change + half, p))
        rejected = [n for n, step in enumerate(steps) if step.p > LEVEL or abs(step.log_ratio) <= TOLERATED]
        if not rejected:
            return steps
        del starts[max(rejected, key=lambda n: steps[n].p)]
    return []


def change_at_end(series: Series, fit: Fit, steps: Sequence[Step]) -> Step:
    """Return a series' time after its last step relative to the root, with the p of a slowdown beyond 1%.

    If it is faster, p is that of a speed-up beyond 1%.
    """
    last = series.points[-1].commit
    commits = [point.commit for point in fit.points]
    start = 1 + commits.index(steps[-1].commit) if steps else 1
    if not commits:
        return Step(last, 0.0, 0.0, 0.0, 1.0)
    change, error = fit.change(fit.level(start, len(fit.values)))
    half = HALF_INTERVAL * error
    return Step(last, change, change - half, change + half, fit.p_of(abs(change) - TOLERATED, error))


def judged(series: Sequence[Series], cases: int | None = None) -> list[Judged]:
    """Return the conclusions about all series.

    `cases` is the number of tests for which p-values are adjusted, at least the number of series.
    """
    fits = [fit_of(one) for one in series]
    steps = [significant_steps(fit, proposed_starts(fit)) if fit.points else [] for fit in fits]
    others = [1.0] * max(0, (cases or len(series)) - len(series))
    adjusted = iter(holm([*(step.p for of_case in steps for step in of_case), *([1.0] * steps.count([])), *others]))
    significant = []
    for of_case in steps:
        kept = [replace(step, p=p) for step, p in zip(of_case, adjusted)]
        significant.append([step for step in kept if step.p <= LEVEL])
    ends = [change_at_end(one, fit, of_case) for one, fit, of_case in zip(series, fits, significant)]
    p_values = holm([*(end.p for end in ends), *others])
    conclusions = []
    for one, of_case, end, p in zip(series, significant, ends, p_values):
        direction = "slower" if end.log_ratio > 0 else "faster"
        conclusions.append(Judged(one, of_case, direction if p <= LEVEL else "ok", replace(end, p=p)))
    return conclusions
