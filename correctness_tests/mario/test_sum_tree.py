"""Sum trees against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_impls.mario.sum_tree import BLOCK, GREATEST, LiteralSumTree, SumTree

TREES = (SumTree, LiteralSumTree)
CAPACITIES = st.one_of(st.integers(1, 40), st.sampled_from([BLOCK * BLOCK, 300]))
WHOLE = st.integers(0, 6).map(float)  # sums of these are exact in any order
ANY = st.one_of(st.just(0.0), st.floats(1e-300, GREATEST), st.floats(1e-3, 10.0))


@st.composite
def capacities_and_calls(draw, values):
    """Draw a capacity, and the arguments of some calls of ``set``: leaves, with repeats, and their values."""
    capacity = draw(CAPACITIES)
    pairs = st.lists(st.tuples(st.integers(0, capacity - 1), values), min_size=1, max_size=30)
    return capacity, [tuple(map(np.array, zip(*pair))) for pair in draw(st.lists(pairs, min_size=1, max_size=4))]


def literal(capacity, calls):
    values = [0.0] * capacity
    for leaves, new in calls:
        for leaf, value in zip(leaves.tolist(), new.tolist()):
            values[leaf] = value
    return values


def trees(capacity, calls):
    built = [tree(capacity) for tree in TREES]
    for tree in built:
        for call in calls:
            tree.set(*call)
    return built


def leaf_of(values, mass):
    """Return the leaf in whose share of the sum `mass` falls; the whole sum falls in the last leaf with a priority."""
    before = 0.0
    for leaf, value in enumerate(values):
        if before <= mass < before + value:
            return leaf
        before += value
    return max(leaf for leaf, value in enumerate(values) if value)


@settings(max_examples=70)
@given(capacities_and_calls(WHOLE), st.lists(st.floats(0, 1), max_size=20))
def test_exact_sums_are_found_as_by_a_loop(given_calls, shares):
    capacity, calls = given_calls
    values = literal(capacity, calls)
    total = sum(values)
    for tree in trees(capacity, calls):
        assert tree.total == total
        got = tree.get(np.arange(capacity))
        assert (got.dtype, got.tolist()) == (np.float64, values)
        if total:
            borders = np.cumsum(values)
            masses = np.concatenate([[0.0], borders, np.nextafter(borders, 0), np.array(shares) * total])
            found = tree.find(masses)
            assert found.dtype == np.int64
            assert found.tolist() == [leaf_of(values, mass) for mass in masses.tolist()]


@given(capacities_and_calls(ANY), st.lists(st.floats(0, 1), max_size=20))
def test_leaves_found_have_a_priority_and_contain_the_mass_within_rounding(given_calls, shares):
    capacity, calls = given_calls
    values = np.array(literal(capacity, calls))
    for tree in trees(capacity, calls):
        assert tree.total == pytest.approx(values.sum(), rel=1e-12)
        if tree.total:
            borders = np.minimum(np.cumsum(values), tree.total)
            around = [np.nextafter(borders, 0), borders, np.minimum(np.nextafter(borders, np.inf), tree.total)]
            masses = np.concatenate([[0.0, tree.total], *around, np.minimum(np.array(shares) * tree.total, tree.total)])
            found = tree.find(masses)
            assert (values[found] > 0).all()
            ends, slack = np.cumsum(values)[found], 1e-12 * tree.total
            assert (ends - values[found] - slack <= masses).all()
            assert (masses <= ends + slack).all()


@pytest.mark.parametrize("tree", TREES)
def test_the_whole_sum_finds_the_last_leaf_despite_rounding(tree):
    rng, built = np.random.default_rng(0), tree(BLOCK)
    for _ in range(50):
        values = rng.random(BLOCK)
        values[0] = 0  # the leaf that a failed search would return
        built.set(np.arange(BLOCK), values)
        assert built.find(np.array([built.total, np.nextafter(built.total, 0), 0.0])).tolist() == [BLOCK - 1] * 2 + [1]


@pytest.mark.parametrize("tree", TREES)
def test_sums_do_not_drift(tree):
    rng, used, fresh = np.random.default_rng(0), tree(300), tree(300)
    for size in 10.0 ** rng.uniform(-9, 9, 300):
        used.set(rng.integers(300, size=20), size * rng.random(20))
    fresh.set(np.arange(300), used.get(np.arange(300)))
    assert used.total == fresh.total
    used.set(np.arange(300), np.zeros(300))
    assert used.total == 0
    used.set(np.array([7]), np.array([1e-9]))
    assert used.total == 1e-9
    assert used.find(np.array([0.0, 1e-9])).tolist() == [7, 7]
