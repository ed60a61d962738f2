"""A prepared variant is what every harness times: its op built, its arguments where the op wants them.

with prepare(variant, seed) as prepared:
    prepared.settle()
    prepared.reset()  # not timed
    prepared.run()    # timed: a number of calls, each waited for
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from .case import Variant
from .exporter import parse_once

if TYPE_CHECKING:
    from rl_impls.backends import Backend
    from rl_impls.lowering import Target

LEAST = 0.01  # seconds of a sample


class DriftError(AssertionError):
    """Two samples after a reset did not do the same work."""


class NotWaitedError(AssertionError):
    """A sample ended while the device was still computing."""


def prepare(variant: Variant, seed: int) -> Prepared:
    """Return a variant ready to be timed: all is built that is not timed.

    Args:
        variant: the benchmark.
        seed: of its inputs.

    Raises:
        BackendUnavailable: the backend cannot run here.
        OpUnavailable: the workload has no such op.
    """
    from rl_impls import backends  # of whatever commit is timed: it may have none

    backend = backends.get(variant.backend)
    backend.require()
    for module in backend.modules:  # or the first benchmark of a process would pay for it
        importlib.import_module(module)
    if "onnx" in (variant.backend, variant.axes.get("serve")):
        parse_once()
    inputs = variant.inputs(seed)
    graphs = graphs_compiled()
    target = backend.lowering_here()
    device = tuple(backend.to_device(value) for value in inputs.args)
    start = time.perf_counter()
    op = backend.build(variant.case.workload, variant.case.op, inputs.spec, device, variant.knobs(), target)
    args = device if variant.io == "device" else inputs.args
    return Prepared(variant, backend, op, args, target, graphs, start)


@dataclass(frozen=True)
class Extras:
    """What an op has beside being called, as ``rl_impls.common.op.Op`` describes it.

    Attributes:
        reset: puts back what calls change.
        close: ends threads, processes and shared memory.
        stats: returns other figures of the last sample, by name.
        phases: returns the seconds of each phase since the reset, by name.
        held: returns arguments in the shape in which the op's program holds them.
        params: returns the weights as they are now, by name.
    """

    reset: Callable[[], None]
    close: Callable[[], None]
    stats: Callable[[], dict[str, float]]
    phases: Callable[[], dict[str, float]]
    held: Callable[..., tuple[Any, ...]]
    params: Callable[[], Mapping[str, Any]]


def extras(op: Callable[..., Any]) -> Extras:
    """Return what an op has, and for what it lacks, as a plain function lacks all, what does nothing.

    The defaults are not ``Op``'s own: the commit whose op it is may have no such class.

    Args:
        op: what a builder returned.
    """
    return Extras(
        reset=getattr(op, "reset", nothing),
        close=getattr(op, "close", nothing),
        stats=getattr(op, "stats", no_figures),
        phases=getattr(op, "phases", no_figures),
        held=getattr(op, "held", as_they_are),
        params=lambda: getattr(op, "params", {}),
    )


def nothing() -> None:
    """Change nothing, end nothing."""


def no_figures() -> dict[str, float]:
    """Return no figures."""
    return {}


def as_they_are(*args: Any) -> tuple[Any, ...]:
    """Return arguments as they are.

    Args:
        args: of a call.
    """
    return args


def graphs_compiled() -> int:
    """Return how many graphs torch.compile has made in this process; does not import torch."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0


