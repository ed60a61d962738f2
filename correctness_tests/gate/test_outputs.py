"""Comparison of outputs: shapes and dtypes must be equal, and values within the tolerance."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rlgauge import outputs
from rlgauge.output_files import save
from rlgauge.outputs import OutputError, same

TOLERANCE = 1e-3
DTYPES = st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))  # including NaN and inf
TREES = st.recursive(
    ARRAYS,
    lambda tree: st.lists(tree, max_size=3) | st.tuples(tree, tree) | st.dictionaries(st.text("abc"), tree, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("outputs")


def saved_same(folder, first, second, tolerance=TOLERANCE):
    save(folder / "base.output", first)
    save(folder / "head.output", second)
    return same(folder / "base.output", folder / "head.output", tolerance)


def reordered(tree):
    """Copy a tree, with the keys of its dicts in reverse order."""
    if isinstance(tree, dict):
        return {name: reordered(value) for name, value in reversed(tree.items())}
    if isinstance(tree, list | tuple):
        return type(tree)(reordered(value) for value in tree)
    return tree.copy()


@given(TREES, st.sampled_from([0.0, TOLERANCE]))
def test_an_output_equals_its_copy_with_keys_in_another_order(folder, tree, tolerance):
    assert saved_same(folder, tree, reordered(tree), tolerance)


@given(st.integers(0, 4), st.integers(-1, 1).filter(bool), st.sampled_from([np.uint8, np.int32, np.int64]))
def test_integers_are_compared_exactly_at_any_tolerance(folder, where, by, dtype):
    first = np.full(5, 100, dtype)
    second = first.copy()
    second[where] = 100 + by
    assert not saved_same(folder, first, second, tolerance=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [1e-6, -1.0, 1e6])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_tolerance_is_relative_to_the_largest_value(folder, dtype, largest, sign):
    first = np.array([largest, largest / 100, 0, np.nan, np.inf], dtype)
    for where in range(3):
        near, far = first.copy(), first.copy()
        near[where] += sign * 0.9 * TOLERANCE * largest
        far[where] += sign * 1.1 * TOLERANCE * largest
        assert saved_same(folder, first, near)
        assert not saved_same(folder, first, far)


def test_complex_numbers_have_a_tolerance(folder):
    for first, near, far in ((1 + 2j, 1 + 2.0001j, 1 + 2.1j), ([1j, 2.0], [1.0001j, 2.0], [1.1j, 2.0])):
        assert saved_same(folder, first, near)
        assert not saved_same(folder, first, far)


@dataclasses.dataclass
class Found:
    name: str
    seconds: float = dataclasses.field(default=0.0, compare=False)


class Point:
    """An object that is compared by its attributes, which are in ``__slots__``."""

    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    __hash__ = None


class Place(Point):
    """A point whose slots are those of its base class."""

    __slots__ = ()


PAIRS = [("count", np.int32), ("share", np.float64)]


class Unlike:
    """An object that equals only itself."""

    def __init__(self, held):
        self.held = held


class Table:
    """A table of numbers and texts, like a pandas DataFrame."""

    def __init__(self, *row):
        self.row = row

    def __array__(self, dtype=None, copy=None):
        return np.array([self.row], object)

    def __eq__(self, other):
        return np.asarray(self) == np.asarray(other)

    __hash__ = None


# tables that are computed or read from a store when they are converted
Computed = type("Array", (Table,), {"__dask_graph__": lambda self: {}})
Stored = type("Array", (Table,), {"__module__": "zarr.core.array"})
Opened = type("DataArray", (Table,), {"__module__": "xarray.core", "variable": SimpleNamespace(_in_memory=False)})


class Broken(Sequence):
    """A sequence whose items cannot be read."""

    def __len__(self):
        return 2

    def __getitem__(self, place):
        raise OSError("gone")


ITSELF = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, False), (True, 1), (1, 1.0), (1, 2), ("a", "b"), ("1", 1), (b"a", "a"), (None, 0),
     (2**70, 2**70 + 1), (1j, 2j), ({1, 2}, {1, 3}), ({1}, frozenset({1})), ([1, 2], (1, 2)), ([1, 2], [1, 2, 2]),
     ([1, 2], [2, 1]), ({"a": 1}, {"b": 1}), ({"a": 1, "b": 2}, {"a": 2, "b": 1}), ({1: 0}, {"1": 0}), ({}, []),
     (Found("a"), Found("b")), (SimpleNamespace(held=1), SimpleNamespace(held=2)), (range(3), range(4)),
     (decimal.Decimal(1), decimal.Decimal(2)), (int, float), (datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)),
     ([2**63, 1], [2**63, 2]), (np.array(["a"]), np.array(["b"])), (np.float32(1), np.float64(1)),
     (np.array([1], "datetime64[D]"), np.array([2], "datetime64[D]")),
     (np.array([1, "NaT"], "datetime64[D]"), np.array([1, 2], "datetime64[D]")), ("x" * 2000, "x" * 1999 + "y"),
     ([1, Unlike(1), 2], [1, Unlike(1), 3]), (np.zeros((0, 3)), np.zeros((2, 0))),
     (np.float32([1, -2]), np.float32([1, 2])), (np.float32([1, 2]), np.float32([2, 1])), (np.ones((2, 2)), np.ones(4)),
     (np.zeros((0, 3)), np.zeros((0, 1))), (np.ones(3, np.float32), np.ones(3)), (np.arange(5), np.arange(5.0)),
     (np.array([1.0, np.nan]), np.array([1.0, 0.0])), (np.array([1.0, np.inf]), np.array([1.0, -np.inf])),
     (np.array([1.0, np.inf]), np.array([np.inf, np.inf])),
     (np.array([1, "a"], object), np.array([1, "b"], object)),
     (np.array([(1, 2.5)], PAIRS), np.array([(1, 2.6)], PAIRS)),
     (np.ma.array([1.5, 2.5], mask=[0, 1]), np.ma.array([1.5, 2.5], mask=[1, 0])),
     (Point(1, 2), Point(1, 3)), (Place(1, 2), Place(1, 3)), (Table(1.5, "a"), Table(1.5, "b"))],
)  # fmt: skip
def test_different_values_are_different_outputs(folder, one, other):
    assert saved_same(folder, one, copy.deepcopy(one), 1e-9)
    assert not saved_same(folder, one, other, 1e-9)
    assert not saved_same(folder, other, one, 1e-9)


@pytest.mark.parametrize(
    ("one", "other"),
    [(Unlike(1), Unlike(2)), (Unlike(1), 3), (Found("a", 1.0), Found("a", 2.0)), (True, np.bool_(True)),
     ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({0, 8}, {8, 0}), (Broken(), [1, 2]), (ITSELF, [["more"]]),
     *((kind(1, "a"), kind(2, "a")) for kind in (Computed, Stored, Opened)),
     (np.zeros(2**28 + 1, np.uint8), np.ones(2**28 + 1, np.uint8)),
     (np.ma.array([1.5, 2.5], mask=[0, 1]), np.ma.array([1.5, 9.0], mask=[0, 1]))],
)  # fmt: skip
def test_values_that_cannot_be_compared_count_as_the_same(folder, one, other):
    assert saved_same(folder, one, other)
    assert saved_same(folder, other, one)


def test_saving_an_output_leaves_its_masked_values_as_they_are(folder):
    output = np.ma.array([1.5, 2.5], mask=[0, 1])
    save(folder / "base.output", output)
    assert output.data.tolist() == [1.5, 2.5]


def test_the_folder_of_each_side_does_not_count(folder):
    def output(path):
        texts = [f"{path}/a", f"{path}/" * 1000, f"{path}/".encode() * 1000]
        return [*texts, {f"{path}/b": 1}, {f"{path}/c"}, pathlib.Path(path, "d")]

    save(folder / "base.output", output("/sides/base"), ["/sides/base"])
    save(folder / "head.output", output("/sides/head"), ["/none", "/sides/head"])
    assert same(folder / "base.output", folder / "head.output", 0.0)
    save(folder / "head.output", output("/sides/head"), ["/none"])
    assert not same(folder / "base.output", folder / "head.output", 0.0)


def nested(depth, end):
    return [nested(depth - 1, end), "x"] if depth else end


def test_parts_nested_deeper_than_fifty_are_not_compared(folder):
    assert not saved_same(folder, nested(50, "a"), nested(50, "b"))
    assert saved_same(folder, nested(51, "a"), nested(51, "b"))


def test_torch_tensors_are_compared_as_numbers(folder):
    torch = pytest.importorskip("torch")
    for made in (torch.ones(3, requires_grad=True), torch.ones(3, dtype=torch.bfloat16)):
        assert saved_same(folder, made, made.detach().clone())
        assert not saved_same(folder, made, made + 1)
        assert not saved_same(folder, made, made[:2])


WITHOUT_NUMPY = """
import pathlib, sys

