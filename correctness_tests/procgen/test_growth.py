"""Comparisons of Procgen's loops, and the model of how they grow: what is compared with what, and what is printed."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest

from perf_tests import procgen_growth as growth
from perf_tests import procgen_loops as loops
from perf_tests.procgen_growth import Rollout

ONE, TWO = Rollout(2.0, 8.0), Rollout(1.0, 5.0)  # playing spreads wholly, a quarter of learning cannot


@pytest.mark.parametrize(
    ("one", "two", "share"), [(4.0, 2.0, 0.0), (4.0, 4.0, 1.0), (4.0, 3.0, 0.5), (4.0, 1.0, 0.0), (4.0, 5.0, 1.0)]
)
def test_a_share_that_cannot_be_spread_is_found_from_one_and_two_cores(one, two, share):
    assert growth.share_alone(one, two) == share
    assert growth.spread(one, two, 1) == one
    if two <= one <= 2 * two:
        assert growth.spread(one, two, 2) == two
    assert growth.spread(one, two, 10**9) == pytest.approx(share * one, abs=1e-6)


@pytest.mark.parametrize(
    ("cores", "wanted"),
    [
        (1, (10.0, 10.0, 10.0)),  # one core does one thing after the other, whoever plays
        (2, (6.0, 6.0, 5.0)),
        (4, (0.5 + 3.5, 0.5 + 3.5, 3.5)),  # the learner is what is waited for
        (8, (0.25 + 2.75, 0.25 + 2.75, 2.75)),
    ],
)
def test_the_model_is_what_its_description_says(cores, wanted):
    assert tuple(growth.expected(ONE, TWO, cores).values()) == pytest.approx(wanted)
    assert tuple(growth.expected(ONE, TWO, cores)) == growth.KINDS


def test_actors_play_on_a_core_each_where_games_cannot_be_spread():
    found = growth.expected(Rollout(4.0, 1.0), Rollout(4.0, 1.0), 4)
    assert found == {"one process": 5.0, "lag 0": 2.0, "lag 1": 1.25}


def test_a_table_has_what_is_expected_and_what_was_measured():
    frames = growth.ENVS * growth.UNROLL
    found = {2: {"one process": 6.0, "lag 0": 7.5, "lag 1": 4.0}}
    lines = growth.table(ONE, TWO, found).splitlines()
    assert lines[0] == "| cores | one process | lag 0 | lag 1 |"
    assert [int(line.split("|")[1]) for line in lines[2:]] == [1, 2, 4, 8, 16, 28]
    rates = [f"{frames / seconds:,.0f}" for seconds in (6.0, 6.0, 5.0)]
    real = [f"{frames / seconds:,.0f}" for seconds in (6.0, 7.5, 4.0)]
    assert lines[3] == (
        f"| 2 | {rates[0]} (measured {real[0]}, +0%) | {rates[1]} (measured {real[1]}, -20%) | "
        f"{rates[2]} (measured {real[2]}, +25%) |"
    )
    assert "measured" not in lines[4]


class Timed:
    """Stands in for a loop of so many seconds."""

    made, seconds = [], 0.0

    def __init__(self, op, form="full", rollouts=1, **sizes):
        Timed.made.append((op, form, rollouts, sizes))
        self.turns, self.rollouts, self.frames = 0, rollouts, 4096 * rollouts
        self.spent = dict.fromkeys(("f_train", "f_act", "f_env"), 0.0)
        self.loop = SimpleNamespace(close=lambda: Timed.made.append("closed"))
        self.of_rollout = 10.0 if op.startswith("parallel") else 6.0

    def turn(self):
        self.turns += 1
        first = 100.0 if self.turns == 1 else 0.0  # what is compiled or begun in the first
        for name, seconds in zip(self.spent, (3.0, 2.0, 1.0)):
            self.spent[name] += first + seconds
        return first + self.rollouts * self.of_rollout

    def said(self):
        return dict(self.spent)


@pytest.fixture
def timed(monkeypatch):
    Timed.made.clear()
    for module in (growth, loops):
        for name in ("Whole", "Parts"):
            monkeypatch.setattr(module, name, Timed)
    return Timed.made


def test_parts_and_loops_are_measured_after_a_first_turn_and_each_is_closed_before_the_next(timed):
    assert growth.measured("ppo", "bfloat16", 2) == {
        "parts": [3.0, 3.0], "loops": {"one process": 6.0, "lag 0": 10.0, "lag 1": 10.0}
    }  # fmt: skip
    epochs = {"epochs": 4}
    assert timed[::2] == [
        ("ppo", "bfloat16", 1, epochs), ("ppo", "bfloat16", 4, epochs),
        ("parallel_ppo", "bfloat16", 4, {"actors": 2, "lag": 0, **epochs}),
        ("parallel_ppo", "bfloat16", 4, {"actors": 2, "lag": 1, **epochs}),
    ]  # fmt: skip
    assert timed[1::2] == ["closed"] * 4


def test_medians_over_processes_are_put_beside_the_model(monkeypatch, capsys):
    asked = []

    def processes(module, words, count, first):
        asked.append((words[-1], first))
        cores = int(words[-1])
        parts, odd = (ONE, TWO)[cores - 1], first == 1
        loop = dict.fromkeys(growth.KINDS, 1000.0 if odd else float(sum(parts)))
        yield {"parts": [1000.0, 1000.0] if odd else list(parts), "loops": loop}

    monkeypatch.setattr(growth, "fresh_processes", processes)
    monkeypatch.setattr(growth.process, "cores", lambda: 3)
    growth.main(["--op", "impala", "--processes", "3"])
    out = capsys.readouterr().out
    assert "2,048 are played and 512 learned from, of which 0% and 25% cannot be spread" in out
    assert "| 1 | 410 (measured 410, +0%) | 410 (measured 410, +0%) | 410 (measured 410, +0%) |" in out
    assert "| 28 | " in out
    assert asked == [("2", 0), ("1", 0), ("1", 1), ("2", 1), ("2", 2), ("1", 2)]


@pytest.mark.parametrize(
    ("cores", "words", "message"),
    [
        (1, [], "got 1 core, wanted 2 or more: how the parts spread is measured with two"),
        (2, ["--processes", "0"], "got --processes 0, wanted 1 or more"),
        (2, ["--op", "a2c"], "argument --op: invalid choice: 'a2c'"),
    ],
)
def test_a_mistake_is_one_line(monkeypatch, capsys, cores, words, message):
    monkeypatch.setattr(growth.process, "cores", lambda: cores)
    monkeypatch.setattr(growth, "fresh_processes", lambda *_: pytest.fail("it was timed"))
    with pytest.raises(SystemExit, match="2"):
        growth.main(words)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_each_comparison_has_two_sides_of_the_same_work(timed, monkeypatch):
    monkeypatch.setattr(loops, "find_spec", lambda name: name)
    for name, pair in loops.pairs().items():
        timed.clear()
        pair.first()
        pair.second()
        (first, _, rollouts, sizes), (second, _, others, of_other) = timed
        assert rollouts == others, name
        crew = {"actors", "lag"} if name.startswith("crew") else {"cluster"}
        assert {key: value for key, value in sizes.items() if key not in crew} == of_other, name
        if name.startswith("crew"):
            first = first.removeprefix("parallel_").replace("a3c", "a2c")
        assert first == second, name
        assert bool(crew & sizes.keys()) is name.startswith(("crew", "ray")), name


def test_what_is_compared_with_whom(timed, monkeypatch):
    found = {}
    for name, pair in loops.pairs().items():
        timed.clear()
        pair.first()
        pair.second()
        found[name] = timed[0][1], timed[1][1]
    for op in ("ppo", "a2c", "impala"):
        assert found[f"bfloat16-{op}"] == ("bfloat16", "full")
        for form in ("full", "bfloat16"):
            assert found[f"bound-{op}-{form}"] == (form, form)
    assert found["residual"] == ("bfloat16", "full")
    monkeypatch.setattr(loops, "find_spec", lambda name: None)
    assert not [name for name in loops.pairs() if name.startswith("ray")]
    monkeypatch.setattr(loops, "find_spec", lambda name: name)
    over_ray = {name.removeprefix("ray-") for name in loops.pairs() if name.startswith("ray-")}
    assert over_ray == {"parallel_ppo", "parallel_ppo-lag1", "parallel_impala", "parallel_impala-lag1"}
    crews = {name for name in found if name.startswith("crew-")}
    assert crews == {f"crew-parallel_{op}{lag}" for op in ("ppo", "impala") for lag in ("", "-lag1")} | {"crew-a3c"}


def test_a_ratio_is_how_many_times_as_fast_the_first_is_and_rates_are_of_frames(timed):
    pair = loops.Pair(lambda: Timed("impala", rollouts=2), lambda: Timed("parallel_impala", rollouts=2), "")
    found = loops.one(pair, blocks=2, seed=0)
    assert math.exp(found["ratio"]) == pytest.approx(10 / 6)
    assert found["rates"] == pytest.approx([8192 / 12, 8192 / 20])
    assert timed[-2:] == ["closed", "closed"]
    assert found["peak_memory"] > 1e7


def test_a_loop_is_built_of_the_sizes_of_another_implementation(monkeypatch):
    built = []
    stand_in = SimpleNamespace(build=lambda workload, op, spec, args, knobs: built.append((op, spec, args)))
    monkeypatch.setattr(loops.backends, "get", lambda name: stand_in)
    loops.build("ppo", "full", **loops.CLEANRL)
    loops.build("impala", "full")
    (op, theirs, _), (_, usual, _) = built
    assert (op, theirs["env"]["game"], theirs["env"]["num_envs"], theirs["unroll"]) == ("ppo", "starpilot", 64, 256)
    assert (theirs["epochs"], theirs["batch"], "w_stage0" in theirs["params"]) == (3, 64 * 256 // 8, True)
    assert (usual["env"]["game"], usual["env"]["num_envs"], usual["unroll"]) == ("coinrun", 32, 128)
    assert "w_stage0" not in usual["params"]


def test_what_one_process_found_is_printed_with_its_rates(monkeypatch, capsys):
    results = [
        {"ratio": math.log(2.0 + k), "rates": [100.0 + k, 50.0], "said": [{"waiting": 0.25}, {}], "peak_memory": 5e6}
        for k in range(3)
    ]
    asked = []
    monkeypatch.setattr(loops, "fresh_processes", lambda *of: asked.append(of) or iter(results))
    monkeypatch.setattr("sys.argv", ["it", "--only", "bfloat16-ppo", "--processes", "3", "--threads", "1"])
    loops.main()
    out = capsys.readouterr().out
    assert re.search(
        r"^bfloat16 over float32: ppo: 3x, extremes 2 to 4, n = 3 processes \(101 and 50 frames a sec", out
    )
    assert "waiting 0.25; 5 MB for both sides" in out
    assert asked == [
        ("perf_tests.procgen_loops", ["--only", "bfloat16-ppo", "--blocks", "1", "--threads", "1"], 3)
    ]  # fmt: skip
