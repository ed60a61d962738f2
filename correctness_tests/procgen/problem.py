"""Ops and batches for the tests of nets, advantages and updates."""

import functools

from correctness_tests import updates
from rl_impls.procgen.problem import a2c_update, impala_update, ppo_update

PROBLEMS = {"ppo_update": ppo_update, "a2c_update": a2c_update, "impala_update": impala_update}
BATCH_SIZE = 32
build = functools.partial(updates.build, "procgen")


@functools.cache
def problem(op, seed=0):
    """Return the configuration of an update, and five batches for it."""
    problems = [PROBLEMS[op](5 * seed + k, BATCH_SIZE) for k in range(5)]
    return problems[0].config, [each.args for each in problems]


def learner(op, name, form="full", seed=0, exact=False, **changed):
    """Return an update, and a function that calls it on a batch of NumPy arrays and returns the loss."""
    config, batches = problem(op, seed)
    update, call = updates.learner("procgen", op, name, config | changed, batches[0], form, exact)
    return update, lambda batch: float(call(batch))


def exact_learner(op, seed=0, **changed):
    """Return a :func:`learner` of the naive form on torch, in float64."""
    return learner(op, "torch", "naive", seed, exact=True, **changed)
