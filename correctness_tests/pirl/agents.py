"""Small agents, and helpers for the tests of them."""

from __future__ import annotations

import numpy as np

from correctness_tests import strategies

SMALL = {"hidden": (8, 8), "batch": 8, "points": 4, "capacity": 20, "sync_every": 3}
STATES = strategies.LOW + np.random.default_rng(0).random((64, 16), np.float32) * (strategies.HIGH - strategies.LOW)


def make(backend="numpy", form="full", seed=0, **config):
    from rl_impls.pirl.agent import PirlAgent

    return PirlAgent(backend, form, seed=seed, **{**SMALL, **config})


def load(*args, **options):
    from rl_impls.pirl.agent import PirlAgent

    return PirlAgent.load(*args, **options)


def live(agent, transitions, seed=0):
    """Store made-up transitions."""
    rng = np.random.default_rng(seed)
    for _ in range(transitions):
        state, following = STATES[rng.integers(64, size=2)]
        agent.remember(state, int(rng.integers(25)), float(rng.random() < 0.5), following, bool(rng.random() < 0.3))


def everything(agent):
    """Return the whole state of an agent, comparable."""
    arrays = {**agent.state(), **agent.replay.arrays()} | ({"env": agent.env.state} if agent.env.running else {})
    content = {name: (value.dtype.str, value.shape, value.tobytes()) for name, value in sorted(arrays.items())}
    return content, agent.rng.bit_generator.state, agent.updates, agent.step
