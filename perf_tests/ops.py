"""``build(problem, form, backend)``: an op of a workload, ready for ``bench``."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from rl_impls import backends
from rl_impls.backends import BackendUnavailable
from rl_impls.common.checks import choose
from rl_impls.common.problem import Problem

from .bench import RTOL
from .counters import count, graphs_compiled, programs
from .suite.exporter import parse_once

REQUIRED = "RL_PERF_REQUIRE"  # environment variable: backends and packages whose absence is a failure


class Built:
    """An op on a backend, as benchmarks and reference tests call it.

    Args:
        problem: the op's configuration and inputs.
        form: name of a form of the workload, i.e. a named set of optimisation options.
        backend: name of a backend.
        options: options that override those of the form.

    Attributes:
        call: runs the op once; returns when the device has finished.
        args: arguments of ``call``: on the device if ``problem.io`` is ``device``, else NumPy arrays.
        reset: restores all state that calls change; None for a stateless op.
        close: stops the op's threads and processes and frees its shared memory; None if it has none.
        graphs_before: number of graphs that torch.compile had made before this op.
        programs_before: number of programs that JAX had cached for the op's functions before its first call.
    """

    def __init__(self, problem: Problem, form: str, backend: str, options: dict[str, Any]) -> None:
        self.problem, self.backend = problem, backends.get(backend)
        self.backend.require()
        self.graphs_before = graphs_compiled()
        for module in self.backend.modules:
            importlib.import_module(module)  # import before building, which first_call times
        if "onnx" in (backend, problem.config.get("serve")):
            parse_once()
        named = backends.forms(problem.workload)
        self.options = replace(named[choose("form", form, named)], **{**problem.options, **options})
        device = problem.args if problem.io == "own" else tuple(map(self.backend.to_device, problem.args))
        self.compiler = self.backend.new_compiler()
        self.op: Any = self.backend.build(
            problem.workload, problem.op, problem.config, device, self.options, self.compiler
        )
        self.programs_before = programs(self)
        pack_args = getattr(self.op, "pack_args", lambda *args: args)
        self.args = self.backend.wait(pack_args(*(device if problem.io == "device" else problem.args)))
        own = self.on_device if self.backend.device == "cuda" else self.op  # wait for the last update
        self.call: Callable[..., Any] = {"device": self.on_device, "host": self.on_host, "own": own}[problem.io]
        self.reset = self.restore if hasattr(self.op, "reset") else None
        self.close: Callable[[], None] | None = getattr(self.op, "close", None)

    def on_device(self, *args: Any) -> Any:
        """Call the op with arrays on the device, and wait for the result."""
        return self.backend.wait(self.op(*args))

    def on_host(self, *args: Any) -> Any:
        """Copy NumPy arrays to the device, call the op, and copy the result back."""
        return self.backend.to_host(self.op(*map(self.backend.from_host, args)))

    @property
    def params(self) -> dict[str, Any]:
        """Current weights by name; empty if the op has none."""
        return dict(getattr(self.op, "params", {}))

    def restore(self) -> None:
        """Reset the op, and wait until the device has finished."""
        self.op.reset()
        while self.backend.pending():
            time.sleep(1e-4)

    def output(self, result: Any) -> list[Any]:
        """Return NumPy copies of the result and the weights, or only their shapes if the problem is not repeatable."""
        kept: Any = np.array if self.problem.repeatable else np.shape
        copied: list[Any] = backends.tree_map(kept, [self.backend.to_host(result), self.params])
        return copied

    @property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the ``bench`` fixture for this op."""
        found: dict[str, Any] = {"reset": self.reset, "close": self.close, "output": self.output}
        found |= {"max_calls": self.problem.max_calls, "rtol": self.rtol, "exact": partial(count, self)}
        found |= {"op": self.problem.op, "precision": self.precision}
        found |= {"inputs": self.problem.digest(), "figures": self.figures}
        return {**found, **self.problem.cost}

    def figures(self) -> dict[str, Any]:
        """Return further measurements of the last sample, such as latencies, and the seconds per phase of a loop."""
        phases: dict[str, float] = self.op.phases() if hasattr(self.op, "phases") else {}
        stats: dict[str, float] = self.op.stats() if hasattr(self.op, "stats") else {}
        return {**stats, **({"phases": phases} if phases else {})}

    @property
    def rtol(self) -> float:
        """Tolerance between two samples: looser on CUDA, where cuDNN sums gradients in a varying order."""
        return 1e-3 if self.backend.device == "cuda" else RTOL

    @property
    def precision(self) -> str:
        """Precision of the matrix products: float32, tf32, bfloat16, float16, or the quantised type, such as int8."""
        if getattr(self.options, "tf32", False):
            return "tf32"
        quantised = getattr(self.options, "quantised", "none")
        return str(getattr(self.options, "precision", "float32")) if quantised == "none" else str(quantised)


def build(problem: Problem, form: str, backend: str, **options: Any) -> Built:
    """Build an op, or skip the test if the backend is unavailable.

    The op ``train_step`` of snake is the function ``train_step`` in ``rl_impls/snake/_torch.py``, ``_jax.py`` or
    ``_numpy.py``, whichever library the backend uses. The loss is in the same file. An op that is written once for all
    libraries is in ``shared_ops.py``.

    Args:
        problem: from the workload's ``problem.py``; its ``op`` is usually named like the function that returned it.
        form: name of a form of the workload, such as ``naive`` or ``full``; the options are in its ``options.py``.
        backend: name of a backend, such as ``torch`` or ``jax``.
        options: single options that override those of the form.
    """
    try:
        return Built(problem, form, backend, options)
    except BackendUnavailable as error:
        unavailable(error)
        raise


def required() -> tuple[str, ...]:
    """Return the backends and packages listed in ``RL_PERF_REQUIRE``."""
    return tuple(name.strip() for name in os.environ.get(REQUIRED, "").split(",") if name.strip())


def unavailable(error: BackendUnavailable) -> None:
    """Skip the test, or fail it if the backend or the missing package is required."""
    named = {name for name in {*backends.PACKAGES, *backends.OPTIONAL} if error.reason.startswith(f"{name} ")}
    lacking = {module for module in {*backends.get(error.backend).modules, *named} if find_spec(module) is None}
    asked_for = lacking if named & set(backends.OPTIONAL) else {error.backend, *lacking}
    if asked_for & set(required()):
        pytest.fail(f"{REQUIRED}={','.join(required())}, but {error}")
    pytest.skip(str(error))
