"""What a variant should answer: its case's reference backend, naive and in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from perf_tests.suite.case import Inputs, Variant
from perf_tests.suite.prepared import extras
from rl_impls import backends


def in_float64(tree: Any) -> Any:
    """Return nested data with float32 arrays turned into float64."""
    return backends.tree_map(lambda x: x.astype(np.float64) if getattr(x, "dtype", None) == np.float32 else x, tree)


def reference_answer(variant: Variant, inputs: Inputs) -> list[Any]:
    """Return the last output of a sample and the weights after it, as ``Prepared.answer`` does."""
    backend = backends.get(variant.case.reference)
    spec = in_float64(dict(inputs.spec))
    if "serve" in spec:
        spec["serve"] = backend.name
    args = in_float64(inputs.args)
    device = tuple(map(backend.to_device, args))
    naive = replace(backends.forms(variant.case.workload)["naive"], **knob_axes(variant))
    op = backend.build(variant.case.workload, variant.case.op, spec, device, naive)
    has = extras(op)
    try:
        for _ in range(variant.case.answered_calls):
            out = op(*(args if variant.case.io == "own" else device))
        return [backend.to_host(out), dict(has.params())]
    finally:
        has.close()


def knob_axes(variant: Variant) -> dict[str, Any]:
    """Return those axes of a variant that are knobs of its workload."""
    knobs = variant.knobs()
    return {name: value for name, value in variant.axes.items() if hasattr(knobs, name)}


def largest_difference(got: Any, wanted: Any, what: str = "output") -> float:
    """Return the largest difference, relative to the largest value wanted."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wanted {wanted.shape}"
    assert np.isfinite(got).all(), f"{what}: not finite"
    return float(np.max(np.abs(got - wanted)) / max(np.max(np.abs(wanted)), 1e-30))
