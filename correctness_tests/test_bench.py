"""The fixture ``bench``: timing, checks, reports and pytest-benchmark's options."""

import json
import re

import numpy as np
import pytest

from perf_tests.bench import close_to

from .commands import ROOT, pytest_runs

CONFTEST = """import pytest
from perf_tests.bench import Bench


@pytest.fixture
def bench(request, benchmark):
    return Bench(request, benchmark)
"""
TESTS = """import time

import numpy as np
import pytest

class Counter:
    def __init__(self):
        self.total = 0

    def add(self, seconds=0.0):
        time.sleep(seconds)
        self.total += 1
        return self.total

    def once(self, seconds):
        assert self.total == 0, "a second call after a reset"
        return self.add(seconds)

    def reset(self):
        self.total = 0

    def close(self):
        print("closed", self.total)


@pytest.mark.parametrize("backend", ["one", "two"])
def test_stateless(bench, backend):
    bench(time.sleep, 0.0005, items=3, unit="naps", flops=2.0)


def test_state(bench):
    counter = Counter()
    result = bench(
        counter.add, 0.002, reset=counter.reset, close=counter.close,
        output=lambda out: [out, counter.total], figures=lambda: {"total": counter.total},
    )
    assert result == counter.total


@pytest.mark.benchmark(min_rounds=9, max_time=0.000001)
def test_marked(bench):
    counter = Counter()
    bench(counter.add, 0.002, reset=counter.reset)


def test_limited(bench):
    counter = Counter()
    assert bench(counter.add, reset=counter.reset, max_calls=3) == 3


def test_once(bench):
    counter = Counter()
    assert bench(counter.once, 0.002, reset=counter.reset, max_calls=1) == 1


def test_slow_reset_of_an_array(bench):
    counter = Counter()

    def reset():
        time.sleep(0.02)
        counter.reset()
        return np.ones(2)

    bench(counter.add, 0.002, reset=reset)


def test_drifts(bench):
    counter = Counter()
    bench(counter.add, reset=lambda: None, close=counter.close, max_calls=1, output=lambda out: [np.float32(out)])


def test_cold(bench):
    counter = Counter()
    assert bench(counter.add, reset=counter.reset, warm=False, max_calls=1) == 1
    counter.close()
"""


