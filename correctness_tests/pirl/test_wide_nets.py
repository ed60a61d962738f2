"""Nets of 128 and of 512 hidden units act and learn as those of 32 do."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.pirl.problem import build, slow, spec
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.snake.problem import assert_trained_alike
from rl_impls.backends import get
from rl_impls.pirl import _numpy
from rl_impls.pirl.problem import learning, net, states, training_batch

RATE, UPDATES = 5e-4, 2


def assert_acts_greedily(act, params, seen):
    """A draw above epsilon takes an action worth as much as the best, in float64; one below it the drawn action."""
    for state in seen:
        q = _numpy.q_values(*in_float64((params, state[None])))[0]
        assert q.max() - q[act(state[None], 0.5, 7)] < 1e-5 * q.max()
    assert act(seen[:1], 0.05, 7) == 7


@pytest.mark.parametrize("hidden", [128, slow(512)])
@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", slow("torch-compile"), "onnx", "jax"])
def test_wide_nets_act_by_their_values(backend, hidden):
    rng = np.random.default_rng(hidden)
    params, seen, made = net(rng, hidden), states(rng, 8), get(backend)
    act = build("act", backend, spec(params), (seen[:1], 0.5, 7))
    assert_acts_greedily(lambda state, *draw: act(made.from_host(state), *draw), params, seen)


def test_wide_nets_act_by_their_values_on_neuron(stand_in, monkeypatch):
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)
    test_wide_nets_act_by_their_values("neuron", 128)


@pytest.mark.parametrize("order", [slow(1), 2])
@pytest.mark.parametrize("hidden", [128, slow(512)])
@pytest.mark.parametrize("backend", ["torch", slow("torch-compile"), "jax"])
def test_wide_nets_learn_as_in_float64(backend, hidden, order):
    rng = np.random.default_rng(hidden)
    constants, batch, made = learning(rng, hidden), training_batch(rng, 64), get(backend)
    exact = build("train_step", "torch", in_float64(constants), in_float64(batch), "naive", order=order)
    step = build("train_step", backend, constants, batch, order=order)
    for _ in range(UPDATES):
        wanted = float(exact(*map(get("torch").to_device, in_float64(batch))))
        assert float(made.to_host(step(*map(made.to_device, batch)))) == pytest.approx(wanted, rel=1e-4)
    assert_trained_alike(step.params, exact.params, RATE, UPDATES, most=0.01)
    moved = [largest_difference(step.params[name], constants["params"][name]) for name in constants["params"]]
    assert min(moved) > 0
