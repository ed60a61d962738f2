"""Inputs that tests of the net and of its update share, with the smallest frames: 36 pixels along a side."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.mario.problem import config, training_batch

SIDE = 36
BATCH = 8
NAMES = ("states", "actions", "rewards", "next_states", "ends", "weights")


def build(op, backend, spec, example, form="full", target=None, **options):
    """Build one op."""
    made = backends.get(backend)
    setting = replace(backends.forms("mario")[form], **options)
    return made.build("mario", op, spec, tuple(map(made.to_device, example)), setting, target)


@functools.cache
def problem(seed=0, batch=BATCH, norm="none", batches=4, side=SIDE):
    """The configuration of an update, and batches whose TD errors lie on both sides of 1."""
    rng = np.random.default_rng(seed)
    return config(rng, side, norm), [training_batch(rng, batch, side) for _ in range(batches)]


def learner(backend, form="full", exact=False, options=None, given=None, **changed):
    """Return an update, and a function that calls it with NumPy arrays and returns loss and TD errors.

    ``given`` are arguments of :func:`problem`; ``changed`` replaces entries of its configuration.
    """
    spec, batches = problem(**(given or {}))
    prepare = in_float64 if exact else lambda tree: tree
    made = backends.get(backend)
    step = build("train_step", backend, prepare(spec | changed), prepare(batches[0]), form, **(options or {}))
    return step, lambda batch: made.to_host(step(*map(made.to_device, prepare(batch))))


def exact_learner(options=None, given=None, **changed):
    """Return the same for naive torch in float64."""
    return learner("torch", "naive", True, options, given, **changed)
