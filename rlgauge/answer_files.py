"""Writes what a benchmark returned to a file, in a worker: with the standard library, and NumPy where it is there.

An answer is described by its structure, a text in which arrays are numbered, and by these arrays. Of what cannot be
described, as an object that compares by identity, nothing is said. The file is a line of JSON, with the structure and
each array's dtype, shape and place, and then the bytes of the arrays. The parent reads it, see :mod:`.answers`.
"""

from __future__ import annotations

import array
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

UNSAID = "?"
AS_WRITTEN = (
    str, bytes, complex, range, slice, type(None), type(Ellipsis), decimal.Decimal, fractions.Fraction, datetime.date,
    datetime.time, datetime.timedelta, pathlib.PurePath, uuid.UUID, type,
)  # fmt: skip
DEEPEST, MOST, LONGEST = 50, 200_000, 1000  # containers in each other, parts in all, and characters of a part
ORDER = "<" if sys.byteorder == "little" else ">"
INTEGERS, FLOATS = "q", "d"  # typecodes of arrays of 64 bits
DTYPES = {INTEGERS: f"{ORDER}i8", FLOATS: f"{ORDER}f8"}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of an answer.

    Attributes:
        dtype: as NumPy writes it, as in ``<f8``.
        shape: of the array.
        size: in bytes.
        data: has ``tobytes``: an array of the standard library, or of NumPy.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int
    data: Any

    @property
    def kind(self) -> str:
        """NumPy's letter for what it holds."""
        return self.dtype[1]


class Description:
    """The structure of an answer as JSON can hold it, and its numbers and arrays, which are numbered by their order.

    Args:
        hidden: text that is another on each side, as the folder it runs in.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.arrays, self.parts = hidden, list[Array](), 0
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
        numpy = sys.modules.get("numpy")
        if isinstance(answer, bool) or (numpy and isinstance(answer, numpy.bool_)):
            return repr(bool(answer))
        if isinstance(answer, enum.Enum):
            return str(answer)
        if isinstance(answer, int) and abs(answer) >= 2**63:
            return self.written(hex(answer))
        if isinstance(answer, int | float):
            return [self.kept(numbers([answer], INTEGERS if isinstance(answer, int) else FLOATS, ())).kind]
        if numpy and isinstance(answer, numpy.number):
            return [self.kept(of_numpy(numpy.asarray(answer))).kind]
        if isinstance(answer, AS_WRITTEN):
            return [named(answer), self.written(repr(answer))]
        if isinstance(answer, Mapping):
            pairs = sorted(((self.written(repr(key)), value) for key, value in answer.items()), key=first)
            return [named(answer), *([key, self.of(value)] for key, value in pairs)]
        if isinstance(answer, set | frozenset):
            return [named(answer), *sorted(self.written(repr(each)) for each in answer)]
        if isinstance(answer, list | tuple) and (found := row(answer)) is not None:
            return [named(answer), self.kept(found).kind, len(answer)]
        if isinstance(answer, Sequence):
            return [named(answer), *map(self.of, answer)]
        if hasattr(answer, "__array__") and (structure := self.of_array(answer, numpy)) is not None:
            return structure
        held = state(answer)
        return UNSAID if held is None else [named(answer), self.of(held)]

    def of_array(self, answer: Any, numpy: Any) -> Any:
        """Return the structure of an array of NumPy, or of a library that gives one; None for what is none.

        Args:
            answer: any object that may be one.
            numpy: the module, None where this process has not imported it; its place then takes the array's own list.
        """
        if not numpy:
            return [named(answer), str(answer.dtype), list(answer.shape), self.of(answer.tolist())]
        if isinstance(answer, numpy.ma.MaskedArray):  # what is masked may be anything
            mask, data = numpy.ma.getmaskarray(answer), numpy.array(answer.data)
            data[mask] = numpy.zeros((), data.dtype)
            return [named(answer), self.of(data), self.of(mask)]
        if isinstance(answer, numpy.ndarray) and answer.dtype.names:
            return [named(answer), *([name, self.of(answer[name])] for name in answer.dtype.names)]
        if isinstance(answer, numpy.ndarray) and answer.dtype.kind == "O":
            return [named(answer), list(answer.shape), *map(self.of, answer.ravel().tolist())]
        if (found := as_array(answer, numpy)) is None:
            return None
        self.kept(of_numpy(found))
        return ["array", str(found.dtype), list(found.shape)]

    def kept(self, found: Array) -> Array:
        """Keep an array to be written; return it.

        Args:
            found: the array.
        """
        self.arrays.append(found)
        return found

    def written(self, text: str) -> str:
        """Return a text without what is hidden, a long one as its hash.

        Args:
            text: of a part.
        """
        for words in self.hidden:
            text = text.replace(words, "...")
        return text if len(text) <= LONGEST else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def numbers(values: Sequence[Any], typecode: str, shape: tuple[int, ...]) -> Array:
    """Return Python's own numbers as an array of 64-bit numbers.

    Args:
        values: integers or floats.
        typecode: ``INTEGERS`` or ``FLOATS``.
        shape: of the array.
    """
    data = array.array(typecode, values)
    return Array(DTYPES[typecode], shape, len(data) * data.itemsize, data)


def of_numpy(data: Any) -> Array:
    """Return an array of NumPy as it is written.

    Args:
        data: the array.
    """
    return Array(data.dtype.str, data.shape, data.nbytes, data)


def row(values: Sequence[Any]) -> Array | None:
    """Return numbers as one array where they all are integers that fit in, or all floats; None else.

    Args:
        values: a list or tuple of anything.
    """
    kinds = set(map(type, values))
    if kinds == {float}:
        return numbers(values, FLOATS, (len(values),))
    if kinds == {int} and all(abs(value) < 2**63 for value in values):
        return numbers(values, INTEGERS, (len(values),))
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


def as_array(thing: Any, numpy: Any) -> Any:
    """Return an array of numbers, text or times; None for what is none.

    Args:
        thing: an array of NumPy, or of a library that gives one.
        numpy: the module.
    """
    torch = sys.modules.get("torch")
    if torch and isinstance(thing, torch.Tensor):  # it refuses where it needs a gradient, or is on another device
        thing = thing.detach().cpu()
    try:
        try:
            found = numpy.asarray(thing)
        except TypeError:  # a tensor of bfloat16
            found = numpy.asarray(thing.float())
        if found.dtype.kind == "V" and found.dtype.names is None:  # a type that NumPy does not have, as bfloat16
            found = found.astype(numpy.float32)
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
        path: of the file.
        answer: what a benchmark returned.
        hidden: text that is another on each side, as the folder it runs in.
    """
    made, arrays, size = Description(hidden), list[dict[str, Any]](), 0
    structure = made.of(answer)
    for found in made.arrays:
        arrays.append({"dtype": found.dtype, "shape": found.shape, "offset": size})
        size += found.size
    with path.open("wb") as file:
        file.write(json.dumps({"structure": structure, "arrays": arrays, "size": size}).encode() + b"\n")
        for found in made.arrays:
            file.write(found.data.tobytes())
