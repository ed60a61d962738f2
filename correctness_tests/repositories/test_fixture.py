"""The fixture of a worker takes what pytest-benchmark's takes, and times no more than it should."""

from __future__ import annotations

import pytest

from rlgauge.benchmarks.fixture import Benchmark, Benchmarked, Misused


@pytest.fixture
def clock(monkeypatch):
    """A clock that functions turn by themselves. -> ``clock(seconds)``"""
    now = [0.0]
    monkeypatch.setattr("rlgauge.benchmarks.fixture.time.perf_counter", lambda: now[0])

    def turn(seconds):
        now[0] += seconds

    return turn


def fixture(take=lambda benchmarked: benchmarked.first()):
    return Benchmark(take, "test_it", "a group", {"x": 1})


def test_a_sample_is_of_its_calls(clock):
    made = Benchmarked(lambda x, y: clock(x * y), (2,), {"y": 3})
    made.calls = 5
    assert made.sample() == 30
    assert made.seconds == [6]


def test_iterations_are_timed_as_one_call(clock):
    made = Benchmarked(lambda: clock(2), iterations=3)
    made.calls = 2
    assert made.sample() == 12
    assert made.seconds == [2]


def test_what_is_set_up_and_torn_down_is_not_timed(clock):
    seen = []

    def setup():
        clock(100)
        return (len(seen),), {"b": 2}

    def teardown(a, b):
        clock(1000)
        seen.append((a, b))

    made = Benchmarked(lambda a, b: clock(b), setup=setup, teardown=teardown)
    made.calls = 3
    assert made.sample() == 6
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_a_set_up_may_return_nothing(clock):
    made = Benchmarked(lambda x: clock(x), (7,), setup=lambda: None)
    assert made.sample() == 7


def test_calls_are_as_many_as_make_a_sample_long_enough(clock):
    made = Benchmarked(lambda: clock(0.001))
    assert 5 <= made.measure_calls() <= 10
    assert made.seconds == []


def test_a_long_set_up_does_not_make_samples_of_many_calls(clock):
    made = Benchmarked(lambda: clock(1e-6), setup=lambda: clock(0.01))
    assert made.measure_calls() <= 16


def test_the_result_is_that_of_the_last_call():
    calls = []
    assert fixture()(lambda: calls.append(0) or len(calls)) == 2


def test_figures_are_there_afterwards():
    def take(benchmarked):
        benchmarked.seconds += [1.0, 2.0, 6.0]

    one = fixture(take)
    one(lambda: None)
    stats = one.stats.stats
    assert (stats.min, stats.max, stats.mean, stats.median, stats.rounds, one.stats["total"]) == (1, 6, 3, 2, 3, 9)
    assert (one.group, one.params, one.disabled) == ("a group", {"x": 1}, False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 0}, "rounds: got 0, wanted 1 or more"),
        ({"iterations": 0.5}, "iterations: got 0.5, wanted 1 or more"),
        ({"warmup_rounds": -1}, "warmup_rounds: got -1, wanted 0 or more"),
        ({"iterations": 2, "setup": lambda: None}, "iterations: got 2 with a setup, wanted 1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        fixture().pedantic(lambda: None, **given)


def test_arguments_given_twice_are_refused():
    with pytest.raises(TypeError, match="setup: it returns arguments, and args or kwargs are given too"):
        fixture().pedantic(lambda x: None, (1,), setup=lambda: ((1,), {}))


def test_a_second_use_an_async_function_and_weaving_are_refused():
    one = fixture()
    one(lambda: None)
    with pytest.raises(Misused, match="twice"):
        one(lambda: None)

    async def work():
        """Nothing."""

    with pytest.raises(Misused, match="async"):
        fixture()(work)
    with pytest.raises(Misused, match="weave is not supported"):
        fixture().weave(len)
