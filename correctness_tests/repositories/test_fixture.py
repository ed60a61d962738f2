"""The worker's ``benchmark`` fixture: it accepts pytest-benchmark's arguments and times only the calls."""

import functools
import gc
import itertools
import sys
import time
import weakref
from collections.abc import Coroutine, Generator
from types import SimpleNamespace

import pytest

from correctness_tests.commands import python
from rlgauge.benchmarks.fixture import Benchmark
from rlgauge.benchmarks.timed import MisuseError, TimedFunction


@pytest.fixture
def clock(monkeypatch):
    """Install a fake clock; return a function that advances it."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def fixture(take=lambda benchmarked: benchmarked.first_output()):
    test = SimpleNamespace(
        name="test_it[1]", nodeid="tests/test_one.py::test_it[1]", callspec=SimpleNamespace(id="1", params={"x": 1})
    )
    return Benchmark(take, test, "a group")


def test_a_test_may_set_the_timer_but_not_how_the_plugin_runs_the_function():
    times = []
    made = fixture(take=lambda benchmarked: times.append(benchmarked.sample()))
    made._timer = itertools.count(5, 2).__next__
    made(lambda: None)
    assert times == [2]
    with pytest.raises(MisuseError, match=r"setting benchmark\._make_runner"):
        made._make_runner = None


def test_a_timer_of_nanoseconds_gives_seconds():
    times = []
    made = fixture(take=lambda timed: times.append(timed.sample()))
    made._timer = time.perf_counter_ns
    made(time.sleep, 0.001)
    assert 0.001 <= times[0] < 1


def test_generators_of_numpy_are_seeded_although_it_is_imported_later():
    code = "from rlgauge.benchmarks.seeds import seed_all; seed_all()\nimport numpy\n"
    code += "print(numpy.random.rand(), numpy.random.default_rng().random())"
    first, second = (python("-c", code).stdout for _ in range(2))
    assert first == second != ""


@pytest.mark.parametrize("teardowns", [0, 2])
def test_iterations_are_timed_as_one_call(clock, teardowns):
    ended = []

    def teardown():
        clock(100)
        ended.append(True)

    made = TimedFunction(lambda: clock(2), iterations=3, teardown=teardown if teardowns else None)
    made.calls = 2
    assert made.sample() == 12
    assert made.seconds == [2]
    assert len(ended) == teardowns


@pytest.mark.parametrize(
    ("take", "why"), [(iter([((1,), {})]).__next__, ""), ([((1,), {})].pop, r" \(pop from empty list\)")]
)
def test_a_setup_without_further_arguments_is_explained(take, why):
    with pytest.raises(MisuseError, match=rf"arguments{why}: .* more calls than the test asks for; .* itertools"):
        fixture(take=lambda benchmarked: benchmarked.warm_up()).pedantic(abs, setup=take, rounds=1)


def test_an_error_in_the_first_setup_is_the_tests_own():
    with pytest.raises(IndexError):
        fixture().pedantic(abs, setup=[].pop, rounds=1)


def test_setup_and_teardown_are_not_timed(clock):
    seen = []

    def setup():
        clock(100)
        return (len(seen),), {"b": 2}

    def teardown(a, b):
        clock(1000)
        seen.append((a, b))

    made = TimedFunction(lambda a, b: clock(b), setup=setup, teardown=teardown)
    made.calls = 3
    assert made.sample() == 6
    assert seen == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("call", "setup", "calls"), [(1 / 1024, 0, 5), (1 / 128, 0, 1), (2**-12, 0, 22), (1e-6, 0.01, 4), (1e-6, 0.1, 1)]
)
def test_a_sample_takes_5_ms_or_50_ms_with_its_setup(clock, call, setup, calls):
    made = TimedFunction(lambda: clock(call), setup=(lambda: clock(setup)) if setup else None)
    for _ in range(2):
        assert made.calibrate() == made.calls == calls
    assert made.seconds == []


@pytest.mark.parametrize(("seconds", "calls"), [(0.0, 100), (0.02, 2), (0.0301, 1)])
def test_warm_up_ends_after_a_hundred_calls_or_30_ms(clock, seconds, calls):
    seen = []
    TimedFunction(lambda: seen.append(clock(seconds))).warm_up()
    assert len(seen) == calls


@pytest.mark.parametrize(("seconds", "max_calls", "calls"), [(0.0301, None, 2), (0.02, None, 3), (0.0301, 1, 2)])
def test_a_long_second_call_for_the_output_counts_as_warm_up(clock, seconds, max_calls, calls):
    seen = []
    timed = TimedFunction(lambda: seen.append(clock(seconds)), output=lambda result: result, max_calls=max_calls)
    timed.first_output()
    timed.warm_up()
    assert len(seen) == calls


def test_arguments_reach_the_function_and_its_result_is_returned():
    def target(*args, **kwargs):
        return args, kwargs

    assert fixture()(target, 1, b=2) == ((1,), {"b": 2})
    assert fixture()(target, function=3, self=4) == ((), {"function": 3, "self": 4})
    assert fixture().pedantic(target, [3], {"c": 4}, lambda: None, lambda *_, **__: None, 9, 8) == ((3,), {"c": 4})
    assert fixture().pedantic(target, setup=lambda: ([5], {"d": 6})) == ((5,), {"d": 6})


def test_the_result_of_a_test_is_that_of_a_call_right_after_a_reset():
    calls = []
    assert fixture().after_reset(lambda: calls.append(1) or len(calls), reset=calls.clear) == 1


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"rounds": 0}, ValueError, "rounds: 0 is not valid; choose an integer of 1 or more"),
        ({"warmup_rounds": -1}, ValueError, "warmup_rounds: -1 is not valid; choose an integer of 0 or more"),
        ({"iterations": 2, "setup": lambda: None}, ValueError, "iterations: 2 is out of range with a setup; choose 1"),
        ({"args": (1,), "setup": object}, TypeError, "setup: it returns arguments; leave out args and kwargs"),
    ],
)
def test_contradictory_arguments_are_refused_as_by_pytest_benchmark(given, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        fixture().pedantic(lambda *_: None, **given)


def test_a_second_use_and_weaving_are_refused():
    one = fixture()
    one(lambda: None)
    with pytest.raises(MisuseError, match="twice"):
        one(lambda: None)
    with pytest.raises(MisuseError, match=r"does not support benchmark\.weave"):
        fixture().patch(len)


class Compiled(Generator):
    """A generator that is not Python's own, like those of Cython and mypyc."""

    def __init__(self):
        self.made = (x for x in "ab")

    def send(self, value):
        return self.made.send(value)

    def throw(self, *error):
        self.made.throw(*error)


