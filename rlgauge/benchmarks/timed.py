"""The function that a benchmark times: how the gate calls it, calibrates the calls per sample, and times samples."""

from __future__ import annotations

import dataclasses
import functools
import gc
import inspect
import itertools
import sys
import time
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

WARM_UP_SECONDS, WARM_UP_CALLS, MAX_CALLS = 0.03, 100, 1 << 20  # limits of a warm-up; maximum calls per sample
SAMPLE_SECONDS, WALL_SECONDS = 0.005, 0.05  # minimum timed seconds of a sample; maximum with untimed parts
MAX_SEARCHED = 1000  # items of the longest container that is searched for JAX arrays
END = object()  # returned at the end of an iterator
ENDLESS = itertools.count, itertools.cycle
LAZY = Generator, map, filter  # results that do their work when their items are consumed; compiled generators too


class MisuseError(Exception):
    """A test uses the fixture in a way that cannot be timed; the message gives the problem and a remedy."""


class TimedFunction:
    """The callable that a test passed to its fixture, as the gate times it.

    Args:
        function: the timed function.
        args: positional arguments of each call.
        kwargs: keyword arguments of each call.
        setup: runs untimed before each call; may return the call's arguments.
        teardown: runs untimed after each call, with its arguments.
        iterations: number of calls that are timed as one.
        reset: restores, untimed, the state from which a sample starts.
        max_calls: largest number of calls after one reset.
        output: maps the result of the second call after a reset (the first, if `max_calls` is 1) to the value that is
            compared between the sides.
        once: the test asks for one call; another one may fail, or find no work left.
        keeps: keep the result of the last timed call, which is then freed while nothing is timed.

    Attributes:
        clock: returns the wall time in seconds.
        timer: returns the time that samples measure, in seconds.
        disable_gc: whether garbage collection is disabled during samples.
        only: if this run of the test makes a single call, its result as a list with one item; else empty.
        kept: the kept result as a list with one item; empty if there is none.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        iterations: int = 1,
        reset: Callable[[], Any] | None = None,
        max_calls: int | None = None,
        output: Callable[[Any], Any] | None = None,
        once: bool = False,
        keeps: bool = False,
    ) -> None:
        self.function = function
        self.args, self.kwargs = args, {} if kwargs is None else kwargs  # a setup may change them
        self.setup, self.teardown, self.iterations = setup, teardown, iterations
        self.restore, self.max_calls, self.output = reset, max_calls or MAX_CALLS, output
        self.once, self.only, self.disable_gc = once, list[Any](), False
        self.keeps, self.kept = keeps, list[Any]()
        self.calls, self.has_set_up = 1, False
        self.seconds: list[float] = []
        self.result: Any = None
        self.warm_seconds = 0.0  # spent on the warm-up so far
        self.clock = self.timer = time.perf_counter

    def reset(self) -> None:
        """Restore the state from which a sample starts."""
        if self.restore:
            self.restore()

    def call(self) -> Any:
        """Run one call with its set-up and teardown; return its result."""
        args, kwargs = self.arguments()
        for _ in range(self.iterations - 1):
            self.function(*args, **kwargs)
        out = self.function(*args, **kwargs)
        wait(out)
        if self.teardown:
            self.teardown(*args, **kwargs)
        return out

    def arguments(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments of the next call; they come from its set-up if that returns any."""
        try:
            returned = self.setup() if self.setup else None
        except (StopIteration, IndexError) as error:
            if isinstance(error, IndexError) and not self.has_set_up:
                raise
            why = f" ({error})" if str(error) else ""
            raise MisuseError(
                f"setup has no more arguments{why}: the gate makes more calls than the test asks for; repeat the "
                "arguments, for example with itertools.cycle"
            ) from error
        self.has_set_up = True
        if not returned:
            return self.args, self.kwargs
        args, kwargs = returned
        return tuple(args), dict(kwargs)

    def iterators(self) -> list[Iterator[Any]]:
        """Return the iterators among the arguments, and among the outer variables unless a set-up may renew them."""
        function, found = self.function, [*self.args, *self.kwargs.values()]
        while isinstance(function, functools.partial):
            found += [*function.args, *function.keywords.values()]
            function = function.func
        if isinstance(function, types.FunctionType) and not (self.setup or self.restore):
            for cell in function.__closure__ or ():
                with suppress(ValueError):  # it has no value yet
                    found.append(cell.cell_contents)
        return [value for value in found if issubclass(type(value), Iterator)]  # `isinstance` computes lazy objects

    def sample(self) -> float:
        """Return the seconds of ``calls`` calls, excluding the reset, set-ups and teardowns."""
        if self.setup or self.teardown:
            seconds = sum(self.time_call(*self.arguments()) for _ in range(self.calls))
        else:
            self.kept.clear()
            self.reset()
            seconds = self.time_calls(self.calls * self.iterations)
        self.seconds.append(seconds / (self.calls * self.iterations))
        return seconds

    def time_calls(self, count: int) -> float:
        """Return the seconds of some calls; as in pytest-benchmark, a result is freed before the next call."""
        function, args, kwargs, keeps = self.function, self.args, self.kwargs, self.keeps
        waits = not sys.modules.keys().isdisjoint(("jax", "torch"))
        repeats = range(count - (keeps or waits))
        with gc_disabled() if self.disable_gc else nullcontext():
            start = self.timer()
            for _ in repeats:
                function(*args, **kwargs)
            if keeps:
                result = function(*args, **kwargs)
                wait(result)
            elif waits:
                wait(function(*args, **kwargs))
            seconds = self.timer() - start
        if keeps:
            self.kept.append(result)
        return seconds

    def time_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
        """Return the seconds of one call with these arguments, followed by its untimed teardown; keep its result."""
        function, repeats = self.function, range(self.iterations - 1)
        with gc_disabled() if self.disable_gc else nullcontext():
            start = self.timer()
            for _ in repeats:
                function(*args, **kwargs)
            result = function(*args, **kwargs)
            wait(result)
            seconds = self.timer() - start
        self.result = result  # the previous one is freed while nothing is timed
        if self.teardown:
            self.teardown(*args, **kwargs)
        return seconds

    def only_call(self) -> float:
        """Make the only call of this run of the test, and return its seconds; the test will get its result.

        If only the other side's test asks for one call, this one may have several iterations; the
        seconds are per iteration.
        """
        self.reset()
        seconds = self.time_call(*self.arguments()) / self.iterations
        self.only, self.seconds = [self.result], [seconds]
        return seconds

    def first_output(self) -> Any:
        """Run the first call or calls; return the output to compare, which must be saved before the next call.

        Raises MisuseError if a call does no work, because the function is async or a generator function, or if later
        calls find no work, because the first one uses up an iterator among its inputs.
        """
        if inspect.isgeneratorfunction(self.function):
            raise MisuseError(
                "the timed function is a generator function, so a call does no work: time a function that consumes "
                "its items"
            )
        before = self.iterators()  # the function may set an outer variable to a new one
        self.reset()
        result = self.call()
        if self.output and self.max_calls > 1:  # the second call sees the changes of the first
            start = self.clock()
            result = self.call()
            self.warm_seconds = self.clock() - start
        kind: type = type(result)  # `isinstance` computes lazy objects
        if issubclass(kind, Coroutine | AsyncGenerator):
            if issubclass(kind, Coroutine):
                result.close()
            raise MisuseError(
                "the timed function is async, so a call does no work: time a function that calls asyncio.run"
            )
        if issubclass(kind, LAZY) and not self.output:
            raise MisuseError(
                f"the timed function returns a {kind.__name__}, whose work is not timed: time a function that "
                "consumes its items"
            )
        if not self.once and any(is_used_up(each) for each in self.iterators() if id(each) in map(id, before)):
            raise MisuseError(
                "an argument or outer variable is an iterator that the first call uses up, so later calls do no work: "
                "create it in the timed function, or in the setup of benchmark.pedantic"
            )
        return self.output(result) if self.output else result

    def warm_up(self) -> None:
        """Warm up caches and compilers by calling the function for a while; :meth:`first_output` may have begun it."""
        start = self.clock() - self.warm_seconds
        for number in range(WARM_UP_CALLS):
            if self.clock() - start > WARM_UP_SECONDS:
                break
            if number % self.max_calls == 0:
                self.reset()
            self.call()

    def calibrate(self) -> int:
        """Find how many calls make a sample long enough, and store it in ``calls``.

        If most of a call is untimed, for example its set-up, a sample has fewer calls and may be shorter.
        """
        self.calls = 1
        while True:
            start = self.clock()
            seconds = max(self.sample(), 1e-9)
            wall = seconds if self.restore else max(self.clock() - start, seconds)  # one reset covers all calls
            factor = min(1.1 * SAMPLE_SECONDS / seconds, WALL_SECONDS / wall)
            calls = min(self.max_calls, int(self.calls * factor))
            if seconds >= SAMPLE_SECONDS or calls <= self.calls:
                self.seconds.clear()
                return self.calls
            self.calls = calls

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection, if it is enabled, for as long as the context lasts."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def wait(result: Any) -> None:
    """Wait until JAX has computed the arrays in a result, and until torch's GPU has finished.

    Long containers are skipped, because searching them takes time.
    """
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if hasattr(cuda, "synchronize") and cuda.is_initialized():
        cuda.synchronize()
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "block_until_ready"):  # not imported, or partly
        return
    if isinstance(result, dict | list | tuple):
        searched = len(result) <= MAX_SEARCHED
    else:
        searched = hasattr(result, "block_until_ready") or dataclasses.is_dataclass(result)
    if searched:
        # JAX warns about iterators (a project may turn warnings into errors), and refuses keys that cannot be sorted
        with suppress(DeprecationWarning):
            jax.block_until_ready(list(result.values()) if isinstance(result, dict) else result)


@contextmanager
def compiling_anew() -> Iterator[None]:
    """Disable JAX's cache on disk, so that a function that compiles in each call does so while it is timed."""
    config = getattr(sys.modules.get("jax"), "config", None)
    if config is None or not getattr(config, "jax_enable_compilation_cache", False):
        yield
        return
    from jax.experimental.compilation_cache import compilation_cache

    def enable(enabled: bool) -> None:
        config.update("jax_enable_compilation_cache", enabled)
        compilation_cache.reset_cache()  # it remembers the setting

    enable(False)
    try:
        yield
    finally:
        enable(True)


def is_used_up(value: Iterator[Any]) -> bool:
    """Return whether an iterator is a generator or another built-in one, and has no further items.

    The check takes an item out of it, unless it is endless or one of Python's own generators.
    """
    if inspect.isgenerator(value):
        return value.gi_frame is None
    known = type(value).__module__ in ("builtins", "itertools", "_csv") or isinstance(value, Generator)
    return known and not isinstance(value, ENDLESS) and next(value, END) is END
