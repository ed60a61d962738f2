"""Ops made of other ops: what they add to them, told by the plain ops alone."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests import strategies
from correctness_tests.pirl.problem import build, slow, small_net, spec
from rl_impls.backends import get
from rl_impls.pirl import _numpy


def drawn(strategy):
    """Draw one example, always the same."""
    from hypothesis import given, seed, settings

    found = []
    seed(0)(settings(max_examples=3, database=None)(given(strategy)(lambda value: found.append(value))))()
    return found[-1]


@pytest.mark.parametrize("backend", ["torch", slow("jax")])
@pytest.mark.parametrize("serve", ["numpy", "torch-trace", slow("onnx"), "jax"])
@pytest.mark.parametrize("every", [slow(1), 5])
def test_hybrid_acts_on_the_weights_of_the_last_refresh(backend, serve, every):
    rng = np.random.default_rng(3)
    params = small_net(rng)
    batch = drawn(strategies.training_batch(12, 5))
    state = batch[0][:1]
    constants = spec(params, learning_rate=0.05)
    hybrid = build("hybrid", backend, {**constants, "serve": serve, "every": every}, batch)
    acted = hybrid(*batch)

    step = build("train_step", backend, constants, batch)
    acting, wanted = params, []
    for update in range(1, 11):
        step(*map(get(backend).to_device, batch))
        if update % every == 0:
            acting = step.params
        wanted.append(_numpy.q_values(acting, state)[0])
    assert np.allclose(acted, wanted, atol=1e-5)
    assert not np.allclose(acted[0], acted[-1], atol=1e-2)
    hybrid.reset()
    assert np.allclose(hybrid(*batch), acted, atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", "onnx", "jax"])
def test_sustained_answers_every_batch(backend):
    rng = np.random.default_rng(0)
    params, batches = small_net(rng), rng.uniform(-1, 1, (5, 4, 16)).astype(np.float32)
    call = build("sustained", backend, spec(params), (batches,))
    assert np.allclose(call(batches), [_numpy.q_values(params, batch) for batch in batches], atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "torch", slow("onnx"), "jax"])
@pytest.mark.parametrize("form", ["naive", "full"])
def test_padding_to_the_grid_never_changes_an_answer(backend, form):
    rng = np.random.default_rng(0)
    params, states = small_net(rng), rng.uniform(-1, 1, (37, 16)).astype(np.float32)
    load = build("serve", backend, {**spec(params), "clients": 5}, (states,), form)
    try:
        assert np.allclose(load(states), _numpy.q_values(params, states), atol=1e-6)
    finally:
        load.close()
