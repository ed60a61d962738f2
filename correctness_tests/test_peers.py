"""The comparisons with other people's libraries, as a user types them."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests import interleaved
from perf_tests.peers import _common as common
from perf_tests.peers import _turns as turns
from perf_tests.peers import snake_plain, snake_scanned
from perf_tests.suite.cases import variants

from .commands import python

SB3, PLAIN, SCANNED, GYM3 = SCRIPTS = [
    f"perf_tests.peers.{name}" for name in ("snake_sb3", "snake_plain", "snake_scanned", "procgen_gym3")
]


def run(script, *arguments, without=()):
    """Run a script with some packages as if they were not installed; return exit code, output and errors."""
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({without!r})); sys.argv[1:] = {arguments!r}; "
    code += f"runpy.run_module({script!r}, run_name='__main__', alter_sys=True)"
    done = python("-c", code, limit=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "without", "message"),
    [
        (
            SB3,
            ("stable_baselines3", "torch", "jax"),
            "stable_baselines3 is not installed (pip install 'rlgauge-workloads[peers]')\n",
        ),
        (PLAIN, ("torch",), "torch: torch is not installed (pip install 'rlgauge-workloads[peers]')\n"),
        (SCANNED, ("optax",), "jax: optax is not installed (pip install 'rlgauge-workloads[peers]')\n"),
        (GYM3, ("gym3",), "gym3 is not installed (pip install --no-deps -r requirements/py311.txt)\n"),
    ],
)
def test_without_the_library_one_line_says_what_to_install(script, without, message):
    assert run(script, without=without) == (1, "", message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--pairs", "5"), "got --pairs 5 --blocks 8, wanted 6 or more pairs, 1 or more blocks"),
        (("--blocks", "0"), "got --pairs 7 --blocks 0, wanted 6 or more pairs, 1 or more blocks"),
        (("--threads", "0"), "got --threads 0, wanted 1 to "),
        (("--seed", "-1"), "got --seed -1, wanted 0 or more"),
        (("--seed", "many"), "argument --seed: invalid int value: 'many'"),
        (("--only", "all"), "argument --only: invalid choice: 'all'"),
        (("--json", "nowhere/out.json"), "got --json nowhere/out.json, wanted a file in a folder that exists"),
    ],
)
def test_a_mistaken_option_ends_with_a_clear_line(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peer", *arguments])
    with pytest.raises(SystemExit, match="2"):
        common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())
    said = capsys.readouterr()
    assert said.out == ""
    assert f"error: {message}" in said.err.splitlines()[-1]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_takes_options(script):
    code, out, errors = run(script, "--only", "all")
    assert (code, out) == (2, "")
    assert errors.splitlines()[-1].startswith(f"python -m {script}: error: argument --only: invalid choice: 'all'")


@pytest.mark.parametrize(
    ("script", "name"),
    [
        pytest.param(script, name, marks=() if name == "fused" else pytest.mark.slow)
        for script, names in (
            (PLAIN, snake_plain.COMPARISONS | snake_plain.CHECKS),
            (SCANNED, snake_scanned.COMPARISONS),
        )
        for name in names
    ],
)
def test_peers_play_and_learn_as_ours_do_by_the_same_numbers(script, name, monkeypatch):
    monkeypatch.setattr(common, "STEPS", 128)
    comparison = {PLAIN: snake_plain.COMPARISONS | snake_plain.CHECKS, SCANNED: snake_scanned.COMPARISONS}[script][name]
    ours, theirs = comparison.ours([0, 0]), comparison.theirs([0, 0])
    for side in (ours, theirs):
        assert side.block() > 0
    theirs.check_first(ours)
    common.check_alike(theirs, ours)
    theirs.outcome = (theirs.outcome[0] + 1, *theirs.outcome[1:])
    with pytest.raises(RuntimeError, match="actions: the first 64 differ"):
        theirs.check_first(ours)
    theirs.outcome = tuple(part[:8] for part in theirs.outcome)
    with pytest.raises(RuntimeError, match="environment steps and updates of a block: got "):
        common.check_alike(theirs, ours)


def test_what_is_kept_of_a_comparison_names_the_case_and_the_ratio(monkeypatch, tmp_path, capsys):
    results = [{"ratio": np.log(k), "ours": 10.0 * k, "theirs": 10.0} for k in (1, 2, 3, 4, 5, 6)]
    monkeypatch.setattr(common, "fresh_processes", lambda module, asked, pairs: iter(results))
    monkeypatch.setattr(sys, "argv", ["peer", "--only", "fused", "--pairs", "6", "--json", str(tmp_path / "out.json")])
    common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())
    [kept] = json.loads((tmp_path / "out.json").read_text())
    assert kept["case"] in variants()
    assert kept["case"] in capsys.readouterr().out
    assert (kept["ratio"], kept["low"], kept["high"], kept["n"]) == pytest.approx((3.5, 1, 6, 6))
    assert kept["steps_per_second"] == {"ours": 35, "theirs": 10}
    assert kept.keys() == {
        "peer", "version", "case", "ratio", "low", "high", "n", "threads", "steps_per_second", "left_out",
    }  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_results_as_they_were(monkeypatch, tmp_path, number):
    monkeypatch.setattr(interleaved.subprocess, "run", lambda *args, **how: os.kill(os.getpid(), number))
    (tmp_path / "out.json").write_text("kept")
    monkeypatch.setattr(sys, "argv", ["peer", "--only", "fused", "--json", str(tmp_path / "out.json")])
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit, match=r"^130$"):
            common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.json", "kept")]


def test_a_file_that_cannot_be_written_is_said_before_anything_is_timed(monkeypatch, tmp_path):
    (tmp_path / "out.json").mkdir()
    monkeypatch.setattr(common, "fresh_processes", lambda *_: pytest.fail("it was timed"))
    monkeypatch.setattr(sys, "argv", ["peer", "--json", str(tmp_path / "out.json")])
    with pytest.raises(SystemExit, match=rf"^{tmp_path}/out\.json: cannot be written: it is no file$"):
        common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())


def test_a_peer_that_is_too_slow_fails_its_check(monkeypatch):
    results = [{"ratio": np.log(ratio), "ours": 12.0, "theirs": 10.0} for ratio in (0.9, 1.1, 1.2, 1.2, 1.3, 1.6)]
    monkeypatch.setattr(common, "fresh_processes", lambda module, asked, pairs: iter(results))
    monkeypatch.setattr(sys, "argv", ["peer", "--check"])
    with pytest.raises(SystemExit, match=r"plain_naive: got 1\.2, wanted 1\.45 or more, or the peer is wrong"):
        common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=(), checks=snake_plain.CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "name"), [(SB3, "torch"), (SB3, "jax"), (PLAIN, "fused"), (SCANNED, "envs1"), (SCANNED, "envs64")]
)
def test_one_process_finds_both_sides_alike_and_gives_their_rates(script, name):
    if script == SB3 and find_spec("stable_baselines3") is None:
        pytest.skip("pip install 'rlgauge-workloads[peers]'")
    code, out, errors = run(script, "--only", name, "--one", "0", "--blocks", "1", "--threads", "1")
    assert code == 0, errors
    assert errors == ""
    result = json.loads(out.splitlines()[-1])
    assert result.keys() == {"ratio", "theirs", "ours"}
    assert min(result["theirs"], result["ours"]) > 0


class Played:
    """A side whose block takes so many seconds; the log has what it was asked."""

    def __init__(self, log, name, seconds, seed):
        self.log, self.name, self.seconds, self.updates = log, name, seconds, 1
        log.append((name, seed))

    def block(self):
        self.log.append(self.name)
        return self.seconds

    def check_first(self, other):
        self.log.append(("checked", other.name))

    def sizes(self):
        return [1]

    def done(self):
        return common.STEPS, self.updates

    due = done


def played(log):
    sides = [lambda seed, of=of: Played(log, *of, seed) for of in (("ours", 0.5), ("theirs", 1.0))]
    return common.Comparison("case", "peer", "1", *sides, "nothing")


def test_both_sides_of_a_pair_start_from_its_seed_and_are_checked_before_they_are_timed():
    log = []
    found = common.one_pair(played(log), 2, 7, 3)
    assert found == {
        "ratio": pytest.approx(np.log(2)), "ours": 2 * common.STEPS, "theirs": common.STEPS,
    }  # fmt: skip
    assert log[:7] == [("ours", [7, 3]), ("theirs", [7, 3]), "ours", "theirs", ("checked", "ours"), "ours", "theirs"]
    assert len(log[7:]) == 2 * (4 + 3)


def test_which_side_begins_is_drawn_for_each_pair():
    orders = set()
    for pair in range(8):
        log = []
        common.one_pair(played(log), 4, 0, pair)
        orders.add(tuple(log[7:]))
    assert len(orders) > 1


def test_a_side_that_does_less_in_the_end_is_noticed(monkeypatch):
    monkeypatch.setattr(common, "log_ratio", lambda blocks: setattr(sides[1], "updates", 0) or 0.0)
    sides = []
    monkeypatch.setattr(Played, "check_first", lambda self, other: sides.extend((other, self)))
    with pytest.raises(RuntimeError, match="environment steps and updates of a block: got "):
        common.one_pair(played([]), 1, 0, 0)


def test_each_process_of_a_comparison_is_asked_for_what_the_command_was(monkeypatch, capsys):
    asked = []

    def processes(module, arguments, pairs):
        asked.append((module, arguments, pairs))
        return iter([{"ratio": 0.0, "ours": 1.0, "theirs": 1.0}] * pairs)

    monkeypatch.setattr(common, "fresh_processes", processes)
    monkeypatch.setattr(sys, "argv", ["peer", "--only", "fused", "--blocks", "3", "--threads", "1", "--seed", "9"])
    common.main("peer", "Compare.", snake_plain.COMPARISONS, needed=())
    assert asked == [("peer", ["--only", "fused", "--blocks", "3", "--threads", "1", "--seed", "9"], 7)]


def test_a_memory_is_as_full_as_blocks_have_made_it():
    class Still(common.Side):
        def play(self, *numbers):
            return numbers

    side = Still([0, 0])
    before = side.pushed
    side.block()
    assert side.pushed == before + common.STEPS


def test_a_block_is_timed_without_its_draws_and_its_outcome_is_kept(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])

    class Drawing(turns.Turns):
        def drawn(self):
            now[0] += 100.0
            return self.rng.integers(1000), "more"

        def play(self, number, more):
            now[0] += 2.5
            return number, more

    side = Drawing([3, 1])
    assert side.outcome is None
    assert side.block() == 2.5
    assert side.outcome == side.numbers == (np.random.default_rng([3, 1]).integers(1000), "more")
    assert side.sizes() == []


class Still(common.Side):
    """A side that does nothing with its numbers."""

    def play(self, *numbers):
        return numbers


@pytest.mark.parametrize("envs", [1, 64])
def test_numbers_of_a_block_are_of_its_steps_and_what_is_stored_when_they_are_taken(envs, monkeypatch):
    highs = []
    side = Still([0, 0], envs)
    side.pushed, side.capacity = 90, 500

    class Noted:
        def __init__(self, rng):
            self.rng = rng

        def integers(self, high, *rest, **more):
            if "size" in more and np.ndim(high) == 2:
                highs.extend(high[:, 0].tolist())
            return self.rng.integers(high, *rest, **more)

        def random(self, *shape):
            return self.rng.random(*shape)

    side.rng = Noted(side.rng)
    explore, moves, draws, rows = side.drawn()
    steps = common.STEPS // envs
    assert (explore.shape, moves.shape, draws.shape) == ((steps, envs), (steps, envs), (steps, envs, 3))
    assert rows.shape == (common.STEPS // 4, 32)
    wanted = [min(500, 90 + math.ceil(4 * (k + 1) / envs) * envs) for k in range(len(rows))]
    assert highs == wanted
    assert 0.05 < explore.mean() < 0.15
    assert side.due() == (common.STEPS, common.STEPS // 4)


def test_a_side_of_snake_starts_from_its_seed_with_memory_games_and_constants():
    from rl_impls.snake.problem import CAPACITY, STORED

    side = Still([0, 0], 4)
    assert (side.envs, side.capacity, side.pushed) == (4, CAPACITY, STORED)
    assert (side.spec["capacity"], side.spec["target_every"], side.spec["step"]) == (CAPACITY, 1000, 0)


def outcome(**changed):
    """Return what a block of 128 steps of one game comes to."""
    made = {"actions": np.zeros((128, 1), int), "rewards": np.zeros((128, 1)), "ended": np.zeros((128, 1), bool),
            "losses": np.ones(32)}  # fmt: skip
    return tuple({name: changed.get(name, array) for name, array in made.items()}.values())


def at(place, array, value):
    """Return an array with another value at a place."""
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, None),
        ({"actions": at(63, outcome()[0], 1)}, "actions: the first 64 differ"),
        ({"actions": at(64, outcome()[0], 1)}, None),
        ({"rewards": at(0, outcome()[1], 1.0)}, "rewards: the first 64 differ"),
        ({"ended": at(0, outcome()[2], True)}, "ended: the first 64 differ"),
        ({"losses": at(15, outcome()[3], 1.01)}, r"losses: got \["),
        ({"losses": at(15, outcome()[3], 1.0005)}, None),
        ({"losses": at(16, outcome()[3], 9.0)}, None),
    ],
)
def test_only_the_beginning_of_the_first_block_has_to_be_alike(changed, message):
    one, other = Still([0, 0]), Still([0, 0])
    one.outcome, other.outcome = outcome(), outcome(**changed)
    assert one.done() == (128, 32)
    if message is None:
        one.check_first(other)
    else:
        with pytest.raises(RuntimeError, match=f"^{message}"):
            one.check_first(other)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sizes": [2]}, r"sizes of the net's arrays: got \[2\] and \[1\]"),
        ({"done": (5, 1)}, r"environment steps and updates of a block: got \(5, 1\) and \(4, 1\)"),
        ({}, None),
    ],
)
def test_sides_that_do_not_do_the_same_are_named(changed, message):
    def side(sizes=(1,), done=(4, 1), due=(4, 1)):
        return SimpleNamespace(sizes=lambda: [*sizes], done=lambda: done, due=lambda: due)

    if message is None:
        common.check_alike(side(), side())
        with pytest.raises(RuntimeError, match="of a block, and those wanted: got "):
            common.check_alike(side(), side(due=(8, 2)))
    else:
        with pytest.raises(RuntimeError, match=f"^{message}, wanted the same"):
            common.check_alike(side(**changed), side())


def test_what_is_kept_of_processes_is_the_median_of_each_figure():
    comparison = played([])
    results = [{"ratio": math.log(k), "ours": 100.0 * k, "theirs": 7.0 * k} for k in (1, 2, 3, 4, 5, 6, 100)]
    assert common.summary(comparison, results, 3) == {
        "peer": "peer", "version": "1", "case": "case", "ratio": pytest.approx(4.0), "low": pytest.approx(1.0),
        "high": pytest.approx(100.0), "n": 7, "threads": 3, "steps_per_second": {"ours": 400.0, "theirs": 28.0},
        "left_out": "nothing",
    }  # fmt: skip


def test_rates_are_medians_of_turns(monkeypatch):
    log, seconds = [], {"ours": iter([1.0, 1.0, *[0.5, 4.0] * 9]), "theirs": iter([1.0, 1.0, *[2.0] * 20])}
    monkeypatch.setattr(Played, "block", lambda self: next(seconds[self.name]))
    found = common.one_pair(played(log), 2, 0, 0)
    assert found["theirs"] == common.STEPS / 2.0
    assert found["ours"] in (common.STEPS / 0.5, common.STEPS / 4.0, common.STEPS * (2.0 + 0.25) / 2)


def peer_main(monkeypatch, *arguments, **more):
    """Run a script of two comparisons and a check."""
    one = played([])
    comparisons = {"a": one, "b": dataclasses.replace(one, peer="b's peer", least=2.0)}
    monkeypatch.setattr(sys, "argv", ["peer", *arguments])
    common.main("peer", "Compare.\nMore.", comparisons, **({"needed": ()} | more))


def test_all_comparisons_are_made_unless_one_is_named_and_checks_instead_where_that_is_asked_for(monkeypatch):
    made, checks = [], {"c": played([])}

    def measured(module, name, comparison, options):
        made.append((module, name, comparison.peer, options.pairs, options.blocks, options.threads, options.seed))
        return {"ratio": 2.0}

    monkeypatch.setattr(common, "measured", measured)
    monkeypatch.setattr(common.process, "cores", lambda: 3)
    peer_main(monkeypatch, checks=checks)
    assert made == [("peer", "a", "peer", 7, 8, 1, 0), ("peer", "b", "b's peer", 7, 8, 1, 0)]
    for arguments, more, names in (
        (("--only", "b"), {}, ["b"]), (("--check",), {"checks": checks}, ["c"]),
        (("--only", "c"), {"checks": checks}, ["c"]), (("--only", "a", "--check"), {"checks": checks}, ["a"]),
    ):  # fmt: skip
        made.clear()
        peer_main(monkeypatch, *arguments, **more)
        assert [name for _, name, *_ in made] == names
    made.clear()
    peer_main(monkeypatch, "--only", "a", threads=2)
    peer_main(monkeypatch, "--only", "a", threads=64)
    assert [threads for *_, threads, _ in made] == [2, 3]


def test_every_comparison_below_its_least_ratio_is_a_line_once_all_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "measured", lambda module, name, *rest: {"name": name, "ratio": 1.999})
    with pytest.raises(SystemExit) as ended:
        peer_main(monkeypatch, "--json", str(tmp_path / "out.json"))
    assert str(ended.value) == "b: got 2, wanted 2.0 or more, or the peer is wrong"
    assert [one["name"] for one in json.loads((tmp_path / "out.json").read_text())] == ["a", "b"]


def test_one_pair_is_of_the_comparison_the_blocks_the_seed_and_the_number_asked_for(monkeypatch, capsys):
    asked, threads = [], []
    monkeypatch.setattr(common.process, "set_up", threads.append)
    monkeypatch.setattr(
        common, "one_pair", lambda comparison, *rest: asked.append((comparison.peer, *rest)) or {"x": 1}
    )
    peer_main(monkeypatch, "--only", "b", "--one", "4", "--blocks", "3", "--seed", "9", "--threads", "1")
    assert asked == [("b's peer", 3, 9, 4)]
    assert threads == [1]
    assert json.loads(capsys.readouterr().out) == {"x": 1}


def test_what_is_said_of_a_comparison(monkeypatch, capsys):
    results = [{"ratio": math.log(2.0), "ours": 12_345.6, "theirs": 1_000.0}] * 6
    monkeypatch.setattr(common, "fresh_processes", lambda *asked: iter(results))
    peer_main(monkeypatch, "--only", "a", "--pairs", "6", "--threads", "1")
    assert capsys.readouterr().out == (
        "case is this many times as fast as peer 1: 2x, 95 % interval 2 to 2, n = 6 processes of 8 blocks, "
        "1 threads (12,346 and 1,000 environment steps per second)\n"
    )


def test_what_is_not_installed_is_named_before_anything_is_timed(monkeypatch):
    monkeypatch.setattr(common, "measured", lambda *asked: pytest.fail("it was timed"))
    words = r"^nowhere_to_be_found is not installed \(pip install 'rlgauge-workloads\[peers\]'\)$"
    with pytest.raises(SystemExit, match=words):
        peer_main(monkeypatch, needed=("numpy", "json", "nowhere_to_be_found"))
