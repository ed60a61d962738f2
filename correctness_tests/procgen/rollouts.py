"""Drawn rollouts, and advantages as their definitions have them: a sum of later errors for each step."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from correctness_tests.strategies import SEEDS
from rl_impls import backends

EXACT = [("numpy", "naive"), ("numpy", "full"), ("torch", "naive"), ("torch", "full")]  # what computes in float64
NAMES = "rewards", "values", "next_values", "terminated", "truncated"


def drawn(rng, steps, envs, ends):
    """Rewards, values, values of the next states, where episodes were terminated and where truncated; f64 and bool.

    Both may be so at one step: then the episode was terminated.
    """
    return *rng.standard_normal((3, steps, envs)), *(rng.random((2, steps, envs)) < ends)


ROLLOUTS = st.builds(
    lambda seed, *shape: drawn(np.random.default_rng(seed), *shape),
    SEEDS, st.integers(1, 9), st.integers(1, 3), st.sampled_from([0.0, 0.2, 1.0]),
)  # fmt: skip
UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


def computed(op, backend, form, spec, args):
    """What an op answers, as NumPy."""
    made = backends.get(backend)
    args = tuple(map(made.to_device, args))
    return made.to_host(made.build("procgen", op, spec, args, backends.forms("procgen")[form])(*args))


def sums_of_later(deltas, decays, ended):
    """Add up, for each step, the errors from it to the end of its episode, each times the decays of those before it."""
    sums = np.zeros_like(deltas)
    for t, n in np.ndindex(*deltas.shape):
        weight = 1.0
        for k in range(t, len(deltas)):
            sums[t, n] += weight * deltas[k, n]
            weight *= decays[k, n]
            if ended[k, n]:
                break
    return sums


def returns_of(rewards, next_values, terminated, truncated, gamma):
    """Add up rewards to the end of the episode or the rollout, and the value there unless it was terminated."""
    returns = np.zeros_like(rewards)
    for t, n in np.ndindex(*rewards.shape):
        for k in range(t, len(rewards)):
            returns[t, n] += gamma ** (k - t) * rewards[k, n]
            if terminated[k, n] or truncated[k, n] or k == len(rewards) - 1:
                returns[t, n] += gamma ** (k - t + 1) * (0 if terminated[k, n] else next_values[k, n])
                break
    return returns


def in_float32(args):
    """The same arrays as a benchmark has them."""
    return tuple(array.astype(np.float32) if array.dtype == np.float64 else array for array in args)
