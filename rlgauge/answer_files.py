"""Serialize the return values of benchmarks in a worker, with the standard library and, if imported, NumPy.

An answer is stored as its structure, in which arrays are numbered, and these arrays. Values that cannot be described,
such as objects that compare by identity, are marked as unknown. The file is one line of JSON, with the structure and
each array's dtype, shape and offset, followed by the bytes of the arrays. The parent reads it in :mod:`.answers`.
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
DEEPEST, MOST, LONGEST = 50, 200_000, 1000  # nested containers, total parts, and characters of a part
ORDER = "<" if sys.byteorder == "little" else ">"
INTEGERS, FLOATS = "q", "d"  # typecodes of 64-bit arrays
DTYPES = {INTEGERS: f"{ORDER}i8", FLOATS: f"{ORDER}f8"}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of an answer.

    Attributes:
        dtype: NumPy's notation, for example ``<f8``.
        shape: shape.
        size: size in bytes.
        data: object with ``tobytes``: an array of the standard library or of NumPy.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int
    data: Any

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind of data."""
        return self.dtype[1]


class Description:
    """The JSON structure of an answer, and its numbers and arrays in order of appearance.

    `hidden` lists texts that differ between the sides, such as the side's directory.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.arrays, self.parts = hidden, list[Array](), 0
        self.inside: list[int] = []

    def of(self, answer: Any) -> Any:
        """Return the structure of an answer or a part of it; unknown if it cannot be described."""
        self.parts += 1
        if id(answer) in self.inside or len(self.inside) > DEEPEST or self.parts > MOST:
            return UNSAID
        self.inside.append(id(answer))
        try:
            return self.described(answer)
        except Exception:  # user objects may raise anything
            return UNSAID
        finally:
            self.inside.pop()

    def described(self, answer: Any) -> Any:
        """Return the structure of a value that does not contain itself."""
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
        """Return the structure of an array, of NumPy or convertible to NumPy; None if it is not an array.

        `numpy` is the module, or None if this process has not imported it; the array's ``tolist()`` is then described.
        """
        if not numpy:
            return [named(answer), str(answer.dtype), list(answer.shape), self.of(answer.tolist())]
        if isinstance(answer, numpy.ma.MaskedArray):  # masked values are arbitrary
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
        """Append an array to those that will be written, and return it."""
        self.arrays.append(found)
        return found

    def written(self, text: str) -> str:
        """Return a text without hidden parts; long texts are replaced by their hash."""
        for words in self.hidden:
            text = text.replace(words, "...")
        return text if len(text) <= LONGEST else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def numbers(values: Sequence[Any], typecode: str, shape: tuple[int, ...]) -> Array:
    """Return Python numbers as an array of 64-bit numbers; `typecode` is ``INTEGERS`` or ``FLOATS``."""
    data = array.array(typecode, values)
    return Array(DTYPES[typecode], shape, len(data) * data.itemsize, data)


def of_numpy(data: Any) -> Array:
    """Wrap a NumPy array."""
    return Array(data.dtype.str, data.shape, data.nbytes, data)


def row(values: Sequence[Any]) -> Array | None:
    """Return a sequence as one array if it holds only floats, or only integers that fit in 64 bits; else None."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return numbers(values, FLOATS, (len(values),))
    if kinds == {int} and all(abs(value) < 2**63 for value in values):
        return numbers(values, INTEGERS, (len(values),))
    return None


def first(pair: tuple[str, Any]) -> str:
    """Return the first element, as a sort key."""
    return pair[0]


def named(thing: Any) -> str:
    """Return the qualified name of an object's class."""
    return type(thing).__qualname__


def as_array(thing: Any, numpy: Any) -> Any:
    """Convert a value to a NumPy array of numbers, text or times; None if that is not possible."""
    torch = sys.modules.get("torch")
    if torch and isinstance(thing, torch.Tensor):  # NumPy rejects one with a gradient or on another device
        thing = thing.detach().cpu()
    try:
        try:
            found = numpy.asarray(thing)
        except TypeError:  # a tensor of bfloat16
            found = numpy.asarray(thing.float())
        if found.dtype.kind == "V" and found.dtype.names is None:  # a type that NumPy lacks, such as bfloat16
            found = found.astype(numpy.float32)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return None
    return found if found.dtype.kind in "biufcUSMm" else None


def state(thing: Any) -> Any:
    """Return the data of an object whose class defines equality; None if it compares by identity."""
    equal: Any = type(thing).__eq__
    if equal is object.__eq__:
        return None
    if dataclasses.is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.compare}
    slots = [name for kind in type(thing).__mro__ for name in names_of(kind)]
    held = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return {**getattr(thing, "__dict__", {}), **held} if slots or hasattr(thing, "__dict__") else None


def names_of(kind: type) -> list[str]:
    """Return the attributes in a class's ``__slots__``."""
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def save(path: Path, answer: Any, hidden: Sequence[str] = ()) -> None:
    """Write an answer to a file; `hidden` lists texts that differ between the sides."""
    made, arrays, size = Description(hidden), list[dict[str, Any]](), 0
    structure = made.of(answer)
    for found in made.arrays:
        arrays.append({"dtype": found.dtype, "shape": found.shape, "offset": size})
        size += found.size
    with path.open("wb") as file:
        file.write(json.dumps({"structure": structure, "arrays": arrays, "size": size}).encode() + b"\n")
        for found in made.arrays:
            file.write(found.data.tobytes())
