"""The DQN learns to eat: minutes of training, so marked slow."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SETTINGS = {"envs": 16, "batch": 64, "learning_rate": 5e-4, "gamma": 0.95, "capacity": 50_000}
EPISODES = 200


def foods_after(steps, seed, every):
    """Train compiled on JAX; return the mean foods of greedy episodes on games of another seed."""
    from rl_impls.snake.agent import SnakeAgent

    agent = SnakeAgent("jax", "compiled", seed=seed, every=every, **SETTINGS)
    while agent.step < steps:
        agent.learn()
    return agent.evaluate(EPISODES, seed=100 + seed)["foods"].mean()


def test_at_least_five_foods_after_200_000_steps():
    foods = [foods_after(200_000, seed, every=4) for seed in (0, 1, 2)]
    assert np.mean(foods) >= 5, foods
    assert min(foods) >= 4, foods


def test_an_update_every_four_steps_learns_as_well_per_step_as_one_every_step():
    every_step, every_fourth = ([foods_after(40_000, seed, every) for seed in (0, 1, 2)] for every in (1, 4))
    assert np.mean(every_fourth) >= 0.6 * np.mean(every_step), (every_fourth, every_step)
    assert min(np.mean(every_step), np.mean(every_fourth)) >= 1, (every_fourth, every_step)
