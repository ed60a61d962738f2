"""Serialize the return values of benchmarks in a worker, with the standard library and, if imported, NumPy.

A file has one line of JSON, followed by the bytes of all arrays. The JSON holds the structure of the output, and the
dtype, shape and offset of each array in it. Values that cannot be described, such as objects that compare by identity,
are marked as unknown. The parent reads the file in :mod:`.outputs`.
"""

from __future__ import annotations

import array
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import itertools
import json
import operator
import os
import pathlib
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "?"
COMPARED_BY_REPR = (
    str, bytes, range, slice, type(None), type(Ellipsis), decimal.Decimal, fractions.Fraction, datetime.date,
    datetime.time, datetime.timedelta, pathlib.PurePath, uuid.UUID, type,
)  # fmt: skip
MAX_DEPTH, MAX_PARTS, MAX_LENGTH = 50, 200_000, 1000  # nested containers, total parts, and characters of a part
MAX_BYTES = 1 << 28  # of all arrays; the gate would need several times as much to compare them
LAZY = "h5py", "ibis", "zarr"  # libraries whose values are read or computed when they are converted
ORDER = "<" if sys.byteorder == "little" else ">"
INTEGERS, FLOATS = "q", "d"  # typecodes of 64-bit arrays
DTYPES = {INTEGERS: f"{ORDER}i8", FLOATS: f"{ORDER}f8"}
DUMPS, OPEN = json.dumps, functools.partial[Any](open, mode="wb")  # a test may replace both functions


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of an output.

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


class Serializer:
    """Describes the structure of an output as JSON data, and collects its numbers and arrays in order of appearance.

    `hidden` lists texts that differ between the sides, such as the side's directory.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.arrays, self.parts, self.size = hidden, list[Array](), 0, 0
        self.parents: list[int] = []  # ids of the containers around the current value

    def structure(self, value: Any) -> Any:
        """Return the structure of a value; unknown if it cannot be described."""
        self.parts += 1
        if id(value) in self.parents or len(self.parents) > MAX_DEPTH or self.parts > MAX_PARTS:
            return UNKNOWN
        self.parents.append(id(value))
        try:
            return self.structure_of_type(value)
        except Exception:  # user objects may raise anything
            return UNKNOWN
        finally:
            self.parents.pop()

    def structure_of_type(self, value: Any) -> Any:
        """Return the structure of a value that does not contain itself."""
        numpy = sys.modules.get("numpy")
        if isinstance(value, bool) or (numpy and isinstance(value, numpy.bool_)):
            return repr(bool(value))
        if isinstance(value, enum.Enum):
            return str(value)
        if isinstance(value, int) and abs(value) >= 2**63:
            return self.shortened(hex(value))
        if isinstance(value, int | float):
            return [self.added(from_numbers([value], INTEGERS if isinstance(value, int) else FLOATS, ())).kind]
        if numpy and isinstance(value, numpy.number):
            return [self.added(from_numpy(numpy.asarray(value))).kind]
        if isinstance(value, complex):
            return [class_name(value), self.structure([value.real, value.imag])]
        if isinstance(value, bytes | bytearray | memoryview) and len(value) > MAX_LENGTH:
            return [class_name(value), self.digest(bytes(value))]
        if isinstance(value, COMPARED_BY_REPR):
            return [class_name(value), self.shortened(repr(value))]
        if is_lazy(value):
            return UNKNOWN
        if isinstance(value, list | tuple) and (found := from_sequence(value)) is not None:
            return [class_name(value), self.added(found).kind, len(value)]
        if isinstance(value, Mapping):
            items = [(self.shortened(repr(key)), item) for key, item in value.items()]
            items.sort(key=operator.itemgetter(0))
            return [class_name(value), *([key, self.structure(item)] for key, item in items)]
        if isinstance(value, set | frozenset):
            return [class_name(value), *sorted(self.shortened(repr(item)) for item in value)]
        if isinstance(value, Sequence):
            return [class_name(value), len(value), *map(self.structure, itertools.islice(value, MAX_PARTS))]
        if hasattr(value, "__array__") and (structure := self.structure_of_array(value, numpy)) is not None:
            return structure
        attributes = compared_attributes(value)
        return UNKNOWN if attributes is None else [class_name(value), self.structure(attributes)]

    def structure_of_array(self, value: Any, numpy: Any) -> Any:
        """Return the structure of an array, of NumPy or convertible to NumPy; None if it is not an array.

        `numpy` is the module, or None if this process has not imported it; the array's ``tolist()`` is then described.
        """
        if not numpy:
            return [class_name(value), str(value.dtype), list(value.shape), self.structure(value.tolist())]
        if isinstance(value, numpy.ma.MaskedArray):  # masked values are arbitrary
            mask, data = numpy.ma.getmaskarray(value), numpy.array(value.data)
            data[mask] = numpy.zeros((), data.dtype)
            return [class_name(value), self.structure(data), self.structure(mask)]
        if isinstance(value, numpy.ndarray) and value.dtype.names:
            return [class_name(value), *([name, self.structure(value[name])] for name in value.dtype.names)]
        if (found := to_numpy(value, numpy)) is None:
            return None
        if found.dtype.kind == "O":  # a table of numbers and texts, for example
            return [class_name(value), list(found.shape), *map(self.structure, found.ravel()[:MAX_PARTS].tolist())]
        self.added(from_numpy(found))
        return ["array", str(found.dtype), list(found.shape)]

    def added(self, new: Array) -> Array:
        """Append an array to those that will be written, and return it; raise ValueError if they are too large."""
        if self.size + new.size > MAX_BYTES:
            raise ValueError("too large to be compared")
        self.size += new.size
        self.arrays.append(new)
        return new

    def digest(self, data: bytes) -> str:
        """Return a hash of bytes without hidden parts."""
        for part in self.hidden:
            data = data.replace(part.encode(), b"...")
        return hashlib.sha256(data).hexdigest()

    def shortened(self, text: str) -> str:
        """Return a text without hidden parts; long texts are replaced by their hash."""
        for part in self.hidden:
            text = text.replace(part, "...")
        return text if len(text) <= MAX_LENGTH else hashlib.sha256(text.encode(errors="replace")).hexdigest()


def from_numbers(values: Sequence[Any], typecode: str, shape: tuple[int, ...]) -> Array:
    """Return Python numbers as an array of 64-bit numbers; `typecode` is ``INTEGERS`` or ``FLOATS``."""
    data = array.array(typecode, values)
    return Array(DTYPES[typecode], shape, len(data) * data.itemsize, data)


def from_numpy(data: Any) -> Array:
    """Wrap a NumPy array."""
    return Array(data.dtype.str, data.shape, data.nbytes, data)


def from_sequence(values: Sequence[Any]) -> Array | None:
    """Return a sequence as one array if it holds only floats, or only integers that fit in 64 bits; else None."""
    types = set(map(type, values))
    if types == {float}:
        return from_numbers(values, FLOATS, (len(values),))
    if types == {int} and all(abs(value) < 2**63 for value in values):
        return from_numbers(values, INTEGERS, (len(values),))
    return None


def class_name(value: Any) -> str:
    """Return the qualified name of an object's class."""
    return type(value).__qualname__


