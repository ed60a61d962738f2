"""What both sides returned on the same inputs, written to disk and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from perf_tests.suite.case import Variant
from perf_tests.suite.prepared import leaves

# Largest difference of answers that are the same, as a part of an array's largest value. Base and head compute on one
# machine by one backend, so that the order of sums alone may differ: of 107 pairs of forms of an op on one backend the
# most was 5e-6. In bfloat16 and int8 another order can turn a rounding, of 4e-3 and 8e-3.
TOLERANCES = {"float32": 3e-5, "bfloat16": 1e-2, "float16": 1e-2, "int8": 1e-2}


def tolerance(variant: Variant) -> float:
    """Return by how much a case's answers may differ.

    Args:
        variant: the benchmark.
    """
    return TOLERANCES[variant.precision]


def save(path: Path, answer: Any) -> None:
    """Write the arrays of an answer; those in a type that NumPy does not have itself, as bfloat16, in float32.

    Args:
        path: of the ``.npz`` file.
        answer: arrays in nested lists, tuples and dicts.
    """
    arrays = [leaf for leaf in leaves(answer) if leaf.dtype != object]  # nothing, where an op returns nothing
    np.savez(path, *(leaf if leaf.dtype.kind in "biufc" else leaf.astype(np.float32) for leaf in arrays))


def same(first: Path, second: Path, tolerance: float) -> bool:
    """Return whether two answers have the same arrays, up to a difference relative to the largest value of each.

    Args:
        first: file of one answer.
        second: file of the other.
        tolerance: largest difference, as a part of the largest value of each array.
    """
    with np.load(first, allow_pickle=False) as a, np.load(second, allow_pickle=False) as b:
        return a.files == b.files and all(close(a[name], b[name], tolerance) for name in a.files)


def close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Return whether arrays have one shape and, where they are floating point, values near each other.

    Args:
        a: one array.
        b: the other, of any shape and type.
        tolerance: largest difference, as a part of the largest value of each array.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not np.issubdtype(a.dtype, np.inexact):
        return bool(np.array_equal(a, b))
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
    scale = max(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)) for x in (a, b))
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True))
