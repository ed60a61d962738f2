"""Helpers shared by the snake tests."""

from functools import partial

import numpy as np

from correctness_tests import updates
from rl_impls.snake import problem as snake

build = partial(updates.build, "snake")


def trainer(backend, config, batch, form="full", **options):
    """Return a ``train_step``, and a function that calls it on a batch of NumPy arrays and returns the loss."""
    step, update = updates.learner("snake", "train_step", backend, config, batch, form, **options)
    return step, lambda batch: float(update(batch))


def exact_trainer(config, batch):
    """Return a :func:`trainer` of the naive form on torch, in float64."""
    return trainer("torch", config, batch, "naive", exact=True)


def problem(seed, batch_size=32, batches=1):
    """Return the configuration of an update, and batches with TD errors both above and below 1."""
    rng = np.random.default_rng(seed)
    config, drawn = snake.config(rng), [snake.transitions(rng, batch_size) for _ in range(batches)]
    return config, [(obs, actions, 2 * rewards, *rest) for obs, actions, rewards, *rest in drawn]


def differences(got, wanted):
    assert got.keys() == wanted.keys()
    return np.concatenate([np.abs(got[name] - wanted[name]).ravel() for name in wanted])


def assert_trained_alike(got, wanted, rate, updates, most=0.001):
    """Assert that most weights agree closely and that none is far off.

    Adam turns rounding noise in a gradient, such as that of a ReLU at its threshold, into a full step.
    """
    difference = differences(got, wanted)
    assert np.quantile(difference, 0.99) <= most * rate * updates
    assert difference.max() <= rate * updates
