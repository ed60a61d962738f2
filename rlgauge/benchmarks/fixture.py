"""The ``benchmark`` fixture of a worker: while its test waits for the result, the gate times the callable.

It accepts the calls of pytest-benchmark's fixture, ``benchmark(function, *args, **kwargs)`` and
``benchmark.pedantic(...)``, once per test. A test with the ``benchmark`` mark but without the fixture is timed as a
whole, as in pytest-codspeed. In addition, ``benchmark.after_reset(...)`` times several calls of a function that changes
state.
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from pytest_benchmark.stats import Metadata

WARM_UP_SECONDS, WARM_UP_CALLS, MAX_CALLS = 0.03, 100, 1 << 20  # limits of a warm-up; maximum calls per sample
SAMPLE_SECONDS, WALL_SECONDS = 0.005, 0.05  # minimum timed seconds of a sample; maximum with untimed parts
NO_WEAVE = "the gate does not support benchmark.weave: call benchmark(function, ...) instead"
FIXTURES = {"benchmark": "pytest-benchmark", "codspeed_benchmark": "pytest-codspeed"}  # fixture -> its plugin
MARKS = tuple(FIXTURES)
UNSUPPORTED = (  # private attributes of pytest-benchmark
    "_add_stats", "_calibrate_timer", "_logger", "_make_runner", "_make_stats", "_raw", "_raw_pedantic",
)  # fmt: skip
MAX_SEARCHED = 1000  # items of the longest container that is searched for JAX arrays
END = object()  # returned at the end of an iterator
PLUGINS = "pytest_benchmark", "pytest_codspeed"  # modules of the fixtures that the gate replaces


def has_fixture(item: pytest.Item) -> bool:
    """Return whether a test uses a plugin's benchmark fixture, itself or through fixtures of the project."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    names = {*getattr(item, "fixturenames", ())} - {*parameters}
    return any(is_plugins(item, name) if name in FIXTURES else is_alias(item, name) for name in names)


def asks_for_fixture(item: pytest.Item) -> bool:
    """Return whether a test asks for a benchmark fixture, itself, by its marks, or through fixtures that it names."""
    found, known = set[str](), definitions(item)
    names = [*getattr(getattr(item, "_fixtureinfo", None), "argnames", ())]
    names += [name for mark in item.iter_markers("usefixtures") for name in mark.args]
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names += [argument for definition in known.get(name, ()) for argument in definition.argnames]
    marked = any(item.get_closest_marker(name) for name in MARKS)
    return marked or any(name in FIXTURES or is_alias(item, name) for name in found)


def is_alias(item: pytest.Item, name: str) -> bool:
    """Return whether a fixture is a plugin's that the project has given another name."""
    found = definitions(item).get(name)
    return found is not None and name != "benchmark_weave" and found[-1].func.__module__.partition(".")[0] in PLUGINS


def is_plugins(item: pytest.Item, name: str) -> bool:
    """Return whether a fixture is a plugin's or may wrap it, rather than a project's own of the same name."""
    for definition in reversed(definitions(item).get(name, ())):
        if definition.func.__module__.partition(".")[0] in PLUGINS:
            return True
        if name not in definition.argnames:  # it overrides the previous one, but may request another that uses it
            return definition.params is None and bool(definition.argnames)
    return True


def definitions(item: pytest.Item) -> Mapping[str, Sequence[Any]]:
    """Return the definitions of a test's fixtures by name; the last definition of a name overrides the others."""
    return getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})


def is_benchmark(item: pytest.Item) -> bool:
    """Return whether a test is a benchmark, by its fixture or by a mark."""
    return has_fixture(item) or any(map(item.get_closest_marker, MARKS))


def missing_plugin(item: pytest.Item) -> str | None:
    """Return an error message if the plugin that provides a test's benchmark fixture is missing, else None."""
    manager = item.session._fixturemanager  # a hook may add a fixture that the test's own definitions lack
    defined = getattr(manager, "_arg2fixturedefs", None) or manager._arg2node2fixturedefs  # the latter in pytest 9.2
    names = getattr(item, "fixturenames", ()) if has_fixture(item) else ()
    for fixture, plugin in FIXTURES.items():
        if fixture in names and fixture not in defined:
            uses = f"{item.nodeid} uses the fixture {fixture} of {plugin}, which is not"
            if find_spec(plugin.replace("-", "_")):
                return f"{uses} loaded: remove -p no:{fixture.partition('_')[0]} or PYTEST_DISABLE_PLUGIN_AUTOLOAD"
            return f"{uses} installed: run {sys.executable} -m pip install {plugin}"
    return None


def skip_reason(report: Any) -> str:
    """Return why a test or a file was skipped, or why a test was expected to fail."""
    if hasattr(report, "wasxfail"):
        return f"xfail: {report.wasxfail.removeprefix('reason: ')}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    return str(reason).removeprefix("Skipped: ")


class MisuseError(Exception):
    """A test uses the fixture in a way that cannot be timed; the message gives the problem and a remedy."""


