"""The statistics of pairs: the number that a pair says, the test of a confirmation, adjusted p-values, an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FEWEST = 6  # values whose median has a 95 % interval
Block = tuple[float, float]  # seconds of base, of head


def log_ratio(blocks: Sequence[Block]) -> float:
    """Return what a pair says: the median over its blocks of ``log(second / first)``.

    Args:
        blocks: seconds of base and of head in each.
    """
    return median(log_ratios(blocks))


def log_ratios(blocks: Sequence[Block]) -> list[float]:
    """Return ``log(second / first)`` of each block.

    Args:
        blocks: seconds of base and of head in each.
    """
    return [math.log(second / first) for first, second in blocks]


def error_of_median(values: Sequence[float]) -> float:
    """Return about the standard error of a median, by the median distance from it; 0 of fewer than two values.

    Equation: ``1.2533 * 1.4826 * MAD / sqrt(n)``, as of a normal distribution.

    Args:
        values: that the median is of.
    """
    if len(values) < 2:
        return 0.0
    middle = median(values)
    return 1.2533 * 1.4826 * median(abs(value - middle) for value in values) / math.sqrt(len(values))


def signed_rank(values: Sequence[float], tolerated: float) -> float:
    """Return the exact one-sided p of Wilcoxon's signed-rank test of H0: the slowdown is at most the tolerated.

    Args:
        values: log-ratio of each pair.
        tolerated: slowdown that is none, as a fraction.
    """
    return float(signed_ranks([values], tolerated)[0])


def signed_ranks(rows: Sequence[Sequence[float]] | npt.NDArray[np.float64], tolerated: float) -> list[float]:
    """Return the p of every row.  f[R, n] -> R values

    Args:
        rows: log-ratios f[R, n], a row for each case.
        tolerated: slowdown that is none, as a fraction.
    """
    import numpy as np
    from scipy.stats import wilcoxon

    beyond = np.asarray(rows, dtype=float) - math.log1p(tolerated)
    found = np.ones(len(beyond))
    nonzero = np.any(beyond != 0, axis=1)  # of nothing but zeros there is no p
    if nonzero.any():
        found[nonzero] = wilcoxon(beyond[nonzero], alternative="greater", method="exact", axis=1).pvalue
    return list(map(float, found))


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down method: none is significant unless all smaller ones are.

    Args:
        p: raw p-values, in any order.
    """
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, distribution-free; of fewer than six values the extremes.

    Args:
        values: one or more numbers.
    """
    from scipy.stats import quantile_test

    if len(values) < FEWEST:
        return min(values), max(values)
    found = quantile_test(values, q=median(values), p=0.5).confidence_interval(0.95)
    return float(found.low), float(found.high)
