"""Kinds of benchmarks: own fixtures, marks, async tests, parameters without a fixed order, exact counts."""

from __future__ import annotations

import site
import subprocess
import sys
from pathlib import Path

import pytest

from .made import CLOCK, QUICK, SAME, SLOWED, Repository, environment, flat

RULE = "screen=2,confirm=4,looks=1,blocks=2,level=0.6"  # seven suspects share the level: p = 7 / 2^4
HEAD = """import asyncio
import functools
import os
import random
from pathlib import Path

import numpy as np
import pytest

from toy import modes, sorting

NUMBERS = np.random.default_rng(0).random(50)


"""
MODES = '''"""Sorts in one of two modes."""

from . import sorting

CURRENT = "kept"


def run(numbers):
    return getattr(sorting, CURRENT)(numbers)


class Codec:
    """Has no repr, and another state on base than on head."""

    def __init__(self, level):
        self.level, self.units = level, sorting.slow.__code__.co_consts


CODECS = [Codec(1), Codec(2)]
'''
CODSPEED = {
    "pytest_codspeed/__init__.py": '"""Stands in for the package."""\n',
    "pytest_codspeed/plugin.py": '''"""What the plugin has where it does not measure."""

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "codspeed_benchmark: mark a whole test")


@pytest.fixture
def codspeed_benchmark():
    return lambda function, *args, **kwargs: function(*args, **kwargs)
''',
}
AWAIT = '''

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Await a test that has the mark."""
    if inspect.iscoroutinefunction(pyfuncitem.obj) and pyfuncitem.get_closest_marker("awaited"):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        asyncio.run(pyfuncitem.obj(**arguments))
        return True
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


def test_mode(benchmark):
    benchmark(modes.run, NUMBERS)


class TestCodSpeed:
    @pytest.fixture
    def benchmark(self, codspeed_benchmark):
        return codspeed_benchmark

    def test_other_plugin(self, benchmark):
        benchmark(sorting.slow, NUMBERS)


def test_codspeed(codspeed_benchmark):
    codspeed_benchmark(sorting.slow, NUMBERS)


def test_weave(benchmark_weave):
    pass
"""
MARKS = """pytestmark = pytest.mark.benchmark()


@pytest.fixture
def numbers():
    for _ in range(20):
        sorting.kept(NUMBERS)
    return NUMBERS.copy()


def test_marked(numbers):
    assert sorting.slow(numbers)[0] == NUMBERS.min()


class TestMarked:
    @pytest.mark.parametrize("count", [50])
    def test_method(self, numbers, count):
        sorting.kept(numbers[:count])


@pytest.mark.benchmark(group="x")
@pytest.mark.parametrize("x", [1])
def test_with_fixture(benchmark, numbers, x):
    assert (benchmark.name, benchmark.group, benchmark.params) == ("test_with_fixture[1]", "x", {"x": 1})
    benchmark(sorting.kept, numbers)


def test_fails(numbers):
    assert sorting.kept(numbers) is None
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
FILES = {"fixtures": FIXTURES, "marks": MARKS, "mark": MARK, "async": ASYNC, "sets": SETS, "parameters": PARAMETERS}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    files = flat() | CODSPEED | {"toy/modes.py": MODES, "benchmarks/conftest.py": CLOCK + AWAIT}
    files |= {f"benchmarks/test_{name}.py": HEAD + text for name, text in FILES.items()}
    files["pyproject.toml"] = (
        '[tool.pytest.ini_options]\naddopts = "-p pytest_codspeed.plugin"\nmarkers = ["awaited"]\n'
    )
    gone = "\n\ndef test_gone():\n    sorting.kept(NUMBERS)\n"
    before = files | {"benchmarks/test_marks.py": files["benchmarks/test_marks.py"] + gone}
    toy = Repository(tmp_path_factory.mktemp("kinds") / "toy", before)
    toy.commit("slower", files | {"toy/sorting.py": flat(slow=110)["toy/sorting.py"]})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    return toy.gate("start", tmp_path_factory.mktemp("ran"), rule=RULE)


def verdicts(ran, file):
    """Return the verdicts on the tests of a file, by their names."""
    prefix = f"benchmarks/test_{file}.py::"
    found = {name.removeprefix(prefix): verdict for name, (verdict, *_) in ran.findings.items() if prefix in name}
    assert found, ran.text
    return found


def test_a_project_fixture_named_benchmark_wraps_the_gates(ran):
    assert verdicts(ran, "fixtures") == {
        "TestPartial::test_partial": "slower",
        "test_mode": "slower",
        "TestCodSpeed::test_other_plugin": "slower",
        "test_codspeed": "slower",
        "test_weave": "error",
    }
    assert "the gate does not support benchmark.weave" in ran.findings["benchmarks/test_fixtures.py::test_weave"][1]


def test_a_marked_test_without_the_fixture_is_timed_without_its_setup(ran):
    assert verdicts(ran, "marks") == {
        "test_marked": "slower",
        "TestMarked::test_method[50]": "ok",
        "test_with_fixture[1]": "ok",
        "test_fails": "error",
        "test_gone": "gone",
    }
    assert "its test failed: AssertionError" in ran.findings["benchmarks/test_marks.py::test_fails"][1]
    assert verdicts(ran, "mark") == {"test_codspeed_mark": "slower"}


def test_an_async_test_needs_a_plugin_that_awaits_it(ran):
    assert verdicts(ran, "async") == {"test_not_awaited": "error", "test_awaited": "slower"}
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
    assert len(found) == 17 + 4
    assert set(found.values()) == {"ok"}, ran.text


def test_a_run_with_errors_does_not_pass(ran):
    assert ran.code != 0
    assert (ran.findings[SAME], ran.findings[SLOWED]) == (("ok",), ("slower",))


@pytest.fixture
def bare(tmp_path):
    """An environment like this one without pytest-benchmark. -> its interpreter"""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for path in Path(site.getsitepackages()[0]).iterdir():
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


def test_a_plugin_that_is_not_loaded_is_named(tmp_path):
    toy = Repository(tmp_path / "toy", flat())
    toy.write({"toy/more.py": ""})
    ran = toy.gate("HEAD", tmp_path, "-p", "no:benchmark", rule=QUICK)
    assert ran.code == 2
    assert ran.only_says("of pytest-benchmark, which is not loaded: remove -p no:benchmark"), ran.text


EXACT = """import numpy as np

from toy import sorting

NUMBERS = np.zeros(50)


def counted(benchmark, name):
    benchmark(sorting.kept, NUMBERS)
    benchmark.extra_info["exact"] = {name: len(sorting.__doc__)}


def test_named(benchmark):
    counted(benchmark, "letters")


def test_graphs(benchmark):
    counted(benchmark, "graphs")


def test_words(benchmark):
    benchmark(sorting.kept, NUMBERS)
    benchmark.extra_info["exact"] = {"letters": "many"}
"""


def test_exact_counts_that_rise_are_noted_and_more_graphs_are_slower(tmp_path):
    toy = Repository(tmp_path / "toy", flat() | {"benchmarks/test_sorting.py": EXACT})
    longer = flat()["toy/sorting.py"].replace('"""Sorts numbers."""', '"""Sorts many numbers."""')
    toy.at("start", {"toy/sorting.py": longer})
    ran = toy.gate("start", tmp_path, rule=QUICK)
    name = "benchmarks/test_sorting.py::test_{}".format
    assert ran.findings[name("named")] == ("ok", "letters 14 -> 19"), ran.text
    assert ran.findings[name("graphs")] == ("slower", "graphs 14 -> 19")
    verdict, words = ran.findings[name("words")]
    assert verdict == "error"
    assert words.endswith("""extra_info["exact"]: {'letters': 'many'} is not a dictionary of whole numbers""")
    assert ran.code == 1
    assert toy.leftovers() == []
