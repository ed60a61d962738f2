"""Hypothesis strategies for arguments of ops with given shapes, because each new shape is compiled."""

import itertools

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

LOW = np.array([3, -8, -30, -1, -15, *[-4] * 10, 0], np.float32)
HIGH = np.array([30, 8, 30, 1, 15, *[4] * 10, 5], np.float32)

SEEDS = st.integers(0, 2**32 - 1)


def unit(shape):
    """Draw f32 in [0, 1]."""
    return hnp.arrays(np.float32, shape, elements=st.floats(0, 1, width=32))


def states(batch):
    """Draw vehicle states f32[B, 16] over the whole range of the model."""
    return unit((batch, 16)).map(lambda draw: LOW + draw * (HIGH - LOW))


def weights(sizes):
    """Draw the weights of a net, up to twice as large as at the start of training."""

    def scaled(draws):
        params = {}
        for k, (rows, _columns) in enumerate(itertools.pairwise(sizes)):
            scale = 2 * rows**-0.5
            params[f"w{k}"] = ((2 * draws[2 * k] - 1) * scale).astype(np.float32)
            params[f"b{k}"] = ((2 * draws[2 * k + 1] - 1) * scale).astype(np.float32)
        return params

    shapes = [shape for rows, columns in itertools.pairwise(sizes) for shape in ((rows, columns), (columns,))]
    seeds = SEEDS.map(np.random.default_rng)
    return seeds.map(lambda rng: scaled([rng.random(shape, np.float32) for shape in shapes]))


def training_batch(batch, points):
    """Draw the arguments of ``train_step``: transitions, and points of each kind."""
    flags = hnp.arrays(np.float32, batch, elements=st.sampled_from([0.0, 1.0]))
    actions = hnp.arrays(np.int32, batch, elements=st.integers(0, 24))

    def edge(array):
        return np.concatenate([array[:, :3], np.sign(array[:, 3:4]) + (array[:, 3:4] == 0), array[:, 4:]], axis=1)

    def expired(array):
        return np.concatenate([array[:, :15], np.zeros_like(array[:, 15:])], axis=1)

    return st.tuples(
        states(batch), actions, flags, states(batch), flags,
        states(points), states(points).map(expired), states(points).map(edge),
    )  # fmt: skip
