"""Every algorithm learns, in one process and in several: far better than at random on five levels of Jumper.

The numbers come from a pilot of one other seed each: a random policy gets 4.5 (3 seeds, 731 episodes);
the last 25,000 of 100,000 frames brought PPO 8.3, A2C 8.1, A3C 7.9, IMPALA 8.1, and in processes PPO 8.1, IMPALA 8.0.
A training of theirs took 105 to 249 s, with another one beside it on two cores.
"""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.waiting import limit
from rl_impls.common.procgen_env import ProcgenVectorEnv
from rl_impls.procgen.agent import ProcgenAgent

ENVS, FRAMES, MARGIN = 8, 100_000, 1.5
GAME = {"game": "jumper", "levels": 5, "num_envs": ENVS}
PPO = {"algorithm": "ppo", "num_steps": 128, "batch_size": 128, "epochs": 2, "learning_rate": 1e-3}
ALGORITHMS = {
    "ppo": PPO,
    "a2c": {"algorithm": "a2c", "num_steps": 20, "learning_rate": 1e-3},
    "a3c": {"algorithm": "a3c", "actors": 2, "learning_rate": 1e-3},
    "impala": {"algorithm": "impala", "learning_rate": 7e-4},
    "ppo in processes": {**PPO, "actors": 2, "lag": 1},
    "impala in processes": {"algorithm": "impala", "learning_rate": 7e-4, "actors": 2, "lag": 1},
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
limited = limit("training", 300)


@pytest.fixture(scope="module")
def at_random():
    """Return the mean return of random actions over 2,500 steps of each environment."""
    envs, rng, returns = ProcgenVectorEnv("jumper", ENVS, num_levels=5, threads=1), np.random.default_rng(0), []
    for _ in range(2500):
        envs.advance(rng.integers(15, size=ENVS).astype(np.int32))
        returns.extend(envs.finished.returns)
    envs.close()
    return np.mean(returns)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_learns(at_random, name):
    agent, episodes, total = ProcgenAgent(seed=0, **GAME, **ALGORITHMS[name]), 0, 0.0
    while agent.step < FRAMES:
        figures = agent.learn()
        if agent.step > 0.75 * FRAMES and figures["episodes"]:
            episodes += figures["episodes"]
            total += figures["episodes"] * figures["return"]
    agent.close()
    assert episodes > 50
    assert total / episodes > at_random + MARGIN
