"""A side of a claim, ready to be timed: a prepared benchmark, or a function of its own behind the same methods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rl_impls import backends

from ..suite.claim import Side
from ..suite.counters import count
from ..suite.prepared import LEAST, Prepared, prepare


class Function(AbstractContextManager["Function"]):
    """A function that was written for a claim, with what a prepared benchmark has.

    Args:
        side: that it is.
        seed: of all that is drawn.
    """

    def __init__(self, side: Side, seed: int) -> None:
        import numpy as np

        assert side.make is not None
        self.backend = backends.get(side.backend)
        self.call, self.calls = side.make(np.random.default_rng(seed)), 1

    def __exit__(self, *raised: Any) -> None:
        """Nothing was started."""

    def run(self) -> Any:
        """Make the calls of one sample, wait for each, and return the last result."""
        for _ in range(self.calls):
            out = self.backend.wait(self.call())
        return out

    def sample(self) -> float:
        """Return the seconds of one sample."""
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def settle(self) -> list[Any]:
        """Compile and warm the caches; return the result of a call, as NumPy copies."""
        self.run()
        return self.answer()

    def answer(self) -> list[Any]:
        """Return the result of a call, as NumPy copies."""
        import numpy as np

        copied: list[Any] = backends.tree_map(np.array, [self.backend.to_host(self.run())])
        return copied

    def measure_calls(self) -> int:
        """Double the calls of a sample until it takes 10 ms; return them."""
        while not all(self.sample() >= LEAST for _ in range(2)):
            self.calls *= 2
        return self.calls

    def noted(self) -> Mapping[str, float]:
        """Return nothing: a function notes nothing."""
        return {}

    def allocated(self) -> float:
        """Return 0: it is not counted."""
        return 0.0


class Benchmark(AbstractContextManager["Benchmark"]):
    """A prepared benchmark of a side.

    Args:
        side: that it is.
        seed: of all that is drawn.
    """

    def __init__(self, side: Side, seed: int) -> None:
        self.prepared: Prepared = prepare(side.variant, seed)
        self.settle, self.answer = self.prepared.settle, self.prepared.answer
        self.measure_calls, self.sample = self.prepared.measure_calls, self.prepared.sample

    def __exit__(self, *raised: Any) -> None:
        """End what it has started."""
        self.prepared.close()

    @property
    def calls(self) -> int:
        """The calls of a sample."""
        return self.prepared.calls

    def noted(self) -> Mapping[str, float]:
        """Return what the op counted in the last sample, and the seconds of its phases, by name."""
        return {**self.prepared.phases(), **self.prepared.stats()}

    def allocated(self) -> float:
        """Return the bytes that a call allocates, counted exactly."""
        return float(count(self.prepared).get("allocated_bytes", 0))


def ready(side: Side, seed: int) -> Function | Benchmark:
    """Return a side, built.

    Args:
        side: of a claim.
        seed: of all that is drawn.
    """
    return Function(side, seed) if side.make else Benchmark(side, seed)


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Have no more cores and threads of torch than a side asks for.

    Args:
        threads: how many; None for as many as the process has.
    """
    if threads is None:
        yield
        return
    import torch

    cores, before = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, sorted(cores)[:threads])
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        os.sched_setaffinity(0, cores)


Ready = Function | Benchmark
