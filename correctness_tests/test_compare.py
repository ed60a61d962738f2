"""Two benchmarks compared in fresh processes: what is timed, which way round, and what is refused."""

from __future__ import annotations

import math

import pytest

from perf_tests import compare
from perf_tests.suite.cases import variants

NAIVE, FULL = "snake.act[naive-torch-envs1]", "snake.act[full-numpy-envs1]"
LONG = "pirl.forward[full-jax-batch1-iohost-hidden32]"


class Counted:
    """A prepared benchmark whose call takes so many seconds of a clock that only it moves."""

    now = 0.0

    def __init__(self, variant, seconds, calls):
        self.variant, self.seconds, self.calls, self.fresh = variant, seconds, 1, False
        self.measured = calls

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def settle(self):
        self.settled = True

    def measure_calls(self):
        self.calls = self.measured

    def reset(self):
        self.fresh = True
        Counted.now += 1000.0

    def run(self):
        assert self.fresh
        assert self.settled
        assert self.calls == self.measured
        self.fresh = False
        Counted.now += self.seconds * self.calls


@pytest.fixture
def timed(monkeypatch):
    """Give each benchmark the seconds of a call and the calls of a sample that it has here."""
    given = {}

    def prepare(variant, seed):
        return Counted(variant, *given[variant.id])

    monkeypatch.setattr("perf_tests.suite.prepared.prepare", prepare)
    monkeypatch.setattr(compare.time, "perf_counter", lambda: Counted.now)
    return given


def test_a_ratio_is_first_over_second_whatever_the_calls_of_a_sample(timed):
    timed |= {NAIVE: (0.003, 5), FULL: (0.001, 11)}
    assert compare.one_pair(NAIVE, FULL, blocks=3, seed=0) == pytest.approx(math.log(3))
    assert compare.one_pair(FULL, NAIVE, blocks=3, seed=0) == pytest.approx(-math.log(3))


def test_a_ratio_is_of_the_times_of_an_item(timed):
    few, many = "snake.act[full-numpy-envs1]", "snake.act[full-numpy-envs64]"
    items = [variants()[name].case.items(**variants()[name].axes) for name in (few, many)]
    timed |= {few: (1.0, 1), many: (16.0, 1)}
    assert items[1] == 64 * items[0]
    assert compare.one_pair(few, many, blocks=2, seed=1) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([NAIVE, "snake.act"], "unknown id 'snake.act'; pytest --collect-only"),
        ([NAIVE, LONG], "the benchmarks count different things: moves and samples"),
        ([NAIVE, FULL, "--pairs", "5"], "got --pairs 5 --blocks 8, wanted 6 or more pairs, 1 or more blocks"),
        ([NAIVE, FULL, "--blocks", "0"], "got --pairs 7 --blocks 0, wanted 6 or more pairs, 1 or more blocks"),
        ([NAIVE, FULL, "--threads", "0"], "got --threads 0, wanted 1 to "),
    ],
)
def test_a_mistake_is_one_line(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(compare.process, "set_up", lambda threads: None)
    with pytest.raises(SystemExit, match="2"):
        compare.main(arguments)
    assert message in capsys.readouterr().err


def test_what_is_printed_is_how_many_times_as_fast_the_second_is(monkeypatch, capsys):
    asked = []

    def processes(module, arguments, count):
        asked.append((module, arguments, count))
        return [math.log(ratio) for ratio in (2.0, 4.0, 3.0, 3.0, 3.0, 3.0)]

    monkeypatch.setattr(compare.process, "set_up", lambda threads: None)
    monkeypatch.setattr(compare, "fresh_processes", processes)
    compare.main([NAIVE, FULL, "--pairs", "6", "--threads", "1"])
    assert asked == [("perf_tests.compare", [NAIVE, FULL, "--blocks", "8", "--threads", "1"], 6)]
    said = f"{FULL} is this many times as fast as {NAIVE}: 3x, 95 % interval 2 to 4, n = 6 processes of 8 blocks"
    assert said in capsys.readouterr().out


def test_both_sides_draw_from_the_pairs_seed_and_a_turn_after_the_other_is_not_timed_at_once(monkeypatch):
    seeds, runs = [], []

    class Noted(Counted):
        def run(self):
            runs.append(self.variant.id)
            super().run()

    def prepare(variant, seed):
        seeds.append((variant.id, seed))
        return Noted(variant, 1.0, 1)

    monkeypatch.setattr("perf_tests.suite.prepared.prepare", prepare)
    monkeypatch.setattr(compare.time, "perf_counter", lambda: Counted.now)
    compare.one_pair(NAIVE, FULL, blocks=3, seed=4)
    assert seeds == [(NAIVE, 4), (FULL, 4)]
    assert len(runs) == 3 * (4 + 3)  # of a block's four turns three follow the other side's


def test_one_process_prints_its_ratio_of_as_many_blocks_as_are_asked_for(monkeypatch, capsys):
    asked, threads = [], []
    monkeypatch.setattr(compare.process, "set_up", threads.append)
    monkeypatch.setattr(compare, "one_pair", lambda *of: asked.append(of) or 0.25)
    compare.main([NAIVE, FULL, "--one", "4", "--blocks", "3", "--threads", "1"])
    compare.main([NAIVE, FULL, "--one", "0"])
    assert asked == [(NAIVE, FULL, 3, 4), (NAIVE, FULL, 8, 0)]
    assert threads == [1, compare.process.cores()]
    assert capsys.readouterr().out == "0.25\n0.25\n"


def test_what_cannot_run_here_is_named(monkeypatch, capsys):
    monkeypatch.setattr(compare.process, "set_up", lambda threads: None)
    monkeypatch.setattr(compare, "fresh_processes", lambda *asked: pytest.fail("it was timed"))
    monkeypatch.setattr(compare.backends, "get", lambda name: Backend("not here" if name == "numpy" else None))
    with pytest.raises(SystemExit, match="2"):
        compare.main([NAIVE, FULL])
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {FULL}: not here")


class Backend:
    """A backend that may be missing."""

    def __init__(self, reason):
        self.missing = lambda: reason


def test_seven_processes_are_started_unless_told_otherwise(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(compare.process, "set_up", lambda threads: None)
    monkeypatch.setattr(compare, "fresh_processes", lambda *of: asked.append(of) or iter([math.log(2.0)] * of[-1]))
    compare.main([NAIVE, FULL, "--blocks", "1"])
    cores = compare.process.cores()
    assert asked == [("perf_tests.compare", [NAIVE, FULL, "--blocks", "1", "--threads", str(cores)], 7)]
    assert capsys.readouterr().out.endswith(f"n = 7 processes of 1 blocks, {cores} threads\n")
