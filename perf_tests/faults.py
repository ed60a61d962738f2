"""Mistakes that the gate should find. ``python -m perf_tests.faults`` prints the options of ``rlgauge power`` for them.

Each function gets what a benchmark times, and returns a slower one with the same outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Timed = Callable[..., Any]
FORWARD = "perf_tests/test_pirl.py::test_forward[full-{}]"
FOUND = (  # a mistake, and a test in which it costs enough to be found, and not so much that a pair takes minutes
    ("extra_copy", "perf_tests/test_treasurehunt.py::test_observe[full-numpy-5-1]"),
    ("traced_again", "perf_tests/test_procgen.py::test_forward[full-jax-32-nature]"),
    ("in_float64", FORWARD.format("numpy-32-host-32")),
    ("in_float64", FORWARD.format("numpy-2048-host-32")),
    ("in_float64", "perf_tests/test_snake.py::test_act[full-torch-1]"),
    ("row_by_row", FORWARD.format("numpy-2048-host-32")),
    ("row_by_row", FORWARD.format("torch-32-host-32")),
    ("row_by_row", FORWARD.format("jax-32-host-32")),
)


def extra_copy(function: Timed) -> Timed:
    """Copy the arguments at every call."""
    return lambda *args: function(*(x.clone() if hasattr(x, "clone") else np.copy(x) for x in args))


def traced_again(function: Any) -> Timed:
    """Give ``jax.jit`` a new function at every call, as a lambda inside of a loop does."""
    import jax

    net = function.__self__.op  # it is a method of the built op
    plain = net.call.__wrapped__
    net.call = lambda *args: jax.jit(lambda *inner: plain(*inner))(*args)
    timed: Timed = function
    return timed


def in_float64(function: Timed) -> Timed:
    """Let float64 creep in by the arguments."""
    return lambda *args: function(*(np.asarray(x, np.float64) if x.dtype == np.float32 else x for x in args))


def row_by_row(function: Timed) -> Timed:
    """Loop in Python over the rows of a batch."""
    return lambda batch: np.concatenate([function(batch[row : row + 1]) for row in range(len(batch))])


if __name__ == "__main__":
    print(*(f"--fault=perf_tests.faults:{fault}={test}" for fault, test in FOUND))
