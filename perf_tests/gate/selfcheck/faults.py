"""Real mistakes, built into a prepared case: what they cost is whatever it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np


def extra_copy(prepared: Any) -> None:
    """Copy the arguments at every call.

    Args:
        prepared: the case; changed in place.
    """
    op = prepared.op
    prepared.op = lambda *args: op(*(x.clone() if hasattr(x, "clone") else x.copy() for x in args))


def traced_again(prepared: Any) -> None:
    """Give ``jax.jit`` a new function at every call, as a lambda inside of a loop does.

    Args:
        prepared: the case; changed in place.
    """
    import jax

    net = prepared.op
    function = net.call.__wrapped__
    net.call = lambda *args: jax.jit(lambda *inner: function(*inner))(*args)


def in_float64(prepared: Any) -> None:
    """Let float64 creep in by the arguments.

    Args:
        prepared: the case; changed in place.
    """
    prepared.args = tuple(
        x.double() if hasattr(x, "double") else x.astype(np.float64) if x.dtype == np.float32 else x
        for x in prepared.args
    )


def row_by_row(prepared: Any) -> None:
    """Loop in Python over the rows of a batch.

    Args:
        prepared: the case; changed in place.
    """
    op, library = prepared.op, import_module(prepared.backend.source)
    join = {"torch": "cat", "numpy": "concatenate"}[prepared.backend.source]
    prepared.op = lambda batch: getattr(library, join)([op(batch[row : row + 1]) for row in range(len(batch))])


FAULTS = {"copy": extra_copy, "trace": traced_again, "float64": in_float64, "rows": row_by_row}
