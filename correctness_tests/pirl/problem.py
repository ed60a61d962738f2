"""Helpers shared by the pirl tests."""

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


def config_of(params, target=None, **overrides):
    """Return the configuration of an op; the target net has the same weights by default."""
    return {**CONSTANTS, "params": params, "target": params if target is None else target, **overrides}


def small_net(rng, outputs=25, inputs=16):
    return init_mlp(rng, (inputs, 8, 8, 8, outputs))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def build(op, backend, config, example, form="full", **options):
    implementation = backends.get(backend)
    device = tuple(map(implementation.to_device, example))
    return implementation.build("pirl", op, config, device, replace(backends.forms("pirl")[form], **options))
