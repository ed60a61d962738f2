"""Where to look for what each knob switches."""

from __future__ import annotations

import functools

import numpy as np

from correctness_tests.observed import RECORDING, dispatched, keeps_gradients, program, recording, spied
from correctness_tests.procgen.problem import MADE
from rl_impls.backends import get
from rl_impls.procgen.knobs import Knobs
from rl_impls.procgen.problem import a2c, env_step, forward, gae, vtrace

ENVS, BATCH = 2, 16
STEPPED = functools.partial(env_step, num_envs=ENVS, game="coinrun")
PLAYED = functools.partial(a2c, num_envs=ENVS, num_steps=2)
PROBLEMS = {
    "forward": functools.partial(forward, num_envs=ENVS),
    "gae": functools.partial(gae, num_envs=ENVS),
    "vtrace": functools.partial(vtrace, num_envs=ENVS),
    **{op: functools.partial(make, batch_size=BATCH) for op, make in MADE.items()},
}


def made(op, backend="torch", target=None, **knobs):
    """An op that is naive but for these knobs, and the arguments it takes."""
    problem = PROBLEMS[op](0)
    args = tuple(map(get(backend).to_device, problem.args))
    return get(backend).build("procgen", op, problem.config, args, Knobs(**knobs), target), args


def pictures():
    """Pictures u8[N, 64, 64, 3] as NumPy."""
    return forward(0, ENVS).args[0]


def called(op, **knobs):
    """Call an op."""
    call, args = made(op, **knobs)
    call(*args)


def acted(**knobs):
    """Have an actor act, and value states."""
    step, _ = made("a2c_update", **knobs)
    step.actor(pictures())(pictures(), np.zeros(ENVS, np.float32))
    step.values(pictures())


def precision(value, monkeypatch):
    """What products are of."""
    for op in ("forward", *MADE):
        call, args = made(op, precision=value)
        text = dispatched(call, *args)
        for product in ("convolution", "addmm"):
            yield "bfloat16" if f"aten.{product}.default torch.bfloat16" in text else "float32"
            yield "float32" if f"aten.{product}.default torch.float32" in text else "bfloat16"
        target = get("jax").lowering_here()
        made(op, "jax", target, precision=value)
        yield "bfloat16" if "bf16" in program(target) else "float32"
    step, _ = made("a2c_update", precision=value)
    yield (
        "bfloat16" if "torch.bfloat16" in dispatched(step.actor(pictures()), pictures(), np.zeros(ENVS)) else "float32"
    )


def memory_format(value, monkeypatch):
    """Whether pictures and weights of each convolution lie pixel by pixel."""
    import torch

    seen = []

    def note(h, kernel, *args):
        seen.extend(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (h, kernel))

    spied(monkeypatch, torch.nn.functional, "conv2d", note)
    for images in ("float", "uint8"):
        for op in ("forward", *MADE):
            called(op, memory_format=value, images=images)
        acted(memory_format=value, images=images)
    return seen


def inference(value, monkeypatch):
    """Whether autograd records while the net computes, and whether it is in inference mode."""
    from rl_impls.procgen import torch_net

    seen = []
    spied(monkeypatch, torch_net.Net, "forward", lambda *args: seen.append(recording()))
    called("forward", inference=value)
    step, _ = made("ppo_update", inference=value)
    step.actor(pictures())(pictures(), np.zeros(ENVS, np.float32))
    assert len(seen) == 2
    return seen


def zero_grad(value, monkeypatch):
    """Whether gradients stay where they are."""
    for op in MADE:
        step, batch = made(op, zero_grad=value)
        yield keeps_gradients(step, *batch)


def optimizer(value, monkeypatch):
    """Whether Adam or RMSProp, and the norm of the gradient, take all arrays at once."""
    for op in MADE:
        step, batch = made(op, optimizer=value)
        text = dispatched(step, *batch)
        yield "_fused_adam_" in text or "_foreach_addcdiv_" in text, "_foreach_norm" in text


