"""An op with seeded inputs and its cost, shared by benchmarks and correctness tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Problem:
    """One op with its configuration, its arguments and the cost of a call.

    Attributes:
        workload: folder in ``rl_impls``.
        op: name of its builder.
        config: configuration of the op, with the initial weights.
        args: NumPy arrays and numbers passed to every call.
        unit: unit that a call processes, in the plural.
        items: number of units per call.
        flops: floating-point operations of the matrix products of one call; 0 if negligible.
        bytes: bytes of the batches that one call reads and writes; 0 if negligible.
        io: where arguments come from and results go: ``device``, ``host`` (copied around each call) or ``own`` (the op
            takes and returns NumPy arrays and does its own copying).
        max_calls: maximum number of calls after one reset, if a call's cost depends on earlier calls.
        reference: backend whose naive form, in float64, gives the expected output.
        unreferenced: why there is no reference; empty if there is one.
        tolerance: maximum difference from the reference, relative to an array's largest absolute value.
        repeatable: whether two samples give equal outputs; where threads or processes race, only shapes are compared.
        options: options that this problem sets in place of the form's.
    """

    workload: str
    op: str
    config: Mapping[str, Any]
    args: tuple[Any, ...] = ()
    unit: str = "calls"
    items: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    io: str = "device"
    max_calls: int | None = None
    reference: str = "numpy"
    unreferenced: str = ""
    tolerance: float = 1e-5
    repeatable: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cost(self) -> dict[str, Any]:
        """Keyword arguments of the ``bench`` fixture: unit, items, FLOPs and bytes of a call."""
        return {"unit": self.unit, "items": self.items, "flops": self.flops, "bytes": self.bytes}

    def digest(self) -> str:
        """Return a hash of the configuration and the arguments."""
        found = hashlib.sha256()
        for part in parts([dict(self.config), self.args]):
            found.update(part)
        return found.hexdigest()[:16]


def parts(tree: Any) -> Iterator[bytes]:
    """Yield the bytes of nested dicts, lists and tuples of arrays, numbers and text."""
    if isinstance(tree, Mapping):
        for name in sorted(tree):
            yield repr(name).encode()
            yield from parts(tree[name])
    elif isinstance(tree, list | tuple):
        yield str(len(tree)).encode()
        for part in tree:
            yield from parts(part)
    elif isinstance(tree, np.ndarray):
        yield f"{tree.dtype}{tree.shape}".encode()
        yield np.ascontiguousarray(tree).tobytes()
    else:
        yield repr(tree).encode()