class Prepared(AbstractContextManager["Prepared"]):
    """A built variant: ``run`` is timed; ``reset`` and ``close`` are not.

    Args:
        variant: the benchmark.
        backend: the backend that it is built on.
        op: what the builder returned.
        args: of each call, on the device or as NumPy arrays, as the variant's ``io`` says.
        target: what the op was built for, with a record of what was lowered.
        graphs_before: graphs that torch.compile had made before the op was built.
        start: what the clock said when building began; now unless given.

    Attributes:
        first_answer: seconds from then until the first answer was there, as settling found; None before.
    """

    def __init__(
        self,
        variant: Variant,
        backend: Backend,
        op: Callable[..., Any],
        args: tuple[Any, ...],
        target: Target,
        graphs_before: int,
        start: float | None = None,
    ) -> None:
        self.start = time.perf_counter() if start is None else start
        self.first_answer: float | None = None
        self.variant, self.backend, self.op, self.target = variant, backend, op, target
        self.extras, self.calls, self.graphs_before = extras(op), 1, graphs_before
        self.args = backend.wait(self.extras.held(*args))
        self.late: bool | None = None  # whether a reset may return before the device has finished; settling finds out
        self.call = {"host": self._host_call, "device": self._device_call, "own": self._own_call}[variant.io]

    def _host_call(self) -> Any:
        return self.backend.to_host(self.op(*map(self.backend.from_host, self.args)))

    def _device_call(self) -> Any:
        return self.backend.wait(self.op(*self.args))

    def _own_call(self) -> Any:
        return self.op(*self.args)

    def run(self) -> Any:
        """Make the calls of one sample, wait for each, and return the last output."""
        call = self.call
        for _ in range(self.calls):
            out = call()
        return out

    def reset(self) -> None:
        """Put back what the op changes, so that every sample times the same work, and wait until that is done.

        To ask JAX takes longer than a sample where hundreds of benchmarks hold arrays: not asked where it need not be.
        """
        self.extras.reset()
        while self.late is not False and self.backend.pending():  # all that an old commit's backend can be asked
            self.late = True
            time.sleep(1e-4)  # a loop without a pause would take the core from what it waits for

    def close(self) -> None:
        """End the threads, processes and shared memory of the op."""
        self.extras.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sample(self) -> float:
        """Return the seconds of one sample, from a reset."""
        self.reset()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def measure_calls(self) -> int:
        """Double the calls of a sample until it takes 10 ms, or there are as many as the case allows; return them.

        One sample in which others had the cores does not end it.
        """
        most = self.variant.case.most_calls or float("inf")
        while self.calls < most and not all(self.sample() >= LEAST for _ in range(2)):
            self.calls = int(min(2 * self.calls, most))
        return self.calls

    def answer(self) -> list[Any]:
        """Make a few calls from the start; return the last output and the weights after it, as NumPy copies.

        Of a case that is not repeatable the shapes are returned, in place of each array.
        """
        from rl_impls.backends import tree_map

        measured, self.calls = self.calls, self.variant.case.answered_calls
        self.reset()
        try:
            out = self.run()
        finally:
            self.calls = measured
        if self.backend.pending():
            raise NotWaitedError(
                f"{self.variant.id}: the sample ended before the device had finished: "
                "does the op return what it computed?"
            )
        kept = np.array if self.variant.case.repeatable else shape_of
        copied: list[Any] = tree_map(kept, [self.backend.to_host(out), dict(self.extras.params())])
        return copied

    def settle(self) -> list[Any]:
        """Compile, warm the caches, and check that samples are repeatable and waited for; return the answer.

        Raises:
            NotWaitedError: the device was still computing when a sample ended.
            DriftError: two samples, each after a reset, gave different answers.
        """
        first = self.answer()
        if self.first_answer is None:
            self.first_answer = time.perf_counter() - self.start
        second = self.answer()
        for a, b in zip(leaves(first), leaves(second), strict=True):
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True):
                raise DriftError(
                    f"{self.variant.id}: two samples after a reset gave different answers: "
                    "does reset() put back everything?"
                )
        self.reset()
        self.late = bool(self.late)
        return first

    def stats(self) -> dict[str, float]:
        """Return what else the op measured in its last sample: latencies, the lag of its policy."""
        return self.extras.stats()

    def phases(self) -> dict[str, float]:
        """Return the seconds that each phase of a loop took in its last sample."""
        return self.extras.phases()


def shape_of(array: Any) -> Any:
    """Return the shape of an array, as an array.

    Args:
        array: of NumPy.
    """
    return np.array(np.shape(array), np.int64)


def flat(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts, lists and tuples, a dict's by name.

    Args:
        tree: of arrays and numbers.
    """
    if isinstance(tree, dict):
        tree = [tree[name] for name in sorted(tree)]
    return [leaf for part in tree for leaf in flat(part)] if isinstance(tree, list | tuple) else [tree]


def leaves(tree: Any) -> list[Any]:
    """Return the same as arrays.

    Args:
        tree: of arrays and numbers.
    """
    return [np.asarray(leaf) for leaf in flat(tree)]


def unsupported_reason(error: Exception) -> str | None:
    """Return what of a case this revision does not have, where that is why it could not be prepared.

    Args:
        error: what :func:`prepare` raised.
    """
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("rl_impls"):
        return f"no {error.name}"
    if isinstance(error, ValueError) and str(error).startswith("unknown "):  # what the registry says of a name
        return str(error)
    return str(error) if type(error).__name__ == "OpUnavailable" else None
