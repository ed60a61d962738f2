"""Workers run in the project's own environment, which need not have NumPy: they import nothing that it does not."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import Config
from rlgauge.layout import laid_out
from rlgauge.pairs import Pairs, cores
from rlgauge.rule import SAME_ON_ALL, SLOWED_ON_ALL, Record
from rlgauge.statistics import log_ratio

from .made import FIND, HASHING, SAME, SLOWED, Repository

BLOCKED = f"""{HASHING}

if "RLGAUGE_GATE_SIDE" in os.environ:
    import sys

    assert "numpy" not in sys.modules
    sys.modules["numpy"] = None  # importing it fails from here on
"""
TESTS = """from toy import hashing


def test_slow(benchmark):
    benchmark(hashing.slow)
    assert benchmark.stats.stats.mean > 0
    assert benchmark.stats["rounds"] >= 1


def test_kept(benchmark):
    benchmark(hashing.kept)


def test_near(benchmark):
    benchmark(hashing.answer, 0.0)


def test_changed(benchmark):
    benchmark(hashing.answer, hashing.CHANGE)
"""
CORES = '[tool.rlgauge.cores]\n"*::test_kept" = "all"\n'


def hashing(slow=100, change=0):
    """Return a module of the standard library alone."""
    return f'''"""Hashes bytes."""

import hashlib

CHANGE = {change}


def slow(units={slow}):
    for _ in range(units):
        out = hashlib.sha256(bytes(2048)).hexdigest()
    return out


def kept():
    return slow(100)


def answer(change):
    return {{"floats": [1.5, 2.5 + change], "nested": (kept(), [1, True, None]), "large": 2**70}}
'''


def plain(**how):
    return {
        "toy/__init__.py": "",
        "toy/hashing.py": hashing(**how),
        "benchmarks/test_hashing.py": TESTS,
        ".gitignore": "__pycache__/\n",
    }


def test_workers_that_cannot_import_numpy_find_slowdowns_and_changed_answers(tmp_path):
    files = {"benchmarks/conftest.py": BLOCKED, "pyproject.toml": CORES}
    toy = Repository(tmp_path / "toy", plain() | files)
    toy.commit("slower", plain(slow=110, change=1))
    ran = toy.gate("start", tmp_path, rule=FIND)
    name = "benchmarks/test_hashing.py::test_{}".format
    assert ran.findings == {
        name("slow"): ("slower",),
        name("kept"): ("ok",),
        name("near"): ("ok",),
        name("changed"): ("ok", "output changed"),
        **dict.fromkeys((SAME, SAME_ON_ALL), ("ok",)),
        **dict.fromkeys((SLOWED, SLOWED_ON_ALL), ("slower",)),
    }, ran.text
    assert ran.code == 1


PYTEST = (  # the last three where Python is 3.10
    "pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py", "cpuinfo",
    "exceptiongroup", "tomli", "typing_extensions.py",
)  # fmt: skip
PLUGINS = (  # what workers are told to turn off where it is installed here
    "pytest_benchmark", "pytest_xdist", "xdist", "execnet", "pytest_cov", "coverage", "pytest_timeout",
    "pytest_rerunfailures",
)  # fmt: skip


@pytest.fixture
def bare(tmp_path):
    """An environment that has pytest and some of its plugins alone. -> its interpreter"""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if path.name in PYTEST or path.name.startswith(PLUGINS):
            (packages / path.name).symlink_to(path)
    return tmp_path / "bare" / "bin" / "python"


def test_a_pair_runs_in_an_environment_with_pytest_and_its_plugins_alone(tmp_path, bare):
    absent = "import importlib.util as u; print([u.find_spec(name) for name in ('numpy', 'rlgauge')])"
    assert subprocess.check_output([bare, "-c", absent], text=True, cwd=tmp_path) == "[None, None]\n"
    toy = Repository(tmp_path / "toy", plain() | {"benchmarks/conftest.py": HASHING})
    source = Benchmarks(toy.root, Config(), None)
    source.select(["-k", "near"])
    names = [*source.names, SAME, SLOWED]
    records = {name: Record() for name in names}
    with laid_out(source, toy.root) as layout:
        layout.python_for = lambda name, code: bare
        sides = [layout.side(None, name) for name in ("base", "head")]
        measured = Pairs(sides, 3, 60.0, dict.fromkeys(names, 0.0), layout.folder, random.Random(0))
        measured.measure(records, names, cores(all_cores=False), "screen")
    assert {record.state: record.words for record in records.values()} == {"timed": ""}
    assert [record.answer_changed for record in records.values()] == [False] * 3
    ratios = [log_ratio(record.screen[0]) for record in records.values()]
    assert ratios == pytest.approx([0.0, 0.0, 0.05], abs=0.02)
