"""Compare the outputs of both sides for the same inputs; workers write them, see :mod:`.output_files`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .output_files import UNKNOWN

if TYPE_CHECKING:
    import numpy as np  # takes a fifth of the start-up time, and is needed only if there are outputs

KINDS = "biufcUSMm"  # kinds of dtypes: numbers, text and times


class OutputError(Exception):
    """A file does not hold a complete output; the message has its name and the reason."""


class Output(NamedTuple):
    """Output of one side: the structure of its containers and objects, and the arrays in it, in order."""

    structure: Any
    arrays: list[np.ndarray[Any, Any]]


def read(path: Path) -> Output:
    """Read an output file, without executing or unpickling anything in it."""
    try:
        data = path.read_bytes()
        start = data.index(b"\n") + 1
        header = json.loads(data[:start])
        if len(data) - start != header["size"]:
            raise ValueError(f"{len(data) - start} bytes of arrays, but the header says {header['size']}")
        return Output(header["structure"], [array(data, start, **entry) for entry in header["arrays"]])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise OutputError(f"{path.name} is not a complete output file: {type(error).__name__}: {error}") from error


def array(data: bytes, start: int, *, dtype: str, shape: list[int], offset: int) -> np.ndarray[Any, Any]:
    """Return an array that shares the memory of `data`, which holds arrays from byte `start` on."""
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind not in KINDS:
        raise ValueError(f"unsupported dtype {dtype!r}")
    if offset < 0:
        raise ValueError(f"negative offset {offset}")
    return np.ndarray(shape, kind, data, start + offset)


def same(first: Path, second: Path, tolerance: float) -> bool:
    """Return whether two output files agree: equal structures, and arrays within the tolerance.

    `tolerance` is a fraction of each array's largest absolute value.
    """
    a, b = read(first), read(second)
    if not equal_structures(a.structure, b.structure):
        return False
    if len(a.arrays) != len(b.arrays):  # an unknown part may have arrays on one side only
        return True
    return all(close(x, y, tolerance) for x, y in zip(a.arrays, b.arrays, strict=True))


def equal_structures(first: Any, second: Any) -> bool:
    """Return whether two structures are equal, except for parts that are unknown in either."""
    if UNKNOWN in (first, second):
        return True
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(equal_structures, first, second))
    return bool(first == second)


def close(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Return whether arrays have the same shape and dtype, and equal values, within the tolerance if inexact."""
    import numpy as np

    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not np.issubdtype(a.dtype, np.inexact):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "mM"))
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
    scale = max(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)) for x in (a, b))
    return bool(np.allclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True))
