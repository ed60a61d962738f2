"""The parts that the tests of the net, of advantages and of updates share."""

from __future__ import annotations

import functools

import numpy as np

from correctness_tests.reference import in_float64
from perf_tests.suite.cases import procgen as cases
from rl_impls import backends

MADE = {"ppo_update": cases.ppo_inputs, "a2c_update": cases.a2c_inputs, "impala_update": cases.impala_inputs}
BATCH = 32


def build(op, backend, spec, example, form="full"):
    """Build one op."""
    made = backends.get(backend)
    return made.build("procgen", op, spec, tuple(map(made.to_device, example)), backends.forms("procgen")[form])


@functools.cache
def problem(op, seed=0):
    """What an update is built from, and some batches."""
    rng = np.random.default_rng(seed)
    inputs = [MADE[op](rng, BATCH) for _ in range(5)]
    return inputs[0].spec, [each.args for each in inputs]


def learner(op, backend, form="full", seed=0, exact=False, **changed):
    """Return an update and a function that makes it on a batch of NumPy arrays and returns the loss."""
    spec, batches = problem(op, seed)
    prepare = in_float64 if exact else lambda tree: tree
    made = backends.get(backend)
    step = build(op, backend, prepare(spec | changed), prepare(batches[0]), form)
    return step, lambda batch: float(made.to_host(step(*map(made.to_device, prepare(batch)))))


def exact_learner(op, seed=0, **changed):
    """Return the same for naive torch in float64."""
    return learner(op, "torch", "naive", seed, exact=True, **changed)
