"""Evidence that an optimisation learns as well: trainings in pairs, and what they show."""

from __future__ import annotations

import errno
import importlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perf_tests.claims import returns

from .toy import claim


def test_evidence_is_a_gain_that_is_kept():
    def pairs(*changes):
        return [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]

    assert returns.stays(pairs(3.9, 4.0, 4.1, 4.0, 3.9), 0.0) is True
    assert returns.stays(pairs(1.0, 1.1, 0.9, 1.0, 1.0), 0.0) is False
    assert returns.stays(pairs(1.0, 5.0, 3.0, 4.0, 2.0), 0.0) is None
    assert returns.stays(pairs(4.0, 4.0, 4.0, 4.0), 0.0) is None  # too few
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 0.0) is True  # just the share
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 3.0) is False  # nothing of the gain


class Learner:
    """An agent that takes a thousand steps at a time; the log has what it was asked."""

    def __init__(self, log, **how):
        self.log, self.step = log, 0
        log.append(how)

    def learn(self):
        self.step += 1000

    def evaluate(self, episodes, seed):
        self.log.append((self.step, episodes, seed))
        return {"foods": np.array([1.0, 3.0])}

    def close(self):
        self.log.append("closed")


@pytest.mark.parametrize(("changed", "every"), [(False, 1), (True, 4)])
def test_a_training_is_of_its_seed_and_evaluated_on_others(monkeypatch, changed, every):
    log = []
    monkeypatch.setattr("rl_impls.snake.agent.SnakeAgent", lambda **how: Learner(log, **how))
    trial = returns.TRIALS["snake-every-4"]
    assert returns.trained(trial, 3, changed) == 2.0
    assert log == [{**returns.SNAKE, "every": every, "seed": 3}, (trial.steps, trial.episodes, 1003), "closed"]


@pytest.mark.parametrize("name", returns.TRIALS)
def test_both_sides_of_a_trial_are_agents_that_can_be_made_and_of_other_configurations(name, monkeypatch):
    trial, log = returns.TRIALS[name], []
    made = importlib.import_module(f"rl_impls.{trial.workload}.agent")
    config = importlib.import_module(f"rl_impls.{trial.workload}.agent").Config
    base, changed = (config(**{**trial.base, **more}) for more in ({}, trial.change))
    assert base != changed
    agents = [kind for kind in vars(made) if kind.endswith("Agent")]
    assert len(agents) == 1
    monkeypatch.setattr(made, agents[0], lambda **how: Learner(log, **how))
    monkeypatch.setattr(Learner, "evaluate", lambda self, episodes, seed: {trial.figure: np.full(episodes, 7.0)})
    assert returns.trained(trial, 2, True) == 7.0
    assert log[0] == {**trial.base, **trial.change, "seed": 2}


def test_trainings_go_on_with_the_seeds_that_are_missing(tmp_path, monkeypatch, capsys):
    asked = []

    def fresh(module, words, count, first):
        asked.append((*words, first))
        yield 3.0 + first + ("--changed" in words)

    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "fresh_processes", fresh)
    returns.main(["snake-every-4"])
    assert asked == [("snake-every-4", *more, seed) for seed in range(5) for more in ((), ("--changed",))]
    asked.clear()
    returns.main(["snake-every-4", "--seeds", "6"])
    assert asked == [("snake-every-4", 5), ("snake-every-4", "--changed", 5)]
    assert returns.pairs_of("snake-every-4")[-1] == {"seed": 5, "base": 8.0, "change": 9.0}
    assert "stays the same" in capsys.readouterr().out


def test_a_disk_that_is_full_costs_none_of_the_pairs_that_are_kept(tmp_path, monkeypatch):
    written, whole = [], returns.write_whole

    def write(path, content):
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        whole(path, content)

    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "fresh_processes", lambda module, words, count, first: iter([3.0]))
    monkeypatch.setattr(returns, "write_whole", write)
    with pytest.raises(SystemExit, match="No space left on device"):
        returns.main(["snake-every-4"])
    assert [pair["seed"] for pair in returns.pairs_of("snake-every-4")] == [0]


