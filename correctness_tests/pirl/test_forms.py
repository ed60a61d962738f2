"""Options of an op change how a result is computed, but not the result."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from correctness_tests.pirl.problem import build
from rl_impls.backends import get
from rl_impls.pirl.problem import learning, training_batch


def problem():
    """Return the configuration of a small net, with a loss in which every term matters, and a batch."""
    rng = np.random.default_rng(0)
    return learning(rng, hidden=8), training_batch(rng, 8)


def trained(backend, **options):
    """Return the losses of two updates, and the final weights."""
    (config, batch), implementation = problem(), get(backend)
    step = build("train_step", backend, config, batch, "naive", order=2, **options)
    losses = [float(implementation.to_host(step(*map(implementation.to_device, batch)))) for _ in range(2)]
    return losses, step.params


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


@pytest.mark.parametrize(("inference", "flags"), [("grad", (True, False)), ("inference_mode", (False, True))])
def test_inference_option_sets_what_autograd_records(inference, flags):
    config, batch = problem()
    for op, given in (("forward", batch[:1]), ("pde_loss", batch[5:6])):
        call = build(op, "torch", config, given, "naive", inference=inference, derivatives="generator")
        out = call(*map(get("torch").to_device, given))
        assert (out.requires_grad, out.is_inference()) == flags


@pytest.mark.parametrize(("autocast", "mode"), [(False, "none"), (True, "matmult")])
def test_autocast_reaches_the_neuron_compiler(autocast, mode, xla, monkeypatch):
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)  # as if there were a device
    config, batch = problem()
    build("forward", "neuron", config, batch[:1], autocast=autocast)
    assert {tuple(traced["compiler_args"]) for traced in xla} == {("--auto-cast", mode)}
