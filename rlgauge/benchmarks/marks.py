"""The ``rlgauge`` mark of a test: the cores it runs on, and how its outputs are compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rlgauge.rule import GateError

if TYPE_CHECKING:
    import pytest

CHOICES = {"cores": ("one", "all"), "outputs": ("close", "same", "ignore")}


def of(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's ``rlgauge`` marks; the closest mark wins."""
    settings: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers("rlgauge"))):
        if mark.args:
            raise GateError(f"{item.nodeid}: mark rlgauge: give keyword arguments instead of {mark.args[0]!r}")
        settings |= mark.kwargs
    for name, value in settings.items():
        check(f"{item.nodeid}: mark rlgauge: {name}", name, value)
    return settings


def check(prefix: str, name: str, value: Any) -> None:
    """Reject an unknown key or an invalid value of the mark; `prefix` starts the message."""
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise GateError(f"{prefix}: unknown value {value!r} (choose from {', '.join(CHOICES[name])})")
    elif name != "tolerance":
        raise GateError(f"{prefix}: unknown key (choose from cores, outputs, tolerance)")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise GateError(f"{prefix}: {value!r} is not valid; choose a number of 0 or more, but below 1")


def tolerance(settings: dict[str, Any]) -> float:
    """Return the tolerance of outputs as a fraction of an array's largest absolute value; infinity if not compared."""
    fixed = {"same": 0.0, "ignore": math.inf}
    return fixed.get(settings["outputs"], float(settings["tolerance"]))
