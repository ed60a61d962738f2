"""Helpers shared by the snake tests."""

from dataclasses import replace

import numpy as np

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.snake import problem as snake


def build(op, backend, config, example, form="full", **options):
    implementation = backends.get(backend)
    options = replace(backends.forms("snake")[form], **options)
    return implementation.build("snake", op, config, tuple(map(implementation.to_device, example)), options)


def trainer(backend, config, batch, form="full", **options):
    """Return a ``train_step``, and a function that calls it on a batch of NumPy arrays and returns the loss."""
    implementation, step = backends.get(backend), build("train_step", backend, config, batch, form, **options)
    return step, lambda batch: float(implementation.to_host(step(*map(implementation.to_device, batch))))


def exact_trainer(config, batch):
    """Return a :func:`trainer` of the naive form on torch, in float64."""
    step, update = trainer("torch", in_float64(config), in_float64(batch), "naive")
    return step, lambda batch: update(in_float64(batch))


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


def assert_state_equal(got, wanted):
    assert got.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(got[name], wanted[name], err_msg=name)


def net_of(state, part):
    """Return the arrays of one part of a state, such as ``online``."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}
