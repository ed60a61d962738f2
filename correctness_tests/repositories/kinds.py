"""Test files of a repository with many kinds of benchmarks."""

HEAD = """import asyncio
import functools
import itertools
import mmap
import os
import random
import signal
import socket
import time
import unittest
from pathlib import Path

import numpy as np
import pytest
import pytest_benchmark.plugin
from pytest_benchmark.fixture import BenchmarkFixture

from toy import modes, sorting

NUMBERS = np.random.default_rng(0).random(50)


"""
MODES = '''"""Sorts in one of two modes."""

from . import sorting

CURRENT = "kept"


def run(numbers):
    return getattr(sorting, CURRENT)(numbers)


class Codec:
    """A class without a repr, whose state differs between base and head."""

    def __init__(self, level):
        self.level, self.units = level, sorting.slow.__code__.co_consts


CODECS = [Codec(1), Codec(2)]
'''
FIXTURES = """@pytest.fixture
def benchmark(benchmark):
    modes.CURRENT = "slow"
    yield benchmark
    modes.CURRENT = "kept"


class TestPartial:
    @pytest.fixture
    def benchmark(self, benchmark):
        return functools.partial(benchmark.pedantic, rounds=3)

    def test_partial(self, benchmark):
        benchmark(modes.run, (NUMBERS,))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    made = tmp_path_factory.getbasetemp().parent / "shared-with-processes-of-xdist"
    made.touch(exist_ok=False)


def test_shared(benchmark, shared):
    benchmark(sorting.kept, NUMBERS)


timed = pytest_benchmark.plugin.benchmark


def test_other_name(timed):
    timed(sorting.slow, NUMBERS)


def test_mode(benchmark):
    benchmark(modes.run, NUMBERS)


def test_frozen(benchmark, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    benchmark(modes.run, NUMBERS)


def test_replaced(benchmark, monkeypatch):
    for name in ("json.dumps", "json.loads", "os.listdir", "pathlib.Path.open"):
        monkeypatch.setattr(name, None)
    benchmark(modes.run, NUMBERS)


class TestCodSpeed:
    @pytest.fixture
    def benchmark(self, codspeed_benchmark):
        return codspeed_benchmark

    def test_other_plugin(self, benchmark):
        benchmark(sorting.slow, NUMBERS)


def test_codspeed(codspeed_benchmark):
    codspeed_benchmark(sorting.slow, NUMBERS)


@pytest.mark.benchmark(timer=itertools.count().__next__)
def test_timer(benchmark):
    benchmark(sorting.slow, NUMBERS)


@pytest.mark.parametrize("number", [1, 2])
def test_weave(benchmark_weave, number):
    pass


@pytest.fixture
def own(request):
    session = request.config._benchmarksession
    given = {"logger": session.logger, "warner": request.node.warn, "disabled": False, **session.options}
    return BenchmarkFixture(request.node, add_stats=session.benchmarks.append, **given)


@pytest.fixture
def requested(request):
    return request.getfixturevalue("benchmark")


@pytest.mark.benchmark
class TestRequested:
    def test_own(self, own):
        own(sorting.slow, NUMBERS)

    def test_requested(self, requested):
        requested(sorting.slow, NUMBERS)


class TestNotMarked:
    @pytest.fixture(autouse=True)
    def recorded(self, request):
        if "benchmark" in request.fixturenames:
            request.getfixturevalue("benchmark").extra_info["recorded"] = 1

    @pytest.fixture
    def chosen(self, request):
        marked = request.node.get_closest_marker("benchmark")
        return request.getfixturevalue("tmp_path_factory" if marked else "tmp_path")

    def test_requested(self, requested):
        requested(sorting.slow, NUMBERS)

    def test_requests(self, request):
        assert request.getfixturevalue("benchmark")(sorting.slow, NUMBERS) is not None

    def test_no_benchmark(self, chosen):
        sorting.slow(NUMBERS)


def test_alarm(benchmark):
    left = []
    signal.setitimer(signal.ITIMER_REAL, 60)
    benchmark(lambda: left.append(signal.getitimer(signal.ITIMER_REAL)[0]) or sorting.slow(NUMBERS))
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert max(left[:-1]) == 0 < left[-1]


class TestOtherFixture:
    @pytest.fixture(params=[3])
    def benchmark(self, request):
        return request.param

    def test_other(self, benchmark):
        assert benchmark == 3


class TestFolder:
    @pytest.fixture
    def benchmark(self, tmp_path):
        return tmp_path

    def test_folder(self, benchmark):
        assert benchmark.is_dir()
"""
MARKS = """pytestmark = pytest.mark.benchmark()


@pytest.fixture
def numbers():
    for _ in range(20):
        sorting.kept(NUMBERS)
    return NUMBERS.copy()


def test_marked(numbers):
    assert sorting.slow(numbers)[0] == NUMBERS.min()


@pytest.fixture
def recorded(request):
    if "benchmark" in request.fixturenames:
        request.getfixturevalue("benchmark").extra_info["recorded"] = 1


def test_recorded(recorded):
    sorting.slow(NUMBERS)


def test_marked_once(tmp_path):
    (tmp_path / "made").mkdir()
    assert not any((folder / ".git").exists() for folder in tmp_path.parents)
    sorting.slow(NUMBERS)


class TestUnit(unittest.TestCase):
    def setUp(self):
        self.numbers = NUMBERS.copy()
        sorting.kept(NUMBERS)

    def test_unit(self):
        self.assertEqual(sorting.slow(self.numbers)[0], NUMBERS.min())


class TestMarked:
    @pytest.mark.parametrize("count", [50])
    def test_method(self, numbers, count):
        sorting.kept(numbers[:count])


@pytest.mark.benchmark(group="x")
@pytest.mark.parametrize("x", [1])
def test_with_fixture(request, benchmark: BenchmarkFixture, numbers, x):
    assert isinstance(benchmark, BenchmarkFixture)
    assert (benchmark.name, benchmark.fullname) == ("test_with_fixture[1]", request.node.nodeid)
    assert (benchmark.group, benchmark.param, benchmark.params) == ("x", "1", {"x": 1})
    benchmark(sorting.kept, numbers)
    assert benchmark.stats["iterations"] == benchmark.stats.as_dict()["stats"]["iterations"] == 1
"""
MARK = """@pytest.mark.codspeed_benchmark
def test_codspeed_mark():
    sorting.slow(NUMBERS)


def test_neither():
    sorting.slow(NUMBERS)
"""
ASYNC = """async def test_not_awaited(benchmark):
    benchmark(sorting.kept, NUMBERS)


@pytest.mark.awaited
async def test_awaited(benchmark):
    await asyncio.sleep(0)
    benchmark(sorting.slow, NUMBERS)
"""
ONCE = """@pytest.fixture
def waiting():
    return [NUMBERS] * 20


def drain(waiting):
    while waiting:
        sorting.slow(waiting.pop())


def test_finds_no_work(benchmark, waiting):
    benchmark.pedantic(drain, (waiting,))
    assert not waiting
    assert benchmark.stats["mean"] > 0


def test_iterator(benchmark, waiting):
    benchmark.pedantic(lambda waiting: [sorting.slow(numbers) for numbers in waiting], (iter(waiting),))


def test_fails(benchmark, waiting):
    last = benchmark.pedantic(lambda: [sorting.slow(waiting.pop()) for _ in range(20)][-1], rounds=1)
    assert len(last) == len(NUMBERS)


def test_counts(benchmark, waiting):
    benchmark.pedantic(lambda: waiting.append(sorting.slow(NUMBERS)), iterations=1)
    assert len(waiting) == 21


def test_repeats(benchmark):
    calls = []
    benchmark.pedantic(lambda: calls.append(1) or sorting.slow(NUMBERS))
    assert len(calls) > 1


def test_fails_later(benchmark, waiting):
    benchmark.pedantic(drain, (waiting,))
    assert waiting
"""
CHILD = """@pytest.fixture
def counter():
    shared = mmap.mmap(-1, 8)
    child = os.fork()
    while not child:
        shared[:] = (int.from_bytes(shared[:], "little") + 1).to_bytes(8, "little")
        time.sleep(0.0005)
    yield lambda: int.from_bytes(shared[:], "little")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_child(benchmark, counter):
    counts = []

    def call():
        counts.append(counter())
        time.sleep(0.05)
        sorting.slow(NUMBERS)
        counts.append(counter())

    benchmark(call)
    counted = [after - before for before, after in itertools.pairwise(counts)]
    during = sorted(counted[::2])
    between = sorted(counted[1:-2:2])[:-1]  # without the wait for the other side's first call
    assert during[len(during) // 2] > 20 > max(between)
"""
SETS = """CASES = {("a", 10), ("b", 20), ("c", 30), ("d", 40), ("e", 50), ("f", 60), ("g", 70)}


class Case:
    def __init__(self, count):
        self.count = count


@pytest.mark.parametrize("case", CASES)
def test_set(benchmark, case):
    benchmark(sorting.kept, NUMBERS[: case[1]])


@pytest.mark.parametrize("case", [Case(count) for _, count in CASES])
def test_objects_of_a_set(benchmark, case):
    benchmark(sorting.kept, NUMBERS[: case.count])


@pytest.mark.parametrize(("case", "process"), [(Case(10), os.getpid())], ids=["one"])
def test_process_beside_an_object(benchmark, case, process):
    benchmark(sorting.kept, NUMBERS[: case.count])
"""
PARAMETERS = """class Plain:
    pass


@pytest.mark.parametrize(
    "given",
    [
        sorting.kept, lambda: sorting.slow, lambda: sorting.kept, Plain, Plain(), object(), np.random.rand(5), os,
        (1, np.random.rand(5)), functools.partial(sorting.kept, NUMBERS), Path(__file__), {"b", "a"}, {"x": Plain()},
        *modes.CODECS, random.Random(), (f"{os.path.dirname(__file__)}/file", 1),
        (1, np.random.default_rng().random()),
    ],
)
def test_given(benchmark, given):
    benchmark(sorting.kept, NUMBERS)


@pytest.fixture(params=[("x", 1), ("y", 2)])
def made(request):
    return request.param


@pytest.mark.parametrize("name", sorted({"one", "two"}))
def test_made(benchmark, made, name):
    benchmark(sorting.kept, NUMBERS)
"""
PATHS = """@pytest.mark.parametrize("file", [__file__, "other"])
def test_file(benchmark, file):
    benchmark(sorting.kept, NUMBERS)


@pytest.mark.parametrize("number", [1, str(os.getpid())])
def test_process(benchmark, number):
    benchmark(sorting.kept, NUMBERS)
"""
FILES = {
    "fixtures": FIXTURES,
    "marks": MARKS,
    "mark": MARK,
    "async": ASYNC,
    "once": ONCE,
    "child": CHILD,
    "sets": SETS,
    "parameters": PARAMETERS,
    "paths": PATHS,
}
