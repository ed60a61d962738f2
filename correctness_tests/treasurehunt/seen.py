"""Where to look for what each knob switches."""

from __future__ import annotations

import functools
import re

import numpy as np

from correctness_tests.observed import RECORDING, dispatched, keeps_gradients, program, recording, spied
from correctness_tests.treasurehunt import hunts
from correctness_tests.treasurehunt.problem import AGENTS, acting, problem
from rl_impls.backends import get
from rl_impls.treasurehunt.knobs import CHOICES, Knobs
from rl_impls.treasurehunt.per_agent import OneByOne
from rl_impls.treasurehunt.problem import observe, sample, stack

OPS = "forward", "act", "train_step"


@functools.cache
def arguments():
    everything, [batch] = problem(0)
    states, *_, taus, noise = batch
    drawn = acting(np.random.default_rng(1), everything["params"])
    return everything, {"forward": (states, taus[:, 0], noise[:, 0]), "act": drawn, "train_step": batch}


def made(op, backend, target=None, **knobs):
    """An op of small nets that is naive but for these knobs, and the arguments it takes."""
    everything, args = arguments()
    args = tuple(map(get(backend).to_device, args[op]))
    return get(backend).build("treasurehunt", op, everything, args, Knobs(**knobs), target), args


def operations(op, **knobs):
    """What torch dispatches in a call of an op."""
    call, args = made(op, "torch", **knobs)
    return dispatched(call, *args)


def traced(op, **knobs):
    """What JAX traces of an op, as text."""
    target = get("jax").lowering_here()
    made(op, "jax", target, **knobs)
    return program(target)


given = functools.cache(functools.partial(hunts.hunt, 0, epochs=1))


def looped(op, backend="torch", form="naive", **knobs):
    """A small loop, and the arguments it takes."""
    spec, [drawn] = given()
    args = drawn if op == "epoch" else drawn[1:5]
    return hunts.build(op, backend, spec, args, form, **knobs), args


def order(value, monkeypatch):
    """Whether agents move one at a time."""
    from rl_impls.treasurehunt.vector_env import CellWorlds

    for op in ("turn", "epoch"):
        moves = []
        spied(monkeypatch, CellWorlds, "move_agent", lambda _, agent, actions, moves=moves: moves.append(agent))
        loop, args = looped(op, order=value)
        loop(*args)
        yield bool(moves)


def world(value, monkeypatch):
    """What the worlds are."""
    config = observe(0, agents=2, worlds=1).config
    yield type(get("numpy").build("treasurehunt", "observe", config, (), Knobs(world=value)).__self__).__name__
    yield type(looped("turn", world=value)[0].world).__name__


def nets(value, monkeypatch):
    """Whether all agents are dealt with at once."""
    from rl_impls.treasurehunt import _numpy

    for op in OPS:
        yield "baddbmm" in operations(op, nets=value)
        for backend in ("torch", "jax"):
            yield not isinstance(made(op, backend, nets=value)[0], OneByOne)
    yield not isinstance(looped("turn", nets=value)[0].team, OneByOne)
    cuts = []
    spied(monkeypatch, _numpy, "gather", lambda *args: cuts.append("sample"))
    spied(monkeypatch, _numpy, "stack_agent", lambda *args: cuts.append("stack"))
    spied(monkeypatch, _numpy, "stack_frames", lambda *args: cuts.append("stack"))
    for timed in (sample(0, 5), stack(0, 5, 1)):
        get("numpy").build("treasurehunt", timed.op, timed.config, timed.args, Knobs(nets=value))(*timed.args)
        yield cuts.count(timed.op) == 1


def cosines(value, monkeypatch):
    """Whether sines are taken."""
    for op in OPS:
        yield bool(re.search(r"= sin\b", traced(op, nets="batched", cosines=value)))
    loop, _ = looped("epoch", "jax", "compiled", cosines=value)
    yield bool(re.search(r"= sin\b", program(loop.target)))


def states(value, monkeypatch):
    """Whether the weights are laid out by frame, kind and cell, to be looked up."""
    loop, _ = looped("turn", "jax", "compiled", states=value)
    yield "f32[2,5,6,25,16]" in program(loop.target)


def inference(value, monkeypatch):
    """Whether autograd records while the net computes, and whether it is in inference mode."""
    from rl_impls.treasurehunt import _torch

    seen, (_, args) = [], arguments()
    spied(monkeypatch, _torch, "quantiles", lambda *args: seen.append(recording()))
    drawn = tuple(map(get("torch").to_device, args["act"]))
    for way in CHOICES["nets"]:
        for op in ("forward", "act"):
            call, args = made(op, "torch", nets=way, inference=value)
            call(*args)
        made("train_step", "torch", nets=way, inference=value)[0].actor(drawn)(*drawn)
    assert len(seen) == 3 * (AGENTS + 1)
    return seen


def zero_grad(value, monkeypatch):
    """Whether gradients stay where they are."""
    step, batch = made("train_step", "torch", nets="batched", zero_grad=value)
    yield keeps_gradients(step, *batch)
    steps, batch = made("train_step", "torch", zero_grad=value)
    yield keeps_gradients(steps.members[0], *(field[0] for field in batch))


def optimizer(value, monkeypatch):
    """Whether Adam, the soft update and the norm of a gradient take all arrays at once."""
    for way in CHOICES["nets"]:
        text = operations("train_step", nets=way, optimizer=value)
        yield "_fused_adam_" in text
        yield "_foreach_lerp_" in text
    yield "_foreach_norm" in operations("train_step", optimizer=value)


def precision(value, monkeypatch):
    """What products are of."""
    for op in OPS:
        for way in CHOICES["nets"]:
            found = re.findall(r"(?:addmm|baddbmm)\.default torch\.(\w+)", operations(op, nets=way, precision=value))
            yield from found[:4]  # the layers of the first pass
            assert len(found) >= 4
            yield "bfloat16" if "bf16" in traced(op, nets=way, precision=value) else "float32"


def loop(value, monkeypatch):
    """Whether an epoch is one program."""
    for op in ("turn", "epoch"):
        yield "program" in looped(op, "jax", "full", loop=value)[0].phases()


def processes(value, monkeypatch):
    """Whether agents are asked for in processes of their own; that these are, other tests see."""
    from rl_impls.treasurehunt.loop import TEAMS
    from rl_impls.treasurehunt.team import Teams

    class Asked(Teams):
        """Stands in for what would start them."""

    monkeypatch.setitem(TEAMS, ("one_by_one", "per_agent"), Asked)
    for op in ("turn", "epoch"):
        yield isinstance(looped(op, processes=value)[0].team, Asked)


SEEN = {  # knob: where to look, and what each of its values shows there
    "order": (order, {"together": False, "interleaved": True}),
    "world": (world, {"cells": "CellWorlds", "arrays": "ArrayWorlds"}),
    "nets": (nets, {"one_by_one": False, "batched": True}),
    "cosines": (cosines, {"direct": False, "doubling": True}),
    "states": (states, {"product": False, "lookup": True}),
    "inference": (inference, RECORDING),
    "zero_grad": (zero_grad, {"fill": True, "none": False}),
    "optimizer": (optimizer, {"loop": False, "fused": True}),
    "precision": (precision, {"float32": "float32", "bfloat16": "bfloat16"}),
    "loop": (loop, {"python": False, "scan": True}),
    "processes": (processes, {"one": False, "per_agent": True}),
}