class CompiledCoroutine(Coroutine):
    __init__, send, throw, __await__ = Compiled.__init__, Compiled.send, Compiled.throw, Compiled.__iter__


def test_async_functions_are_refused_and_their_coroutines_closed():
    async def generated():
        yield 1

    async def work():
        """Do nothing."""

    made = work()
    for function in (generated, lambda: made, CompiledCoroutine):
        with pytest.raises(MisuseError, match="async, so a call does no work"):
            TimedFunction(function).first_output()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        made.send(None)


def test_functions_that_make_generators_and_other_lazy_iterators_are_refused():
    def generated():
        yield 1

    for function in (generated, functools.partial(generated)):
        with pytest.raises(MisuseError, match="a generator function, so a call does no work"):
            TimedFunction(function).first_output()
    made_kinds = {"generator": (x for x in "ab"), "map": map(str, "ab"), "filter": filter(None, "ab")}
    for kind, made in {**made_kinds, "Compiled": Compiled()}.items():
        with pytest.raises(MisuseError, match=f"returns a {kind}, whose work is not timed"):
            TimedFunction(lambda made=made: made).first_output()


def test_samples_end_when_jax_has_computed_the_result(clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(block_until_ready=lambda result: clock(sum(result))))
    assert TimedFunction(lambda: [3]).sample() == 3
    assert TimedFunction(lambda: [3], teardown=lambda: None).sample() == 3
    assert TimedFunction(lambda: [3]).only_call() == 3
    assert TimedFunction(lambda: [3] * 2000).sample() == 0  # searching it would take long


def test_samples_end_when_torchs_gpu_has_finished(clock, monkeypatch):
    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=lambda: clock(3))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert TimedFunction(lambda: None).sample() == 3
    cuda.is_initialized = lambda: False
    assert TimedFunction(lambda: None).sample() == 0


