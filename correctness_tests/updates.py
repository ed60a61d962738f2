"""Ops and updates of all workloads: how tests build them, and compare gradients, weights and states."""

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from perf_tests.bench import leaves
from rl_impls import backends

from .reference import in_float64


def build(workload, op, backend, config, example, form="full", **options):
    """Build an op; the example arguments are NumPy arrays, and the options override those of the form."""
    implementation = backends.get(backend)
    options = replace(backends.forms(workload)[form], **options)
    return implementation.build(workload, op, config, tuple(map(implementation.to_device, example)), options)


def learner(workload, op, backend, config, batch, form="full", exact=False, **options):
    """Return an update, and a function that calls it on a batch of NumPy arrays; if `exact`, both in float64."""
    implementation, prepare = backends.get(backend), in_float64 if exact else lambda tree: tree
    step = build(workload, op, backend, prepare(config), prepare(batch), form, **options)
    return step, lambda batch: implementation.to_host(step(*map(implementation.to_device, prepare(batch))))


def gradient_of(net):
    """Return the gradients of a net on torch by name, in the layout of its weights in NumPy."""
    weights = zip(net.views(), net.parameters(), strict=True)
    return {name: net.to_params_layout(weight.grad.numpy()) for name, weight in weights}


def assert_is_gradient(gradient, loss, params, tolerance=1e-5, step=1e-7):
    """Assert that a gradient, by name, is that of ``loss(params)`` in float64, by finite differences.

    Each array moves along the sum of two unit vectors: its gradient's direction and a random one.
    """
    rng = np.random.default_rng(0)
    for name, found in gradient.items():
        length, random = np.linalg.norm(found), rng.standard_normal(found.shape)
        direction = step * (found / length + random / np.linalg.norm(random))
        above, below = (loss(params | {name: params[name] + sign * direction}) for sign in (1, -1))
        assert above - below == pytest.approx(2 * (found * direction).sum(), abs=2 * tolerance * step * length), name


def apart(got, wanted, start):
    """Return the difference of nearly all weights, relative to the largest change in their array."""
    far = [np.abs(got[name] - wanted[name]).ravel() / np.abs(wanted[name] - start[name]).max() for name in wanted]
    return max(*(np.median(each) for each in far), np.quantile(np.concatenate(far), 0.99))


def assert_same(got, wanted):
    """Assert that all arrays, in sequences or by name, are equal bit for bit and in dtype."""
    if isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        got, wanted = [got[name] for name in wanted], wanted.values()
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def assert_goes_on(before, after, batches, rtol):
    """Assert that an update goes on from the state of another after two batches; each is a result of `learner`."""
    (first, update_first), (second, update_second) = before, after
    for batch in batches[:2]:
        update_first(batch)
    state = first.state()
    kept = {name: value.copy() for name, value in state.items()}
    second.load_state(state)
    assert_same(second.state(), kept)
    for batch in batches[2:4]:
        for wanted, got in zip(leaves(update_first(batch)), leaves(update_second(batch)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())
    assert_same(state, kept)
    assert first.state()["step"] == second.state()["step"] == 4


def seconds_of_phases(loop, *args):
    """Call a loop after a reset; return the seconds of its phases, and assert that they add up to those of the call."""
    loop.reset()
    assert not any(loop.phases().values())
    start = perf_counter()
    loop(*args)
    seconds, whole = loop.phases(), perf_counter() - start
    assert 0.5 * whole < sum(seconds.values()) <= whole
    return seconds
