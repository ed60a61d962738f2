"""What the agent tells of a training, of a loop that plays and learns nothing."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.mario.agent_sizes import SMALL
from rl_impls.common import runs
from rl_impls.mario.__main__ import main
from rl_impls.mario.agent import MarioAgent
from rl_impls.mario.games import Episode


class Loop:
    """Stands in for the pipeline: an episode that brings 7 ends in each epoch."""

    def __init__(self):
        self.episodes, self.replay, self.lags = [], (), [0]

    def __call__(self, numbers):
        """An epoch of two updates."""
        self.episodes = [Episode(7.0, 12, 1.0)]
        return np.ones((1, 2), np.float32), np.ones((1, 2), np.float32)

    def stats(self):
        """Nothing was counted."""
        names = ("delivered", "batches", "dropped", "lost", "waiting", "replaced_collectors")
        return dict.fromkeys((*names, "blocked_lock", "blocked_full", "blocked_empty"), 0.0)

    def epsilon(self, number):
        """Half of all actions are drawn."""
        return 0.5

    def gpu_words(self):
        """There is no GPU."""
        return ""


@pytest.fixture
def agent(monkeypatch):
    """A small agent of two updates an epoch, of four experiences each, over that loop."""

    def build(self, weights, target):
        self.spec, self.loop = self.config.spec(self.seed), Loop()
        self.last, self.seen = (float("nan"), float("nan")), (self.step, self.loop.stats())

    monkeypatch.setattr(MarioAgent, "_build", build)
    return MarioAgent(seed=0, **SMALL)


def test_runs_are_compared_by_their_returns(agent, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    recorder = runs.Recorder(tmp_path, 0)
    recorder.add(8, 1.0, agent.learn())
    recorder.close()
    runs.keep_summary(tmp_path, {}, {"step": 8, "rate": 8.0, "peak_memory": 1e6})
    main(["compare", str(tmp_path), "--output", str(tmp_path / "it.html")])
    (shown,) = (line for line in capsys.readouterr().out.splitlines() if "return, last" in line)
    assert "7.00" in shown


def test_batches_are_counted_by_updates(agent):
    for _ in range(3):
        figures = agent.learn()
    _, learner = agent.lines(figures, 4.0)  # though the transport counts nothing, as after it was built anew
    assert "consumed 6/s, 1.50 batches/s, 1.33 s an epoch, " in learner
    figures = agent.learn()
    assert "consumed 16/s, 4.00 batches/s, 0.50 s an epoch, " in agent.lines(figures, 0.5)[1]
