"""Saved runs of pytest-benchmark: two of different numbers of calls compare by the seconds of one."""

from __future__ import annotations

import json

import pytest

from .commands import ROOT, pytest_runs

TEST = """
import os
import pytest
from perf_tests.test_perf import CLOCK, report

@pytest.mark.benchmark(timer=CLOCK)
def test_toy(benchmark):
    calls, call = int(os.environ["CALLS"]), float(os.environ["CALL"])
    report(benchmark, [calls * call * factor for factor in (0.9, 1.0, 1.1)], calls)
"""


AGAIN = {"more calls": (8, 0.002, 0), "slower": (512, 0.0021, 1), "faster": (1, 0.0019, 0)}  # calls, seconds, code


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run of 64 calls of 2 ms a sample, and others that are compared with it.

    Returns what each ends with, and the benchmarks of the first.
    """
    folder = tmp_path_factory.mktemp("saved")
    (folder / "test_toy.py").write_text(TEST)

    def run(name, calls, call, *options):
        where = (
            "--rootdir",
            str(folder),
            "--benchmark-storage",
            str(folder),
            f"--benchmark-save={name.replace(' ', '_')}",
        )
        return f"CALLS={calls}", f"CALL={call}", *where, *options, "test_toy.py"

    compared = "--benchmark-compare=0001", "--benchmark-compare-fail=median:3%"
    runs = {name: run(name, calls, call, *compared) for name, (calls, call, _) in AGAIN.items()}
    found, _ = pytest_runs({"first": run("first", 64, 0.002), **runs}, cwd=folder, PYTHONPATH=str(ROOT))
    (path,) = folder.glob("*/0001_first.json")
    return found, json.loads(path.read_text())["benchmarks"]


def test_a_saved_run_holds_seconds_per_call(saved):
    found, (first,) = saved
    assert found["first"][0] == 0
    assert first["stats"]["median"] == pytest.approx(0.002)
    assert (first["stats"]["rounds"], first["stats"]["iterations"]) == (3, 64)


@pytest.mark.parametrize("name", AGAIN)
def test_two_runs_compare_by_the_call_whatever_their_samples(saved, name):
    code, text = saved[0][name]
    assert code == AGAIN[name][-1], text
