"""The fixture ``benchmark`` of a worker: while its test waits for the result, the gate times what it was given.

It takes what pytest-benchmark's does: ``benchmark(function, *args, **kwargs)`` and ``benchmark.pedantic(...)``, once in
each test. A test that has the mark ``benchmark`` and not the fixture is timed as a whole, as pytest-codspeed does. In
addition, ``benchmark.after_reset(...)`` times several calls of a function that changes state.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .stats import Stats

if TYPE_CHECKING:
    import pytest

SETTLED, MOST_SETTLING, MOST_CALLS = 0.03, 100, 1 << 20  # seconds and calls of settling; calls of a sample
LEAST, MOST_MEASURING = 0.005, 0.05  # seconds of a sample, at least, and at most with what is not timed
WEAVE = "benchmark.weave is not supported by the gate: time a function by benchmark(function, ...)"
FIXTURES = {"benchmark": "pytest-benchmark", "codspeed_benchmark": "pytest-codspeed"}  # and what has them
MARKS = "benchmark", "codspeed_benchmark"
PLUGINS = "pytest_benchmark", "pytest_codspeed"  # modules whose fixtures the gate replaces


def has_fixture(item: pytest.Item) -> bool:
    """Return whether a test uses a fixture that times what it is given."""
    return not FIXTURES.keys().isdisjoint(getattr(item, "fixturenames", ()))


def is_benchmark(item: pytest.Item) -> bool:
    """Return whether a test is a benchmark: by a fixture, or as a whole by a mark."""
    return has_fixture(item) or any(map(item.get_closest_marker, MARKS))


def missing_plugin(item: pytest.Item) -> str | None:
    """Return which plugin a benchmark needs that is not there, and how to get it; None if it has all."""
    defined = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for fixture, plugin in FIXTURES.items():
        if fixture in getattr(item, "fixturenames", ()) and fixture not in defined:
            words = f"{item.nodeid} uses the fixture {fixture} of {plugin}, which is not "
            if find_spec(plugin.replace("-", "_")):
                return f"{words}loaded: remove -p no:{fixture.partition('_')[0]} or PYTEST_DISABLE_PLUGIN_AUTOLOAD"
            return f"{words}installed: run {sys.executable} -m pip install {plugin}"
    return None


class Misused(Exception):
    """A test asks the fixture for something that cannot be timed; the message says what and what to do."""


class Benchmarked:
    """What a test gave to its fixture, as the gate takes it: one call, a sample of them, the answer of the first.

    Args:
        function: that is timed.
        args: of each call.
        kwargs: of each call.
        setup: returns the arguments of a call, or nothing; it runs before each, untimed.
        teardown: gets the arguments of a call after it, untimed.
        iterations: calls that are timed as one.
        reset: restores the state that a sample starts from, untimed.
        max_calls: calls after one reset, at most.
        output: returns what is compared between the sides, given the result of the second call after a reset.
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
    ) -> None:
        self.function, self.args, self.kwargs = function, tuple(args), dict(kwargs or {})
        self.setup, self.teardown, self.iterations = setup, teardown, iterations
        self.restore, self.max_calls, self.output = reset, max_calls or MOST_CALLS, output
        self.calls = 1
        self.seconds: list[float] = []

    def reset(self) -> None:
        """Restore the state that a sample starts from."""
        if self.restore:
            self.restore()

    def call(self) -> Any:
        """Call it once, with its set-up and teardown; return what it returns."""
        args, kwargs = self.arguments()
        out = self.function(*args, **kwargs)
        for _ in range(self.iterations - 1):
            self.function(*args, **kwargs)
        if self.teardown:
            self.teardown(*args, **kwargs)
        return out

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the next call, made by its set-up where there is one that returns some."""
        made = self.setup() if self.setup else None
        if not made:
            return self.args, self.kwargs
        args, kwargs = made
        return tuple(args), dict(kwargs)

    def sample(self) -> float:
        """Return the seconds of ``calls`` calls, without the reset before them and their set-ups and teardowns."""
        if self.setup or self.teardown:
            spent = sum(self.timed(*self.arguments()) for _ in range(self.calls))
        else:
            function, args, kwargs, turns = self.function, self.args, self.kwargs, range(self.calls * self.iterations)
            self.reset()
            start = time.perf_counter()
            for _ in turns:
                function(*args, **kwargs)
            spent = time.perf_counter() - start
        self.seconds.append(spent / (self.calls * self.iterations))
        return spent

    def timed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        """Return the seconds of one call.

        Args:
            args: of the call.
            kwargs: of the call.
        """
        function, turns = self.function, range(self.iterations)
        start = time.perf_counter()
        for _ in turns:
            function(*args, **kwargs)
        spent = time.perf_counter() - start
        if self.teardown:
            self.teardown(*args, **kwargs)
        return spent

    def first(self) -> Any:
        """Call it for the first time; return what is compared, which is to be kept before the next call.

        Raises:
            Misused: it is asynchronous, so that a call does no work.
        """
        self.reset()
        for _ in range(min(2, self.max_calls) if self.output else 1):  # the second call sees what the first changed
            result = self.call()
        if inspect.isawaitable(result) or inspect.isasyncgen(result):
            if inspect.iscoroutine(result):
                result.close()
            raise Misused("what is timed is async: a call of it does no work; time a function that runs it to its end")
        return self.output(result) if self.output else result

    def settle(self) -> None:
        """Call it for a while, so that caches are warm and compilers have run."""
        start = time.perf_counter()
        for number in range(MOST_SETTLING):
            if time.perf_counter() - start > SETTLED:
                break
            if number % self.max_calls == 0:
                self.reset()
            self.call()

    def measure_calls(self) -> int:
        """Return how many calls make a sample that is long enough, and take so many from now on.

        Where most of a call is not timed, as its set-up, they are fewer.
        """
        self.calls = 1
        while True:
            start = time.perf_counter()
            spent = max(self.sample(), 1e-9)
            wall = spent if self.restore else max(time.perf_counter() - start, spent)  # one reset serves all calls
            wanted = min(self.max_calls, int(self.calls * min(1.1 * LEAST / spent, MOST_MEASURING / wall)))
            if spent >= LEAST or wanted <= self.calls:
                self.seconds.clear()
                return self.calls
            self.calls = wanted

    def close(self) -> None:
        """It started nothing."""


class Timed:
    """What ``benchmark.stats`` is after the benchmark.

    Args:
        benchmarked: what was timed.

    Attributes:
        stats: the figures, also by name, as in ``benchmark.stats["mean"]``.
        iterations: calls that were timed as one.
    """

    def __init__(self, benchmarked: Benchmarked) -> None:
        self.stats, self.iterations = Stats(benchmarked.seconds), benchmarked.iterations

    def __getitem__(self, name: str) -> Any:
        """Return a figure by its name."""
        return getattr(self.stats, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a figure by its name, or the default for one that does not exist."""
        return getattr(self.stats, name, default)