RUNS = {
    "all": (),
    "rounds": (
        "-k", "stateless or state", "--benchmark-min-rounds=7", "--benchmark-max-time=0.000001",
        "--benchmark-timer=time.process_time",
    ),
    "disabled": ("-k", "state", "--benchmark-disable"),
    "marked": ("-k", "test_marked", "--benchmark-min-time=0.06", "--benchmark-warmup=on"),
    "first": ("-k", "state", "--benchmark-storage=saved", "--benchmark-save=first", "--benchmark-warmup=on"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def run(folder):
    """Return a function that runs the benchmarks with the options of each run, all in one process.

    It returns, by name of the run, the exit code, the output and the benchmarks by name.
    """
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_small.py").write_text(TESTS)
    always = "-s", "-c", "/dev/null", f"--rootdir={folder}", "--benchmark-max-time=0.05"

    def run_benchmarks(runs):
        files = {name: folder / f"{name}.json" for name in runs}
        commands = {name: (*always, f"--benchmark-json={files[name]}", *options) for name, options in runs.items()}
        done, _ = pytest_runs(commands, cwd=folder, PYTHONPATH=str(ROOT))
        return {name: (code, text, benchmarks_of(files[name])) for name, (code, text) in done.items()}

    return run_benchmarks


def benchmarks_of(file):
    text = file.read_text() if file.exists() else ""
    return {one["name"]: one for one in json.loads(text)["benchmarks"]} if text else {}


@pytest.fixture(scope="module")
def ran(run):
    return run(RUNS)


def test_round_is_several_calls_after_one_reset_and_reports_seconds_per_call(ran):
    _, text, found = ran["all"]
    state, limited = found["test_state"]["stats"], found["test_limited"]["stats"]
    assert state["iterations"] in (4, 8), text  # calls of 2 ms, so 10 ms or more
    assert state["rounds"] == 5, "enough samples of 10 ms for --benchmark-max-time"
    assert 0.002 <= state["min"] <= state["median"] < 0.008
    assert limited["iterations"] == 3
    assert found["test_once"]["stats"]["iterations"] == 1
    assert found["test_slow_reset_of_an_array"]["stats"]["iterations"] > 1, "the reset is not timed"
    assert found["test_state"]["extra_info"]["figures"] == {"total": state["iterations"]}
    assert f"closed {state['iterations']}\n" in text


def test_items_unit_and_flops_are_reported(ran):
    for backend in ("one", "two"):
        one = ran["all"][2][f"test_stateless[{backend}]"]
        assert one["extra_info"] == {"items": 3, "unit": "naps", "flops": 2.0, "bytes": 0.0}
        assert 0.0005 <= one["stats"]["median"] < 0.005


def test_state_that_reset_does_not_restore_fails_the_test(ran):
    code, text, found = ran["all"]
    assert (code, "test_drifts" in found, "closed 2\n" in text) == (1, False, True)  # no other test prints it
    assert "DriftError: test_drifts: two samples gave different outputs" in text


@pytest.mark.parametrize(
    ("first", "second", "rtol", "same"),
    [
        ([1.0, 0.0], [1.000009, 0.0], 1e-5, True),
        ([1.0, 0.0], [1.0, 1e-5], 1e-5, False),  # element by element
        ([1.0, 0.0], [1.0, 0.0009], 1e-3, True),  # by the norm of the difference
        ([1.0, 0.0], [1.0, 0.0011], 1e-3, False),
        ([np.nan, np.inf], [np.nan, np.inf], 1e-3, True),
        ([np.nan, 1.0], [2.0, 1.0], 1e-3, False),
        ([2.0, 1.0], [np.nan, 1.0], 1e-3, False),
        ([1000, 1], [1000, 2], 1e-3, False),  # integers are compared exactly
        ([1.0, 1.0], [1.0], 1e-3, False),
    ],
)
def test_samples_agree_within_the_tolerance(first, second, rtol, same):
    assert close_to(np.array(first), np.array(second), rtol) == same


def test_without_warm_up_the_first_timed_call_is_the_first_call(ran):
    _, text, found = ran["all"]
    assert found["test_cold"]["stats"]["iterations"] == 1, text


def test_min_rounds_and_the_timer_are_obeyed(ran):
    _, text, found = ran["rounds"]
    assert found["test_state"]["options"]["timer"] == "process_time", text
    for name in ("test_stateless[one]", "test_state"):
        assert found[name]["stats"]["rounds"] == 7, text
    assert found["test_state"]["stats"]["median"] < 0.001  # a sleeping process uses no CPU time
    assert found["test_stateless[one]"]["stats"]["median"] < 0.0004


def test_disabled_benchmarks_run_once_after_a_reset(ran):
    code, text, found = ran["disabled"]
    assert (code, found, re.findall(r"closed (\d+)", text)) == (0, {}, ["1"]), text


def test_save_compare_and_compare_fail_work(ran, run, folder):
    code, text, _ = ran["first"]
    assert code == 0, text
    (saved,) = (folder / "saved").glob("*/0001_first.json")
    content = json.loads(saved.read_text())
    for benchmark in content["benchmarks"]:
        for figure in ("min", "max", "mean", "median"):
            benchmark["stats"][figure] /= 100
    saved.write_text(json.dumps(content))
    failing = ("--benchmark-compare=0001", "--benchmark-compare-fail=median:5%")
    second = "-k", "state", "--benchmark-storage=saved", "--benchmark-autosave", *failing
    code, text, _ = run({"second": second})["second"]
    assert code != 0
    assert "Performance has regressed" in text
    assert "test_state (0001_first)" in text
    assert len(list((folder / "saved").glob("*/*.json"))) == 2


def test_marks_warm_up_rounds_and_the_minimum_time_are_obeyed(ran):
    code, text, found = ran["marked"]
    assert code == 0, text
    stats = found["test_marked"]["stats"]
    assert (stats["rounds"], stats["iterations"] > 8) == (9, True)  # 60 ms; 8 calls would be enough for 10 ms
