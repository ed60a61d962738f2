"""The phases of a loop: each counts what is done in it, and together they are a call."""

from __future__ import annotations

import pytest

from correctness_tests.phase_clock import Clock
from correctness_tests.snake.loops import fresh
from correctness_tests.waiting import limit
from rl_impls.snake.loop import PHASES

pytestmark = pytest.mark.usefixtures("one_thread")

limited = limit("a loop's thread")


class WhenAskedFor:
    """Stands in for the thread of a loop: what it is to do is done when its result is asked for."""

    def __init__(self):
        self.result = None

    def submit(self, function, *args):
        made = WhenAskedFor()
        made.result = lambda: function(*args)
        return made


@pytest.mark.parametrize(
    ("form", "backend", "envs"), [("naive", "torch", 1), ("vectorised", "torch", 64), ("full", "jax", 1)]
)
def test_each_phase_counts_what_is_done_in_it_and_together_they_are_a_call(form, backend, envs, monkeypatch):
    loop, inputs = fresh(form, backend, envs)
    assert loop.stats() == {}
    clock = Clock(monkeypatch)
    clock.charge("environment", loop.environment, "advance")
    clock.charge("inference", loop, "actor")
    check(clock, loop, inputs)


def test_a_loop_with_a_thread_waits_for_it(monkeypatch):
    loop, inputs = fresh("threaded", "torch", 64)
    assert loop.stats() == {"policy_lag_steps": 64}
    clock = Clock(monkeypatch)
    monkeypatch.setattr(loop, "pool", WhenAskedFor())
    clock.charge("waiting", loop.environment, "advance")
    clock.charge("waiting", loop, "actor")
    check(clock, loop, inputs)


def check(clock, loop, inputs):
    clock.charge("memory", loop.memory, "push_many", "columns")
    clock.charge("memory", loop, "assemble")
    clock.charge("learning", loop.train, "sync_target")
    clock.charge("learning", loop, "train", "wait")
    clock.assert_counted(loop, PHASES, inputs.args)


@pytest.mark.parametrize("envs", [1, 64])
def test_one_program_counts_its_run_and_what_it_takes_to_copy_its_outputs(envs, monkeypatch):
    loop, inputs = fresh("compiled", "jax", envs)
    assert loop.stats() == {}
    clock = Clock(monkeypatch)
    clock.charge_program(loop, outputs=4)
    clock.assert_counted(loop, ("program", "transfer"), inputs.args)
