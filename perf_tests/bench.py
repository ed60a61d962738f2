"""The ``bench`` fixture: pytest-benchmark's ``benchmark`` for functions that keep state or compute on a device.

    def test_train_step(bench, seed, form, backend, batch_size):
        op = build(snake.train_step(seed, batch_size), form, backend)
        bench(op.call, *op.args, **op.keywords)  # keywords: reset, output, items, unit, flops, ...

A stateless function is timed as ``benchmark`` would time it. A function with state needs ``reset``: each sample is then
one or more calls after one untimed reset, and times are reported per call. Before timing, two warm-up samples check
that calls wait for the device and that every sample does the same work.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

LEAST = 0.01  # shortest duration of a sample of several calls, in seconds
SLOW = 0.1  # calls from this many seconds on are not calibrated: they need no exact estimate of their duration
RTOL, ATOL = 1e-5, 1e-7  # rounding differences from another order of summation


class DriftError(AssertionError):
    """Two warm-up samples gave different outputs, so they did not do the same work."""


class NotWaitedError(AssertionError):
    """A call returned while the device was still computing."""


class Bench:
    """The object behind the ``bench`` fixture: checks a function, then times it with pytest-benchmark.

    Args:
        request: the requesting test.
        benchmark: pytest-benchmark's fixture, or its stand-in inside an rlgauge worker.
    """

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any) -> None:
        self.request, self.benchmark = request, benchmark

    def __call__(
        self,
        function: Callable[..., Any],
        *args: Any,
        reset: Callable[[], object] | None = None,
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
        """Time ``function(*args)`` and return the result of the last call.

        Args:
            function: function to time; it must not return before the device has finished.
            args: positional arguments of every call.
            reset: restores all state that calls change; its result is ignored. Each sample is then one or more calls
                after one untimed reset.
            close: stops what the function has started (threads, processes); called when the test ends.
            max_calls: maximum number of calls after one reset.
            output: maps a result to the arrays that must agree between samples, and between both sides of a gate.
            warm: whether to make untimed warm-up calls, which also run the checks below.
            rtol: tolerance between the outputs of two samples; above the default, relative to an array's norm.
            items: number of units processed per call; the reported rate is ``items`` per second.
            unit: name of these units, in the plural.
            flops: floating-point operations per call; 0 if not worth counting.
            bytes: bytes read and written per call; 0 if not worth counting.
            figures: returns further measurements of the last sample, stored in ``extra_info["figures"]``.
            exact: returns counts that are identical in every run of the same code; a gate compares them exactly.
            info: further entries of pytest-benchmark's ``extra_info``.

        Raises:
            DriftError: two samples gave different outputs, usually because ``reset`` misses some state.
            NotWaitedError: a call returned while the device was still computing.
        """
        if close:
            self.request.addfinalizer(close)
        self.benchmark.extra_info |= {"unit": unit, "items": items, "flops": flops, "bytes": bytes, **info}
        seconds = 0.0
        checks = getattr(self.benchmark, "counting", not self.benchmark.disabled)  # a gate's worker warms up itself
        if warm and checks:
            seconds = self.warm_up(function, args, reset, max_calls, output, rtol)
        if hasattr(self.benchmark, "after_reset"):  # in a gate's worker: equally many calls on both sides
            result = self.benchmark.after_reset(function, args, reset=reset, max_calls=max_calls, output=output)
        elif reset is None:
            result = self.benchmark(function, *args)
        else:
            result = self.pedantic(function, args, reset, max_calls, seconds)
        if figures:
            self.benchmark.extra_info["figures"] = dict(figures())
        if exact and getattr(self.benchmark, "counting", False):
            self.benchmark.extra_info["exact"] = dict(exact())
        return result

    def warm_up(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        reset: Callable[[], object] | None,
        max_calls: int | None,
        output: Callable[[Any], Any] | None,
        rtol: float,
    ) -> float:
        """Run two warm-up samples; check that their outputs agree and that the device is idle after each.

        Return the seconds per call of the second sample.
        """
        found, count = [], min(2, max_calls or 2)
        for _ in range(2):
            if reset:
                reset()
            start = time.perf_counter()
            for _ in range(count):
                result = function(*args)
            seconds = (time.perf_counter() - start) / count
            if device_is_busy():
                raise NotWaitedError(f"{self.name}: a call returned while the device was busy; wait for the result")
            found.append(output(result) if output else None)
        for first, second in zip(*map(leaves, found), strict=True):
            if not close_to(first, second, rtol):
                raise DriftError(f"{self.name}: two samples gave different outputs; let reset restore all state")
        return seconds

    @property
    def name(self) -> str:
        """Name of the test, with its parameters."""
        return str(self.request.node.name)

    def pedantic(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        reset: Callable[[], object],
        max_calls: int | None,
        call_seconds: float,
    ) -> Any:
        """Time rounds of several calls after one reset, and rescale the samples to seconds per call.

        ``call_seconds`` is the duration of a warm call, 0 if unknown.
        """

        def calls(count: int) -> Any:
            for _ in range(count):
                result = function(*args)
            return result

        def setup() -> None:  # pytest-benchmark would take a returned value for arguments
            reset()

        given, count, rounds = self.benchmark, 1, 1  # its options come from the command line or a mark
        if not given.disabled:
            least = max(LEAST, given._min_time)
            count, seconds = (1, call_seconds) if call_seconds >= SLOW else calibrated(calls, reset, max_calls, least)
            rounds = max(given._min_rounds, math.ceil(given._max_time / seconds))
        warmups = int(bool(given._warmup))
        result = given.pedantic(lambda: calls(count), setup=setup, rounds=rounds, warmup_rounds=warmups)
        if self.benchmark.stats:
            stats = self.benchmark.stats.stats
            stats.data = [seconds / count for seconds in stats.data]
            self.benchmark.stats.iterations = count
        return result


def calibrated(
    calls: Callable[[int], Any], reset: Callable[[], object], max_calls: int | None, least: float
) -> tuple[int, float]:
    """Return the number of calls after one reset that take ``least`` seconds, and the duration of that sample.

    The number is doubled until both of two samples are long enough, or until it reaches ``max_calls``.
    """
    count, most = 1, max_calls or 1 << 20
    while True:
        samples = []
        for _ in range(2):
            reset()
            start = time.perf_counter()
            calls(count)
            samples.append(time.perf_counter() - start)
        if min(samples) >= least or count == most:
            return count, min(samples)
        count = min(2 * count, most)


def device_is_busy() -> bool:
    """Return whether a GPU, or JAX on any device, still has unfinished work."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch and torch.cuda.is_initialized() and not torch.cuda.current_stream().query():
        return True
    return jax is not None and any(not array.is_deleted() and not array.is_ready() for array in jax.live_arrays())


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of nested dicts, lists and tuples as NumPy arrays, dicts in sorted key order."""
    if isinstance(tree, dict):
        tree = [tree[name] for name in sorted(tree)]
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, list | tuple) else [np.asarray(tree)]


def close_to(first: Any, second: Any, rtol: float = RTOL) -> bool:
    """Return whether two arrays agree within ``rtol``.

    Floats are compared element by element up to the default ``rtol``, and by the norm of their difference above it. All
    other dtypes must be equal.
    """
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