class UnsupportedError(MisuseError, AttributeError):
    """A test reads a private attribute of pytest-benchmark's fixture that the gate's does not have."""


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

    Attributes:
        clock: returns the wall time in seconds.
        timer: returns the time that samples measure, in seconds.
        disable_gc: whether garbage collection is disabled during samples.
        only: if this run of the test makes a single call, its result as a list with one item; else empty.
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
    ) -> None:
        self.function = function
        self.args, self.kwargs = args, {} if kwargs is None else kwargs  # a setup may change them
        self.setup, self.teardown, self.iterations = setup, teardown, iterations
        self.restore, self.max_calls, self.output = reset, max_calls or MAX_CALLS, output
        self.once, self.only, self.disable_gc = once, list[Any](), False
        self.calls = 1
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
        except StopIteration as error:
            raise MisuseError(
                "setup has no more arguments: the gate makes more calls than the test asks for; repeat the arguments, "
                "for example with itertools.cycle"
            ) from error
        if not returned:
            return self.args, self.kwargs
        args, kwargs = returned
        return tuple(args), dict(kwargs)

    def sample(self) -> float:
        """Return the seconds of ``calls`` calls, excluding the reset, set-ups and teardowns."""
        if self.setup or self.teardown:
            seconds = sum(self.time_call(*self.arguments()) for _ in range(self.calls))
        else:
            self.reset()
            seconds = self.time_calls(self.calls * self.iterations)
        self.seconds.append(seconds / (self.calls * self.iterations))
        return seconds

    def time_calls(self, count: int) -> float:
        """Return the seconds of some calls; as in pytest-benchmark, a result is freed before the next call."""
        function, args, kwargs, waits = self.function, self.args, self.kwargs, "jax" in sys.modules
        repeats = range(count - waits)
        with gc_disabled() if self.disable_gc else nullcontext():
            start = self.timer()
            for _ in repeats:
                function(*args, **kwargs)
            if waits:
                wait(function(*args, **kwargs))
            return self.timer() - start

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
        self.result = result  # the previous one is freed outside the time
        if self.teardown:
            self.teardown(*args, **kwargs)
        return seconds

    def only_call(self) -> float:
        """Make the only call of this run of the test, and return its seconds; the test will get its result."""
        self.reset()
        seconds = self.time_call(*self.arguments())
        self.only, self.seconds = [self.result], [seconds]
        return seconds

    def first_output(self) -> Any:
        """Run the first call or calls; return the output to compare, which must be saved before the next call.

        Raises MisuseError if a call does no work, because the function is async or a generator function, or if later
        calls find no work, because the first one uses up an argument that is an iterator.
        """
        if inspect.isgeneratorfunction(self.function):
            raise MisuseError(
                "the timed function is a generator function, so a call does no work: time a function that consumes "
                "its items"
            )
        self.reset()
        result = self.call()
        if self.output and self.max_calls > 1:  # the second call sees the changes of the first
            start = self.clock()
            result = self.call()
            self.warm_seconds = self.clock() - start
        if inspect.iscoroutine(result) or inspect.isasyncgen(result):
            if inspect.iscoroutine(result):
                result.close()
            raise MisuseError(
                "the timed function is async, so a call does no work: time a function that calls asyncio.run"
            )
        if inspect.isgenerator(result) and not self.output:
            raise MisuseError(
                "the timed function returns a generator, whose work is not timed: time a function that consumes its "
                "items"
            )
        if not self.once and any(map(is_used_up, (*self.args, *self.kwargs.values()))):
            raise MisuseError(
                "an argument is an iterator that the first call uses up, so later calls do no work: create it in the "
                "timed function, or in the setup of benchmark.pedantic"
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
    """Wait until JAX has computed the arrays in a result; skip long containers, which take time to search."""
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "block_until_ready"):  # not imported, or partly
        return
    if isinstance(result, dict | list | tuple):
        searched = len(result) <= MAX_SEARCHED
    else:
        searched = hasattr(result, "block_until_ready") or dataclasses.is_dataclass(result)
    if searched:
        # JAX warns about iterators, which the project may turn into errors, and refuses keys that cannot be sorted
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


def is_used_up(value: Any) -> bool:
    """Return whether a value is a generator or another built-in iterator without further items.

    The check takes an item out of an iterator that is not a generator.
    """
    if inspect.isgenerator(value):
        return value.gi_frame is None
    built_in = isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools")
    return built_in and next(value, END) is END


