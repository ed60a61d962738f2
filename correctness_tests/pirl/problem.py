"""Helpers shared by the pirl tests."""

from functools import partial

import pytest

from correctness_tests import updates
from rl_impls.params import init_mlp

CONSTANTS = {
    "dynamics": "vehicle",
    "pde_weight": 1e-4,
    "boundary_weight": 1.0,
    "learning_rate": 5e-4,
    "epsilon": 0.1,
}
build = partial(updates.build, "pirl")


def config_of(params, target=None, **overrides):
    """Return the configuration of an op; the target net has the same weights by default."""
    return {**CONSTANTS, "params": params, "target": params if target is None else target, **overrides}


def small_net(rng, outputs=25, inputs=16):
    return init_mlp(rng, (inputs, 8, 8, 8, outputs))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)
