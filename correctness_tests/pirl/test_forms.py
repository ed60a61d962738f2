"""Options of an op change how a result is computed, but not the result."""

import functools

import numpy as np
import pytest

from correctness_tests.pirl.problem import build
from correctness_tests.reference import in_float64
from rl_impls.backends import get
from rl_impls.pirl import _numpy
from rl_impls.pirl.physics import dynamics_of
from rl_impls.pirl.problem import learning, training_batch

WEIGHTS = {"pde_weight": 0.1, "boundary_weight": 10.0}


def problem():
    """Return the configuration of a small net, with a loss in which every term matters, and a batch."""
    rng = np.random.default_rng(0)
    return learning(rng, hidden=8) | WEIGHTS, training_batch(rng, 8)


def trained(backend, **options):
    """Return the loss and the TD loss of two updates, f[2, 2], and the weights after them."""
    (config, batch), implementation = problem(), get(backend)
    step, losses = build("train_step", backend, config, batch, "naive", order=2, **options), []
    for _ in range(2):
        loss = step(*map(implementation.to_device, batch))
        losses.append([float(implementation.to_host(value)) for value in (loss, step.td_loss)])
    return np.array(losses), step.params


@functools.cache
def naive(backend):
    return trained(backend)


@pytest.mark.parametrize("options", [{"derivatives": "generator"}, {"optimizer": "fused"}], ids=str)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_option_changes_neither_losses_nor_weights(backend, options):
    (losses, params), (wanted, exact) = trained(backend, **options), naive(backend)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    difference = np.concatenate([np.abs(params[name] - exact[name]).ravel() for name in exact])
    assert np.quantile(difference, 0.9) < 0.05 * 2 * 5e-4  # Adam turns rounding noise in a gradient into a full step
    assert difference.any() or "derivatives" not in options  # another order of sums rounds differently


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_loss_weighs_the_equation_and_the_boundary_as_the_reference_does(backend):
    (config, batch), (losses, _) = problem(), naive(backend)
    params, target, exact = in_float64((config["params"], config["target"], batch))
    without = {"pde_weight": 0.0, "boundary_weight": 0.0}
    expected = [
        _numpy.loss(params, target, exact, dynamics=dynamics_of(config), order=2, **weights)
        for weights in (WEIGHTS, without)
    ]
    assert losses[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("autocast", "mode"), [(False, "none"), (True, "matmult")])
def test_autocast_reaches_the_neuron_compiler(autocast, mode, xla, monkeypatch):
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)  # as if there were a device
    config, batch = problem()
    build("forward", "neuron", config, batch[:1], autocast=autocast)
    assert {tuple(traced["compiler_args"]) for traced in xla} == {("--auto-cast", mode)}
