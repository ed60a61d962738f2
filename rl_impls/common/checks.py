"""Checks of arguments that several workloads make."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..backends import choose


def check_integer(name, value, low, high, why=""):
    """Raise a ValueError unless ``value`` is an integer from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, wanted an integer from {low} to {high}{why}")


def check_choices(knobs, choices):
    """Raise a ValueError for a value that a knob does not have; ``choices`` lists the values of each."""
    for field in fields(knobs):
        value = getattr(knobs, field.name)
        choose(f"value of knob {field.name}", str(value), [str(choice) for choice in choices[field.name]])
