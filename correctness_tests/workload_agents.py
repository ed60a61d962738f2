"""Small agents of all workloads."""

import importlib
from pathlib import Path

import pytest

from rl_impls import params
from rl_impls.common import config as configs
from rl_impls.common.agent import Agent

RL_IMPLS = Path(__file__).parents[1] / "rl_impls"
SMALL = {
    "mario": {
        "game": "fruitbot", "levels": 10, "collectors": 1, "num_envs": 2, "capacity": 200, "batch_size": 4,
        "updates": 2, "reuse": 1.0, "publish_every": 2, "target_frequency": 3, "explore": 20, "queue": 64, "chunk": 8,
        "form": "only_transport",  # on busy cores, collectors that give way wait for seconds
    },
    "pirl": {
        "hidden": (8, 8), "batch_size": 8, "points": 4, "capacity": 200, "warm_up": 20, "train_frequency": 8,
        "target_frequency": 3,
    },
    "procgen": {"game": "fruitbot", "levels": 10, "num_envs": 2, "num_steps": 4, "batch_size": 4, "epochs": 1},
    "snake": {"hidden": 16, "warm_up": 64, "capacity": 500, "target_frequency": 256},
    "treasurehunt": {
        "num_agents": 2, "height": 6, "width": 6, "turns": 6, "spawn": 0.1, "num_worlds": 2, "hidden": 8,
        "batch_size": 8, "capacity": 64, "learning_rate": 1e-2,
    },
}  # fmt: skip
FIGURES = {  # of an evaluation, in order
    "mario": ["return", "length", "distance"],
    "pirl": ["returns", "lengths", "predicted"],
    "procgen": [f"{levels}_{name}" for levels in ("training", "held_out") for name in ("return", "score", "length")],
    "snake": ["foods", "returns", "lengths"],
    "treasurehunt": ["returns", "agent_0", "agent_1"],
}
SLOW = ["mario"]  # each agent starts a collector, which imports torch
AGENTS = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in SMALL]


def agent_of(workload):
    found = vars(importlib.import_module(f"rl_impls.{workload}.agent")).values()
    [agent] = (value for value in found if isinstance(value, type) and issubclass(value, Agent) and value is not Agent)
    return agent


def fields_of(workload, *kinds):
    fields = configs.fields_of(agent_of(workload).Config)
    return [name for name, field in fields.items() if field.annotation in kinds]


def make(workload, backend="torch", seed=3, **config):
    return agent_of(workload)(backend=backend, seed=seed, **SMALL[workload] | config)


def contents(path):
    """Return a checkpoint's arrays and metadata in a form that can be compared: the order in the file varies."""
    arrays, metadata = params.load_with_metadata(path)
    return {name: (value.dtype, value.shape, value.tobytes()) for name, value in arrays.items()}, metadata


def option(field):
    return f"--{field.replace('_', '-')}"


def as_options(config):
    words = []
    for name, value in config.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [option(name), text]
    return words
