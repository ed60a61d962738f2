"""Small agents of all workloads; their sizes are in each workload's ``agent_sizes.py``."""

from __future__ import annotations

import importlib
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from rl_impls import backends, params

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
]  # slow: those whose agents start processes
FIGURES = {name: sizes.FIGURES for name, sizes in SIZES.items()}


def agent_of(workload):
    """Return the class of a workload's agent."""
    [found] = (
        value
        for value in vars(importlib.import_module(f"rl_impls.{workload}.agent")).values()
        if hasattr(value, "UNIT")
    )
    return found


def fields_of(workload, *kinds):
    """Return the names of the fields of a configuration that have one of these types."""
    hints = get_type_hints(importlib.import_module(f"rl_impls.{workload}.agent").Config)
    return [name for name, kind in hints.items() if kind in kinds]


def make(workload, backend="torch", seed=3, **config):
    """Return a small agent."""
    return agent_of(workload)(backend=backend, seed=seed, **SMALL[workload] | config)


def contents(path):
    """Return the arrays and metadata of a checkpoint, comparable: the order in the file varies."""
    arrays, metadata = params.load_with_metadata(path)
    return {name: (value.dtype, value.shape, value.tobytes()) for name, value in arrays.items()}, metadata


def single(config):
    """Yield name and value of the fields of a configuration, nested ones too."""
    for name, value in config.items():
        yield from single(asdict(value)) if is_dataclass(value) else [(name, value)]


def option(field):
    """Return the command-line option of a field."""
    return f"--{field.replace('_', '-')}"


def as_options(config):
    """Return a configuration as command-line options."""
    words = []
    for name, value in single(config):
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [option(name), text]
    return words
