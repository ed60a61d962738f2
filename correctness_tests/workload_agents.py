"""Small agents of all workloads; their sizes are in each workload's ``agent_sizes.py``."""

import importlib
from pathlib import Path

import pytest

from rl_impls import backends, params
from rl_impls.common import config as configs
from rl_impls.common.agent import Agent

RL_IMPLS = Path(__file__).parents[1] / "rl_impls"
SIZES = {
    name: importlib.import_module(f"correctness_tests.{name}.agent_sizes")
    for name in backends.workloads()
    if (RL_IMPLS / name / "agent.py").is_file()
}
SMALL = {name: sizes.SMALL for name, sizes in SIZES.items()}
AGENTS = [
    pytest.param(name, marks=pytest.mark.slow) if getattr(sizes, "SLOW", False) else name
    for name, sizes in SIZES.items()
]  # agents that start processes are slow
FIGURES = {name: sizes.FIGURES for name, sizes in SIZES.items()}


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
