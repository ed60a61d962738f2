"""The gate's statistics equal those of SciPy, which the package does not depend on."""

import math
import random

import pytest
from scipy import stats

from rlgauge.statistics import interval, rank_correlation, rate_interval, signed_rank, t_tail

EXACT = {"rel": 1e-12, "abs": 1e-12}
COUNT = 250


def drawn(rng, least):
    """Draw numbers, either continuous or on a coarse grid with many ties and zeros."""
    count, centre = rng.randint(least, 40), rng.choice([0, 0, 0.3])
    values = [rng.gauss(centre, 1) for _ in range(count)]
    return values if rng.random() < 0.5 else [round(value * 3) / 4 for value in values]


def test_signed_rank_equals_scipys():
    rng = random.Random(COUNT)
    for _ in range(COUNT):
        values, tolerated = drawn(rng, 1), rng.choice([0.0, 0.01, 0.5])
        excess = [value - math.log1p(tolerated) for value in values]
        if any(excess):  # SciPy returns no p if all values are zero
            wanted = stats.wilcoxon(excess, alternative="greater", method="exact").pvalue
            assert signed_rank(values, tolerated) == pytest.approx(wanted, **EXACT)
    assert signed_rank([math.log1p(0.01)] * 3, 0.01) == 1


def test_rank_correlation_equals_scipys():
    rng = random.Random(COUNT)
    for _ in range(COUNT):
        second = drawn(rng, 3)
        first = rng.choices(second, k=len(second))
        if len(set(first)) > 1 and len(set(second)) > 1:  # SciPy returns NaN for constant input
            assert rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, **EXACT)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 16, 181])
def test_t_tail_equals_scipys(freedom):
    for value in (-7.0, -1.0, 0.0, 0.3, 2.0, 6.0):
        assert t_tail(value, freedom) == pytest.approx(stats.t.sf(value, freedom), **EXACT)
    assert 0 < t_tail(1e6, 181) < 1e-15


def test_rate_interval_equals_scipys():
    rng = random.Random(COUNT)
    for _ in range(COUNT):
        n = rng.randint(1, rng.choice([10, 300, 3000]))
        found = rng.choice([0, n, rng.randint(0, n), rng.randint(0, min(n, 3))])
        # The beta distribution gives the same interval as binomtest, whose root finder stops at 2e-12.
        low = stats.beta.ppf(0.025, found, n - found + 1) if found else 0.0
        high = stats.beta.ppf(0.975, found + 1, n - found) if found < n else 1.0
        assert rate_interval(found, n) == pytest.approx((low, high), **EXACT)


def test_interval_of_a_median_equals_scipys():
    rng = random.Random(COUNT)
    for _ in range(COUNT):
        values = drawn(rng, 6) * rng.choice([1, 1, 30])
        wanted = stats.quantile_test(values, q=0.0, p=0.5).confidence_interval(0.95)
        assert interval(values) == (wanted.low, wanted.high)
