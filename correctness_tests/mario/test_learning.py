"""The whole pipeline learns: one level of CoinRun, better than drawn actions, in a few minutes."""

from __future__ import annotations

import pytest

from correctness_tests.waiting import limit
from rl_impls.mario import evaluation
from rl_impls.mario.agent import MarioAgent

LEVEL = {
    "game": "coinrun", "levels": 1, "start_level": 3, "collectors": 2, "envs": 8, "buffer": 20_000, "batch": 64,
    "updates": 8, "reuse": 4.0, "explore": 8_000, "target_every": 100,
}  # fmt: skip
EXPERIENCES = 20_000
MARGIN = 1.5  # drawn actions bring 5.6 of 10 (32 episodes); a pilot brought 8.1 after 12,000 experiences

limited = limit("what it learns", 300)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["full", "bfloat16"])
def test_it_learns_to_reach_the_coin(form, monkeypatch):
    agent = MarioAgent(seed=0, form=form, **LEVEL)
    try:
        monkeypatch.setattr(evaluation, "EPSILON", 1.0)
        drawn = agent.evaluate(32, seed=5)["return"].mean()
        monkeypatch.undo()
        while agent.step < EXPERIENCES:
            agent.learn()
        learned = agent.evaluate(32, seed=5)["return"].mean()
    finally:
        agent.close()
    assert learned >= drawn + MARGIN, f"{learned:.2f} after {EXPERIENCES} experiences, {drawn:.2f} by drawn actions"
