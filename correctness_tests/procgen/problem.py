"""Ops and batches for the tests of nets, advantages and updates."""

import functools

from correctness_tests.reference import in_float64
from rl_impls import backends
from rl_impls.procgen.problem import a2c_update, impala_update, ppo_update

PROBLEMS = {"ppo_update": ppo_update, "a2c_update": a2c_update, "impala_update": impala_update}
BATCH_SIZE = 32


def build(op, name, config, example, form="full"):
    backend = backends.get(name)
    example = tuple(map(backend.to_device, example))
    return backend.build("procgen", op, config, example, backends.forms("procgen")[form])


@functools.cache
def problem(op, seed=0):
    """Return the configuration of an update, and five batches for it."""
    problems = [PROBLEMS[op](5 * seed + k, BATCH_SIZE) for k in range(5)]
    return problems[0].config, [each.args for each in problems]


def learner(op, name, form="full", seed=0, exact=False, **changed):
    """Return an update, and a function that calls it on a batch of NumPy arrays and returns the loss."""
    config, batches = problem(op, seed)
    prepare = in_float64 if exact else lambda tree: tree
    backend = backends.get(name)
    update = build(op, name, prepare(config | changed), prepare(batches[0]), form)
    return update, lambda batch: float(backend.to_host(update(*map(backend.to_device, prepare(batch)))))


def exact_learner(op, seed=0, **changed):
    """Return a :func:`learner` of the naive form on torch, in float64."""
    return learner(op, "torch", "naive", seed, exact=True, **changed)


def gradient_of(update):
    """Return the gradients after an update on torch, by name, in the layout of the weights."""
    layouts = zip(update.net.views(), update.parameters)
    return {name: update.net.to_params_layout(parameter.grad.numpy()) for name, parameter in layouts}
