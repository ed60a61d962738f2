"""All benchmarks as data, without running pytest: for correctness tests, ASV, claims and the reports."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from rl_impls.common.problem import Problem

from .ops import Built


@dataclass(frozen=True)
class Benchmark:
    """One parameter combination of a test; ``name`` is the part of its pytest id in brackets."""

    workload: str
    test: Callable[..., None]
    params: Mapping[str, Any]
    tier: str
    name: str

    @property
    def op(self) -> str:
        """Name of the test without ``test_``."""
        return self.test.__name__.removeprefix("test_")

    @property
    def axes(self) -> dict[str, Any]:
        """Parameters other than form and backend, by name."""
        return {name: value for name, value in self.params.items() if name not in ("form", "backend")}

    @property
    def id(self) -> str:
        """Id of the benchmark, as in results: ``pirl.act[full-numpy-32]``."""
        return f"{self.workload}.{self.op}[{self.name}]"


@dataclass
class Recorder:
    """A fake ``bench`` fixture that records its arguments."""

    function: Callable[..., Any] = print
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    def __call__(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> None:
        """Record the function and its arguments instead of timing it."""
        self.function, self.args, self.keywords = function, args, keywords

    @property
    def op(self) -> Built:
        """The op that the test has built."""
        op: Built = self.keywords["output"].__self__
        return op


def benchmarks(workloads: tuple[str, ...] = ()) -> Iterator[Benchmark]:
    """Yield the benchmarks of the given workloads (default: all), file by file, in the order of the tests.

    Tests without :func:`.grid.grid` are left out: they need not build an op of a workload.
    """
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        workload = path.stem.removeprefix("test_")
        if workloads and workload not in workloads:
            continue
        module = importlib.import_module(f".{path.stem}", __package__)
        for name, test in vars(module).items():
            if name.startswith("test_") and hasattr(test, "has_grid"):
                (grid,) = [mark for mark in test.pytestmark if mark.name == "parametrize"]
                for param in grid.args[1]:
                    params = dict(zip(grid.args[0].split(","), param.values, strict=True))
                    yield Benchmark(workload, test, params, param.marks[0].name, param.id)


class _Captured(Exception):
    """Raised to leave a benchmark as soon as its problem is known."""


def problem_of(benchmark: Benchmark, seed: int) -> Problem:
    """Return the problem of a benchmark without building the op."""

    def capture(problem: Problem, *_: Any, **__: Any) -> None:
        raise _Captured(problem)

    with mock.patch.dict(benchmark.test.__globals__, build=capture):
        try:
            record(benchmark, seed)
        except _Captured as captured:
            problem: Problem = captured.args[0]
            return problem
    raise TypeError(f"{benchmark.id}: the test never calls build; call it before bench")


def record(benchmark: Benchmark, seed: int) -> Recorder:
    """Run a test up to its call of ``bench``; skips the calling test if the backend is unavailable."""
    recorder = Recorder()
    benchmark.test(bench=recorder, seed=seed, **benchmark.params)
    return recorder
