"""Expected outputs of benchmarks: those of the reference backend, naive and in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from perf_tests.ops import Built
from perf_tests.recorded import Recorder
from rl_impls import backends
from rl_impls.common.problem import Problem

LATEST = 32  # results that are kept
RESULTS: dict[tuple[Any, ...], list[Any]] = {}


def in_float64(tree: Any) -> Any:
    """Return nested data with its float32 arrays converted to float64."""
    return backends.tree_map(lambda x: x.astype(np.float64) if getattr(x, "dtype", None) == np.float32 else x, tree)


def reference_output(problem: Problem) -> list[Any]:
    """Return the output and the weights of the reference after two calls, or one if the op allows no more.

    All forms and backends share a result, so callers must not change it.
    """
    key = (
        problem.workload, problem.op, problem.reference, problem.io == "own", problem.max_calls, problem.digest(),
        repr(problem.options),
    )  # fmt: skip
    if key not in RESULTS:
        RESULTS[key] = computed(problem)
        if len(RESULTS) > LATEST:
            del RESULTS[next(iter(RESULTS))]
    return RESULTS[key]


def computed(problem: Problem) -> list[Any]:
    config = in_float64(dict(problem.config))
    if "serve" in config:
        config["serve"] = problem.reference
    exact = replace(
        problem, config=config, args=in_float64(problem.args), io="own" if problem.io == "own" else "device"
    )
    op = Built(exact, "naive", problem.reference, {})
    try:
        for _ in range(min(2, problem.max_calls or 2)):
            out = op.call(*op.args)
        return [op.backend.to_host(out), op.params]
    finally:
        if op.close:
            op.close()


def after_two_calls(recorded: Recorder) -> list[Any]:
    """Return the output and the weights of a benchmark after a reset and two calls, or one if the op allows no more."""
    op = recorded.op
    if op.reset:
        op.reset()
    for _ in range(min(2, op.problem.max_calls or 2)):
        out = recorded.function(*recorded.args)
    return op.output(out)


def largest_difference(got: Any, wanted: Any, what: str = "output") -> float:
    """Return the largest difference, relative to the largest expected value."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wanted {wanted.shape}"
    assert np.isfinite(got).all(), f"{what}: not finite"
    return float(np.max(np.abs(got - wanted)) / max(np.max(np.abs(wanted)), 1e-30))