def images(value, monkeypatch):
    """What the net is given."""
    from rl_impls.procgen import torch_net

    seen = []
    spied(monkeypatch, torch_net.Net, "forward", lambda self, obs: seen.append(str(obs.dtype)))
    for op in ("forward", *MADE):
        called(op, images=value)
    step, _ = made("ppo_update", images=value)
    acted(images=value)
    seen.append(str(step.put(pictures())[0].dtype))
    assert len(seen) == 7
    return seen


def first_layer(value, monkeypatch):
    """Numbers of a place that the kernel is over, places along a side and the kernel's step: learning, and acting."""
    import torch

    seen = {True: set(), False: set()}

    def note(h, kernel, bias, *strides):
        if len(kernel) == 32:  # of the first of the three
            seen[torch.is_grad_enabled()].add((h.shape[1], h.shape[2], *strides[:1]))

    spied(monkeypatch, torch.nn.functional, "conv2d", note)
    for op in MADE:
        called(op, first_layer=value)
    for inference in ("no_grad", "inference_mode"):
        called("forward", first_layer=value, inference=inference)
        acted(first_layer=value, inference=inference)
    ((learning,), (acting,)) = seen.values()
    return [(learning, acting)]


def acting_weights(value, monkeypatch):
    """Of what type kernels are where the net acts, and where it learns."""
    import torch

    seen = {True: set(), False: set()}

    def note(h, kernel, *args):
        seen[torch.is_grad_enabled()].add(str(kernel.dtype))

    spied(monkeypatch, torch.nn.functional, "conv2d", note)
    knobs = {"precision": "bfloat16", "acting_weights": value}
    for op in MADE:
        called(op, **knobs)
    for images in ("float", "uint8"):
        called("forward", inference="inference_mode", images=images, **knobs)
        step, _ = made("ppo_update", inference="inference_mode", images=images, **knobs)
        step.actor(pictures())(pictures(), np.zeros(ENVS, np.float32))
    ((learning,), (acting,)) = seen.values()
    assert learning == "torch.float32"
    return [acting]


def advantages(value, monkeypatch):
    """Axes of the sums over later steps."""
    from rl_impls.procgen import _numpy, _torch

    seen = []
    for module in (_numpy, _torch):
        spied(monkeypatch, module, "backward_sum", lambda terms, decays: seen.append(len(terms.shape)))
    for op in ("gae", "vtrace"):
        called(op, backend="numpy", advantages=value)
        called(op, advantages=value)
    called("impala_update", advantages=value)
    return seen


def frames(value, monkeypatch):
    """Whether Procgen's interface is told where to write each frame."""
    from rl_impls.procgen import composed, loop

    for module, op, make in ((composed, "env_step", STEPPED), (loop, "a2c", PLAYED)):
        seen = []

        def note(self, actions, out=None, seen=seen):
            seen.append(out is None)

        spied(monkeypatch, module.ProcgenVectorEnv, "advance", note)
        problem = make(0)
        built = get("torch" if op == "a2c" else "numpy").build(
            "procgen", op, problem.config, problem.args, Knobs(frames=value)
        )
        built(*problem.args)
        built.close()
        yield from seen


SEEN = {  # knob: where to look, and what each of its values shows there
    "precision": (precision, {"float32": "float32", "bfloat16": "bfloat16"}),
    "memory_format": (memory_format, {"contiguous": False, "channels_last": True}),
    "inference": (inference, RECORDING),
    "zero_grad": (zero_grad, {"fill": True, "none": False}),
    "optimizer": (optimizer, {"loop": (False, False), "default": (False, True), "fused": (True, True)}),
    "images": (images, {"float": "torch.float32", "uint8": "torch.uint8"}),
    "first_layer": (first_layer, {"pixels": ((3, 64, 4), (3, 64, 4)), "blocks": ((48, 15, 1), (3, 60, 4))}),
    "acting_weights": (acting_weights, {"learned": "torch.float32", "cast": "torch.bfloat16"}),
    "advantages": (advantages, {"loop": 1, "vector": 2}),
    "frames": (frames, {"copied": True, "in_place": False}),
}
