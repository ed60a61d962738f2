"""The comparisons with other people's libraries, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from perf_tests import interleaved
from perf_tests.peers import _common as common
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
            "stable_baselines3 is not installed (pip install 'rlgauge[peers]')\n",
        ),
        (PLAIN, ("torch",), "torch: torch is not installed (pip install 'rlgauge[peers]')\n"),
        (SCANNED, ("optax",), "jax: optax is not installed (pip install 'rlgauge[peers]')\n"),
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
        with pytest.raises(KeyboardInterrupt):
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
        pytest.skip("pip install 'rlgauge[peers]'")
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
