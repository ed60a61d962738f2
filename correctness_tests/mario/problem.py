"""Inputs shared by the tests of the net and of its update, with the smallest frames: 36 x 36 pixels."""

import functools

import numpy as np

from correctness_tests import updates
from rl_impls.mario.problem import config, training_batch

SIDE = 36
BATCH_SIZE = 8
NAMES = ("obs", "actions", "rewards", "next_obs", "terminated", "weights")
build = functools.partial(updates.build, "mario")


@functools.cache
def problem(batch_size=BATCH_SIZE, norm="none"):
    """Return the configuration of an update, and four batches with TD errors both above and below 1.

    The gradients of most batches are clipped.
    """
    rng = np.random.default_rng(0)
    drawn = config(rng, SIDE, norm) | {"max_grad_norm": 0.05}
    return drawn, [training_batch(rng, batch_size, SIDE) for _ in range(4)]


def learner(backend, form="full", exact=False, options=None, norm="none", **changed):
    """Return an update, and a function that calls it with NumPy arrays and returns loss and TD errors.

    ``changed`` overrides entries of the configuration.
    """
    config, batches = problem(norm=norm)
    config, first = config | changed, batches[0]
    return updates.learner("mario", "train_step", backend, config, first, form, exact, **(options or {}))


def exact_learner(options=None, norm="none", **changed):
    """Return a :func:`learner` of the naive form on torch, in float64."""
    return learner("torch", "naive", True, options, norm, **changed)
