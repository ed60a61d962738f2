"""The parts that the tests of this workload share."""

from __future__ import annotations

import functools

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


def spec(params, target=None, **changed):
    """Everything an op is built from."""
    return {**CONSTANTS, "params": params, "target": params if target is None else target, **changed}


def small_net(rng, outputs=25, inputs=16):
    """Weights of a small net of the same depth."""
    return init_mlp(rng, (inputs, 8, 8, 8, outputs))


def slow(*values):
    """Values of a parametrised test that the slow set alone has."""
    return pytest.param(*values, marks=pytest.mark.slow)


def build(op, backend, spec, example, form="full", **knobs):
    """Build one op."""
    from dataclasses import replace

    made = backends.get(backend)
    device = tuple(map(made.to_device, example))
    return made.build("pirl", op, spec, device, replace(backends.forms("pirl")[form], **knobs))


@functools.cache
def forms():
    """Name the forms."""
    return tuple(backends.forms("pirl"))
