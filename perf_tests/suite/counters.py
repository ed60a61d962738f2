"""Exact counts beside the time, the same on the same code: graphs, operations, FLOPs, bytes."""

from __future__ import annotations

import functools
import tracemalloc
from typing import Any

from .prepared import Prepared, graphs_compiled


def count(prepared: Prepared) -> dict[str, int]:
    """Count one call of a settled variant.

    ``graphs``: compiled for it, in JAX also those that one more call compiles. ``aten_ops``: operations torch
    dispatches in a call. ``hlo_flops``, ``hlo_bytes``: of the functions JAX compiles, before optimisation.
    ``allocated_bytes``: of new arrays in a call (NumPy: the peak).

    Args:
        prepared: the variant, settled.
    """
    kind = prepared.backend.lowering
    counts = COUNTERS[kind](prepared)
    prepared.reset()
    return counts if any(counts.values()) else {}  # an op made of others hides what it runs: no count beats a wrong one


def _count_numpy(prepared: Prepared) -> dict[str, int]:
    if prepared.backend.source != "numpy":
        return _count_aten(prepared)
    tracemalloc.start()
    try:
        prepared.call()
        return {"allocated_bytes": tracemalloc.get_traced_memory()[1]}
    finally:
        tracemalloc.stop()


def _count_aten(prepared: Prepared) -> dict[str, int]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    counts = {"aten_ops": 0, "allocated_bytes": 0}

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        """Counts operations, and the bytes of the outputs that share no storage with an input."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            known = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
            counts["aten_ops"] += 1
            for tensor in _tensors(out):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in known:
                    counts["allocated_bytes"] += storage.nbytes()
            return out

    def _tensors(tree: Any) -> list[Any]:
        leaves = torch.utils._pytree.tree_leaves(tree)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    with Counter():
        prepared.call()
    return counts


def _count_graphs(prepared: Prepared) -> dict[str, int]:
    return {"graphs": graphs_compiled() - prepared.graphs_before}


@functools.cache
def _compiled_by_jax() -> list[str]:
    """Return a list that grows by one with each program that JAX compiles in this process from now on."""
    from jax import monitoring

    compiled: list[str] = []

    def note(event: str, seconds: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    monitoring.register_event_duration_secs_listener(note)
    return compiled


def _count_hlo(prepared: Prepared) -> dict[str, int]:
    import jax
    import numpy as np

    if not prepared.target.lowered:
        return {}

    def shape_of(leaf: Any) -> Any:
        """Return what an array is lowered by, which may have been donated; what is static stays as it is."""
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array | np.ndarray) else leaf

    compiled = _compiled_by_jax()
    before = len(compiled)
    prepared.call()
    counts = {"graphs": len(compiled) - before, "hlo_flops": 0, "hlo_bytes": 0}
    for function, example in prepared.target.lowered:
        cost = function.lower(*jax.tree.map(shape_of, example)).cost_analysis() or {}  # type: ignore[attr-defined]
        counts["graphs"] += function._cache_size()  # type: ignore[attr-defined]
        counts["hlo_flops"] += int(cost.get("flops", 0))
        counts["hlo_bytes"] += int(cost.get("bytes accessed", 0))
    return counts


def _count_nothing(prepared: Prepared) -> dict[str, int]:
    return {}


COUNTERS = {
    "eager": _count_numpy,
    "trace": _count_nothing,
    "compile": _count_graphs,
    "onnx": _count_nothing,
    "neuron": _count_nothing,
    "jit": _count_hlo,
}
