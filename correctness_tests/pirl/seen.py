"""Where to look for what each knob switches."""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import replace

import numpy as np

from correctness_tests.neuron_standin import install_xla
from correctness_tests.observed import RECORDING, dispatched, keeps_gradients, program, recording, spied
from correctness_tests.pirl.problem import small_net, spec
from rl_impls.backends import get
from rl_impls.pirl.knobs import CHOICES, Knobs
from rl_impls.pirl.physics import DYNAMICS
from rl_impls.pirl.problem import POINTS, training_batch

BATCH = 8
LOSSES = "pde_loss", "train_step"
BY_HAND = {"derivatives": "generator", "passes": "joint"}  # what a gradient by hand implies


@functools.cache
def problem():
    rng = np.random.default_rng(0)
    return spec(small_net(rng), small_net(rng)), training_batch(rng, BATCH)


def made(op, backend, changed=(), target=None, **knobs):
    """An op that is naive but for these knobs, and the arguments it takes."""
    constants, batch = problem()
    taken = {"forward": batch[:1], "act": (batch[0][:1], 0.5, 7), "pde_loss": batch[5:6], "train_step": batch}
    args = tuple(map(get(backend).to_device, taken.get(op, ())))
    return get(backend).build("pirl", op, constants | dict(changed), args, Knobs(**knobs), target), args


def called(op, backend, **knobs):
    """What an op answers."""
    call, args = made(op, backend, **knobs)
    return call(*args)


def traced(op, **knobs):
    """What JAX traces of an op, as text."""
    target = get("jax").lowering_here()
    made(op, "jax", target=target, **knobs)
    return program(target)


def order(value, monkeypatch):
    """Whether noise makes a difference; on JAX the answers to what is timed tell."""
    for backend, op, knobs in (
        ("numpy", "pde_loss", {}), ("torch", "pde_loss", {}), ("torch", "pde_loss", {"derivatives": "generator"}),
        ("torch", "train_step", {}), ("torch", "train_step", BY_HAND | {"gradient": "by_hand"}),
    ):  # fmt: skip
        answers = [
            get(backend).to_host(called(op, backend, changed={"sigma": sigma, "pde_weight": 1.0}, order=value, **knobs))
            for sigma in (0.0, 3.0)
        ]
        yield answers[0] != answers[1]


def drift(value, monkeypatch):
    """The axes of the states that the drift is asked for: of one, or of all."""
    axes, vehicle = [], DYNAMICS["vehicle"]

    def spy(states, *args, **kwargs):
        axes.append(len(states.shape))
        return vehicle.drift(states, *args, **kwargs)

    monkeypatch.setitem(DYNAMICS, "vehicle", replace(vehicle, drift=spy))
    for op, knobs in (("pde_loss", {}), ("train_step", {}), ("train_step", BY_HAND | {"gradient": "by_hand"})):
        called(op, "torch", drift=value, **knobs)
    for op in LOSSES:
        traced(op, drift=value)
    return axes


def derivatives(value, monkeypatch):
    """Whether the net is differentiated for the residual."""
    import jax
    import torch

    seen = []
    spied(monkeypatch, torch.autograd, "grad", lambda *args, **kwargs: seen.append("torch"))
    spied(monkeypatch, jax, "vmap", lambda *args, **kwargs: seen.append("jax"))
    for op in LOSSES:
        called(op, "torch", derivatives=value)
        yield "torch" in seen
        traced(op, derivatives=value)
        yield "jax" in seen
        seen.clear()


def passes(value, monkeypatch):
    """Whether the rows of the three terms go through the net together."""
    for way in CHOICES["derivatives"]:
        rows, (step, args) = [], made("train_step", "torch", derivatives=way, passes=value)
        step.net.linears[0].register_forward_pre_hook(lambda _, inputs, rows=rows: rows.append(len(inputs[0])))
        step(*args)
        yield max(rows) >= BATCH + 2 * POINTS
        text = traced("train_step", derivatives=way, passes=value)
        yield max(map(int, re.findall(r"f32\[(\d+),\d+\] = tanh", text))) >= BATCH + 2 * POINTS


def gradient(value, monkeypatch):
    """Whether torch goes back by itself, and JAX through products as it has them."""
    import torch

    seen = []
    spied(monkeypatch, torch.Tensor, "backward", lambda *args, **kwargs: seen.append("backward"))
    called("train_step", "torch", gradient=value, **BY_HAND)
    yield bool(seen)
    yield "optimization_barrier" not in traced("train_step", gradient=value, **BY_HAND)


def inference(value, monkeypatch):
    """Whether autograd records while the net computes, and whether it is in inference mode."""
    from rl_impls.pirl import _torch

    seen = []
    spied(monkeypatch, _torch.Net, "forward", lambda *args: seen.append(recording()))
    for op in ("forward", "act"):
        called(op, "torch", inference=value)
    assert len(seen) == 2
    out = called("pde_loss", "torch", inference=value, derivatives="generator")
    return [*seen, (out.requires_grad, out.is_inference())]


def zero_grad(value, monkeypatch):
    """Whether gradients stay where they are."""
    step, args = made("train_step", "torch", zero_grad=value)
    yield keeps_gradients(step, *args)


def optimizer(value, monkeypatch):
    """Whether all arrays are updated, or copied, at once."""
    for op, at_once in (("train_step", "_fused_adam_"), ("sync_target", "_foreach_copy_")):
        call, args = made(op, "torch", optimizer=value)
        yield at_once in dispatched(call, *args)
    step, _ = made("train_step", "jax", optimizer=value)
    yield not isinstance(step.weights, dict)


def serving(value, monkeypatch):
    """The thread in which the net is called."""
    from rl_impls.pirl import _numpy

    threads = []
    spied(monkeypatch, _numpy.Net, "__call__", lambda *args: threads.append(threading.current_thread().name))
    (constants, batch), backend = problem(), get("numpy")
    load = backend.build("pirl", "serve", constants | {"clients": 2}, batch[:1], Knobs(serving=value))
    try:
        load(batch[0])
    finally:
        load.close()
    return [name == "batcher" for name in threads]


def autocast(value, monkeypatch):
    """What Neuron's compiler is told."""
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)
    traces = install_xla(monkeypatch)
    made("forward", "neuron", autocast=value)
    return [tuple(trace["compiler_args"]) for trace in traces]


SEEN = {  # knob: where to look, and what each of its values shows there
    "order": (order, {1: False, 2: True}),
    "drift": (drift, {"rows": 1, "vectorised": 2}),
    "derivatives": (derivatives, {"autograd": True, "generator": False}),
    "passes": (passes, {"separate": False, "joint": True}),
    "gradient": (gradient, {"autograd": True, "by_hand": False}),
    "inference": (inference, RECORDING),
    "zero_grad": (zero_grad, {"fill": True, "none": False}),
    "optimizer": (optimizer, {"loop": False, "fused": True}),
    "serving": (serving, {"per_request": False, "batched": True}),
    "autocast": (autocast, {False: ("--auto-cast", "none"), True: ("--auto-cast", "matmult")}),
}
