"""Descriptions of test parameters, which show whether an id means the same in every process.

An id such as ``test_x[case0]`` names a position. If the parameters come from a set, each process may have another value
at that position, and a comparison by id would compare different work.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

PLAIN = (type(None), type(Ellipsis), bool, int, float, complex, str, bytes)
MAX_DEPTH, MAX_ITEMS, MAX_PARTS = 6, 1000, 20_000  # nesting levels, items of one container, parts of one parameter
MAX_LENGTH, SHOWN = 200, 60  # characters of a description, and of its part shown in error messages

Described = Mapping[str, Sequence[Any]]  # parameter name -> its description, and whether it is plain data


class Describer:
    """Describes a value without its address, its hash or a custom ``repr``, and without running its code.

    Args:
        hidden: texts that differ between the sides, such as a side's directory.

    Attributes:
        plain: whether the value consists only of Python's own data types, so that two descriptions differ only if the
            values do. The description of any other object is incomplete, and may differ although nothing relevant does.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.plain, self.parts = hidden, True, 0

    def describe(self, value: Any, depth: int = 0) -> str:
        """Return the description of a value, or of a part of it at this depth."""
        kind, self.parts = type(value), self.parts + 1
        if self.parts > MAX_PARTS:
            raise ValueError("too large to describe")
        if depth > MAX_DEPTH:
            return "..."
        if kind in PLAIN:
            return self.without_hidden(repr(value))
        if issubclass(kind, enum.Enum):
            return f"{kind.__qualname__}.{value.name}"
        if kind in (list, tuple):
            items = self.joined(value[:MAX_ITEMS], depth) + f", {len(value)} items" * (len(value) > MAX_ITEMS)
            return f"[{items}]" if kind is list else f"({items})"
        if kind in (set, frozenset):
            return f"{{{', '.join(sorted(self.describe(item, depth + 1) for item in value))}}}"
        if kind is dict:
            return self.describe_dict(value, depth)
        self.plain = False
        return self.describe_object(value, kind, depth)

    def describe_object(self, value: Any, kind: type, depth: int) -> str:
        """Describe a value that is not plain data by its type and contents."""
        if issubclass(kind, type | types.ModuleType):
            return f"{kind.__name__} {getattr(value, '__qualname__', value.__name__)}"
        if kind is types.FunctionType:
            variables = [cell.cell_contents for cell in value.__closure__ or () if has_value(cell)]
            variables += [value.__defaults__, value.__kwdefaults__]
            return f"{value.__qualname__} {hash_of_code(value.__code__)} {self.joined(variables, depth)}"
        if kind is types.MethodType:
            return f"{self.describe(value.__func__, depth + 1)} of {self.describe(value.__self__, depth + 1)}"
        if kind is types.BuiltinFunctionType:
            return f"{kind.__name__} {value.__qualname__}"
        if issubclass(kind, functools.partial):
            return f"partial({self.joined([value.func, value.args, value.keywords], depth)})"
        if (numpy := sys.modules.get("numpy")) and issubclass(kind, numpy.ndarray | numpy.generic):
            array = numpy.asarray(value)
            data = b"" if array.dtype.hasobject else array.flat[:MAX_ITEMS].tobytes()
            return f"{kind.__name__} {array.dtype} {array.shape} {short_hash(data)}"
        if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
            return f"{kind.__qualname__} {self.without_hidden(without_address(value))}"
        if issubclass(kind, tuple):  # a named tuple
            return f"{kind.__qualname__}({self.joined(value, depth)})"
        return kind.__qualname__ + self.describe_dict(attributes(value, kind), depth)

    def joined(self, values: Iterable[Any], depth: int) -> str:
        """Join the descriptions of the parts of a value at this depth."""
        return ", ".join(self.describe(value, depth + 1) for value in values)

    def describe_dict(self, items: Mapping[Any, Any], depth: int) -> str:
        """Describe a dict independently of its order."""
        pairs = (f"{self.describe(key, depth + 1)}: {self.describe(value, depth + 1)}" for key, value in items.items())
        return f"{{{', '.join(sorted(pairs))}}}"

    def without_hidden(self, text: str) -> str:
        """Replace the texts that differ between the sides."""
        for part in self.hidden:
            text = text.replace(part, "...")
        return text


def describe_parameters(params: Mapping[str, Any], hidden: Sequence[str] = ()) -> dict[str, tuple[str, bool]]:
    """Return, for each parameter of a test, its description and whether it is plain data."""
    descriptions = {}
    for name, value in params.items():
        describer = Describer(hidden)
        try:
            text = describer.describe(value)
        except Exception:  # the repr of a user object may raise anything; such a value is not compared
            continue
        if len(text) > MAX_LENGTH:
            text = f"{text[:SHOWN]}... {short_hash(text.encode(errors='replace'))}"
        descriptions[name] = text, describer.plain
    return descriptions


def mismatches(known: MutableMapping[str, Described], found: Mapping[str, Described]) -> dict[str, str]:
    """Return the reason for each id whose meaning differs from before; add unknown ids to `known`.

    Plain data must be equal. Descriptions of other objects are too vague for that: they count only if a value has moved
    from one id of a test function to another, and then all ids of that function are reported.

    Args:
        known: descriptions of each id's parameters in the process that collected it first.
        found: descriptions in another process.
    """
    values: dict[tuple[str, str], dict[str, str]] = {}
    for identity, params in known.items():
        for name, (text, _) in params.items():
            values.setdefault((function_of(identity), name), {})[identity] = text
    reasons: dict[str, str] = {}
    for identity, params in found.items():
        before = known.setdefault(identity, params)
        for name, (now, plain) in params.items():
            was, was_plain = before.get(name, (now, plain))
            if was == now:
                continue
            same_test = values[function_of(identity), name]
            reason = f"parameter {name} of {identity} differs between processes: {was[:SHOWN]} and {now[:SHOWN]}"
            if now in same_test.values():  # their order is arbitrary
                hint = "sort the values of parametrize, name them with ids=..., or seed those that are random"
                reasons |= dict.fromkeys(same_test, f"{reason}; {hint}")
            elif plain and was_plain:
                hint = "if it is random, seed it; if base and head read it from a file, add the file to benchmarks"
                reasons[identity] = f"{reason}; {hint} in [tool.rlgauge]"
    return reasons


def function_of(identity: str) -> str:
    """Return the id of a test without its parameters."""
    return identity.partition("[")[0]


def attributes(value: Any, kind: type) -> dict[str, Any]:
    """Return an object's attributes without running its code, as ``getattr`` might."""
    slots = {
        name: member
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    }
    found = {}
    for name, member in slots.items():
        try:
            found[name] = member.__get__(value)
        except AttributeError:  # it has no value
            continue
    try:
        return {**found, **object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return found


def without_address(value: Any) -> str:
    """Return the ``repr`` of a standard-library object; empty if it contains an address."""
    text = repr(value)
    return "" if " at 0x" in text else text


def hash_of_code(code: types.CodeType) -> str:
    """Return a hash of a function's instructions, names and constants, independent of its location."""
    constants = [
        hash_of_code(constant) if isinstance(constant, types.CodeType) else Describer().describe(constant)
        for constant in code.co_consts
    ]
    return short_hash(repr((code.co_code, code.co_names, constants)).encode(errors="replace"))


def has_value(cell: types.CellType) -> bool:
    """Return whether a closure variable has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def short_hash(data: bytes) -> str:
    """Return the first 12 hex digits of the SHA-256 hash."""
    return hashlib.sha256(data).hexdigest()[:12]
