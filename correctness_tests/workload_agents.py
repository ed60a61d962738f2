"""Agents small enough for a test, one of each workload that has one; how small is said in that workload's own tests."""

from __future__ import annotations

import importlib
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from rl_impls import backends, params

HERE = Path(__file__).parent
WITH_AGENT = [name for name in backends.workloads() if (HERE.parent / "rl_impls" / name / "agent.py").is_file()]
SIZES = {
    name: importlib.import_module(f"correctness_tests.{name}.agent_sizes")
    for name in WITH_AGENT
    if (HERE / name / "agent_sizes.py").is_file()
}
SMALL = {name: sizes.SMALL for name, sizes in SIZES.items()}
AGENTS = [
    pytest.param(name, marks=pytest.mark.slow) if getattr(sizes, "SLOW", False) else name
    for name, sizes in SIZES.items()
]  # those whose every agent starts processes are tried in their own tests, and here where there is time
FIGURES = {name: sizes.FIGURES for name, sizes in SIZES.items()}


def agent_of(workload):
    """The class of a workload's agent."""
    [found] = (
        value
        for value in vars(importlib.import_module(f"rl_impls.{workload}.agent")).values()
        if hasattr(value, "UNIT")
    )
    return found


def fields_of(workload, *kinds):
    """The names of the fields of an agent's configuration that are of some types, in order."""
    hints = get_type_hints(importlib.import_module(f"rl_impls.{workload}.agent").Config)
    return [name for name, kind in hints.items() if kind in kinds]


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


def option(field):
    """The option of a command line that sets a field."""
    return f"--{field.replace('_', '-')}"


def as_options(config):
    """Return a configuration as the options of a command line."""
    words = []
    for name, value in single(config):
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [option(name), text]
    return words
