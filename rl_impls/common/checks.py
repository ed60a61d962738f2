"""Argument checks that raise one-line ValueErrors, ``name: got ..., wanted ...``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, get_type_hints

LARGEST = 2**31 - 1  # largest int32
CHANGES = ("backend", "form")  # fields that may be overridden when an agent is loaded


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is known, else raise ValueError that lists the known names; `kind` is used in the message."""
    known = list(known)
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    return name


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of the choices, else raise ValueError."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}, wanted one of {', '.join(choices)}")
    return str(value)


def check_integer(name: str, value: Any, low: int, high: int = LARGEST, why: str = "") -> int:
    """Return `value` as a Python integer from `low` to `high`, or raise ValueError; a bool is not an integer.

    `why` explains `high` and is appended to the message as it is.
    """
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, wanted an integer from {low} to {high}{why}")
    return int(value)


def check_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf, why: str = "") -> float:
    """Return `value` as a finite Python float from `low` to `high`, or raise ValueError; a bool is not a number."""
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:
        span = f"number from {low} to {high}" if high < math.inf else f"number of {low} or more"
        raise ValueError(f"{name}: got {value!r}, wanted a {span if low > -math.inf else 'finite number'}{why}")
    return float(value)


CHECKS: dict[type, Callable[..., Any]] = {int: check_integer, float: check_number}


def check_fields(config: Any, **limits: tuple[Any, ...]) -> None:
    """Check fields of a dataclass by type and range, and convert NumPy numbers in them to Python's for JSON.

    Args:
        config: a dataclass, possibly frozen; its checked fields are ``int``, ``float`` or ``tuple[int, ...]``.
        limits: by field name, the arguments of :func:`check_integer` or :func:`check_number` after the value, as in
            ``batch=(1, 256)``; for a tuple they apply to each integer.

    Raises:
        ValueError: a value of another type or out of range.
    """
    types = get_type_hints(type(config))
    for name, limit in limits.items():
        value = getattr(config, name)
        if types[name] == tuple[int, ...]:
            if not isinstance(value, (tuple, list)):
                raise ValueError(f"{name}: got {value!r}, wanted a tuple of integers")
            checked: Any = tuple(check_integer(name, number, *limit) for number in value)
        else:
            checked = CHECKS[types[name]](name, value, *limit)
        object.__setattr__(config, name, checked)


def check_changes(changes: Iterable[str], free: Sequence[str] = CHANGES) -> None:
    """Reject overrides that a checkpoint cannot honour; only the names in `free` may change."""
    unknown = set(changes) - set(free)
    if unknown:
        names, may = ", ".join(sorted(unknown)), f"{', '.join(free[:-1])} and {free[-1]}"
        raise ValueError(f"{names}: got a change, wanted what the checkpoint says: {may} alone may be changed")


def check_choices(knobs: Any, choices: Mapping[str, Iterable[Any]]) -> None:
    """Raise ValueError unless every knob has one of its allowed values."""
    for field in fields(knobs):
        value = getattr(knobs, field.name)
        choose(f"value of knob {field.name}", str(value), [str(choice) for choice in choices[field.name]])
