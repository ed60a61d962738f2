"""Ops, nets and agents shared by the pirl tests."""

from functools import partial

import numpy as np
import pytest

from correctness_tests import strategies, updates
from rl_impls.params import init_mlp
from rl_impls.pirl.agent import PirlAgent

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


SMALL = {"hidden": (8, 8), "batch_size": 8, "points": 4, "capacity": 20, "target_frequency": 3}
STATES = strategies.LOW + np.random.default_rng(0).random((64, 16), np.float32) * (strategies.HIGH - strategies.LOW)


def make(backend="numpy", form="full", seed=0, **config):
    return PirlAgent(backend, form, seed=seed, **{**SMALL, **config})


def fill(agent, transitions, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(transitions):
        state, next_state = STATES[rng.integers(64, size=2)]
        action, reward, terminated = rng.integers(25), rng.random() < 0.5, rng.random() < 0.3
        agent.replay.push(state=state, action=action, reward=reward, next_state=next_state, terminated=terminated)


def everything(agent):
    """Return the complete state of an agent in a form that ``==`` can compare."""
    arrays = {name: (value.dtype.str, value.shape, value.tobytes()) for name, value in sorted(agent.state().items())}
    return arrays, agent.rng.bit_generator.state, agent.step
