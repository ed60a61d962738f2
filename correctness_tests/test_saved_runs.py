"""Saved runs of pytest-benchmark: two of different numbers of calls compare by the seconds of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEST = """
import os
import pytest
from perf_tests.test_perf import CLOCK, report

@pytest.mark.benchmark(timer=CLOCK)
def test_toy(benchmark):
    calls, call = int(os.environ["CALLS"]), float(os.environ["CALL"])
    report(benchmark, [calls * call * factor for factor in (0.9, 1.0, 1.1)], calls)
"""


@pytest.fixture
def saved(tmp_path):
    """Run and save; return what ran."""
    (tmp_path / "test_toy.py").write_text(TEST)

    def run(name, calls, call, *options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-storage", tmp_path]
        return subprocess.run(
            [*map(str, command), "--rootdir", str(tmp_path), f"--benchmark-save={name}", *options, "test_toy.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CALLS": str(calls), "CALL": str(call)},
            capture_output=True,
            text=True,
        )

    return run


def test_a_saved_run_holds_seconds_per_call(saved, tmp_path):
    assert saved("one", 512, 0.002).returncode == 0
    (path,) = tmp_path.glob("*/0001_one.json")
    (found,) = json.loads(path.read_text())["benchmarks"]
    assert found["stats"]["median"] == pytest.approx(0.002)
    assert (found["stats"]["rounds"], found["stats"]["iterations"]) == (3, 512)


@pytest.mark.parametrize(("calls", "call", "code"), [(8, 0.002, 0), (512, 0.0021, 1), (1, 0.0019, 0)])
def test_two_runs_compare_by_the_call_whatever_their_samples(saved, calls, call, code):
    assert saved("first", 64, 0.002).returncode == 0
    second = saved("second", calls, call, "--benchmark-compare", "--benchmark-compare-fail=median:3%")
    assert second.returncode == code, second.stdout + second.stderr
