"""Realistic slowdowns that the gate should detect.

``python -m perf_tests.faults`` prints the options that inject them with ``rlgauge power``.

Each fault takes the timed function and returns a slower one with the same outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Timed = Callable[..., Any]
FORWARD = "perf_tests/test_pirl.py::test_forward[full-{}]"
FOUND = (  # (fault, test): slow enough to be detected, fast enough that a pair does not take minutes
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
    """Copy the arguments on every call."""
    return lambda *args: function(*(x.clone() if hasattr(x, "clone") else np.copy(x) for x in args))


def traced_again(function: Any) -> Timed:
    """Wrap a new function in ``jax.jit`` on every call, as a lambda inside a loop does, so that it is traced again."""
    import jax

    net = function.__self__.op  # function is a method of Built
    plain = net.call.__wrapped__
    net.call = lambda *args: jax.jit(lambda *inner: plain(*inner))(*args)
    timed: Timed = function
    return timed


def in_float64(function: Timed) -> Timed:
    """Convert float32 arguments to float64."""
    return lambda *args: function(*(np.asarray(x, np.float64) if x.dtype == np.float32 else x for x in args))


def row_by_row(function: Timed) -> Timed:
    """Process a batch one row at a time in a Python loop."""
    return lambda batch: np.concatenate([function(batch[row : row + 1]) for row in range(len(batch))])


if __name__ == "__main__":
    print(*(f"--fault=perf_tests.faults:{fault}={test}" for fault, test in FOUND))
