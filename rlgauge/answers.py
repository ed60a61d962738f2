"""What both sides returned on the same inputs, written to disk and compared.

An answer is described by its structure, a text in which arrays are numbered, and by these arrays. Of what cannot be
described, as an object that compares by identity, nothing is said.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import json
import pathlib
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

STRUCTURE, UNSAID = "structure", "?"
AS_WRITTEN = (
    str, bytes, complex, range, slice, type(None), type(Ellipsis), decimal.Decimal, fractions.Fraction, datetime.date,
    datetime.time, datetime.timedelta, pathlib.PurePath, uuid.UUID, type,
)  # fmt: skip
DEEPEST, MOST, LONGEST = 50, 200_000, 1000  # containers in each other, parts in all, and characters of a part


class Description:
    """The structure of an answer as JSON can hold it, and its numbers and arrays, which are numbered by their order.

    Args:
        hidden: text that is another on each side, as the folder it runs in.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.arrays, self.parts = hidden, list[np.ndarray[Any, Any]](), 0
        self.inside: list[int] = []

    def of(self, answer: Any) -> Any:
        """Return the structure of an answer, or of a part of it; what cannot be described is left unsaid.

        Args:
            answer: numbers, text, arrays, containers of them, and objects that are equal by what they hold.
        """
        self.parts += 1
        if id(answer) in self.inside or len(self.inside) > DEEPEST or self.parts > MOST:
            return UNSAID
        self.inside.append(id(answer))
        try:
            return self.described(answer)
        except Exception:  # of anybody's objects
            return UNSAID
        finally:
            self.inside.pop()

    def described(self, answer: Any) -> Any:
        """Return the same of what is not inside of itself.

        Args:
            answer: any.
        """
        if isinstance(answer, bool | np.bool_):
            return repr(bool(answer))
        if isinstance(answer, enum.Enum):
            return str(answer)
        if isinstance(answer, int) and abs(answer) >= 2**63:
            return self.written(hex(answer))
        if isinstance(answer, int | float | np.number):
            self.arrays.append(np.asarray(answer))
            return [self.arrays[-1].dtype.kind]
        if isinstance(answer, AS_WRITTEN):
            return [named(answer), self.written(repr(answer))]
        if isinstance(answer, Mapping):
            pairs = sorted(((self.written(repr(key)), value) for key, value in answer.items()), key=first)
            return [named(answer), *([key, self.of(value)] for key, value in pairs)]
        if isinstance(answer, set | frozenset):
            return [named(answer), *sorted(self.written(repr(each)) for each in answer)]
        if isinstance(answer, list | tuple) and (array := row(answer)) is not None:
            self.arrays.append(array)
            return [named(answer), array.dtype.kind, len(answer)]
        if isinstance(answer, Sequence):
            return [named(answer), *map(self.of, answer)]
        if isinstance(answer, np.ma.MaskedArray):  # what is masked may be anything
            mask, data = np.ma.getmaskarray(answer), np.array(answer.data)
            data[mask] = np.zeros((), data.dtype)
            return [named(answer), self.of(data), self.of(mask)]
        if isinstance(answer, np.ndarray) and answer.dtype.names:
            return [named(answer), *([name, self.of(answer[name])] for name in answer.dtype.names)]
        if isinstance(answer, np.ndarray) and answer.dtype.kind == "O":
            return [named(answer), list(answer.shape), *map(self.of, answer.ravel().tolist())]
        if (array := as_array(answer)) is not None:
            self.arrays.append(array)
            return ["array", str(array.dtype), list(array.shape)]
        held = state(answer)
        return UNSAID if held is None else [named(answer), self.of(held)]

    def written(self, text: str) -> str:
        """Return a text without what is hidden, a long one as its hash.

        Args:
            text: of a part.
        """
        for words in self.hidden:
            text = text.replace(words, "...")
        return text if len(text) <= LONGEST else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def row(numbers: Sequence[Any]) -> np.ndarray[Any, Any] | None:
    """Return numbers as one array where they all are integers that fit in, or all floats; None else.

    Args:
        numbers: a list or tuple of anything.
    """
    kinds = set(map(type, numbers))
    if kinds == {float} or (kinds == {int} and all(abs(value) < 2**63 for value in numbers)):
        return np.asarray(numbers)
    return None


def first(pair: tuple[str, Any]) -> str:
    """Return the first of two.

    Args:
        pair: of a key and a value.
    """
    return pair[0]


def named(thing: Any) -> str:
    """Return the name of a thing's class.

    Args:
        thing: any.
    """
    return type(thing).__qualname__


def as_array(thing: Any) -> np.ndarray[Any, Any] | None:
    """Return an array of numbers, text or times; None for what is none.

    Args:
        thing: an array of NumPy, or of a library that gives one.
    """
    torch = sys.modules.get("torch")
    if torch and isinstance(thing, torch.Tensor):  # it refuses where it needs a gradient, or is on another device
        thing = thing.detach().cpu()
    if not hasattr(thing, "__array__"):
        return None
    try:
        try:
            found = np.asarray(thing)
        except TypeError:  # a tensor of bfloat16
            found = np.asarray(thing.float())
        if found.dtype.kind == "V" and found.dtype.names is None:  # a type that NumPy does not have, as bfloat16
            found = found.astype(np.float32)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return None
    return found if found.dtype.kind in "biufcUSMm" else None


def state(thing: Any) -> Any:
    """Return what an object holds, where it says when it equals another; None where it does not.

    Args:
        thing: any object.
    """
    equal: Any = type(thing).__eq__
    if equal is object.__eq__:
        return None
    if dataclasses.is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.compare}
    slots = [name for kind in type(thing).__mro__ for name in names_of(kind)]
    held = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return {**getattr(thing, "__dict__", {}), **held} if slots or hasattr(thing, "__dict__") else None


def names_of(kind: type) -> list[str]:
    """Return the attributes that a class has slots for.

    Args:
        kind: the class.
    """
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def save(path: Path, answer: Any, hidden: Sequence[str] = ()) -> None:
    """Write an answer.

    Args:
        path: of the ``.npz`` file.
        answer: what a benchmark returned.
        hidden: text that is another on each side, as the folder it runs in.
    """
    made = Description(hidden)
    structure = json.dumps(made.of(answer))
    told: dict[str, Any] = {STRUCTURE: np.array(structure)}
    np.savez(path, *made.arrays, **told)


def same(first: Path, second: Path, tolerance: float) -> bool:
    """Return whether two answers are the same: one structure, and arrays that are near each other.

    Args:
        first: file of one answer.
        second: file of the other.
        tolerance: largest difference, as a part of the largest value of each array.
    """
    with np.load(first, allow_pickle=False) as a, np.load(second, allow_pickle=False) as b:
        structures = [json.loads(str(found[STRUCTURE])) for found in (a, b)]
        if not alike(*structures):
            return False
        if a.files != b.files:  # of what nothing is said, one side may say more
            return True
        return all(close(a[name], b[name], tolerance) for name in a.files if name != STRUCTURE)


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
