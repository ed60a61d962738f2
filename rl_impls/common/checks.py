"""Argument checks that raise one-line ValueErrors."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

LARGEST = 2**31 - 1  # largest int32


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is known, else raise ValueError that lists the known names; `kind` is used in the message."""
    known = list(known)
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r} (choose from {', '.join(known)})")
    return name


def check_integer(name: str, value: Any, low: int, high: int = LARGEST, why: str = "") -> int:
    """Return `value` as a Python integer from `low` to `high`, or raise ValueError; a bool is not an integer.

    `why` explains `high` and is appended to the message as it is.
    """
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not low <= value <= high:
        raise ValueError(f"{name}={value!r} should be an integer from {low} to {high}{why}")
    return int(value)
