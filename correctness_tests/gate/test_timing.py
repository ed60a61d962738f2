"""A side's samples: what is timed of them, and how much comes before."""

from __future__ import annotations

import ast
import itertools

import pytest

from correctness_tests.commands import python
from rlgauge import worker
from rlgauge.pairs import Cores

ONE, ALL = Cores((0, 1), 1), Cores((0, 1), None)


class Side(worker.Requests):
    prepare = None


class Counting:
    """A prepared case whose call takes a second of a clock that only it moves."""

    def __init__(self):
        self.made = self.resets = 0
        self.now, self.calls = 0.0, 10

    def call(self):
        self.made += 1
        self.now += 1.0

    def run(self):
        for _ in range(self.calls):
            self.call()

    def sample(self):
        self.resets += 1
        self.now += 100.0  # the reset, which is not timed
        start = self.now
        self.run()
        return self.now - start

    def reset(self):
        self.resets += 1


@pytest.fixture
def counting(monkeypatch):
    prepared, ticks = Counting(), itertools.count(0, 1e-6)
    monkeypatch.setattr("time.perf_counter", lambda: prepared.now + next(ticks))
    side = Side()
    side.prepared["case"] = prepared
    return side, prepared


def test_a_call_is_its_part_of_a_sample(counting):
    side, prepared = counting
    prepared.measure_calls = lambda: prepared.calls
    assert side.measure("case") == {"calls": 10, "call": pytest.approx(1.0), "wall": pytest.approx(11.0)}


def test_a_sample_is_timed_from_its_reset_and_the_first_call_is_not(counting):
    side, prepared = counting
    assert side.sample("case", samples=3)["seconds"] == pytest.approx(30, abs=0.01)
    assert (prepared.made, prepared.resets) == (31, 4)


def test_a_sample_that_needs_no_warm_up_makes_its_calls_alone(counting):
    side, prepared = counting
    assert side.sample("case", samples=2, warm=False)["seconds"] == pytest.approx(20, abs=0.01)
    assert prepared.made == 20


def test_a_sample_of_fewer_calls_is_told_so(counting):
    side, prepared = counting
    assert side.sample("case", samples=2, calls=3, warm=False)["seconds"] == pytest.approx(6, abs=0.01)
    assert prepared.made == 6


@pytest.mark.parametrize(
    ("place", "call", "calls", "plan"),
    [(ONE, 0.001, 1, (1, 5, True)), (ONE, 0.001, 9, (9, 1, True)), (ONE, 0.001, 30, (10, 1, True)),
     (ONE, 0.004, 3, (2, 1, True)), (ONE, 0.012, 7, (1, 1, True)), (ONE, 0.051, 2, (1, 1, False)),
     (ALL, 0.0125, 2, (2, 2, True)), (ALL, 0.05, 2, (1, 1, True)), (ALL, 0.016, 9, (5, 1, True))],
)  # fmt: skip
def test_a_turn_takes_5_or_40_ms_and_not_twice_that_unless_a_call_does(place, call, calls, plan):
    found = place.plan(call, calls)
    assert (found.calls, found.samples, found.warm) == plan


@pytest.mark.parametrize(
    ("place", "call", "most"),
    [(ONE, 0.0011, 227), (ONE, 0.07, 21), (ONE, 0.5, 3), (ONE, 9.0, 2), (ALL, 0.06, 12), (ALL, 0.5, 2)],
)
def test_the_blocks_of_a_pair_take_6_s_or_are_two(place, call, most):
    assert place.plan(call, 1).most_blocks == most


@pytest.mark.parametrize(
    ("call", "calls", "wall", "samples"),
    [(0.001, 1, None, 5), (0.001, 1, 0.002, 5), (0.001, 1, 0.025, 4), (0.001, 2, 0.025, 2), (0.001, 1, 1.0, 1)],
)
def test_a_turn_of_which_most_is_not_timed_takes_a_tenth_of_a_second_at_most(call, calls, wall, samples):
    plan = ONE.plan(call, calls, wall)
    assert (plan.calls, plan.samples) == (calls, samples)
    assert plan.most_blocks == max(2, int(6 / (4 * (wall or call) * (samples * calls + 1))))


def test_a_spin_lasts_as_long_as_it_is_told(counting):
    side, _ = counting
    assert side.sample("case", samples=1, spin=0.005)["seconds"] == pytest.approx(10.005, abs=1e-4)


PLACED = """
import os, threading
from rlgauge.worker import Requests

os.sched_setaffinity(0, range(os.cpu_count()))  # a worker of the tests has one core
cores, started, stop = sorted(os.sched_getaffinity(0)), threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: (started.set(), stop.wait()), daemon=True)
thread.start()
started.wait()
side = type("Side", (Requests,), {"prepare": None})()
for core in (None, cores[-1]):
    side.place(core)
    print([sorted(os.sched_getaffinity(which)) for which in (0, thread.native_id)])
stop.set()
"""


def test_all_threads_are_moved_to_the_core_that_is_named():
    done = python("-c", PLACED)
    stay, moved = map(ast.literal_eval, done.stdout.splitlines())
    assert stay[0] == stay[1], done.stderr
    assert moved == [stay[0][-1:]] * 2
