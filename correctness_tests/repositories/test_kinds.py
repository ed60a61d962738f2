"""Kinds of benchmarks: custom fixtures, marks, async tests, parameters in no fixed order, failing tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from .made import CLOCK, QUICK, SAME, SLOWED, Repository, environment, flat

HEAD = """import asyncio
import functools
import itertools
import mmap
import os
import random
import signal
import time
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
CODSPEED = {
    "pytest_codspeed/__init__.py": '"""Stands in for the package."""\n',
    "pytest_codspeed/plugin.py": '''"""The plugin's mark and fixture when it does not measure."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--codspeed", action="store_true")


def pytest_configure(config):
    assert not config.option.codspeed, "it would measure by itself"
    config.addinivalue_line("markers", "codspeed_benchmark: mark a whole test")


@pytest.fixture
def codspeed_benchmark():
    return lambda function, *args, **kwargs: function(*args, **kwargs)
''',
}
HOOKS = '''

import asyncio
import inspect
import sys

import pytest

assert "pytest" in sys.argv[0]
assert os.environ.setdefault("IMPORTED_IN", str(os.getpid())) == str(os.getpid())


def pytest_configure(config):
    if not config.option.benchmark_enable:
        config.option.benchmark_disable = True


def pytest_collection_modifyitems(config, items):
    """Skip all benchmarks without the plugins and their options, and change ids."""
    needed = config.pluginmanager.hasplugin("benchmark"), config.getoption("--benchmark-only"), config.option.codspeed
    for item in items:
        changed = item.nodeid.replace("[50]", "[fifty]")
        if hasattr(item, "_id"):  # pytest 9.2
            item._id = type(item._id).parse(changed)
        else:
            item._nodeid = changed
        if not all(needed):
            item.add_marker(pytest.mark.skip(reason="no plugin or option"))


def pytest_ignore_collect(config):
    return None if config.getoption("--benchmark-only") else True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Await a test that has the mark."""
    if inspect.iscoroutinefunction(pyfuncitem.obj) and pyfuncitem.get_closest_marker("awaited"):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run(pyfuncitem.obj(**arguments))
        return True
'''
ROOT_HOOKS = """import os

assert os.environ.setdefault("STARTED_IN", str(os.getpid())) == str(os.getpid())


def pytest_configure(config):
    if not config.getoption("--benchmark-only"):
        config.option.markexpr = "not benchmark"


def pytest_runtest_setup(item):
    assert all(hasattr(item, name) for name in ("module", "cls", "instance", "obj", "originalname"))
"""
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


timed = pytest_benchmark.plugin.benchmark


def test_other_name(timed):
    timed(sorting.slow, NUMBERS)


def test_mode(benchmark):
    benchmark(modes.run, NUMBERS)


