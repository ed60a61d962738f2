"""The fixture ``bench``: pytest-benchmark's fixture for functions that keep state or compute on a device."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

LEAST = 0.01  # seconds of a sample of several calls
RTOL, ATOL = 1e-5, 1e-7  # what the order of sums changes


class DriftError(AssertionError):
    """Two samples after a reset did not do the same work."""


class NotWaitedError(AssertionError):
    """A call returned while the device was still computing."""


class Bench:
    """Times a function as ``benchmark`` does, after checking that each sample does the same work.

    Args:
        request: of the test.
        benchmark: pytest-benchmark's fixture, or that of a gate's worker.
    """

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any) -> None:
        self.request, self.benchmark = request, benchmark

    def __call__(
        self,
        function: Callable[..., Any],
        *args: Any,
        reset: Callable[[], None] | None = None,
        close: Callable[[], None] | None = None,
        max_calls: int | None = None,
        output: Callable[[Any], Any] | None = None,
        warm: bool = True,
        rtol: float = RTOL,
        items: int = 1,
        unit: str = "calls",
        flops: float = 0.0,
        bytes: float = 0.0,
        figures: Callable[[], Mapping[str, Any]] | None = None,
        exact: Callable[[], Mapping[str, int]] | None = None,
        **info: Any,
    ) -> Any:
        """Time calls of a function; return the result of the last one.

        Args:
            function: that is timed; it returns when the device has finished.
            args: of each call.
            reset: restores all that calls change. A sample is then several calls after one untimed reset.
            close: ends what the function has started, after the test.
            max_calls: calls after one reset, at most.
            output: returns what is compared between samples and between the sides of a gate, given a result.
            warm: whether calls before the first timed one warm up caches and compilers.
            rtol: how far the outputs of two samples may differ; above the default, as a part of their norm.
            items: units that a call handles.
            unit: what a call handles, in the plural.
            flops: floating-point operations of a call; 0 if not worth counting.
            bytes: bytes that a call reads and writes; 0 if not worth counting.
            figures: returns other figures of the last sample, which are put under ``extra_info["figures"]``.
            exact: returns counts that are the same in every run, which a gate compares exactly.
            info: more values for pytest-benchmark's ``extra_info``.

        Raises:
            DriftError: two samples, each after a reset, gave different outputs.
            NotWaitedError: the device was still computing when a call returned.
        """
        if close:
            self.request.addfinalizer(close)
        self.benchmark.extra_info |= {"unit": unit, "items": items, "flops": flops, "bytes": bytes, **info}
        if warm and getattr(self.benchmark, "counting", True):  # a gate's worker warms up by itself, and checks once
            self.warm_up(function, args, reset, max_calls, output, rtol)
        if hasattr(self.benchmark, "after_reset"):  # in a gate's worker, which makes as many calls on both sides
            result = self.benchmark.after_reset(function, args, reset=reset, max_calls=max_calls, output=output)
        elif reset is None:
            result = self.benchmark(function, *args)
        else:
            result = self.pedantic(function, args, reset, max_calls)
        if figures:
            self.benchmark.extra_info["figures"] = dict(figures())
        if exact and getattr(self.benchmark, "counting", False):
            self.benchmark.extra_info["exact"] = dict(exact())
        return result

    def warm_up(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        reset: Callable[[], None] | None,
        max_calls: int | None,
        output: Callable[[Any], Any] | None,
        rtol: float,
    ) -> None:
        """Take two samples, and check that they did the same work and that the device has finished."""
        found = []
        for _ in range(2):
            if reset:
                reset()
            for _ in range(min(2, max_calls or 2)):
                result = function(*args)
            if device_is_busy():
                raise NotWaitedError(f"{self.name}: a call returned while the device was busy; wait for the result")
            found.append(output(result) if output else None)
        for first, second in zip(*map(leaves, found), strict=True):
            if not close_to(first, second, rtol):
                raise DriftError(f"{self.name}: two samples gave different outputs; let reset restore all state")

    @property
    def name(self) -> str:
        """Name of the test."""
        return str(self.request.node.name)

    def pedantic(
        self, function: Callable[..., Any], args: tuple[Any, ...], reset: Callable[[], None], max_calls: int | None
    ) -> Any:
        """Time rounds of several calls after one reset; report seconds per call."""

        def calls(count: int) -> Any:
            for _ in range(count):
                result = function(*args)
            return result

        option = self.request.config.getoption
        count, rounds = 1, 1
        if not self.benchmark.disabled:
            count, seconds = calibrated(calls, reset, max_calls)
            rounds = max(option("benchmark_min_rounds"), math.ceil(float(option("benchmark_max_time")) / seconds))
        result = self.benchmark.pedantic(lambda: calls(count), setup=reset, rounds=rounds)
        if self.benchmark.stats:
            stats = self.benchmark.stats.stats
            stats.data = [seconds / count for seconds in stats.data]
            self.benchmark.stats.iterations = count
        return result


def calibrated(calls: Callable[[int], Any], reset: Callable[[], None], max_calls: int | None) -> tuple[int, float]:
    """Return how many calls after one reset take 10 ms, and the seconds of that sample; at most ``max_calls``."""
    count, most = 1, max_calls or 1 << 20
    while True:
        samples = []
        for _ in range(2):
            reset()
            start = time.perf_counter()
            calls(count)
            samples.append(time.perf_counter() - start)
        if min(samples) >= LEAST or count == most:
            return count, min(samples)
        count = min(2 * count, most)


def device_is_busy() -> bool:
    """Return whether an accelerator, or JAX on any device, still has work to do."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch and torch.cuda.is_initialized() and not torch.cuda.current_stream().query():
        return True
    return jax is not None and any(not array.is_deleted() and not array.is_ready() for array in jax.live_arrays())


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts, lists and tuples as arrays."""
    if isinstance(tree, dict):
        tree = [tree[name] for name in sorted(tree)]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, list | tuple) else [np.asarray(tree)]


def close_to(first: Any, second: Any, rtol: float = RTOL) -> bool:
    """Return whether two arrays agree: element by element, or by the norm of their difference beyond the default."""
    if first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    if rtol <= RTOL:
        return bool(np.allclose(first, second, rtol=rtol, atol=ATOL, equal_nan=True))
    finite = np.isfinite(first)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return False
    a, b = first[finite].astype(np.float64), second[finite].astype(np.float64)
    most = rtol * max(np.linalg.norm(a), np.linalg.norm(b)) + ATOL * np.sqrt(a.size)
    return bool(np.linalg.norm(a - b) <= most)
