"""Checks of arguments: what is not right is a ValueError of one line, ``name: got ..., wanted ...``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, get_type_hints

LARGEST = 2**31 - 1  # an integer that every backend's int32 holds
CHANGES = ("backend", "form")  # what may be another when an agent is loaded


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """Return ``name`` where it is known.

    Args:
        kind: what is named, for the error, as in ``backend``.
        name: what was given.
        known: all names there are.

    Raises:
        ValueError: the name is not known; it lists those that are.
    """
    known = list(known)
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}; known: {', '.join(known)}")
    return name


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return ``value`` where it is one of the choices.

    Args:
        name: of the argument, for the error.
        value: what was given.
        choices: what it may be.

    Raises:
        ValueError: it is none of them.
    """
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{name}: got {value!r}, wanted one of {', '.join(choices)}")
    return str(value)


def check_integer(name: str, value: Any, low: int, high: int = LARGEST, why: str = "") -> int:
    """Return ``value`` as a Python integer where it is one from ``low`` to ``high``; a bool is none.

    Args:
        name: of the argument, for the error.
        value: what was given.
        low: the smallest that is right.
        high: the largest that is right.
        why: what ``high`` is, added to the error as it stands.

    Raises:
        ValueError: it is no integer, or too small or too large.
    """
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, wanted an integer from {low} to {high}{why}")
    return int(value)


def check_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf, why: str = "") -> float:
    """Return ``value`` as a Python float where it is a finite number from ``low`` to ``high``; a bool is none.

    Args:
        name: of the argument, for the error.
        value: what was given.
        low: the smallest that is right.
        high: the largest that is right.
        why: what ``high`` is, added to the error as it stands.

    Raises:
        ValueError: it is no number, not finite, or too small or too large.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:
        span = f"number from {low} to {high}" if high < math.inf else f"number of {low} or more"
        raise ValueError(f"{name}: got {value!r}, wanted a {span if low > -math.inf else 'finite number'}{why}")
    return float(value)


CHECKS: dict[type, Callable[..., Any]] = {int: check_integer, float: check_number}


def check_fields(config: Any, **limits: tuple[Any, ...]) -> None:
    """Check fields of a dataclass by their types, and make NumPy's numbers in them Python's, which JSON takes.

    Args:
        config: a dataclass, which may be frozen; its fields named here are ``int``, ``float`` or ``tuple[int, ...]``.
        limits: by the name of a field, what :func:`check_integer` or :func:`check_number` takes after the value, as in
            ``batch=(1, 256)``; for a tuple, of each of its integers.

    Raises:
        ValueError: a value is not of its field's type, or outside of its limits.
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
    """Check what is to be another when an agent is loaded: that by which nothing that it has learned is changed.

    Args:
        changes: the names of what is to be another.
        free: the names that may be among them.

    Raises:
        ValueError: another name is among them.
    """
    unknown = set(changes) - set(free)
    if unknown:
        names, may = ", ".join(sorted(unknown)), f"{', '.join(free[:-1])} and {free[-1]}"
        raise ValueError(f"{names}: got a change, wanted what the checkpoint says: {may} alone may be changed")


def check_choices(knobs: Any, choices: Mapping[str, Iterable[Any]]) -> None:
    """Check the value of every knob.

    Args:
        knobs: a dataclass of knobs.
        choices: the values of each, by name.

    Raises:
        ValueError: a value that a knob does not have.
    """
    for field in fields(knobs):
        value = getattr(knobs, field.name)
        choose(f"value of knob {field.name}", str(value), [str(choice) for choice in choices[field.name]])
