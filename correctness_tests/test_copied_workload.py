"""The examples of the documentation: they run, and the workload passes the tests and is styled like the rest."""

import json
import re
import subprocess
import sys

import pytest

from .commands import ROOT, copy_with, environment, python
from .report.made_up import LIMITS

PAGE = ROOT / "docs" / "adding-a-workload.md"
# a paragraph that begins with a path, and the code block after it
FILES = dict(re.findall(r"^`([\w/]+\.py)`[ ,](?:.+\n)+\n```python\n((?:.*\n)*?)```$", PAGE.read_text(), re.M))
GENERAL = ("against_reference", "rooms")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copied")
    copy_with(folder, FILES)
    (folder / "correctness_tests/cloning/__init__.py").touch()
    return folder


TUTORIAL = ROOT / "docs" / "tutorials" / "workload.md"


def test_the_workload_of_the_tutorial_learns_and_is_timed(tmp_path):
    ((code, name),) = re.findall(r"```python\n(# (\S+)\n(?:.*\n)*?)```", TUTORIAL.read_text())
    copy_with(tmp_path, {name: code})
    timed = "-m", "pytest", "-p", "no:cacheprovider", name, "--benchmark-only", "--benchmark-max-time", "0.01"
    done = python(*timed, cwd=tmp_path, PYTHONPATH=str(tmp_path), RLGAUGE_LIMITS=json.dumps(LIMITS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "corridor.train num_states 10 in float64 (steps/s)" in done.stdout
    assert "2 passed" in done.stdout


def run(folder, *arguments):
    wanted = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--threads", "1", "--workload", "cloning", *arguments)
    done = python(*wanted, cwd=folder, limit=300, PYTHONPATH=str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_every_block_of_code_is_a_file():
    assert len(FILES) == PAGE.read_text().count("```python\n")


@pytest.mark.slow
def test_example_is_timed(copied):
    timed = "--benchmark-only", "--benchmark-max-time", "0.01", "--op", "train_step", "--backend", "numpy,torch"
    assert "2 passed" in run(copied, "perf_tests/test_cloning.py", *timed)


@pytest.mark.slow
def test_example_passes_its_own_tests_and_the_general_ones(copied):
    general = [f"correctness_tests/test_{name}.py" for name in GENERAL]
    last = run(copied, "correctness_tests/cloning", *general)
    assert int(re.search(r"(\d+) passed", last)[1]) > 4


@pytest.mark.slow
def test_example_passes_ruff_and_mypy(copied):
    for words in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=copied, env=environment(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout
