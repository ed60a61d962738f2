"""Exact counts for one call, identical in every run of the same code: compiled graphs, operations, FLOPs, bytes.

The gate requests them once per side, after timing. It reports every increase, and fails on more compiled graphs.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ops import Built


def graphs_compiled() -> int:
    """Return how many graphs torch.compile has made in this process, without importing torch."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


def count(op: Built) -> dict[str, int]:
    """Count one call of an op that has been called before; empty where nothing can be counted.

    - ``graphs``: graphs compiled for the op. With JAX this includes recompilations during one more call.
    - ``aten_ops``: operations dispatched by eager torch.
    - ``allocated_bytes``: bytes of new arrays in eager torch.
    - ``hlo_flops``, ``hlo_bytes``: JAX's cost analysis of the compiled functions, before optimisation.
    """
    if op.reset:
        op.reset()
    if op.backend.compile == "compile":
        counts = {"graphs": graphs_compiled() - op.graphs_before}
    elif op.backend.compile == "jit":
        counts = of_jax(op)
    elif op.backend.compile == "eager" and op.backend.library == "torch":
        counts = of_torch(op)
    else:  # nothing exact to count, not even for NumPy: its peak memory depends on Python's caches
        counts = {}
    return counts if any(counts.values()) else {}  # all zero: the op runs other ops, whose work is not seen


def of_torch(op: Built) -> dict[str, int]:
    """Return the number of dispatched operations, and the bytes of outputs that share no storage with an input."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    counts = {"aten_ops": 0, "allocated_bytes": 0}

    class Counter(TorchDispatchMode):  # type: ignore[misc]
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


def gpu_peak(op: Built) -> dict[str, int]:
    """Return the most bytes of GPU memory that torch allocates during a call, without those allocated before it."""
    import torch

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    op.call(*op.args)
    return {"gpu_peak": torch.cuda.max_memory_allocated() - before}


@functools.cache
def compiled_by_jax() -> list[str]:
    """Return a list that grows by one for each program that JAX compiles after the first call of this function."""
    from jax import monitoring

    compiled: list[str] = []

    def note(event: str, seconds: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    monitoring.register_event_duration_secs_listener(note)
    return compiled


def programs(op: Built) -> int:
    """Return the number of programs in JAX's caches for the op's functions, including those compiled for other ops."""
    return sum(getattr(function, "_cache_size", int)() for function, _ in op.compiler.compiled)


def of_jax(op: Built) -> dict[str, int]:
    """Return the number of programs compiled for an op, recompilations included, and their cost by JAX's analysis."""
    import jax
    import numpy as np

    if not op.compiler.compiled:
        return {}

    def shape_of(leaf: Any) -> Any:
        """Return an array's shape and dtype, because its buffer may be donated; return a static argument as it is."""
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array | np.ndarray) else leaf

    compiled = compiled_by_jax()
    before = len(compiled)
    op.call(*op.args)
    counts = {"graphs": len(compiled) - before - op.programs_before, "hlo_flops": 0, "hlo_bytes": 0}
    counts["graphs"] += programs(op)
    for function, example in op.compiler.compiled:
        cost = function.lower(*jax.tree.map(shape_of, example)).cost_analysis() or {}  # type: ignore[attr-defined]
        counts["hlo_flops"] += int(cost.get("flops", 0))
        counts["hlo_bytes"] += int(cost.get("bytes accessed", 0))
    return counts