sys.modules["numpy"] = None  # importing it fails
from rlgauge.output_files import save


class Tensor:
    def __init__(self, *rows):
        self.dtype, self.shape, self.rows = "float32", (len(rows), len(rows[0])), rows

    def __array__(self):
        raise ImportError("no NumPy here")

    def tolist(self):
        return [*map(list, self.rows)]


for name, x in (("base", 2.5), ("near", 2.501), ("head", 3.5)):
    output = {"a": [1, 2, 2**62], "b": (1.5, x), "c": [True, "x", 2**70], "d": Tensor((1.0, x), (3.0, 4.0)), "e": 7}
    save(pathlib.Path(sys.argv[1], f"{name}.output"), output)
"""


def test_outputs_can_be_saved_without_numpy(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT_NUMPY, str(tmp_path)], check=True, timeout=60)
    base, near, head = (tmp_path / f"{name}.output" for name in ("base", "near", "head"))
    assert same(base, near, TOLERANCE)
    assert not same(base, near, TOLERANCE / 10)
    assert not same(base, head, TOLERANCE)
    assert [array.tolist() for array in outputs.read(base).arrays[:2]] == [[1, 2, 2**62], [1.5, 2.5]]


def header(dtype="<f8", shape=(2,), offset=0, size=16):
    arrays = [{"dtype": dtype, "shape": shape, "offset": offset}]
    return json.dumps({"structure": ["list", "f", 2], "arrays": arrays, "size": size}).encode() + b"\n"


WHOLE = header() + bytes(16)
BROKEN = {
    "empty": b"", "no JSON": b"{]\n", "no text": b"\xff\xfe\n", "no header": b"[1]\n", "cut short": WHOLE[:-1],
    "too long": WHOLE + b"x", "an unknown dtype": header("<x8") + bytes(16), "objects": header("|O") + bytes(16),
    "another place": header(offset=8) + bytes(16), "a negative shape": header(shape=(-2,)) + bytes(16),
    "too much": header(shape=(2**62, 2**62)) + bytes(16), "too deep": b"[" * 100_000 + b"\n",
}  # fmt: skip


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_output_file_is_an_error(folder, data):
    (folder / "base.output").write_bytes(WHOLE)
    (folder / "head.output").write_bytes(data)
    assert same(folder / "base.output", folder / "base.output", 0.0)
    with pytest.raises(OutputError, match=r"^head\.output is not a complete output file: \w+: "):
        same(folder / "base.output", folder / "head.output", 0.0)
