"""Answers of both sides are the same where arrays, shapes, dtypes and, within the tolerance, values are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlgauge.answers import close, same, save

TOLERANCE = 1e-3
DTYPES = st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))  # with NaN and inf
TREES = st.recursive(
    ARRAYS,
    lambda tree: st.lists(tree, max_size=3) | st.tuples(tree, tree) | st.dictionaries(st.text("abc"), tree, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("answers")


def kept_same(folder, first, second, tolerance=TOLERANCE):
    save(folder / "base.npz", first)
    save(folder / "head.npz", second)
    return same(folder / "base.npz", folder / "head.npz", tolerance)


def reordered(tree):
    """Copy a tree with its dicts built in the opposite order."""
    if isinstance(tree, dict):
        return {name: reordered(value) for name, value in reversed(tree.items())}
    if isinstance(tree, list | tuple):
        return type(tree)(reordered(value) for value in tree)
    return tree.copy()


@given(TREES, st.sampled_from([0.0, TOLERANCE]))
def test_an_answer_is_the_same_as_its_copy_in_another_order_of_names(folder, tree, tolerance):
    assert kept_same(folder, tree, reordered(tree), tolerance)


def answer(**changed):
    """Make an answer of every kind of array."""
    made = {
        "obs": np.array([[1, -2], [4, 0.5]], np.float32),
        "rest": (np.array([1.0, np.nan, np.inf, -np.inf]), [np.arange(5), np.array([True, False])]),
        "none": np.zeros((0, 3), np.float32),
        "steps": 7,
    }
    return made | changed


def with_rest(floats=(1.0, np.nan, np.inf, -np.inf), integers=(0, 1, 2, 3, 4), flags=(True, False)):
    return {"rest": (np.array(floats), [np.array(integers), np.array(flags)])}


OTHERS = {
    "a value": {"obs": np.array([[1, -2], [4, 0.6]], np.float32)},
    "a value of another sign": {"obs": np.array([[1, 2], [4, 0.5]], np.float32)},
    "rows exchanged": {"obs": np.array([[4, 0.5], [1, -2]], np.float32)},
    "a shape": {"obs": np.array([1, -2, 4, 0.5], np.float32)},
    "a shape that would broadcast": {"none": np.zeros((0, 1), np.float32)},
    "a dtype of floats": {"obs": np.array([[1, -2], [4, 0.5]], np.float64)},
    "a dtype of nothing": {"none": np.zeros((0, 3), np.float64)},
    "an integer off by one": with_rest(integers=(0, 1, 2, 3, 5)),
    "an integer become a float": {"steps": 7.0},
    "a scalar off by one": {"steps": 8},
    "a flag": with_rest(flags=(True, True)),
    "a NaN become a number": with_rest(floats=(1.0, 0.0, np.inf, -np.inf)),
    "a number become a NaN": with_rest(floats=(np.nan, np.nan, np.inf, -np.inf)),
    "an infinity of another sign": with_rest(floats=(1.0, np.nan, np.inf, np.inf)),
    "an infinity become a number": with_rest(floats=(1.0, np.nan, 1e300, -np.inf)),
    "a number become an infinity": with_rest(floats=(np.inf, np.nan, np.inf, -np.inf)),
    "one array more": {"steps": (7, 7)},
    "one array less": {"steps": ()},
}


@pytest.mark.parametrize("changed", OTHERS.values(), ids=OTHERS.keys())
def test_another_answer_is_not_the_same(folder, changed):
    assert kept_same(folder, answer(), answer())
    assert not kept_same(folder, answer(), answer(**changed))
    assert not kept_same(folder, answer(**changed), answer())


def test_names_decide_which_arrays_are_compared(folder):
    assert kept_same(folder, {"a": 1, "b": 2.5}, {"b": 2.5, "a": 1})
    assert not kept_same(folder, {"a": 1, "b": 2}, {"a": 2, "b": 1})


def test_each_of_more_than_ten_arrays_counts(folder):
    values = [np.array(k) for k in range(12)]
    assert kept_same(folder, values, values)
    for where in range(12):
        assert not kept_same(folder, values, [*values[:where], np.array(-1), *values[where + 1 :]])


@given(st.integers(0, 4), st.integers(-1, 1).filter(bool), st.sampled_from([np.uint8, np.int32, np.int64]))
def test_an_integer_off_by_one_is_another_answer_at_any_tolerance(folder, where, by, dtype):
    first = np.full(5, 100, dtype)
    second = first.copy()
    second[where] = 100 + by
    assert not kept_same(folder, first, second, tolerance=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [1e-6, -1.0, 1e6])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_float_may_differ_by_the_tolerance_times_the_largest_value(folder, dtype, largest, sign):
    first = np.array([largest, largest / 100, 0, np.nan, np.inf], dtype)
    for where in range(3):
        near, far = first.copy(), first.copy()
        near[where] += sign * 0.9 * TOLERANCE * largest
        far[where] += sign * 1.1 * TOLERANCE * largest
        assert kept_same(folder, first, near)
        assert not kept_same(folder, first, far)


def test_each_array_has_its_own_scale(folder):
    large, small = np.array([1e6]), np.array([1.0])
    assert kept_same(folder, [large, small], [large + 900, small])
    assert not kept_same(folder, [large, small], [large, small + 2e-3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_without_a_tolerance_floats_are_equal_bit_by_bit(dtype):
    one = np.ones(3, dtype)
    assert close(one, one.copy(), 0.0)
    assert not close(one, np.nextafter(one.real, 2).astype(dtype), 0.0)


@pytest.mark.parametrize("shape", [0, (0, 3), (2, 0)])
def test_arrays_of_no_size_are_the_same_where_shape_and_dtype_are(folder, shape):
    nothing = np.zeros(shape, np.float32)
    assert kept_same(folder, nothing, nothing.copy(), 0.0)
    assert not kept_same(folder, nothing, nothing.astype(np.int32))
    assert not kept_same(folder, nothing, nothing[..., None])


def test_answers_without_arrays_are_the_same(folder):
    assert kept_same(folder, {}, {})
    assert not kept_same(folder, {}, [])
    assert not kept_same(folder, [], [np.zeros(0)])
