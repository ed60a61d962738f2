"""Compares what both sides returned on the same inputs, in the parent; a worker writes it, see :mod:`.answer_files`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .answer_files import UNSAID

KINDS = "biufcUSMm"  # of dtypes: numbers, text and times


class AnswerError(Exception):
    """A file holds no whole answer; the message says which and why."""


class Answer(NamedTuple):
    """What one side returned.

    Attributes:
        structure: of containers and objects, in which arrays are numbered.
        arrays: in their order.
    """

    structure: Any
    arrays: list[np.ndarray[Any, Any]]


def read(path: Path) -> Answer:
    """Return an answer; nothing in its file is run or unpickled.

    Args:
        path: of the file.

    Raises:
        AnswerError: it is not there, cut short, or not what a worker writes.
    """
    try:
        data = path.read_bytes()
        start = data.index(b"\n") + 1
        header = json.loads(data[:start])
        if len(data) - start != header["size"]:
            raise ValueError(f"{len(data) - start} bytes of arrays, wanted {header['size']}")
        return Answer(header["structure"], [array(data, start, **found) for found in header["arrays"]])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise AnswerError(f"{path.name} holds no whole answer: {type(error).__name__}: {error}") from error


def array(data: bytes, start: int, *, dtype: str, shape: list[int], offset: int) -> np.ndarray[Any, Any]:
    """Return an array of a file, without a copy.

    Args:
        data: of the whole file.
        start: where the bytes of arrays start.
        dtype: as NumPy writes it.
        shape: of the array.
        offset: of its bytes, from the start.
    """
    kind = np.dtype(dtype)
    if kind.kind not in KINDS:
        raise ValueError(f"dtype {dtype!r}, wanted one of numbers, text or times")
    if offset < 0:
        raise ValueError(f"offset {offset}, wanted 0 or more")
    return np.ndarray(shape, kind, data, start + offset)


def same(first: Path, second: Path, tolerance: float) -> bool:
    """Return whether two answers are the same: one structure, and arrays that are near each other.

    Args:
        first: file of one answer.
        second: file of the other.
        tolerance: largest difference, as a part of the largest value of each array.

    Raises:
        AnswerError: a file holds no whole answer.
    """
    a, b = read(first), read(second)
    if not alike(a.structure, b.structure):
        return False
    if len(a.arrays) != len(b.arrays):  # of what nothing is said, one side may say more
        return True
    return all(close(x, y, tolerance) for x, y in zip(a.arrays, b.arrays, strict=True))


def alike(first: Any, second: Any) -> bool:
    """Return whether two structures are the same, but for parts of which nothing is said.

    Args:
        first: of one answer.
        second: of the other.
    """
    if UNSAID in (first, second):
        return True
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(alike, first, second))
    return bool(first == second)


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
