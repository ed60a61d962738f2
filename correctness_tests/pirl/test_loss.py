"""The loss and its derivatives, against finite differences and autograd's Hessian; Q-values for random weights."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests import strategies
from correctness_tests.pirl.problem import CONSTANTS, build, config_of, slow, small_net
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.updates import assert_is_gradient, gradient_of
from rl_impls import backends
from rl_impls.backends import get
from rl_impls.pirl import _numpy
from rl_impls.pirl.physics import DYNAMICS


def rough():
    """Return a vehicle with enough noise that diffusion and drift terms have similar size."""
    return replace(DYNAMICS["vehicle"], sigma=3.0)


def gentle_states(rng, points):
    """Return states small enough that no unit saturates, so that no derivative vanishes."""
    states = rng.uniform(-1, 1, (points, 16))
    states[:, 0] = rng.uniform(3, 6, points)
    states[:, 5:15] = rng.uniform(-0.02, 0.02, (points, 1)) * np.arange(2.0, 21.0, 2.0) ** 2 / 2
    states[:, 15] = rng.uniform(0, 1, points)
    return states


def batch64(rng, batch=12, points=5):
    expired, unsafe = gentle_states(rng, points), gentle_states(rng, points)
    expired[:, 15], unsafe[:, 3] = 0, rng.choice([-1.0, 1.0], points)
    return (
        gentle_states(rng, batch),
        rng.integers(0, 25, batch),
        rng.integers(0, 2, batch).astype(float),
        gentle_states(rng, batch),
        rng.integers(0, 2, batch).astype(float),
        gentle_states(rng, points),
        expired,
        unsafe,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("form", ["naive", "full"])
def test_torch_gradient_matches_finite_differences_of_the_reference(form, order):
    import torch

    from rl_impls.pirl import _torch

    rng = np.random.default_rng(order)
    params, target, batch = in_float64(small_net(rng)), in_float64(small_net(rng)), batch64(rng)
    options = replace(backends.forms("pirl")[form], order=order)
    config = {**CONSTANTS, "pde_weight": 0.5, "boundary_weight": 2.0, "sigma": rough().sigma}
    net, target_net = _torch.Net(params), _torch.Net(target)
    inputs = tuple(map(torch.as_tensor, batch))
    if form == "full":
        loss, td_loss, found = _torch.make_gradient(net, target_net, config, options)(*inputs)
        for parameter, gradient in zip(net.parameters(), found):
            parameter.grad = gradient
    else:
        loss, td_loss = _torch.make_loss(net, target_net, config, options)(*inputs)
        loss.backward()
    assert all(parameter.grad is None for parameter in target_net.parameters())

    def reference(params=params, pde_weight=0.5, boundary_weight=2.0):
        weights = {"pde_weight": pde_weight, "boundary_weight": boundary_weight}
        return _numpy.loss(params, target, batch, dynamics=rough(), order=order, **weights)

    assert loss.item() == pytest.approx(reference(), rel=1e-10)
    assert td_loss.item() == pytest.approx(reference(pde_weight=0.0, boundary_weight=0.0), rel=1e-10)
    assert_is_gradient(gradient_of(net), reference, params)


NETS = {}


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", slow("torch-compile"), "onnx", "jax"])
@pytest.mark.parametrize("batch", [slow(1), 3, slow(32)])
@given(data=st.data())
@settings(max_examples=10)
def test_forward_matches_float64_on_drawn_weights_and_states(backend, batch, data):
    states = data.draw(strategies.states(batch))
    params = data.draw(strategies.weights((16, 8, 8, 8, 25)))
    implementation = get(backend)
    if (backend, batch) not in NETS:
        NETS[backend, batch] = build("forward", backend, config_of(params), (states,))
    net = NETS[backend, batch]
    net.load(params)
    got = implementation.to_host(net(implementation.to_device(states)))
    assert got.dtype == np.float32
    assert got.shape == (batch, 25)
    assert largest_difference(got, _numpy.q_values(in_float64(params), in_float64(states))) < 1e-5


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_a_net_keeps_its_weights_when_the_arrays_it_was_built_from_change(backend):
    rng = np.random.default_rng(0)
    params, states, made = small_net(rng), gentle_states(rng, 3).astype(np.float32), get(backend)
    net = build("forward", backend, config_of(params), (states,))
    expected = _numpy.q_values(params, states)
    for value in params.values():
        value += 1
    assert largest_difference(made.to_host(net(made.to_device(states))), expected) < 1e-5


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", "onnx", "jax"])
def test_act_is_greedy_or_the_drawn_action(backend):
    rng = np.random.default_rng(0)
    params, state = small_net(rng), gentle_states(rng, 1).astype(np.float32)
    act = build("act", backend, config_of(params), (state, 0.5, 7))
    arg = get(backend).to_device(state)
    assert act(arg, 0.0999, 7) == 7
    assert act(arg, 0.1001, 7) == int(_numpy.q_values(params, state).argmax())


def test_sync_target_copies_the_weights():
    rng = np.random.default_rng(0)
    online, stale = small_net(rng), small_net(rng)
    copied = build("sync_target", "numpy", config_of(online, stale), ())()
    for name, value in online.items():
        assert np.array_equal(copied[name], value)
        value += 1
        assert not np.array_equal(copied[name], value)