def test_an_interrupted_training_says_where_it_goes_on(tmp_path, monkeypatch, capsys):
    trained = iter([(4.0,), (5.0,)])

    def fresh(*asked, **more):
        yield from next(trained, ())
        raise KeyboardInterrupt

    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "fresh_processes", fresh)
    with pytest.raises(SystemExit, match="130"):
        returns.main(["snake-every-4"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"interrupted: what was trained is kept in {tmp_path}; the same command goes on"
    assert returns.pairs_of("snake-every-4") == [{"seed": 0, "base": 4.0, "change": 5.0}]


def test_evidence_of_other_code_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(returns, "KEPT", tmp_path)
    pairs = [{"seed": seed, "base": 4.0, "change": 4.0} for seed in range(5)]
    about = claim(same="returns", evidence="snake-every-4")
    assert returns.evidence(about, "snake") is None
    for code, known in ((returns.code(returns.TRIALS["snake-every-4"]), True), ("of old", None)):
        (tmp_path / "snake-every-4.json").write_text(json.dumps({"code": code, "pairs": pairs}))
        assert returns.evidence(about, "snake") is known


@pytest.mark.parametrize("fails", [False, True])
def test_an_agent_is_closed_after_its_training_whatever_happens(monkeypatch, fails):
    log = []

    class Agent(Learner):
        def evaluate(self, episodes, seed):
            if fails:
                raise ValueError("no")
            return {"return": np.array([2.0, 6.0])}

    monkeypatch.setattr("rl_impls.mario.agent.MarioAgent", lambda **how: Agent(log, **how))
    trial = returns.TRIALS["mario-batch-norm"]
    if fails:
        with pytest.raises(ValueError, match="no"):
            returns.trained(trial, 1, True)
    else:
        assert returns.trained(trial, 1, True) == 4.0
    assert log == [{**returns.MARIO, "norm": "batch", "seed": 1}, "closed"]


def test_what_a_change_keeps_is_paired_by_seed_beyond_three_quarters_of_the_gain_over_random():
    pairs_of = [{"base": 5.0 + seed, "change": 5.0 + seed + (-1) ** seed} for seed in range(6)]
    low, high = returns.excess(pairs_of, 1.0)
    over = np.array([(5 + k + (-1) ** k - 1) - 0.75 * (5 + k - 1) for k in range(6)])
    room = 2.570582 * over.std(ddof=1) / math.sqrt(6)  # Student's t of five degrees of freedom
    assert (low, high) == pytest.approx((over.mean() - room, over.mean() + room))
    assert returns.excess([{"base": 4.0, "change": 3.0}] * 5, 0.0) == (0.0, 0.0)


def test_evidence_is_of_the_code_and_of_the_trial_that_it_was_asked_by(monkeypatch):
    trial = returns.TRIALS["snake-every-4"]
    one = returns.code(trial)
    assert returns.code(trial) == one
    assert returns.code(replace(trial, steps=1)) != one
    read = Path.read_bytes
    changed: list[str] = []
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * str(self).endswith(tuple(changed)))
    for name, depends in (
        ("rl_impls/snake/agent.py", True), ("rl_impls/common/replay.py", True), ("rl_impls/params.py", True),
        ("requirements/py311.txt", True), ("rl_impls/mario/agent.py", False), ("rl_impls/common/runs.py", False),
        ("rl_impls/snake/__main__.py", False), ("perf_tests/suite/cases/snake.py", False),
    ):  # fmt: skip
        changed[:] = [name]
        assert (returns.code(trial) != one) is depends
    changed[:] = ["rl_impls/snake/agent.py"]
    assert returns.evidence(claim(), "snake") is None


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """Trials whose evidence is of the code as it is: what each seed learned with the change, of bases of 4."""
    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)

    def put(name, *changes):
        pairs_of = [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]
        found = {"code": returns.code(returns.TRIALS[name]), "pairs": pairs_of}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))

    return put


def test_each_trial_is_said_in_a_line(trials, capsys, monkeypatch):
    monkeypatch.setattr(returns, "fresh_processes", lambda *asked, **more: pytest.fail("it was trained"))
    trials("snake-every-4", *[4.0] * 5)
    trials("snake-every-16", *[1.0] * 5)
    trials("snake-batch-256", 1.0, 5.0, 3.0, 4.0, 2.0, 3.0)
    returns.main(["snake-every-4", "snake-every-16", "snake-batch-256"])
    said_of = capsys.readouterr().out.splitlines()
    assert said_of[:2] == [
        "snake-every-4: what is learned stays the same: +1.00 to +1.00 foods beyond 75% of the gain, n = 5 seeds",
        "snake-every-16: what is learned is less: -2.00 to -2.00 foods beyond 75% of the gain, n = 5 seeds",
    ]
    assert said_of[2].startswith("snake-batch-256: what is learned unclear: -1.")
    assert said_of[2].endswith(" n = 6 seeds")


def test_one_training_is_of_the_trial_the_seed_and_the_side_asked_for(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "trained", lambda *of: asked.append(of) or 3.5)
    for more in ([], ["--changed"]):
        returns.main(["snake-every-16", "--one", "2", *more])
    trial = returns.TRIALS["snake-every-16"]
    assert asked == [(trial, 2, False), (trial, 2, True)]
    assert capsys.readouterr().out == "3.5\n3.5\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chess"], "unknown trial 'chess'; known: snake-every-4, "),
        (["--seeds", "4"], "got --seeds 4, wanted 5 or more"),
    ],
)
def test_a_mistaken_trial_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        returns.main(words)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_evidence_that_cannot_be_kept_ends_it(trials, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(returns, "KEPT", tmp_path / "file")
    monkeypatch.setattr(returns, "fresh_processes", lambda *asked, **more: iter([1.0]))
    with pytest.raises(SystemExit, match=r"snake-every-4\.json: cannot be written: "):
        returns.main(["snake-every-4"])