def test_iterators_among_results_do_not_fail_where_jax_warns(monkeypatch):
    def warn(result):
        raise DeprecationWarning("iterables are leaves")

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(block_until_ready=warn))
    assert TimedFunction(lambda: (1, {2})).first_output() == (1, {2})


@pytest.mark.parametrize("made", [iter([1, 2]), (x for x in "ab"), map(str, [1, 2]), itertools.chain("ab"), Compiled()])
def test_an_iterator_that_the_first_call_uses_up_is_refused(made):
    assert TimedFunction(next, [made]).first_output()
    for given in ({"args": [made]}, {"kwargs": {"items": made}}):
        with pytest.raises(MisuseError, match="an iterator that the first call uses up"):
            TimedFunction(lambda items: list(items), **given).first_output()
    assert TimedFunction(list, setup=lambda: ((iter([1]),), {})).first_output() == [1]


def test_an_iterator_that_the_function_holds_is_refused_unless_a_set_up_or_the_function_may_renew_it():
    rows = (x for x in "ab")
    for function in (lambda: list(rows), functools.partial(list, iter([1]))):
        with pytest.raises(MisuseError, match="an iterator that the first call uses up"):
            TimedFunction(function).first_output()

    def renew():
        nonlocal rows
        rows = iter("ab")

    for how in ({"setup": renew}, {"reset": renew}):
        assert TimedFunction(lambda: list(rows), **how).first_output() == ["a", "b"]
    assert TimedFunction(lambda: renew() or list(rows)).first_output() == ["a", "b"]


def test_no_item_is_taken_out_of_an_endless_iterator():
    numbers = itertools.count()
    timed = TimedFunction(lambda: next(numbers))
    assert (timed.first_output(), timed.call()) == (0, 1)


CACHES = """import os
from contextlib import nullcontext
import jax
from rlgauge.benchmarks.timed import compiling_anew

sizes = []
for number, context in enumerate([nullcontext(), compiling_anew(), nullcontext()]):
    with context:
        jax.jit(lambda x: x + number)(1.0).block_until_ready()
    sizes.append(len(os.listdir(os.environ["JAX_COMPILATION_CACHE_DIR"])))
assert 0 < sizes[0] == sizes[1] < sizes[2], sizes
jax.config.update("jax_enable_compilation_cache", False)
with compiling_anew():
    pass
assert not jax.config.jax_enable_compilation_cache
"""


def test_programs_that_timed_calls_compile_do_not_come_from_the_cache_on_disk(tmp_path):
    pytest.importorskip("jax")
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    done = python("-c", CACHES, **settings, JAX_PLATFORMS="cpu", JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")
    assert done.returncode == 0, done.stderr


def test_a_result_is_freed_before_the_next_call():
    class Row:
        pass

    alive, most = weakref.WeakSet(), []

    def load():
        alive.add(one := Row())
        most.append(len(alive))
        return one

    timed = TimedFunction(load, iterations=3)
    timed.calls = 4
    timed.call()
    timed.sample()
    assert set(most) == {1}


@pytest.mark.parametrize("disabled", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_garbage_collection_is_disabled_during_samples_if_the_test_asks_for_it(before, disabled):
    seen = []
    timed = TimedFunction(lambda: seen.append(gc.isenabled()))
    timed.disable_gc = disabled
    if not before:
        gc.disable()
    try:
        timed.sample()
        timed.only_call()
        assert (seen, gc.isenabled()) == ([before and not disabled] * 2, before)
    finally:
        gc.enable()


def test_a_setup_may_change_the_arguments():
    numbers, named = [], {}
    timed = TimedFunction(lambda *numbers, **named: (numbers, named), numbers, named, setup=lambda: numbers.append(1))
    named["a"] = 2
    assert timed.call() == ((1,), {"a": 2})


def test_the_release_of_a_result_is_no_part_of_a_call_with_a_set_up(clock):
    class Row:
        def __del__(self):
            clock(5.0)

    timed = TimedFunction(lambda: clock(1.0) or Row(), setup=lambda: None)
    timed.calls = 3
    assert timed.sample() == 3.0
