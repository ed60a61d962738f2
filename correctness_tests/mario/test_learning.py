"""The whole pipeline learns to play one level of CoinRun better than at random, in a few minutes."""

from contextlib import closing

import numpy as np
import pytest

from rl_impls.mario.agent import MarioAgent
from rl_impls.mario.games import ProcgenGame

LEVEL = {
    "game": "coinrun", "levels": 1, "start_level": 3, "collectors": 2, "num_envs": 8, "capacity": 20_000,
    "batch_size": 64, "updates": 8, "reuse": 4.0, "explore": 8_000, "target_frequency": 100,
}  # fmt: skip
EXPERIENCES = 20_000
MARGIN = 1.5  # random actions return 5.6 of 10 (32 episodes); a trial run reached 8.1 after 12,000 experiences


def return_of_random_actions(episodes):
    game, rng, results = ProcgenGame("coinrun", "easy", 1, 3, seed=5), np.random.default_rng(5), []
    while len(results) < episodes:
        _, _, episode = game.step(int(rng.integers(15)))
        if episode is not None:
            results.append(episode.result)
    game.close()
    return np.mean(results)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["full", "bfloat16"])
def test_it_learns_to_reach_the_coin(form):
    random = return_of_random_actions(64)
    agent = MarioAgent(seed=0, form=form, **LEVEL)
    with closing(agent):
        while agent.step < EXPERIENCES:
            agent.learn()
        learned = agent.evaluate(32, seed=5)["return"].mean()
    assert learned >= random + MARGIN, f"{learned:.2f} after {EXPERIENCES} experiences, {random:.2f} at random"
