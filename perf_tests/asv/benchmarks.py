"""One ASV class per op of the gate tier, named ``<workload>.<op>``; its parameters are form, backend and axes."""

from __future__ import annotations

import atexit
import functools
import hashlib
import inspect
import itertools
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from perf_tests.recorded import Benchmark, Recorder, benchmarks, problem_of, record
from perf_tests.suite import process

from . import INSTALLED

SEED = 0
GATE = {benchmark.id: benchmark for benchmark in benchmarks() if benchmark.tier == "gate"}


class Op:
    """Base class: times at least 15 single calls, each after a reset, for up to one second or 1,000 calls."""

    number = rounds = 1
    repeat = (15, 1000, 1.0)
    warmup_time = 0
    ids: Mapping[tuple[Any, ...], str]

    def setup(self, *values: Any) -> None:
        """Build and warm up the op, once per process, and reset it before every sample."""
        self.recorded = ready(self.ids[values])
        reset(self.recorded)

    @property
    def version(self) -> str:
        """Hash of all inputs; ASV hides results with another version."""
        inputs = [(name, problem_of(GATE[name], SEED).digest()) for name in self.ids.values()]
        return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


@functools.cache
def ready(name: str) -> Recorder:
    """Return the benchmark with this id, built and warmed up.

    It is cached because ASV calls ``setup`` before every sample.

    Raises:
        NotImplementedError: the commit or this machine cannot run the benchmark; ASV skips it.
    """
    benchmark = GATE[name]
    if not (INSTALLED / benchmark.workload / "problem.py").exists():
        raise NotImplementedError(f"this commit has no rl_impls/{benchmark.workload}/problem.py")
    if not {"torch", "jax"} & sys.modules.keys():
        process.set_up(process.cores())
    try:
        recorded = record(benchmark, SEED)
    except pytest.skip.Exception as skipped:
        raise NotImplementedError(str(skipped)) from skipped
    except ValueError as error:
        if str(error).startswith("unknown "):
            raise NotImplementedError(f"this commit: {error}") from error
        raise
    if close := recorded.keywords["close"]:
        atexit.register(close)
    for _ in range(2):
        reset(recorded)
        recorded.function(*recorded.args)
    return recorded


def reset(recorded: Recorder) -> None:
    """Reset the op if it has state."""
    if restore := recorded.keywords["reset"]:
        restore()


def op_class(variants: list[Benchmark]) -> type[Op]:
    """Return the ASV class for the parameter combinations of one test."""

    def time_call(self: Op, *_: Any) -> None:
        self.recorded.function(*self.recorded.args)

    first = variants[0]
    ids = {tuple(benchmark.params.values()): benchmark.id for benchmark in variants}
    params = [list(dict.fromkeys(values)) for values in zip(*ids)]
    time_call.benchmark_name = f"{first.workload}.{first.op}.time_call"  # type: ignore[attr-defined]
    time_call.pretty_source = inspect.getsource(first.test)  # type: ignore[attr-defined]
    members = {
        "ids": ids,
        "param_names": list(first.params),
        "params": params,
        "skip_params": [values for values in itertools.product(*params) if values not in ids],
        "time_call": time_call,
    }
    return type(f"{first.workload}_{first.op}", (Op,), members)


for _, found in itertools.groupby(GATE.values(), key=lambda benchmark: benchmark.test):
    made = op_class(list(found))
    globals()[made.__name__] = made
del made
