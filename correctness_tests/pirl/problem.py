"""Helpers shared by the tests of pirl."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl_impls import backends
from rl_impls.params import init_mlp

CONSTANTS = {
    "dynamics": "vehicle",
    "pde_weight": 1e-4,
    "boundary_weight": 1.0,
    "learning_rate": 5e-4,
    "epsilon": 0.1,
}


def config_of(params, target=None, **changed):
    """Return the configuration of an op; without a target net, both nets are alike."""
    return {**CONSTANTS, "params": params, "target": params if target is None else target, **changed}


def small_net(rng, outputs=25, inputs=16):
    """Return weights of a small net of the usual depth."""
    return init_mlp(rng, (inputs, 8, 8, 8, outputs))


def slow(*values):
    """Mark values of a parametrised test as slow."""
    return pytest.param(*values, marks=pytest.mark.slow)


def build(op, backend, config, example, form="full", **options):
    """Build one op."""
    made = backends.get(backend)
    device = tuple(map(made.to_device, example))
    return made.build("pirl", op, config, device, replace(backends.forms("pirl")[form], **options))
