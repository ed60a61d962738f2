"""A worker's samples: which parts are timed, how many are taken, and the worker's start."""

import ast
import os
from types import SimpleNamespace

import pytest

from correctness_tests.commands import python
from rlgauge import worker
from rlgauge.benchmarks.timed import TimedFunction
from rlgauge.canary import create
from rlgauge.rule import SAME, SLOWED
from rlgauge.sampling import Cores, cores

ONE, ALL = Cores((0, 1), 1), Cores((0, 1), None)


@pytest.fixture
def prepare(monkeypatch):
    """Return a function that prepares a case on a fake clock; it returns a worker's requests, the case, and a log."""

    def prepare_case(call_seconds, reset_seconds=0.0):
        now, log = [0.0], []

        def spend(what, seconds):
            log.append(what)
            now[0] += seconds

        monkeypatch.setattr("time.perf_counter", lambda: now[0])
        timed = TimedFunction(lambda: spend("call", call_seconds), reset=lambda: spend("reset", reset_seconds))
        requests = worker.Requests()
        requests.prepared["case"] = timed
        return requests, timed, log

    return prepare_case


def test_resets_and_the_warm_up_call_are_not_timed(prepare):
    requests, timed, log = prepare(1.0, 100.0)
    timed.calls = 10
    assert requests.sample("case", samples=3)["seconds"] == pytest.approx(30)
    assert (log.count("call"), log.count("reset")) == (31, 4)


def test_the_wall_time_of_a_call_includes_its_share_of_the_reset(prepare):
    found = prepare(0.001, 0.01)[0].measure("case")
    assert found["calls"] > 1
    assert (found["call"], found["iterations"]) == (pytest.approx(0.001), 1)
    assert found["wall"] == pytest.approx(0.001 + 0.01 / found["calls"])


@pytest.mark.parametrize(("seconds", "samples"), [(0.01, 3), (0.7, 2), (1.1, 1)])
def test_no_sample_follows_after_a_second(prepare, seconds, samples):
    requests, timed, _ = prepare(seconds)
    requests.measure("case")
    assert len(timed.seconds) == samples


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize(("side", "name", "units"), [("head", SAME, 40), ("base", SLOWED, 40), ("head", SLOWED, 42)])
def test_a_canary_does_its_work_on_each_core(monkeypatch, cores, side, name, units):
    hashed = []
    monkeypatch.setattr("hashlib.sha256", lambda data: hashed.append(data) or SimpleNamespace(digest=bytes))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
    canary = create(name, side == "head")
    canary.sample()
    canary.close()
    assert len(hashed) == units * cores


@pytest.mark.parametrize(
    ("limit", "count"), [("400000 100000\n", 4), ("350000 100000\n", 3), ("50000 100000\n", 1), ("max 100000\n", 8)]
)
def test_all_cores_are_those_that_a_container_may_keep_busy(monkeypatch, tmp_path, limit, count):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))
    assert cores(True, tmp_path / "absent").threads == 8
    (tmp_path / "cpu.max").write_text(limit)
    assert cores(True, tmp_path / "cpu.max").threads == count
    assert cores(False, tmp_path / "cpu.max").one == 7


@pytest.mark.parametrize(
    ("place", "call", "calls", "plan"),
    [(ONE, 0.001, 1, (1, 5, True)), (ONE, 0.001, 30, (10, 1, True)), (ONE, 0.0149, 7, (1, 1, True)),
     (ONE, 0.015, 2, (1, 1, False)), (ALL, 0.0125, 2, (2, 2, True)), (ALL, 0.016, 9, (5, 1, True)),
     (ALL, 0.24, 1, (1, 1, True)), (ALL, 0.25, 1, (1, 1, False))],
)  # fmt: skip
def test_a_turn_takes_5_ms_on_one_core_and_40_ms_on_all(place, call, calls, plan):
    found = place.plan(call, calls)
    assert (found.calls, found.samples, found.warm) == plan


@pytest.mark.parametrize(
    ("place", "call", "most", "quick"),
    [(ONE, 0.0011, 227, (113, 2)), (ONE, 0.5, 3, (1, 2)), (ONE, 0.8, 2, (1, 1)), (ALL, 0.06, 12, (6, 2))],
)
def test_blocks_take_at_most_6_s_per_pair_or_3_s_in_a_quick_one(place, call, most, quick):
    assert place.plan(call, 1).max_blocks == most
    plan = place.plan(call, 1, quick=True)
    assert (plan.max_blocks, plan.turns) == quick


PLACED = """
import os, subprocess, threading
from rlgauge.worker import Requests

os.setsid()
os.sched_setaffinity(0, range(os.cpu_count()))  # a worker of the tests has one core
cores, started, stop = sorted(os.sched_getaffinity(0)), threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (started.set(), stop.wait()), daemon=True)
thread.start()
started.wait()
child = subprocess.Popen(["sleep", "60"])
for core in (None, cores[-1]):
    Requests().place(core)
    print([sorted(os.sched_getaffinity(which)) for which in (0, thread.native_id, child.pid)])
stop.set()
child.kill()
"""


def test_place_moves_all_threads_and_child_processes_to_the_given_core():
    done = python("-c", PLACED)
    stay, moved = map(ast.literal_eval, done.stdout.splitlines())
    assert stay[0] == stay[1], done.stderr
    assert moved == [stay[0][-1:]] * 3


BEGUN = """
import gc, os
from rlgauge.worker import begin

replies = begin()
print("of a library")
replies.write(f"{sorted(os.sched_getaffinity(0))} {gc.isenabled()}\\n")
"""


def test_a_worker_keeps_standard_output_for_its_replies():
    last = max(os.sched_getaffinity(0))
    done = python("-c", BEGUN, last, 1, "kept")
    assert (done.stdout, done.stderr) == (f"[{last}] True\n", "of a library\n")