class Benchmark:
    """The fixture: hands what a test wants timed to the gate, and returns to the test when the gate is done.

    Args:
        timed_by: has a benchmark timed; returns when that is over.
        name: of the test.
        group: of the test, by its mark.
        params: of the test, if it is parametrised.
        counting: whether ``extra_info["exact"]`` is read after the test: counts that both sides should have alike.
    """

    disabled, enabled, cprofile = False, True, None

    def __init__(
        self,
        timed_by: Callable[[Benchmarked], None],
        name: str,
        group: str | None,
        params: Mapping[str, Any] | None,
        counting: bool = False,
    ) -> None:
        self.timed_by, self.name, self.fullname, self.group = timed_by, name, name, group
        self.params, self.param, self.counting = params, None, counting
        self.extra_info: dict[str, Any] = {}
        self.stats: Timed | None = None
        self.used = False

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Have calls of a function timed; return what the first of them returned.

        Args:
            function: that is timed.
            args: of each call.
            kwargs: of each call.
        """
        return self.have_timed(Benchmarked(function, args, kwargs))

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
        """Have calls of a function timed, each after a set-up; the gate says how many rounds.

        Args:
            target: the function.
            args: of each call.
            kwargs: of each call.
            setup: returns the arguments of a call as ``args, kwargs``, or nothing.
            teardown: gets the arguments of a call after it.
            rounds: at least 1; as many as the gate needs are made.
            warmup_rounds: not less than 0; as many as the gate needs are made.
            iterations: calls of a round; 1 where there is a set-up.

        Raises:
            ValueError: as pytest-benchmark's, for arguments that contradict each other.
        """
        counts = ("rounds", rounds, 1), ("warmup_rounds", warmup_rounds, 0), ("iterations", iterations, 1)
        for name, value, least in counts:
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name}: got {value!r}, wanted {least} or more")
        if setup and (args or kwargs):
            made = setup

            def setup() -> None:
                if made():
                    raise TypeError("setup: it returns arguments, and args or kwargs are given too")

        if setup and iterations != 1:
            raise ValueError(f"iterations: got {iterations} with a setup, wanted 1")
        return self.have_timed(Benchmarked(target, args, kwargs, setup, teardown, iterations))

    def after_reset(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] = (),
        *,
        reset: Callable[[], Any] | None = None,
        max_calls: int | None = None,
        output: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Have calls of a function that changes state timed, as many as a sample needs after each untimed reset.

        Args:
            function: that is timed.
            args: of each call.
            reset: restores the state; both sides make the same number of calls after it.
            max_calls: calls after one reset, at most.
            output: returns what is compared between the sides, given the result of the second call after a reset.
        """
        return self.have_timed(Benchmarked(function, args, reset=reset, max_calls=max_calls, output=output))

    def weave(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: calls from inside of other code cannot be asked for one by one.

        Args:
            *args: not looked at.
            **kwargs: not looked at.

        Raises:
            Misused: always.
        """
        raise Misused(WEAVE)

    patch = weave

    def have_timed(self, benchmarked: Benchmarked) -> Any:
        """Hand it over, and return the result to the test.

        Args:
            benchmarked: what is timed.
        """
        if self.used:
            raise Misused("it calls benchmark twice: each test may do so once")
        self.used = True
        self.timed_by(benchmarked)
        self.stats = Timed(benchmarked)
        benchmarked.reset()
        return benchmarked.call()  # not what an earlier call returned, which later ones may have changed