def test_frozen(benchmark, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
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
"""
MARKS = """pytestmark = pytest.mark.benchmark()


@pytest.fixture
def numbers():
    for _ in range(20):
        sorting.kept(NUMBERS)
    return NUMBERS.copy()


def test_marked(numbers):
    assert sorting.slow(numbers)[0] == NUMBERS.min()


def test_marked_once(tmp_path):
    (tmp_path / "made").mkdir()
    assert not any((folder / ".git").exists() for folder in tmp_path.parents)
    sorting.slow(NUMBERS)


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
ERRORS = {  # a test's code, and its error; on base, ``slow`` does 100 units of work
    "never": ("def test_never(benchmark):\n    pass\n", "it never calls benchmark: call benchmark(function, ...)"),
    "twice": (
        "def test_twice(benchmark):\n    benchmark(counted)\n    benchmark(counted)\n",
        "its test failed: it calls benchmark twice: split the test",
    ),
    "awaits": (
        "async def awaited():\n    pass\n\n\ndef test_awaits(benchmark):\n    benchmark(awaited)\n",
        "its test failed: the timed function is async, so a call does no work",
    ),
    "teardown": (
        "@pytest.fixture\ndef left():\n    yield\n    assert not on_base()\n\n\n"
        "def test_teardown(benchmark, left):\n    benchmark(counted)\n",
        "base: its teardown failed: AssertionError",
    ),
    "assertion": (
        "def test_assertion(benchmark):\n    assert benchmark(counted) == 2\n",
        "head: its test failed: AssertionError: assert 1 == 2",
    ),
    "cleanup": (
        "@pytest.fixture\ndef opened():\n    yield\n    raise OSError('not open')\n\n\n"
        "def test_cleanup(benchmark, opened):\n    assert benchmark(counted) == 2\n",
        "its test failed: AssertionError: assert 1 == 2",
    ),
    "strict": (
        "@pytest.mark.xfail(strict=True, reason='not yet')\ndef test_strict(benchmark):\n    benchmark(counted)\n",
        "its test failed: [XPASS(strict)] not yet",
    ),
    "one_side": (
        "def test_one_side(benchmark):\n    benchmark(counted)\n    assert not on_base()\n",
        "base: its test failed: AssertionError",
    ),
    "fixture": (
        "@pytest.fixture\ndef made():\n    if on_base():\n        raise OSError('no server')\n\n\n"
        "def test_fixture(benchmark, made):\n    benchmark(counted)\n",
        "base: its set-up failed: OSError: no server",
    ),
}
COUNTED = """def counted():
    np.sort(np.zeros(200))
    return 1


def on_base():
    return 100 in sorting.slow.__code__.co_consts


@pytest.mark.skip(reason="later")
def test_later(benchmark):
    benchmark(counted)


def test_skipped_on_base(benchmark):
    if on_base():
        pytest.skip("not here")
    benchmark(counted)


@pytest.mark.xfail(reason="not yet")
def test_expected(benchmark):
    raise NotImplementedError


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
    "errors": "\n\n".join([COUNTED, *(text for text, _ in ERRORS.values())]),
}
NEW = HEAD + COUNTED + ERRORS["fixture"][0]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    files = flat() | CODSPEED | {"toy/modes.py": MODES, "benchmarks/conftest.py": CLOCK + HOOKS}
    files |= {f"benchmarks/test_{name}.py": HEAD + text for name, text in FILES.items()}
    files["conftest.py"] = ROOT_HOOKS
    files["pyproject.toml"] = (
        '[tool.pytest.ini_options]\naddopts = "-p pytest_codspeed.plugin"\nmarkers = ["awaited"]\n'
    )
    gone = "\n\ndef test_gone():\n    sorting.kept(NUMBERS)\n"
    before = files | {"benchmarks/test_marks.py": files["benchmarks/test_marks.py"] + gone}
    toy = Repository(tmp_path_factory.mktemp("kinds") / "toy", before)
    slower = {"toy/sorting.py": flat(slow=110)["toy/sorting.py"], "benchmarks/test_new.py": NEW}
    toy.commit("slower", files | slower)
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    # two pairs, because the processes of one may order a set alike
    return toy.gate("start", tmp_path_factory.mktemp("ran"), rule=QUICK.replace("screen=1", "screen=2"))


def verdicts(ran, file):
    """Return the verdict on each test of a file, or its rounded ratio if it was timed."""
    prefix = f"benchmarks/test_{file}.py::"
    found = {name: verdict for name, (verdict, *_) in ran.findings.items() if prefix in name}
    assert found, ran.text
    ratios = {name: round(ratio, 1) for name, ratio in ran.ratios.items() if found.get(name) != "error"}
    return {name.removeprefix(prefix): ratios.get(name, verdict) for name, verdict in found.items()}


def test_a_project_fixture_named_benchmark_wraps_the_gates(ran):
    assert verdicts(ran, "fixtures") == {
        "TestPartial::test_partial": 1.1,
        "test_other_name": 1.1,
        "test_mode": 1.1,
        "test_frozen": 1.1,
        "TestCodSpeed::test_other_plugin": 1.1,
        "test_codspeed": 1.1,
        "test_timer": 1.0,
        "test_weave[1]": "error",
        "test_weave[2]": "error",
        "test_alarm": 1.1,
        "TestRequested::test_own": "error",
        "TestRequested::test_requested": 1.1,
    }
    own = ran.findings["benchmarks/test_fixtures.py::TestRequested::test_own"]
    assert own == ("error", "head: it measures with a BenchmarkFixture of its own: use the fixture benchmark")
    for number in (1, 2):
        words = ran.findings[f"benchmarks/test_fixtures.py::test_weave[{number}]"][1]
        assert "the gate does not support benchmark.weave" in words


def test_a_marked_test_without_the_fixture_is_timed_without_its_setup(ran):
    assert verdicts(ran, "marks") == {
        "test_marked": 1.1,
        "test_marked_once": 1.1,
        "TestMarked::test_method[fifty]": 1.0,
        "test_with_fixture[1]": 1.0,
        "test_gone": "gone",
    }
    assert verdicts(ran, "mark") == {"test_codspeed_mark": 1.1}


def test_a_test_that_asks_for_one_call_is_run_again_for_each_sample_unless_a_call_can_be_repeated(ran):
    assert verdicts(ran, "once") == {
        "test_finds_no_work": 1.1,
        "test_iterator": 1.1,
        "test_fails": 1.1,
        "test_counts": 1.1,
        "test_repeats": 1.1,
        "test_fails_later": "error",
    }
    assert "its test failed: AssertionError: assert []" in ran.findings["benchmarks/test_once.py::test_fails_later"][1]


def test_a_child_process_stands_still_during_the_turns_of_the_other_side(ran):
    assert verdicts(ran, "child") == {"test_child": 1.1}, ran.findings


def test_an_async_test_needs_a_plugin_that_awaits_it(ran):
    assert verdicts(ran, "async") == {"test_not_awaited": "error", "test_awaited": 1.1}
    assert "it is async def, and no plugin awaits it" in ran.findings["benchmarks/test_async.py::test_not_awaited"][1]


def test_parameters_from_a_set_are_errors_that_name_the_parameter(ran):
    found = verdicts(ran, "sets")
    assert len(found) == 14
    assert set(found.values()) == {"error"}
    _, words = ran.findings["benchmarks/test_sets.py::test_set[case0]"]
    assert "parameter case of benchmarks/test_sets.py::test_set[case" in words
    assert "sort the values of parametrize" in words


def test_parameters_whose_repr_differs_per_process_are_no_error(ran):
    found = verdicts(ran, "parameters")
    assert len(found) == 18 + 4
    assert set(found.values()) == {1.0}, ran.text


def test_an_id_may_contain_a_path_in_the_repository(toy, ran):
    found = verdicts(ran, "paths")
    assert found.pop(f"test_file[{toy.root}/benchmarks/test_paths.py]") == 1.0
    assert found.pop("test_file[other]") == 1.0
    assert found.pop("test_process[1]") == 1.0
    (name,) = [name for name, verdict in found.items() if verdict == "error"]  # base's id is gone
    assert "with other parameters on this side" in ran.findings[f"benchmarks/test_paths.py::{name}"][1]


@pytest.mark.parametrize("name", ERRORS)
def test_a_test_that_cannot_be_timed_is_an_error_with_its_reason(ran, name):
    name, words = f"benchmarks/test_errors.py::test_{name}", ERRORS[name][1]
    verdict, reason = ran.findings[name]
    assert verdict == "error"
    assert words in reason
    assert f"{name}: error, " in ran.text


def test_a_test_that_skips_on_both_sides_is_skipped(ran):
    assert ran.findings["benchmarks/test_errors.py::test_later"] == ("skipped", "later")
    assert ran.findings["benchmarks/test_errors.py::test_expected"] == ("skipped", "xfail: not yet")
    assert "4 skipped" in ran.text


def test_a_test_that_skips_on_base_alone_is_new(ran):
    assert ran.findings["benchmarks/test_errors.py::test_skipped_on_base"] == ("new", "base: skipped: not here")


def test_a_new_test_whose_fixture_needs_what_base_lacks_is_new(ran):
    assert ran.findings["benchmarks/test_new.py::test_fixture"] == (
        "new",
        "base: its set-up failed: OSError: no server",
    )


def test_a_run_with_errors_fails(ran):
    assert ran.code == 1, ran.text
    assert (ran.findings[SAME], ran.findings[SLOWED]) == (("ok",), ("slower",))
    assert "Traceback" not in ran.text


@pytest.fixture
def bare(tmp_path):
    """Create an environment like this one, but without pytest-benchmark; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if not path.name.startswith("pytest_benchmark"):
            (packages / path.name).symlink_to(path)
    return tmp_path / "bare" / "bin" / "python"


def test_a_missing_plugin_is_named_with_the_command_that_installs_it(tmp_path, bare):
    toy = Repository(tmp_path / "toy", flat())
    toy.write({"toy/more.py": ""})
    command = [str(bare), "-m", *toy.command("HEAD", tmp_path, rule=QUICK)]
    done = subprocess.run(command, cwd=toy.root, env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout
    text = done.stdout + done.stderr
    assert f"the fixture benchmark of pytest-benchmark, which is not installed: run {bare} -m pip install " in text
    assert "Traceback" not in text
