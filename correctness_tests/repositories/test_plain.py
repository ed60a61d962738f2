"""Workers run in the project's own environment, even if it has only pytest and its plugins."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from rlgauge.benchmarks.source import Benchmarks
from rlgauge.config import Config
from rlgauge.layout import laid_out
from rlgauge.pairs import Pairs
from rlgauge.rule import Record
from rlgauge.sampling import cores
from rlgauge.statistics import log_ratio

from .made import HASHING, SAME, SLOWED, Repository

TESTS = """import hashlib


def test_plain(benchmark):
    benchmark(lambda: hashlib.sha256(bytes(2048)).hexdigest())
"""
PYTEST = (  # the last three on Python 3.10
    "pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py", "cpuinfo",
    "exceptiongroup", "tomli", "typing_extensions.py",
)  # fmt: skip


@pytest.fixture
def bare(tmp_path):
    """Create an environment with only pytest and pytest-benchmark; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if path.name in PYTEST or path.name.startswith("pytest_benchmark"):
            (packages / path.name).symlink_to(path)
    return tmp_path / "bare" / "bin" / "python"


def test_a_pair_runs_in_an_environment_with_pytest_and_pytest_benchmark_alone(tmp_path, bare):
    absent = "import importlib.util as u; print([u.find_spec(name) for name in ('numpy', 'rlgauge')])"
    assert subprocess.check_output([bare, "-c", absent], text=True, cwd=tmp_path) == "[None, None]\n"
    files = {"toy/__init__.py": "", "benchmarks/conftest.py": HASHING, "benchmarks/test_plain.py": TESTS}
    files[".gitignore"] = "__pycache__/\n"
    toy = Repository(tmp_path / "toy", files)
    source = Benchmarks(toy.root, Config(), None)
    source.select()
    names = [*source.names, SAME, SLOWED]
    records = {name: Record() for name in names}
    with laid_out(source, toy.root) as layout:
        layout.python_for = lambda name, code, codes: bare
        sides = [layout.side(None, name) for name in ("base", "head")]
        measured = Pairs(sides, 3, 60.0, dict.fromkeys(names, 0.0), layout.folder, random.Random(0))
        measured.measure(records, names, cores(all_cores=False), "screen")
    assert {record.state: record.words for record in records.values()} == {"timed": ""}
    assert [record.output_changed for record in records.values()] == [False] * 3
    ratios = [log_ratio(record.screen[0]) for record in records.values()]
    assert ratios == pytest.approx([0.0, 0.0, 0.05], abs=0.02)
