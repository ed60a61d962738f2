"""What both sides returned on the same inputs, written to disk and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from perf_tests.suite.case import leaves


def save(path: Path, answer: Any) -> None:
    """Write the arrays of an answer."""
    np.savez(path, *leaves(answer))


def same(first: Path, second: Path, tolerance: float) -> bool:
    """Tell whether two answers have the same arrays, up to a difference relative to the largest value of each."""
    with np.load(first, allow_pickle=False) as a, np.load(second, allow_pickle=False) as b:
        return a.files == b.files and all(close(a[name], b[name], tolerance) for name in a.files)


def close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Tell whether arrays have one shape and, where they are floating point, values near each other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not np.issubdtype(a.dtype, np.inexact):
        return bool(np.array_equal(a, b))
    scale = np.max(np.abs(a), initial=0.0, where=np.isfinite(a))
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True))
