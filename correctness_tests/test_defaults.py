"""Hyperparameters and constants of each workload are those of its published source."""

import inspect

import numpy as np
import pytest

from rl_impls.common.config import fields_of
from rl_impls.mario import agent as mario
from rl_impls.mario import games as mario_games
from rl_impls.pirl import agent as pirl
from rl_impls.pirl import env as road
from rl_impls.pirl import physics
from rl_impls.pirl import problem as pirl_problem
from rl_impls.procgen import agent as procgen
from rl_impls.procgen import problem as procgen_problem
from rl_impls.snake import agent as snake
from rl_impls.snake import env as board
from rl_impls.snake import problem as snake_problem
from rl_impls.treasurehunt import _numpy as iqn
from rl_impls.treasurehunt import agent as hunt
from rl_impls.treasurehunt import memory
from rl_impls.treasurehunt import problem as hunt_problem
from rl_impls.treasurehunt import vector_env as worlds


def defaults(made):
    """Return the defaults of a configuration's fields, or of a function's arguments."""
    if hasattr(made, "__pydantic_fields__"):
        return {name: field.default for name, field in fields_of(made).items()}
    return {name: argument.default for name, argument in inspect.signature(made).parameters.items()}


def constants(module):
    return {name: value for name, value in vars(module).items() if name.isupper()}


RNG = np.random.default_rng(0)
GAME = {"starting_blocks": 3, "dim": 10, "dist_to_border": 3, "max_steps": 500}
DQN = {"learning_rate": 1e-3, "gamma": 0.99, "max_grad_norm": 10.0}
IQN = {"learning_rate": 2.5e-4, "gamma": 0.99, "max_grad_norm": 1.0, "soft_update": 0.001, "capacity": 1024}
LOSSES = {"gamma": 0.999, "value_weight": 0.5, "entropy_weight": 0.01}
PPO = LOSSES | {"learning_rate": 5e-4, "gae_lambda": 0.95, "clip": 0.2, "max_grad_norm": 0.5, "eps": 1e-5}
IMPALA = LOSSES | {"learning_rate": 3e-4, "max_grad_norm": 40.0, "eps": 0.01, "decay": 0.99}

TABLE = {  # values in the code and in the source
    "pirl: training": (
        defaults(pirl.Config),
        {"hidden": (32, 32, 32), "learning_rate": 5e-4, "batch_size": 256, "points": 32, "pde_weight": 1e-4,
         "boundary_weight": 1.0},
    ),
    "pirl: benchmark problem": (
        pirl_problem.config(RNG), {"learning_rate": 5e-4, "pde_weight": 1e-4, "boundary_weight": 1.0},
    ),
    "pirl: noise": (vars(physics.DYNAMICS["vehicle"]), {"sigma": 0.01, "noisy": 5}),
    "pirl: Brownian motion": (vars(physics.DYNAMICS["brownian"]), {"sigma": 1.0, "noisy": 1}),
    "pirl: steps": (
        constants(road), {"STEP": 0.05, "SUBSTEPS": 10, "EDGE": 1.0, "HORIZON": 5.0, "CURVATURE": 0.02},
    ),
    "pirl: vehicle": (
        constants(physics),
        {"STATES": 16, "ACTIONS": 25, "MASS": 1265, "INERTIA": 2093, "LF": 1.34, "LR": 1.3, "BF": 5.579, "CF": 1.2,
         "DF": 16000, "BR": 7.579, "CR": 1.2, "DR": 16000, "CM1": 550 * 3.45 * 0.919 / 0.34, "CR0": 50, "CR2": 0.5},
    ),
    "snake: game": (defaults(board.Geometry), GAME),
    "snake: environment": (defaults(board.SnakeEnv), GAME),
    "snake: rewards": (constants(board), {"FOOD_REWARD": 1.0, "DEATH_REWARD": -1.0, "STEP_REWARD": -0.01}),
    "snake: training": (
        defaults(snake.Config),
        DQN | {"hidden": 256, "batch_size": 32, "capacity": 10_000, "target_frequency": 1000, "max_steps": 500},
    ),
    "snake: exploration": (constants(snake), {"EPSILON_START": 1.0, "EPSILON_END": 0.05, "EXPLORED": 20_000}),
    "snake: benchmark problem": (snake_problem.config(RNG), DQN),
    "mario: training": (
        defaults(mario.Config),
        {"game": "coinrun", "mode": "easy", "levels": 200, "start_level": 0, "side": 84, "collectors": 2,
         "num_envs": 8, "capacity": 50_000, "batch_size": 256, "accumulate": 1, "updates": 8, "reuse": 4.0,
         "publish_every": 1, "target_frequency": 200, "learning_rate": 2.5e-4, "gamma": 0.99, "max_grad_norm": 10.0,
         "queue": 10_000, "chunk": 1_000},
    ),
    "mario: exploration": (defaults(mario.Config), {"epsilon_start": 1.0, "epsilon_end": 0.1, "explore": 50_000}),
    "mario: priorities": (defaults(mario.Config), {"alpha": 0.6, "beta": 0.4, "beta_increment": 1e-6}),
    "mario: frame skip": (constants(mario_games), {"SKIP": 4}),
    "procgen: training by PPO": (
        defaults(procgen.Config), PPO | {"epochs": 4, "batch_size": 1024, "num_envs": 32, "num_steps": 128},
    ),
    "procgen: training by IMPALA": (
        {**defaults(procgen.Config), **procgen.ALGORITHMS["impala"]},
        IMPALA | {"rho_bar": 1.0, "c_bar": 1.0, "num_steps": 20},
    ),
    "procgen: training by A2C": (
        {**defaults(procgen.Config), **procgen.ALGORITHMS["a2c"]},
        LOSSES | {"learning_rate": 7e-4, "gae_lambda": 1.0, "num_steps": 5, "eps": 1e-5, "decay": 0.99},
    ),
    "procgen: training by A3C": (
        procgen.ALGORITHMS["a3c"], {"learning_rate": 1e-4, "gae_lambda": 1.0, "num_steps": 20, "actors": 2},
    ),
    "procgen: PPO benchmark problem": (
        procgen_problem.ppo(0, num_envs=8, num_steps=8, epochs=1).config, PPO | {"batch_size": 32},
    ),
    "treasurehunt: world": (
        defaults(worlds.Settings),
        {"num_agents": 5, "height": 21, "width": 21, "radius": 2, "spawn": 0.005, "turns": 50},
    ),
    "treasurehunt: values of empty, wall, gem, food, bone, agent": (
        dict(enumerate(worlds.VALUES.tolist())), dict(enumerate([0, -1, 10, 5, -10, 0])),
    ),
    "treasurehunt: training": (
        defaults(hunt.Config), IQN | {"hidden": 250, "batch_size": 64, "epsilon": 0.6, "epsilon_step": 0.0005},
    ),
    "treasurehunt: net": (constants(iqn), {"COSINES": 64, "KAPPA": 1.0}),
    "treasurehunt: frames and rewards": (constants(memory), {"FRAMES": 5, "N_STEP": 3}),
    "treasurehunt: benchmark problem": (hunt_problem.config(RNG, 1), IQN),
}  # fmt: skip


@pytest.mark.parametrize(("found", "wanted"), TABLE.values(), ids=TABLE)
def test_numbers_are_those_of_the_source(found, wanted):
    assert {name: found[name] for name in wanted} == wanted
