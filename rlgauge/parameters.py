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
DEEPEST, MOST_ITEMS, MOST_PARTS = 6, 1000, 20_000  # nesting levels, items of one container, parts of one parameter
LONGEST, SHOWN = 200, 60  # characters of a description, and of its part shown in error messages

Described = Mapping[str, Sequence[Any]]  # parameter name -> its description, and whether it is plain data


class Description:
    """Describes a value without its address, its hash or its own ``repr``, and without running its code.

    Args:
        hidden: texts that differ between the sides, such as a side's directory.

    Attributes:
        plain: whether the value consists only of Python's own data types, so that two descriptions differ only if the
            values do. The description of any other object is incomplete, and may differ although nothing relevant does.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self.hidden, self.plain, self.parts = hidden, True, 0

    def of(self, value: Any, depth: int = 0) -> str:
        """Return the description of a value, or of a part of it at this depth."""
        kind, self.parts = type(value), self.parts + 1
        if self.parts > MOST_PARTS:
            raise ValueError("too large to describe")
        if depth > DEEPEST:
            return "..."
        if kind in PLAIN:
            return self.without_hidden(repr(value))
        if issubclass(kind, enum.Enum):
            return f"{kind.__qualname__}.{value.name}"
        if kind in (list, tuple):
            inside = self.each(value[:MOST_ITEMS], depth) + f", {len(value)} items" * (len(value) > MOST_ITEMS)
            return f"[{inside}]" if kind is list else f"({inside})"
        if kind in (set, frozenset):
            return f"{{{', '.join(sorted(self.of(each, depth + 1) for each in value))}}}"
        if kind is dict:
            return self.of_items(value, depth)
        self.plain = False
        return self.of_object(value, kind, depth)

    def of_object(self, value: Any, kind: type, depth: int) -> str:
        """Describe a value that is not plain data by its type and contents."""
        if issubclass(kind, type | types.ModuleType):
            return f"{kind.__name__} {getattr(value, '__qualname__', value.__name__)}"
        if kind is types.FunctionType:
            held = [cell.cell_contents for cell in value.__closure__ or () if filled(cell)]
            held += [value.__defaults__, value.__kwdefaults__]
            return f"{value.__qualname__} {of_code(value.__code__)} {self.each(held, depth)}"
        if kind is types.MethodType:
            return f"{self.of(value.__func__, depth + 1)} of {self.of(value.__self__, depth + 1)}"
        if kind is types.BuiltinFunctionType:
            return f"{kind.__name__} {value.__qualname__}"
        if issubclass(kind, functools.partial):
            return f"partial({self.each([value.func, value.args, value.keywords], depth)})"
        if (numpy := sys.modules.get("numpy")) and issubclass(kind, numpy.ndarray | numpy.generic):
            array = numpy.asarray(value)
            data = b"" if array.dtype.hasobject else array.flat[:MOST_ITEMS].tobytes()
            return f"{kind.__name__} {array.dtype} {array.shape} {short_hash(data)}"
        if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
            return f"{kind.__qualname__} {self.without_hidden(without_address(value))}"
        if issubclass(kind, tuple):  # a named tuple
            return f"{kind.__qualname__}({self.each(value, depth)})"
        return kind.__qualname__ + self.of_items(state(value, kind), depth)

    def each(self, values: Iterable[Any], depth: int) -> str:
        """Join the descriptions of the parts of a value at this depth."""
        return ", ".join(self.of(value, depth + 1) for value in values)

    def of_items(self, items: Mapping[Any, Any], depth: int) -> str:
        """Describe a dict independently of its order."""
        pairs = (f"{self.of(key, depth + 1)}: {self.of(value, depth + 1)}" for key, value in items.items())
        return f"{{{', '.join(sorted(pairs))}}}"

    def without_hidden(self, text: str) -> str:
        """Replace the texts that differ between the sides."""
        for words in self.hidden:
            text = text.replace(words, "...")
        return text


def described(params: Mapping[str, Any], hidden: Sequence[str] = ()) -> dict[str, tuple[str, bool]]:
    """Return, for each parameter of a test, its description and whether it is plain data."""
    found = {}
    for name, value in params.items():
        made = Description(hidden)
        try:
            text = made.of(value)
        except Exception:  # the repr of a user object may raise anything; such a value is not compared
            continue
        if len(text) > LONGEST:
            text = f"{text[:SHOWN]}... {short_hash(text.encode(errors='replace'))}"
        found[name] = text, made.plain
    return found


def differing(known: MutableMapping[str, Described], found: Mapping[str, Described]) -> dict[str, str]:
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
    why: dict[str, str] = {}
    for identity, params in found.items():
        before = known.setdefault(identity, params)
        for name, (now, plain) in params.items():
            was, was_plain = before.get(name, (now, plain))
            if was == now:
                continue
            same_test = values[function_of(identity), name]
            words = (
                f"parameter {name} of {identity} differs between processes: {was[:SHOWN]} and {now[:SHOWN]}; sort the "
                "values of parametrize, or name them with ids=..."
            )
            if now in same_test.values():  # their order is arbitrary
                why |= dict.fromkeys(same_test, words)
            elif plain and was_plain:
                why[identity] = words
    return why


def function_of(identity: str) -> str:
    """Return the id of a test without its parameters."""
    return identity.partition("[")[0]


def state(value: Any, kind: type) -> dict[str, Any]:
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


def of_code(code: types.CodeType) -> str:
    """Return a hash of a function's instructions, names and constants, independent of its location."""
    consts = [of_code(each) if isinstance(each, types.CodeType) else Description().of(each) for each in code.co_consts]
    return short_hash(repr((code.co_code, code.co_names, consts)).encode(errors="replace"))


def filled(cell: types.CellType) -> bool:
    """Return whether a closure variable has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def short_hash(data: bytes) -> str:
    """Return the first 12 hex digits of the SHA-256 hash."""
    return hashlib.sha256(data).hexdigest()[:12]
