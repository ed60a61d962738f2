"""Statistics of pairs: log-ratio of a pair, test of a confirmation, adjusted p-values, intervals.

Standard library only, because the gate runs in environments it does not control. The tests compare results with
those of SciPy where it has the same function.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from statistics import correlation, median

FEWEST = 6  # fewest values for a 95% interval of the median
Block = tuple[float, float]  # seconds of base, of head


def log_ratio(blocks: Sequence[Block]) -> float:
    """Return the log-ratio of a pair: the median over its blocks of ``log(second / first)``."""
    return median(log_ratios(blocks))


def log_ratios(blocks: Sequence[Block]) -> list[float]:
    """Return ``log(second / first)`` of each block."""
    return [math.log(second / first) for first, second in blocks]


def error_of_median(values: Sequence[float]) -> float:
    """Return the approximate standard error of a median, from the median absolute deviation (MAD).

    Equation: ``1.2533 * 1.4826 * MAD / sqrt(n)``, as for a normal distribution; 0 for fewer than two values.
    """
    if len(values) < 2:
        return 0.0
    middle = median(values)
    return 1.2533 * 1.4826 * median(abs(value - middle) for value in values) / math.sqrt(len(values))


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; ties share their mean rank."""
    ordered = sorted(values)
    last = {value: place for place, value in enumerate(ordered, 1)}
    first = {value: len(ordered) - place for place, value in enumerate(reversed(ordered))}
    return [(first[value] + last[value]) / 2 for value in values]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 if one of the sequences is constant."""
    if len(set(first)) == 1 or len(set(second)) == 1:
        return 0.0
    return correlation(ranks(first), ranks(second))


def signed_rank(values: Sequence[float], tolerated: float) -> float:
    """Return the one-sided p of Wilcoxon's signed-rank test of H0: the slowdown is at most the tolerated one.

    The p-value is exact without ties. Values equal to the tolerated slowdown are dropped; ties share a mean rank, and a
    rank sum that is not an integer is rounded down, which increases p.

    Args:
        values: log-ratio of each pair.
        tolerated: tolerated slowdown, as a fraction.
    """
    limit = math.log1p(tolerated)
    beyond = [value - limit for value in values if value != limit]
    positive = sum(rank for rank, value in zip(ranks([*map(abs, beyond)]), beyond, strict=True) if value > 0)
    return subset_counts(len(beyond))[math.floor(positive)] / (1 << len(beyond))


def similar_excess_p(values: Sequence[float], tolerated: float) -> float:
    """Bound the one-sided p of values that exceed the tolerated slowdown by similar amounts; 1 if none do.

    k is the number of leading values that all exceed the tolerated slowdown, none by twice as much as another. H0: each
    value is at most the tolerated slowdown plus the difference of two independent samples from one arbitrary
    distribution. At most a quarter of such differences lie in any [a, 2a): the pairs of samples at such distances form
    a triangle-free graph, which has at most n^2 / 4 edges (Mantel). The smallest of the k is positive with probability
    at most 1/2, and may be any of them: ``p <= k / 2 / 4^(k - 1)``. If k + 1 values are similar, the first k are too,
    so checking after each value needs no correction.

    Args:
        values: log-ratio of each pair, in the order of measurement.
        tolerated: tolerated slowdown, as a fraction.
    """
    limit, least, most, count = math.log1p(tolerated), math.inf, 0.0, 0
    for value in values:
        least, most = min(least, value - limit), max(most, value - limit)
        if least <= 0 or most >= 2 * least:
            break
        count += 1
    return math.ldexp(count, 1 - 2 * count) if count else 1.0


@functools.cache
def subset_counts(count: int) -> list[int]:
    """Return, for each sum, the number of subsets of the ranks 1 to ``count`` that reach at least that sum."""
    subsets = [1]
    for rank in range(1, count + 1):
        subsets = [a + b for a, b in zip(subsets + [0] * rank, [0] * rank + subsets, strict=True)]
    return list(itertools.accumulate(reversed(subsets)))[::-1]


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values, in the given order, adjusted by Holm's step-down method."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = largest
    return adjusted


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the distribution-free 95% interval of the median; the extremes for one to five values."""
    count, ordered = len(values), sorted(map(float, values))
    if count < FEWEST:
        return ordered[0], ordered[-1]
    # Each value is below the median with probability 1/2. The interval from the rank-th smallest to the rank-th largest
    # value contains the median if between rank and count - rank of the values are below it. Widen the interval until
    # this holds for 95% of the 2^count outcomes.
    rank = count // 2
    outcomes = math.comb(count, rank)
    inside = outcomes if count % 2 == 0 else 2 * outcomes
    while 20 * inside < 19 * 2**count:
        outcomes = outcomes * rank // (count - rank + 1)
        rank -= 1
        inside += 2 * outcomes
    return ordered[rank - 1], ordered[-rank]


def t_tail(t: float, freedom: int) -> float:
    """Return the probability that Student's t exceeds a value, but never less than the precision of a float.

    Equation: Abramowitz and Stegun 26.7.3 and 26.7.4, a finite series in the cosine of ``atan(t / sqrt(freedom))``, for
    integer degrees of freedom.
    """
    angle, odd = math.atan2(t, math.sqrt(freedom)), freedom % 2
    term, total = math.cos(angle) ** odd, 0.0
    for number in range(1, freedom // 2 + 1):
        total += term
        term *= (2 * number - 1 + odd) / (2 * number + odd) * math.cos(angle) ** 2
    inside = math.sin(angle) * total  # probability of a value between -t and t
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return max(math.ulp(1.0), (1 - inside) / 2)


def rate_interval(found: int, count: int) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) 95% interval of the rate ``found / count``; `count` is at least 1."""
    return lower_rate(found, count, 0.025), 1 - lower_rate(count - found, count, 0.025)


def lower_rate(found: int, count: int, tail: float) -> float:
    """Return the rate at which at least ``found`` of ``count`` occur with probability ``tail``, by bisection."""
    if not found:
        return 0.0
    ways = math.log(math.comb(count, found))

    def probability(rate: float) -> float:
        """Return the probability of at least ``found`` at a rate below ``found / count``, where the terms decrease."""
        terms, odds = [math.exp(ways + found * math.log(rate) + (count - found) * math.log1p(-rate))], rate / (1 - rate)
        for successes in range(found, count):
            terms.append(terms[-1] * odds * (count - successes) / (successes + 1))
            if terms[-1] < 1e-20 * terms[0]:
                break
        return math.fsum(terms)

    low, high = 0.0, found / count
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if probability(middle) < tail else (low, middle)
    return high
