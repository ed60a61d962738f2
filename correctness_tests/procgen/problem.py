"""The parts that the tests of the net, of advantages and of updates share."""

from __future__ import annotations

import functools

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.procgen.problem import a2c_update, impala_update, ppo_update

MADE = {"ppo_update": ppo_update, "a2c_update": a2c_update, "impala_update": impala_update}
BATCH = 32


def build(op, backend, spec, example, form="full"):
    """Build one op."""
    made = backends.get(backend)
    return made.build("procgen", op, spec, tuple(map(made.to_device, example)), backends.forms("procgen")[form])


@functools.cache
def problem(op, seed=0):
    """Return the configuration of an update, and five batches."""
    made = [MADE[op](5 * seed + k, BATCH) for k in range(5)]
    return made[0].config, [each.args for each in made]


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
