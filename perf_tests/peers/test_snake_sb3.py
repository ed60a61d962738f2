"""snake's DQN loop in Stable-Baselines3, called as its users call it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from rl_impls.common.old_gym import silent_gym
from rl_impls.snake import problem as snake

from ..bench import Bench

pytestmark = pytest.mark.peer
STEPS = 1024  # environment steps per call of ``learn``, enough to make its own overhead small
TRAIN_FREQUENCY, BATCH_SIZE, EXPLORE = 4, 32, 0.1


def make_dqn(config: dict[str, Any], seed: int) -> Any:
    """Return a DQN with our network and hyperparameters, whose replay memory has as many transitions as ours."""
    with silent_gym():  # Stable-Baselines3 imports gym if it finds it
        stable_baselines3 = pytest.importorskip("stable_baselines3")
    import torch
    from gymnasium.wrappers import FlattenObservation

    from rl_impls.snake.env import Geometry, SnakeEnv

    stored = len(config["stored"][0])
    model = stable_baselines3.DQN(
        "MlpPolicy",
        FlattenObservation(SnakeEnv(**vars(Geometry()))),
        learning_rate=config["learning_rate"],
        buffer_size=config["capacity"],
        learning_starts=stored,
        batch_size=BATCH_SIZE,
        gamma=config["gamma"],
        train_freq=TRAIN_FREQUENCY,
        gradient_steps=1,
        target_update_interval=config["target_frequency"],
        exploration_initial_eps=EXPLORE,
        exploration_final_eps=EXPLORE,
        max_grad_norm=config["max_grad_norm"],
        policy_kwargs={"net_arch": list(snake.SIZES[1:-1]), "activation_fn": torch.nn.ReLU},
        seed=seed,
        device="cpu",
    )
    return model.learn(stored)


def test_dqn(bench: Bench, seed: int) -> None:
    """1,024 steps and 256 updates.

    Theirs generates its random numbers while it is timed, ours before. Ours keeps no episode statistics. Their replay
    memory grows from call to call, ours starts each call with 1,000 transitions.
    """
    model = make_dqn(dict(snake.collect_and_learn(seed, 1, TRAIN_FREQUENCY, BATCH_SIZE).config), seed)
    bench(partial(model.learn, STEPS, reset_num_timesteps=False), items=STEPS, unit="environment steps")
