"""The fixture of a worker takes what pytest-benchmark's takes, and times no more than it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats as Theirs

from rlgauge.benchmarks import fixture as module
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


def of_pytest_benchmark(seconds):
    theirs = Theirs()
    for each in seconds:
        theirs.update(each)
    return theirs


# Older versions of pytest-benchmark return an outlier as the highest datum within the fences.
WRONG = {"hd15iqr"} if of_pytest_benchmark([0.0, 0.0, 0.0, 0.0, 1.0]).hd15iqr == 1 else set()
FIGURES = [name for name in Theirs.fields if name not in WRONG]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40) | st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=1))
def test_figures_are_those_of_pytest_benchmark(seconds):
    theirs, one = of_pytest_benchmark(seconds), fixture(lambda benchmarked: benchmarked.seconds.extend(seconds))
    one(lambda: None)
    ours = one.stats.stats.as_dict()
    assert {name: ours[name] for name in FIGURES} == {name: theirs.as_dict()[name] for name in FIGURES}
    assert ours.keys() == theirs.as_dict().keys()
    assert [one.stats[name] for name in FIGURES] == [getattr(theirs, name) for name in FIGURES]
    assert (one.stats.stats.data, one.stats.stats.sorted_data) == (theirs.data, theirs.sorted_data)
    assert (one.stats.get("mean"), one.stats.get("no such", 3)) == (theirs.mean, 3)


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


def test_a_call_has_its_set_up_its_iterations_and_one_teardown():
    seen = []

    def setup():
        seen.append("setup")
        return [1], {"b": 2}

    def target(a, b):
        seen.append((a, b))
        return len(seen)

    made = Benchmarked(target, setup=setup, teardown=lambda a, b: seen.append(("teardown", a, b)), iterations=3)
    assert made.call() == 2
    assert seen == ["setup", (1, 2), (1, 2), (1, 2), ("teardown", 1, 2)]


@pytest.mark.parametrize("made", [None, (), False])
def test_without_arguments_of_a_set_up_those_given_are_taken(made):
    one = Benchmarked(len, ["abc"], {"b": 1}, setup=lambda: made)
    assert one.arguments() == (("abc",), {"b": 1})
    assert Benchmarked(len, ["abc"], setup=lambda: ([1], {"c": 2})).arguments() == ((1,), {"c": 2})


def test_what_is_torn_down_without_a_set_up_is_not_timed_either_and_iterations_count(clock):
    torn = []

    def teardown(x):
        clock(100)
        torn.append(x)

    made = Benchmarked(lambda x: clock(x), (2,), teardown=teardown, iterations=3)
    made.calls = 2
    assert made.sample() == 12
    assert (made.seconds, torn) == ([2], [2, 2])
    made.sample()
    assert made.seconds == [2, 2]


@pytest.mark.parametrize(("seconds", "calls"), [(0.0, 100), (0.02, 2), (0.03, 2), (0.0301, 1)])
def test_it_is_settled_by_a_hundred_calls_or_three_hundredths_of_a_second(clock, seconds, calls):
    seen = []
    Benchmarked(lambda: seen.append(clock(seconds)), teardown=lambda: seen.append("teardown")).settle()
    assert seen == [None, "teardown"] * calls


@pytest.mark.parametrize(
    ("call", "setup", "teardown", "iterations", "calls"),
    [(1 / 1024, 0, 0, 1, 5), (1 / 128, 0, 0, 1, 1), (2**-12, 0, 0, 1, 22), (2**-12, 0, 0, 4, 5),
     (1e-6, 0.01, 0, 1, 4), (1e-6, 0, 0.01, 1, 4), (1e-6, 0.1, 0, 1, 1)],
)  # fmt: skip
def test_calls_of_a_sample_take_five_thousandths_of_a_second_and_with_what_is_not_timed_fifty(
    clock, call, setup, teardown, iterations, calls
):
    around = {"setup": lambda: clock(setup)} if setup else {"teardown": lambda: clock(teardown)} if teardown else {}
    made = Benchmarked(lambda: clock(call), iterations=iterations, **around)
    for _ in range(2):
        assert made.measure_calls() == made.calls == calls
    assert made.seconds == []


def test_what_takes_no_time_has_only_so_many_calls(clock, monkeypatch):
    assert module.MOST_CALLS == 1 << 20
    monkeypatch.setattr(module, "MOST_CALLS", 50)
    assert Benchmarked(lambda: clock(0)).measure_calls() == 50


def test_the_first_call_s_result_is_returned_and_one_to_be_awaited_is_refused():
    assert Benchmarked(lambda x, y: (x, y), ("a",), {"y": "b"}).first() == ("a", "b")

    async def generated():
        yield 1

    class Awaited:
        def __await__(self):
            yield

    for work in (generated, Awaited):
        with pytest.raises(Misused, match=r"^what is timed is async: a call of it does no work; time a function that "):
            Benchmarked(work).first()


def test_a_coroutine_that_is_refused_is_closed():
    async def work():
        """Nothing."""

    made = work()
    with pytest.raises(Misused):
        Benchmarked(lambda: made).first()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        made.send(None)


def test_all_that_a_test_gives_is_taken():
    taken = []
    ready, done = (lambda: None), (lambda *args, **kwargs: None)

    def target(*args, **kwargs):
        return args, kwargs

    assert fixture(taken.append)(target, 1, b=2) == ((1,), {"b": 2})
    assert fixture(taken.append).pedantic(target, [3], {"c": 4}, ready, done, 9, 8) == ((3,), {"c": 4})
    assert fixture(taken.append).pedantic(target, iterations=5) == ((), {})
    assert [(one.function, one.args, one.kwargs, one.iterations) for one in taken] == [
        (target, (1,), {"b": 2}, 1),
        (target, (3,), {"c": 4}, 1),
        (target, (), {}, 5),
    ]
    assert [(one.setup is None, one.teardown) for one in taken] == [(True, None), (False, done), (True, None)]
    assert fixture().pedantic(target, setup=lambda: ([5], {"d": 6})) == ((5,), {"d": 6})


def test_keywords_are_arguments_given_twice_too():
    with pytest.raises(TypeError, match="setup: it returns arguments"):
        fixture().pedantic(lambda x: None, kwargs={"x": 1}, setup=lambda: ((), {"x": 1}))


@pytest.mark.parametrize("given", [{"rounds": 1}, {"warmup_rounds": 0}, {"iterations": 1, "setup": lambda: None}])
def test_the_least_numbers_are_taken(given):
    assert fixture().pedantic(lambda: 3, **given) == 3


def test_the_fixture_is_what_a_test_may_ask_of_it():
    one = fixture()
    assert (one.name, one.fullname, one.group, one.params, one.param) == (
        "test_it",
        "test_it",
        "a group",
        {"x": 1},
        None,
    )
    assert (one.disabled, one.enabled, one.cprofile, one.stats, one.used) == (False, True, None, None, False)
    one.extra_info["mine"] = 1
    assert fixture().extra_info == {}
    one.pedantic(lambda: None, iterations=4)
    assert (one.used, one.stats.iterations) == (True, 4)
    with pytest.raises(Misused, match=r"^benchmark.weave is not supported by the gate: "):
        one.patch(len)


def test_what_could_not_be_timed_cannot_be_tried_again():
    def refuse(benchmarked):
        raise OSError("no room")

    one = fixture(refuse)
    with pytest.raises(OSError, match="no room"):
        one(len, "abc")
    assert (one.used, one.stats) == (True, None)
    with pytest.raises(Misused, match=r"^it calls benchmark twice: each test may do so once$"):
        one.pedantic(len, ["abc"])


def test_calls_are_counted_anew_whatever_they_were(clock):
    made = Benchmarked(lambda: clock(1 / 1024))
    made.calls = 50
    assert made.measure_calls() == 5
