"""Build dataclasses from JSON and TOML values: check every field, and name the one that is wrong."""

from __future__ import annotations

import functools
import math
import reprlib
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

DESCRIPTIONS = {
    str: "text in quotes",
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    list: "a list",
    dict: "a table of keys and values",
}
type_hints = functools.cache(get_type_hints)


class FieldError(ValueError):
    """A value that is invalid for a field.

    Attributes:
        path: keys and indices that lead to the field.
        problem: the error, and how to fix it.
    """

    def __init__(self, path: Sequence[str], problem: str) -> None:
        super().__init__(f"{'.'.join(path)}: {problem}" if path else problem)
        self.path, self.problem = path, problem


def parse(kind: Any, value: Any, path: tuple[str, ...] = ()) -> Any:
    """Convert a JSON or TOML value to the type of an annotation.

    Args:
        kind: ``Any``, ``str``, ``bool``, ``int``, ``float``, a dataclass or ``Literal``; a list, tuple or dictionary of
            these, or one of them ``| None``.
        value: value from a parser.
        path: keys and indices that lead to it.

    Raises:
        FieldError: the value has another type, is not finite, or has unknown or missing keys.
    """
    container, inside = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if container is Literal:
        if value not in inside:
            raise FieldError(path, f"unknown value {reprlib.repr(value)} (choose from {', '.join(inside)})")
        return value
    if container is UnionType:
        return None if value is None else parse(inside[0], value, path)
    if container is list:
        return [parse(inside[0], item, (*path, str(n))) for n, item in enumerate(of_type(list, value, path))]
    if container is tuple:
        if len(of_type(list, value, path)) != len(inside):
            raise FieldError(path, f"the number of values is {len(value)}; give {len(inside)}")
        return tuple(parse(inside[n], item, (*path, str(n))) for n, item in enumerate(value))
    if container is dict:
        return {name: parse(inside[1], item, (*path, name)) for name, item in of_type(dict, value, path).items()}
    return parse_fields(kind, value, path) if is_dataclass(kind) else of_type(kind, value, path)


def of_type(kind: type, value: Any, path: tuple[str, ...]) -> Any:
    """Return a value of a plain type unchanged; an integer is also a float, but a boolean is not a number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float:
        fits = number and abs(value) <= sys.float_info.max
    else:
        fits = isinstance(value, kind) and (number or kind is not int)
    if not fits:
        fraction = as_fraction(value) if kind is float else ""
        hint = f"; write {fraction}" if fraction else ""
        raise FieldError(path, f"{reprlib.repr(value)} is not {DESCRIPTIONS[kind]}{hint}")
    return value


def as_fraction(value: Any) -> str:
    """Return the fraction that equals a percentage such as ``"2%"``; empty for any other value."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        return f"{float(text.removesuffix('%')) / 100:g}" if text.endswith("%") else ""
    except ValueError:
        return ""


def parse_fields(kind: Any, value: Any, path: tuple[str, ...]) -> Any:
    """Build a dataclass from a mapping; errors of its ``__post_init__`` get `path` as a prefix.

    A field's metadata may give its ``older`` name, or its value if ``absent``.
    """
    known = {field.name: field for field in fields(kind)}
    older = {field.metadata.get("older"): name for name, field in known.items()}
    given = {name: field.metadata["absent"] for name, field in known.items() if "absent" in field.metadata}
    given |= {older.get(name, name): item for name, item in of_type(dict, value, path).items()}
    for name in [name for name in given if name not in known]:
        near = get_close_matches(name, known, 1)
        better = f"; did you mean {near[0]!r}?" if near else f" (choose from {', '.join(known)})"
        raise FieldError((*path, name), f"unknown key{better}")
    for name, field in known.items():
        if name not in given and field.default is MISSING and field.default_factory is MISSING:
            raise FieldError((*path, name), "the key is missing; add it")
    values = {name: parse(type_hints(kind)[name], item, (*path, name)) for name, item in given.items()}
    try:
        return kind(**values)
    except FieldError as error:
        raise FieldError((*path, *error.path), error.problem) from None


def number(text: str) -> float:
    """Parse a number; raise ArgumentTypeError for any other text."""
    try:
        return float(text)
    except ValueError:
        fix = f"write {fraction}" if (fraction := as_fraction(text)) else "give one, for example 0.1"
        raise ArgumentTypeError(f"{text!r} is not a number; {fix}") from None


def seconds(text: str) -> float:
    """Parse a timeout in seconds, a finite number above 0; raise ArgumentTypeError for any other text."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds; give one, for example 300")
    return value