class Benchmark:
    """The fixture: passes a test's callable to the gate, and returns to the test when the gate is done.

    Args:
        time_it: times a function; returns when the gate is done.
        item: the test.
        group: benchmark group from the test's mark.
        counting: whether ``extra_info["exact"]`` is read after the test, as counts to compare exactly.
        timer: returns the time that samples measure, in seconds. A test may replace it by setting ``_timer``.
        disable_gc: whether garbage collection is disabled during samples.
    """

    disabled, enabled, cprofile, cprofile_stats, has_error, skipped = False, True, None, None, False, False
    _min_rounds, _min_time, _max_time = 5, 5e-6, 1.0  # defaults of pytest-benchmark, which some tests read
    _warmup, _mode = False, None

    @property
    def __class__(self) -> type:
        """Return the class of the plugin's fixture, for code that checks types at run time."""
        module = sys.modules.get("pytest_benchmark.fixture") or sys.modules.get("pytest_codspeed.plugin")
        return getattr(module, "BenchmarkFixture", Benchmark)

    @__class__.setter
    def __class__(self, value: type) -> None:
        object.__dict__["__class__"].__set__(self, value)

    def __init__(
        self,
        time_it: Callable[[TimedFunction], None],
        item: pytest.Item,
        group: str | None,
        counting: bool = False,
        timer: Callable[[], float] = time.perf_counter,
        disable_gc: bool = False,
    ) -> None:
        self._disable_gc = disable_gc
        self._timer, self._precisions = timer, dict[Any, float]()  # some tests add the precision of their timer
        self.time_it, self.name, self.fullname, self.group = time_it, item.name, item.nodeid, group
        callspec = getattr(item, "callspec", None)
        self.param, self.params, self.counting = callspec and callspec.id, callspec and callspec.params, counting
        self.extra_info: dict[str, Any] = {}
        self.stats: Metadata | None = None
        self.used = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raise MisuseError for those of pytest-benchmark that would have no effect."""
        if name in UNSUPPORTED:
            raise MisuseError(f"the gate does not support setting benchmark.{name}: call benchmark(function, ...)")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """Raise MisuseError for private attributes of pytest-benchmark, and AttributeError for others."""
        if name in UNSUPPORTED:
            raise UnsupportedError(f"the gate does not support benchmark.{name}: call benchmark(function, ...)")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Time a function called with these arguments; return the result of a call made after the timing."""
        return self.run(TimedFunction(function, args, kwargs))

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Any:
        """Time a function with a set-up before each call; the gate chooses the number of rounds.

        With one round and no set-up, a second call may find no work left: see :mod:`.once`.

        Args:
            target: the function.
            args: positional arguments of each call.
            kwargs: keyword arguments of each call.
            setup: may return the arguments of a call as ``args, kwargs``.
            teardown: runs after each call, with its arguments.
            rounds: 1 or more; with 1, the test may be asking for a single call, otherwise the value has no effect.
            warmup_rounds: 0 or more; with 1 or more, the test does not ask for a single call.
            iterations: calls per round; must be 1 if there is a set-up.

        Raises:
            ValueError: arguments contradict each other, as in pytest-benchmark.
        """
        counts = ("rounds", rounds, 1), ("warmup_rounds", warmup_rounds, 0), ("iterations", iterations, 1)
        for name, value, least in counts:
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: {value!r} is out of range; choose {least} or more")
        if setup and (args or kwargs):
            given_setup = setup

            def setup() -> None:
                if given_setup():
                    raise TypeError("setup: it returns arguments; leave out args and kwargs")

        if setup and iterations != 1:
            raise ValueError(f"iterations: {iterations} is out of range with a setup; choose 1")
        once = not setup and rounds == iterations == 1 and not warmup_rounds
        return self.run(TimedFunction(target, args, kwargs, setup, teardown, iterations, once=once))

    def after_reset(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        *,
        reset: Callable[[], Any] | None = None,
        max_calls: int | None = None,
        output: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Time a function that changes state, with as many calls as a sample needs after each untimed reset.

        Args:
            function: the timed function.
            args: positional arguments of each call.
            reset: restores the state; both sides make the same number of calls after it.
            max_calls: upper limit of that number.
            output: selects what is compared between the sides, see :class:`TimedFunction`.
        """
        return self.run(TimedFunction(function, args, reset=reset, max_calls=max_calls, output=output))

    def weave(self, *args: Any, **kwargs: Any) -> None:
        """Reject patching: the gate cannot time calls from inside other code."""
        raise MisuseError(NO_WEAVE)

    patch = weave

    def run(self, timed: TimedFunction) -> Any:
        """Let the gate time the function; return the result of a new call to the test."""
        if self.used:
            raise MisuseError("it calls benchmark twice: split the test into two")
        self.used, timed.timer, timed.disable_gc = True, self._timer, self._disable_gc
        self.time_it(timed)
        if find_spec("pytest_benchmark"):
            self.stats = self.metadata(timed)
        if timed.only:
            return timed.only[0]
        timed.reset()
        return timed.call()  # later calls may have changed an earlier result

    def metadata(self, timed: TimedFunction) -> Metadata:
        """Return the value of ``benchmark.stats`` in pytest-benchmark, with the samples of this process."""
        from pytest_benchmark.stats import Metadata

        metadata = Metadata(self, timed.iterations, {})  # type: ignore[no-untyped-call]
        for seconds in timed.seconds:
            metadata.stats.update(seconds)  # type: ignore[no-untyped-call]
        return metadata
