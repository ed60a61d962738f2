"""Options of an op: each one changes how a result is computed, and none changes the result."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.pirl.problem import build
from correctness_tests.snake.problem import dispatched, keeps_gradients
from rl_impls.backends import get
from rl_impls.pirl.options import Options
from rl_impls.pirl.physics import DYNAMICS
from rl_impls.pirl.problem import learning, training_batch
from rl_impls.pirl.serving import Batched

JOINT = {"derivatives": "generator", "passes": "joint"}
UPDATES = [
    {"drift": "vectorised"},
    {"derivatives": "generator"},
    {"passes": "joint"},
    JOINT,
    JOINT | {"gradient": "by_hand"},
    {"optimizer": "fused"},
]


def problem():
    """Return the configuration of a small net for which every term of the loss matters, and a batch."""
    rng = np.random.default_rng(0)
    return learning(rng, hidden=8), training_batch(rng, 8)


def trained(backend, **options):
    """Return the losses of two updates, and the weights after them."""
    (constants, batch), made = problem(), get(backend)
    step = build("train_step", backend, constants, batch, "naive", order=2, **options)
    losses = [float(made.to_host(step(*map(made.to_device, batch)))) for _ in range(2)]
    return losses, step.params


@functools.cache
def naive(backend):
    return trained(backend)


@pytest.mark.parametrize("options", [*UPDATES, {"zero_grad": "none"}], ids=str)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_an_option_leaves_losses_and_weights_as_they_are(backend, options):
    (losses, params), (wanted, exact) = trained(backend, **options), naive(backend)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    apart = np.concatenate([np.abs(params[name] - exact[name]).ravel() for name in exact])
    assert np.quantile(apart, 0.9) < 0.05 * 2 * 5e-4  # Adam turns a gradient of rounding noise into a whole step


def traced(options):
    """Return the program that JAX traces of an update, as text without addresses."""
    (constants, batch), backend = problem(), get("jax")
    compiler, example = backend.new_compiler(), tuple(map(backend.to_device, batch))
    backend.build("pirl", "train_step", constants, example, Options(**options), compiler)
    programs = [str(function.trace(*given).jaxpr) for function, given in compiler.compiled]
    return re.sub(r"0x[0-9a-f]+", "", "\n".join(programs))


@pytest.mark.parametrize("options", UPDATES, ids=str)
def test_an_option_changes_the_program_that_jax_compiles(options):
    changed = traced(options)
    assert changed == traced(options)
    before = {name: value for name, value in options.items() if name != list(options)[-1]}
    assert changed != traced(before)


def operations(op, given, **options):
    """Return what torch dispatches in a call of a naive op, but for these options; ``given`` are its arguments."""
    constants, batch = problem()
    call = build(op, "torch", constants, batch[given], "naive", **options)
    return dispatched(call, *map(get("torch").to_device, batch[given]))


@pytest.mark.parametrize("op", ["pde_loss", "train_step"])
def test_the_generator_carries_derivatives_forward_in_torch(op):
    given = {"pde_loss": slice(5, 6), "train_step": slice(8)}[op]
    backward = [
        sum("tanh_backward" in line for line in operations(op, given, derivatives=way))
        for way in ("autograd", "generator")
    ]
    assert backward[0] > backward[1]


def test_joint_passes_make_fewer_products_in_torch():
    products = [
        sum("addmm" in line for line in operations("train_step", slice(8), passes=passes))
        for passes in ("separate", "joint")
    ]
    assert products[0] > products[1]


def test_a_gradient_by_hand_goes_through_no_backward_pass_in_torch():
    found = operations("train_step", slice(8), gradient="by_hand", **JOINT)
    assert not any("_backward" in line for line in found)
    assert any("_backward" in line for line in operations("train_step", slice(8), **JOINT))


@pytest.mark.parametrize("optimizer", ["loop", "fused"])
def test_the_fused_optimizer_updates_and_copies_all_arrays_at_once(optimizer):
    for op, given, at_once in (("train_step", slice(8), "_fused_adam_"), ("sync_target", slice(0), "_foreach_copy_")):
        found = operations(op, given, optimizer=optimizer)
        assert any(at_once in line for line in found) == (optimizer == "fused")


@pytest.mark.parametrize(("drift", "axes"), [("rows", 1), ("vectorised", 2)])
def test_the_drift_is_computed_by_row_or_for_all_points(drift, axes, monkeypatch):
    seen, vehicle = set(), DYNAMICS["vehicle"]

    def recorded(states, *args, **kwargs):
        seen.add(len(states.shape))
        return vehicle.drift(states, *args, **kwargs)

    monkeypatch.setitem(DYNAMICS, "vehicle", replace(vehicle, drift=recorded))
    for op, given in (("pde_loss", slice(5, 6)), ("train_step", slice(8))):
        operations(op, given, drift=drift)
    assert seen == {axes}


@pytest.mark.parametrize(
    ("inference", "flags"), [("grad", (True, False)), ("no_grad", (False, False)), ("inference_mode", (False, True))]
)
def test_inference_says_what_autograd_records(inference, flags):
    constants, batch = problem()
    for op, given in (("forward", batch[:1]), ("pde_loss", batch[5:6])):
        call = build(op, "torch", constants, given, "naive", inference=inference, derivatives="generator")
        out = call(*map(get("torch").to_device, given))
        assert (out.requires_grad, out.is_inference()) == flags


@pytest.mark.parametrize(("zero_grad", "kept"), [("fill", True), ("none", False)])
def test_gradients_are_filled_with_zeros_or_dropped(zero_grad, kept):
    constants, batch = problem()
    step = build("train_step", "torch", constants, batch, "naive", zero_grad=zero_grad)
    assert keeps_gradients(step, *map(get("torch").to_device, batch)) == kept


@pytest.mark.parametrize("form", ["naive", "full"])
def test_the_full_form_serves_requests_in_batches(form):
    constants, batch = problem()
    load = build("serve", "numpy", constants | {"clients": 2}, batch[:1], form)
    load.close()
    assert isinstance(load.server, Batched) == (form == "full")


@pytest.mark.parametrize(("autocast", "mode"), [(False, "none"), (True, "matmult")])
def test_autocast_reaches_the_neuron_compiler(autocast, mode, xla, monkeypatch):
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)  # pretend that there is a device
    constants, batch = problem()
    build("forward", "neuron", constants, batch[:1], autocast=autocast)
    assert {tuple(traced["compiler_args"]) for traced in xla} == {("--auto-cast", mode)}


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match=r"^option gradient: got by_hand with derivatives=autograd"):
        Options(gradient="by_hand")
    with pytest.raises(ValueError, match="unknown value of option drift 'columns'; known: rows, vectorised"):
        Options(drift="columns")
