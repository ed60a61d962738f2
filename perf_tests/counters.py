"""Exact counts of a call, the same in every run of the same code: graphs, operations, FLOPs, bytes.

A gate's worker asks for them once, after the timing; a rise is named, and more compiled graphs fail.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ops import Built


def graphs_compiled() -> int:
    """Return how many graphs torch.compile has made in this process; does not import torch."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


def count(op: Built) -> dict[str, int]:
    """Count one call of an op that was called before.

    ``graphs``: compiled for it, in JAX also those that one more call compiles. ``aten_ops``: operations that torch
    dispatches. ``hlo_flops``, ``hlo_bytes``: of the functions that JAX compiles, before optimisation.
    ``allocated_bytes``: of new arrays. Empty where nothing can be counted.
    """
    if op.reset:
        op.reset()
    if op.backend.lowering == "compile":
        counts = {"graphs": graphs_compiled() - op.graphs_before}
    elif op.backend.lowering == "jit":
        counts = of_jax(op)
    elif op.backend.lowering == "eager" and op.backend.source == "torch":
        counts = of_torch(op)
    else:  # NumPy's peak depends on what Python has cached
        counts = {}
    return counts if any(counts.values()) else {}  # an op made of others hides what it runs: no count beats a wrong one


def of_torch(op: Built) -> dict[str, int]:
    """Return how many operations a call dispatches, and the bytes of outputs that share no storage with an input."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    counts = {"aten_ops": 0, "allocated_bytes": 0}

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        """Counts operations and bytes."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            known = {tensor.untyped_storage().data_ptr() for tensor in tensors((args, kwargs))}
            counts["aten_ops"] += 1
            for tensor in tensors(out):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in known:
                    counts["allocated_bytes"] += storage.nbytes()
            return out

    def tensors(tree: Any) -> list[Any]:
        return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

    with Counter():
        op.call(*op.args)
    return counts


@functools.cache
def compiled_by_jax() -> list[str]:
    """Return a list that grows by one with each program that JAX compiles in this process from now on."""
    from jax import monitoring

    compiled: list[str] = []

    def note(event: str, seconds: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    monitoring.register_event_duration_secs_listener(note)
    return compiled


def programs(op: Built) -> int:
    """Return how many programs JAX has of the functions of an op; other ops of the same function count too."""
    return sum(getattr(function, "_cache_size", int)() for function, _ in op.target.lowered)


def of_jax(op: Built) -> dict[str, int]:
    """Return the programs compiled for an op, with those that one more call compiles, and their cost by JAX."""
    import jax
    import numpy as np

    if not op.target.lowered:
        return {}

    def shape_of(leaf: Any) -> Any:
        """Return what an array is lowered by, which may have been donated; what is static stays as it is."""
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array | np.ndarray) else leaf

    compiled = compiled_by_jax()
    before = len(compiled)
    op.call(*op.args)
    counts = {"graphs": len(compiled) - before - op.programs_before, "hlo_flops": 0, "hlo_bytes": 0}
    counts["graphs"] += programs(op)
    for function, example in op.target.lowered:
        cost = function.lower(*jax.tree.map(shape_of, example)).cost_analysis() or {}  # type: ignore[attr-defined]
        counts["hlo_flops"] += int(cost.get("flops", 0))
        counts["hlo_bytes"] += int(cost.get("bytes accessed", 0))
    return counts
