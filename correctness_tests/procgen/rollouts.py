"""Random rollouts, and the sums over later steps that define advantages and returns."""

import numpy as np
from hypothesis import strategies as st

from correctness_tests.procgen.problem import build
from correctness_tests.strategies import SEEDS
from rl_impls import backends

EXACT = [("numpy", "naive"), ("numpy", "full"), ("torch", "naive"), ("torch", "full")]  # these compute in float64


def drawn(rng, steps, envs, ends):
    """Sample rewards, values, next values f64, terminated and truncated bool; termination wins if both are set."""
    return *rng.standard_normal((3, steps, envs)), *(rng.random((2, steps, envs)) < ends)


ROLLOUTS = st.builds(
    lambda seed, *shape: drawn(np.random.default_rng(seed), *shape),
    SEEDS, st.integers(1, 9), st.integers(1, 3), st.sampled_from([0.0, 0.2, 1.0]),
)  # fmt: skip
UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


def computed(op, name, form, config, args):
    """Return the output of an op on a backend, as NumPy."""
    backend = backends.get(name)
    return backend.to_host(build(op, name, config, args, form)(*map(backend.to_device, args)))


def sums_of_later(deltas, decays, ended):
    """Return, for each step, the sum of errors to the end of its episode, each multiplied by the decays before it."""
    sums = np.zeros_like(deltas)
    for t, n in np.ndindex(*deltas.shape):
        weight = 1.0
        for k in range(t, len(deltas)):
            sums[t, n] += weight * deltas[k, n]
            weight *= decays[k, n]
            if ended[k, n]:
                break
    return sums


def in_float32(args):
    """Return the arrays in float32, the precision of the benchmarks."""
    return tuple(array.astype(np.float32) if array.dtype == np.float64 else array for array in args)
