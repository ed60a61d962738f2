"""Inputs shared by the tests of the net and of its update, with the smallest frames: 36 x 36 pixels."""

import functools
from dataclasses import replace

import numpy as np

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.mario.options import FORMS
from rl_impls.mario.problem import config, training_batch

SIDE = 36
BATCH_SIZE = 8
NAMES = ("obs", "actions", "rewards", "next_obs", "terminated", "weights")


def build(op, backend, config, example, form="full", **options):
    implementation, options = backends.get(backend), replace(FORMS[form], **options)
    return implementation.build("mario", op, config, tuple(map(implementation.to_device, example)), options)


@functools.cache
def problem(batch_size=BATCH_SIZE, norm="none"):
    """Return the configuration of an update, and four batches with TD errors both above and below 1."""
    rng = np.random.default_rng(0)
    return config(rng, SIDE, norm), [training_batch(rng, batch_size, SIDE) for _ in range(4)]


def learner(backend, form="full", exact=False, options=None, norm="none", **changed):
    """Return an update, and a function that calls it with NumPy arrays and returns loss and TD errors.

    ``changed`` overrides entries of the configuration.
    """
    config, batches = problem(norm=norm)
    prepare = in_float64 if exact else lambda tree: tree
    implementation = backends.get(backend)
    step = build("train_step", backend, prepare(config | changed), prepare(batches[0]), form, **(options or {}))
    return step, lambda batch: implementation.to_host(step(*map(implementation.to_device, prepare(batch))))


def exact_learner(options=None, norm="none", **changed):
    """Return a :func:`learner` of the naive form on torch, in float64."""
    return learner("torch", "naive", True, options, norm, **changed)
