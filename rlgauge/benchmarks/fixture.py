"""The ``benchmark`` fixture of a worker: while its test waits for the result, the gate times the callable.

It accepts the calls of pytest-benchmark's fixture, ``benchmark(function, *args, **kwargs)`` and
``benchmark.pedantic(...)``, once per test. A test with the ``benchmark`` mark but without the fixture is timed as a
whole, as in pytest-codspeed. In addition, ``benchmark.after_reset(...)`` times several calls of a function that changes
state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .timed import MisuseError, TimedFunction

if TYPE_CHECKING:
    import pytest
    from pytest_benchmark.stats import Metadata

NO_WEAVE = "the gate does not support benchmark.weave: call benchmark(function, ...) instead"
UNSUPPORTED = (  # private attributes of pytest-benchmark
    "_add_stats", "_calibrate_timer", "_logger", "_make_runner", "_make_stats", "_raw", "_raw_pedantic",
)  # fmt: skip


class UnsupportedError(MisuseError, AttributeError):
    """A test reads a private attribute of pytest-benchmark's fixture that the gate's does not have."""


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
                raise ValueError(f"{name}: {value!r} is not valid; choose an integer of {least} or more")
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

        Return the result of the last timed call, or of a new one if there is none.

        Args:
            function: the timed function.
            args: positional arguments of each call.
            reset: restores the state; both sides make the same number of calls after it.
            max_calls: upper limit of that number.
            output: selects the values to compare between the sides, see :class:`.timed.TimedFunction`.
        """
        return self.run(TimedFunction(function, args, reset=reset, max_calls=max_calls, output=output, keeps=True))

    def weave(self, *args: Any, **kwargs: Any) -> None:
        """Reject patching: the gate cannot time calls from inside other code."""
        raise MisuseError(NO_WEAVE)

    patch = weave

    def run(self, timed: TimedFunction) -> Any:
        """Let the gate time the function; return a result to the test, by default that of a new call."""
        if self.used:
            raise MisuseError("it calls benchmark twice: split the test into two")
        self.used, timed.timer, timed.disable_gc = True, in_seconds(self._timer), self._disable_gc
        self.time_it(timed)
        if find_spec("pytest_benchmark"):
            self.stats = self.metadata(timed)
        if found := timed.only or timed.kept:
            return found[0]
        timed.reset()
        return timed.call()  # later calls may have changed an earlier result

    def metadata(self, timed: TimedFunction) -> Metadata:
        """Return the value of ``benchmark.stats`` in pytest-benchmark, with the samples of this process."""
        from pytest_benchmark.stats import Metadata

        metadata = Metadata(self, timed.iterations, {})  # type: ignore[no-untyped-call]
        for seconds in timed.seconds:
            metadata.stats.update(seconds)  # type: ignore[no-untyped-call]
        return metadata


def in_seconds(timer: Callable[[], float]) -> Callable[[], float]:
    """Return a timer in seconds; a timer whose name ends in ``_ns`` returns nanoseconds."""
    return (lambda: 1e-9 * timer()) if getattr(timer, "__name__", "").endswith("_ns") else timer
