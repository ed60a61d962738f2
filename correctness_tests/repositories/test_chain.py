"""Ratios across releases: logarithms add, and so do the squares of their errors."""

import math

import numpy as np
import pytest

from rlgauge.chain import MEDIAN_ERROR, MIN_STD, STD_PER_MAD, series, std_of

from .entries import commit, entry, order, over, pairs, unchanged


def test_ratios_multiply_from_release_to_release():
    fixed = [0.0] * 6
    entries = [
        entry(1, 0, [x + 0.1 for x in fixed]),
        entry(2, 1, [x + 0.2 for x in fixed]),  # the second release is measured against the first
        entry(3, 2, [x + 0.4 for x in fixed]),
    ]
    (found,) = series(entries, order(3))
    assert found.root == commit(0)
    assert [point.log_ratio for point in found.points] == pytest.approx([0.1, 0.3, 0.7], abs=1e-5)


def test_intervals_and_variances_add_along_the_chain():
    entries = [entry(1, 0, pairs(0.1, seed=1)), entry(2, 1, pairs(0.2, n=6, seed=2)), entry(3, 1, pairs(0.2, seed=3))]
    (found,) = series(entries, order(3))
    first, second, third = found.points
    own = entries[1].middle - entries[1].interval[0]
    link = entries[0].middle - entries[0].interval[0]
    assert second.log_ratio - second.low == pytest.approx(math.hypot(own, link))
    variance = (MEDIAN_ERROR * found.std) ** 2
    shared = variance / 12
    wanted = [
        [0, 0, 0, 0],
        [0, shared, shared, shared],
        [0, shared, variance / 6 + shared, shared],
        [0, shared, shared, variance / 12 + shared],
    ]
    np.testing.assert_allclose(found.covariance([first, second, third]), wanted)


def test_covariance_is_that_of_simulated_medians():
    rng = np.random.default_rng(0)
    entries = [entry(k, 0, rng.normal(0, 0.03, 12).tolist()) for k in range(1, 400)]
    (found,) = series(entries, order(399))
    predicted = math.sqrt(found.covariance(found.points[:1])[1, 1])
    assert predicted == pytest.approx(np.std([point.log_ratio for point in found.points]), rel=0.15)


def test_an_unchanged_commit_has_the_error_of_the_commit_with_the_same_files():
    entries = [entry(1, 0, pairs(0.1)), unchanged(2, 0, 1, pairs(0.1)), unchanged(3, 1, 1)]
    (found,) = series(entries, order(3))
    first, like_it, like_the_anchor = found.points
    assert first.pairs == like_it.pairs == like_the_anchor.pairs == {(commit(1), commit(0)): 12}
    assert like_the_anchor.log_ratio == pytest.approx(first.log_ratio, abs=1e-5)


def test_only_the_newest_version_of_a_case_counts():
    entries = [entry(1, 0, pairs(0.5)), entry(1, 0, pairs(0.1), version="2"), entry(2, 0, pairs(0.1), version="2")]
    (found,) = series(entries, order(2))
    assert found.version == "2"
    assert len(found.points) == 2
    assert found.points[0].log_ratio < 0.2


def test_commits_of_other_branches_and_missing_tests_are_left_out():
    entries = [*over([0.0, 0.1]), entry(9, 0, pairs(0.9)), entry(3, 0)]
    (found,) = series(entries, order(3))
    assert [point.commit for point in found.points] == [commit(1), commit(2)]
    assert series(entries, []) == []


def test_only_the_newest_unconnected_series_counts():
    entries = [entry(1, 0, pairs(0.5)), entry(3, 2, pairs(0.1)), entry(4, 2, pairs(0.1))]
    (found,) = series(entries, order(4))
    assert found.root == commit(2)
    assert [point.commit for point in found.points] == [commit(3), commit(4)]


def test_circular_anchors_terminate():
    entries = [entry(1, 2, pairs(0.1)), entry(2, 1, pairs(0.1))]
    assert len(series(entries, order(2))) == 1


def test_the_last_measurement_of_a_commit_counts():
    measured = [(1, 0, 1.5), (1, 0, 1.1), (2, 1, 2.0), (3, 0, 4.0), (3, 1, 3.0)]
    entries = [entry(number, anchor, [math.log(ratio)]) for number, anchor, ratio in measured]
    (found,) = series(entries, order(3))
    assert [math.exp(point.log_ratio) for point in found.points] == pytest.approx([1.1, 2.2, 3.3])
    assert [point.anchor for point in found.points] == [commit(0), commit(1), commit(1)]


def test_spread_is_robust_and_has_a_floor():
    alone = [entry(1, 0, [0.0, 0.1, 0.3])]
    assert std_of(alone) == (pytest.approx(STD_PER_MAD * math.sqrt(1.5) * 0.1), 2)
    two = [*alone, entry(2, 0, [1.0, 1.2]), entry(3, 0, [5.0])]  # a single pair has no spread
    assert std_of(two) == (pytest.approx(STD_PER_MAD * math.sqrt(2) * 0.1), 3)
    assert std_of([entry(1, 0, [0.1, 0.1001])]) == (MIN_STD, 1)
    assert std_of([entry(1, 0, [0.1])]) == (2 * MIN_STD, 1)
