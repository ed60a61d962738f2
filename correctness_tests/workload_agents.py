"""Agents small enough for a test, one of each workload that has one."""

from __future__ import annotations

import importlib
from dataclasses import asdict, is_dataclass

from rl_impls import params
from rl_impls.treasurehunt.spec import Settings

SMALL = {
    "snake": {"hidden": 16, "warm_up": 64, "capacity": 500, "target_every": 256},
    "treasurehunt": {
        "settings": Settings(agents=2, height=6, width=6, turns=6, spawn=0.1), "worlds": 2, "hidden": 8, "batch": 8,
        "capacity": 64, "learning_rate": 1e-2,
    },
    "pirl": {"hidden": (8, 8), "batch": 8, "points": 4, "capacity": 200, "warm_up": 20, "every": 8, "sync_every": 3},
}  # fmt: skip


def agent_of(workload):
    """The class of a workload's agent."""
    [found] = (
        value
        for value in vars(importlib.import_module(f"rl_impls.{workload}.agent")).values()
        if hasattr(value, "UNIT")
    )
    return found


def make(workload, backend="torch", seed=3, **config):
    """Return a small agent."""
    return agent_of(workload)(backend=backend, seed=seed, **SMALL[workload] | config)


def contents(path):
    """All that a checkpoint holds, comparable; the order in its file is by chance."""
    arrays, metadata = params.load_with_metadata(path)
    return {name: (value.dtype, value.shape, value.tobytes()) for name, value in arrays.items()}, metadata


def single(config):
    """The fields of a configuration and of those within it, by name."""
    for name, value in config.items():
        yield from single(asdict(value)) if is_dataclass(value) else [(name, value)]


def as_options(config):
    """Return a configuration as the options of a command line."""
    words = []
    for name, value in single(config):
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return words