def to_numpy(value: Any, numpy: Any) -> Any:
    """Convert a value to a NumPy array of numbers, text, times or objects; None if that is not possible."""
    torch = sys.modules.get("torch")
    if torch and isinstance(value, torch.Tensor):  # NumPy rejects one with a gradient or on another device
        value = value.detach().cpu()
    try:
        try:
            found = numpy.asarray(value)
        except TypeError:  # a tensor of bfloat16
            found = numpy.asarray(value.float())
        if found.dtype.kind == "V" and found.dtype.names is None:  # a type that NumPy lacks, such as bfloat16
            found = found.astype(numpy.float32)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        return None
    return found if found.dtype.kind in "biufcUSMmO" else None


def is_lazy(value: Any) -> bool:
    """Return whether a value would be computed, or read from a store, in order to be compared."""
    library = type(value).__module__.partition(".")[0]
    if library in LAZY:
        return True
    if library == "xarray" and not getattr(getattr(value, "variable", None), "_in_memory", True):
        return True
    graph = getattr(value, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def compared_attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object whose class defines equality; None if it compares by identity."""
    equal: Any = type(value).__eq__
    if equal is object.__eq__:
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    slots = [name for kind in type(value).__mro__ for name in slots_of(kind)]
    in_slots = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **in_slots} if slots or hasattr(value, "__dict__") else None


def slots_of(kind: type) -> list[str]:
    """Return the attributes in a class's ``__slots__``."""
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def save(path: str | os.PathLike[str], output: Any, hidden: Sequence[str] = ()) -> None:
    """Write an output to a file; `hidden` lists texts that differ between the sides."""
    serializer, arrays, size = Serializer(hidden), list[dict[str, Any]](), 0
    structure = serializer.structure(output)
    for each in serializer.arrays:
        arrays.append({"dtype": each.dtype, "shape": each.shape, "offset": size})
        size += each.size
    with OPEN(path) as file:
        file.write(DUMPS({"structure": structure, "arrays": arrays, "size": size}).encode() + b"\n")
        for each in serializer.arrays:
            file.write(each.data.tobytes())
