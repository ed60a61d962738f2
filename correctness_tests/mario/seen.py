"""Where to look for what each knob switches."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from correctness_tests.mario.problem import BATCH, SIDE, problem
from correctness_tests.observed import RECORDING, dispatched, keeps_gradients, program, recording, spied
from rl_impls.backends import get
from rl_impls.lowering import Target, compile_, eager
from rl_impls.mario.knobs import Knobs
from rl_impls.mario.problem import PRIORITIES, STACK, net, pictures, preprocess

ENVS = 2
REPLAY = {"side": SIDE, "capacity": 200, "stored": 200, "seed": 0}
HANDED = {"shape": (SIDE, SIDE), "collectors": 1, "items": 8, "queue": 8, "chunk": 2}
NUMBER = (np.int64(1),)


def steps(count=4):
    """Experiences of one collector."""
    frames = pictures(np.random.default_rng(0), count, SIDE, SIDE)
    times = np.arange(count, dtype=np.int32)
    return frames, times % 15, times.astype(np.float32), times == 99, times


@functools.cache
def arguments():
    """What each op is built from, and what it takes."""
    rng, (spec, [batch, *_]) = np.random.default_rng(0), problem()
    scaled = preprocess(0, 1, SIDE)
    return {
        "preprocess": (scaled.config, scaled.args),
        "push": ({"side": SIDE, "capacity": 200}, steps()),
        "sample": (REPLAY | {"batch": 3}, NUMBER),
        "per_sample": (REPLAY | PRIORITIES, (rng.random(3, np.float32),)),
        "per_update": (REPLAY | PRIORITIES, (np.arange(3), rng.random(3, np.float32))),
        "transport": (HANDED, NUMBER),
        "publish": ({"params": net(rng, SIDE), "collectors": 1}, NUMBER),
        "train_step": (spec, batch),
    }


def made(op, backend="numpy", target=None, **knobs):
    """An op that is naive but for these knobs, and the arguments it takes."""
    spec, args = arguments()[op]
    args = tuple(map(get(backend).to_device, args))
    return get(backend).build("mario", op, spec, args, Knobs(**knobs), target), args


def called(op, backend="numpy", **knobs):
    """Call an op."""
    call, args = made(op, backend, **knobs)
    call(*args)


def learned(**knobs):
    """An update of torch, and its batch."""
    return made("train_step", "torch", **knobs)


class Still:
    """Stands in for a game: nothing moves."""

    shape = (64, 64)

    def observe(self):
        """The only frame."""
        return np.zeros((64, 64, 3), np.uint8)

    def step(self, action):
        """The same frame again, for nothing."""
        return self.observe(), 0.0, None


def collector(monkeypatch, index=0, **knobs):
    """A collector of two environments, in this process, that is naive but for these knobs."""
    from rl_impls.mario import collectors
    from rl_impls.mario.evaluation import Kept

    monkeypatch.setattr(collectors, "make_game", lambda spec, seed: Still())
    spec = {"envs": ENVS, "side": SIDE, "seed": 0}
    return collectors.Collector(
        spec, index, 0, [Kept()] * ENVS, None, (0, arguments()["publish"][0]["params"]), Knobs(**knobs)
    )


def acted(monkeypatch, **knobs):
    """Have a collector act, and make a step of its first environment."""
    player = collector(monkeypatch, **knobs)
    actions = player.actions(np.ones((ENVS, 2)), 0.5)
    player.step(0, int(actions[0]), [])


def without_processes(monkeypatch):
    """Have workers be asked for, and none be there; return the names of what they are told to do."""
    from rl_impls.common.workers import Workers

    told = []

    def begun(self, count, make, args_of, threads, niceness=0, needs=(), timeout=120):
        self.actors, self.niceness, self.close = count, niceness, lambda: None

    monkeypatch.setattr(Workers, "__init__", begun)
    monkeypatch.setattr(Workers, "tell", lambda self, messages: told.extend(message[0] for message in messages))
    monkeypatch.setattr(Workers, "answers", lambda self: [np.zeros(1)])
    return told


class Asked:
    """Stands in for a transport."""

    def sender(self, index):
        """Nothing that could be put into."""

    def close(self):
        """There is nothing to give back."""


def transport(value, monkeypatch):
    """Which transport is asked for; that it is one, other tests see."""
    from rl_impls.mario import composed
    from rl_impls.mario import loop as loops

    seen = []

    def ask(kind, *args, **options):
        seen.append(kind)
        return Asked()

    without_processes(monkeypatch)
    for module in (loops, composed):
        monkeypatch.setattr(module, "make_transport", ask)
    made("transport", transport=value)
    loop = object.__new__(loops.Pipeline)  # all of it but what it begins with needs processes
    loop.spec = HANDED | {"side": SIDE, "envs": 1, "params": arguments()["publish"][0]["params"]}
    loop.knobs = Knobs(transport=value)
    loop.begin(loop.spec["params"])
    assert len(seen) == 2
    return seen


def publication(value, monkeypatch):
    """Whether weights are part of what processes are told, and whether they can be read in shared memory."""
    from rl_impls.mario.collectors import Collectors

    told = without_processes(monkeypatch)
    call, args = made("publish", publication=value)
    call(*args)
    yield told[0] == "load", call.shared is not None
    told.clear()
    spec = arguments()["publish"][0] | {"envs": 1}
    crew = Collectors(spec, Asked(), Knobs(publication=value))
    crew.publish(1, spec["params"])
    yield "load" in told, crew.weights is not None and crew.weights.newest == 1


def priority(value, monkeypatch):
    """By how much collectors give way to the learner; that workers do so, other tests see."""
    from rl_impls.mario.collectors import Collectors

    without_processes(monkeypatch)
    return [Collectors(arguments()["publish"][0] | {"envs": 1}, Asked(), Knobs(priority=value)).niceness]


def resize(value, monkeypatch):
    """What makes frames small."""
    from rl_impls.mario._numpy import Dense, Sparse

    seen = []
    for kind in (Dense, Sparse):
        spied(monkeypatch, kind, "__call__", lambda self, frames: seen.append(type(self).__name__))
    called("preprocess", resize=value)
    acted(monkeypatch, resize=value)
    assert len(seen) == 1 + ENVS + 1
    return seen


def push(value, monkeypatch):
    """How many calls store four experiences."""
    from rl_impls.mario import composed
    from rl_impls.mario.memory import FrameReplay

    seen = []
    for name in ("push", "push_batch"):
        spied(monkeypatch, FrameReplay, name, lambda *args, name=name, **fields: seen.append(name))
    called("push", push=value)
    yield len(seen)
    seen.clear()
    without_processes(monkeypatch)
    monkeypatch.setattr(composed, "make_transport", lambda *args, **options: Asked())
    made("transport", push=value)[0].store(0, *steps())
    yield len(seen)


def stacks(value, monkeypatch):
    """Which method makes states of frames, and whether the frames of two batches lie at the same place."""
    from rl_impls.mario.memory import FrameReplay

    seen = []
    for name in ("gather", "gather_one_by_one"):
        spied(monkeypatch, FrameReplay, name, lambda *args, name=name: seen.append(name))
    for op in ("sample", "per_sample"):
        call, args = made(op, stacks=value)
        first, second = call(*args)[0], call(*args)[0]
        yield seen[-1], np.shares_memory(first, second)
    assert len(seen) == 4


def tree(value, monkeypatch):
    """What sums priorities."""
    from rl_impls.mario.loop import make_replay
    from rl_impls.mario.sum_tree import LiteralSumTree, SumTree

    seen = []
    for kind in (LiteralSumTree, SumTree):
        spied(monkeypatch, kind, "find", lambda self, masses: seen.append(type(self).__name__))
    called("per_sample", tree=value)
    assert len(seen) == 1
    yield from seen
    yield type(made("per_update", tree=value)[0].replay.tree).__name__
    spec = REPLAY | PRIORITIES | {"collectors": 2, "envs": 1, "prioritised": True}
    yield type(make_replay(spec, Knobs(tree=value)).tree).__name__


def nets(monkeypatch):
    """The states that nets are given from now on."""
    from rl_impls.mario import _torch

    seen = []
    spied(monkeypatch, _torch.Net, "forward", lambda self, states, learning=False: seen.append(states))
    return seen


def acting(value, monkeypatch):
    """How many states the net is given at once."""
    seen = nets(monkeypatch)
    acted(monkeypatch, acting=value)
    return [len(states) for states in seen]


def inference(value, monkeypatch):
    """Whether autograd records while a collector acts, and whether torch is in inference mode."""
    from rl_impls.mario import _torch

    seen = []
    spied(monkeypatch, _torch.Net, "forward", lambda *args: seen.append(recording()))
    acted(monkeypatch, inference=value)
    assert seen
    return seen


def convolutions(monkeypatch):
    """The input and the weights of each convolution from now on."""
    import torch

    seen = []
    spied(monkeypatch, torch.nn.functional, "conv2d", lambda h, kernel, *args: seen.append((h, kernel)))
    return seen


def images(value, monkeypatch):
    """What nets are given, and whether it goes from 0 to 1 in the first convolution."""
    given, convolved = nets(monkeypatch), convolutions(monkeypatch)
    player = collector(monkeypatch, images=value)
    player.states[:] = 255
    player.actor(player.states)
    called("train_step", "torch", images=value)
    first = [h for h, kernel in convolved if kernel.shape[1] == STACK]
    assert len(first) == len(given) == ENVS + 3
    return [(str(states.dtype), float(h.max()) <= 1) for states, h in zip(given, first)]


def tensors(value, monkeypatch):
    """Whether the pictures of one call and of the next are the same tensor."""
    seen = nets(monkeypatch)
    for images in ("float", "uint8"):
        step, batch = learned(tensors=value, images=images)
        seen.clear()
        step(*batch)
        step(*batch)
        assert len(seen) == 6
        yield from (one is other for one, other in zip(seen[:3], seen[3:]))
        player = collector(monkeypatch, tensors=value, images=images)
        seen.clear()
        player.actor(player.states)
        player.actor(player.states)
        yield seen[0] is seen[ENVS]


def memory_format(value, monkeypatch):
    """Whether pictures and weights of each convolution lie pixel by pixel."""
    import torch

    convolved = convolutions(monkeypatch)
    for knobs in ({}, {"images": "uint8"}, {"tensors": "kept"}):
        called("train_step", "torch", memory_format=value, **knobs)
        acted(monkeypatch, memory_format=value, **knobs)
    assert len(convolved) == 3 * 3 * (3 + ENVS)
    return [tensor.is_contiguous(memory_format=torch.channels_last) for pair in convolved for tensor in pair]


def relu(value, monkeypatch):
    """The operation."""
    step, batch = learned(relu=value)
    player = collector(monkeypatch, relu=value)
    for text in (dispatched(step, *batch), dispatched(player.actor, player.states)):
        yield "aten.relu_.default" in text
        yield "aten.relu.default" not in text


def zero_grad(value, monkeypatch):
    """Whether gradients stay where they are."""
    step, batch = learned(zero_grad=value)
    yield keeps_gradients(step, *batch)


def optimizer(value, monkeypatch):
    """Whether Adam, and the norm of the gradient, take all arrays at once."""
    step, batch = learned(optimizer=value)
    text = dispatched(step, *batch)
    yield "_fused_adam_" in text, "_foreach_norm" in text


def on_cuda(monkeypatch, backend, lowering):
    """A backend of CUDA for which torch takes the CPU."""
    from rl_impls.common import torch_learner
    from rl_impls.mario import _torch

    for module in (_torch, torch_learner):
        monkeypatch.setattr(module, "place", lambda target: "cpu")
    return Target(backend, lowering, "cuda", "torch-cuda")


def products(text):
    """What products are of, in what torch has dispatched."""
    for product in ("convolution", "addmm"):
        lines = {line for line in text.splitlines() if line.startswith(f"aten.{product}.default")}
        yield " ".join(sorted(line.rpartition("torch.")[2] for line in lines))


def precision(value, monkeypatch):
    """What products are of; float16 where torch takes the CPU for CUDA, and is refused on other backends."""
    if value == "float16":
        for backend in ("torch", "jax"):
            with pytest.raises(ValueError, match=rf"^precision: got 'float16' on {backend}, wanted torch on CUDA, or "):
                made("train_step", backend, precision=value)
        target = on_cuda(monkeypatch, "torch-cuda", eager)
    else:
        on_jax = get("jax").lowering_here()
        made("train_step", "jax", on_jax, precision=value)
        yield "bfloat16" if "bf16" in program(on_jax) else "float32"
        target = get("torch").lowering_here()
    step, batch = made("train_step", "torch", target, precision=value)
    yield from products(dispatched(step, *batch))
    player = collector(monkeypatch, precision=value)
    yield from products(dispatched(player.actor, player.states))


def accumulate(value, monkeypatch):
    """How many states go through the net at once."""
    seen = nets(monkeypatch)
    called("train_step", "torch", accumulate=value)
    yield from map(len, seen)
    target = get("jax").lowering_here()
    made("train_step", "jax", target, accumulate=value)
    sizes = re.findall(r"f32\[(\d+),8,8,32\] = conv_general_dilated", program(target))  # after the first convolution
    assert len(sizes) == 3 + 1  # and one on the way back
    yield from map(int, sizes)


def threads(value, monkeypatch):
    """How many of two threads an operation of the learner has."""
    import torch

    seen, before = [], torch.get_num_threads()
    spied(monkeypatch, torch.nn.functional, "conv2d", lambda *args: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        called("train_step", "torch", threads=value)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 9
    return seen


def compile_mode(value, monkeypatch):
    """What torch is told of the mode; a graph of CUDA is refused on other backends, and where gradients outlive it."""
    import torch

    if value == "reduce_overhead":
        for backend in ("torch", "torch-compile", "jax"):
            said = f"^compile_mode: got 'reduce_overhead' on {backend}, wanted torch-compile-cuda, or 'default'$"
            with pytest.raises(ValueError, match=said):
                made("train_step", backend, compile_mode=value)
    target, seen = on_cuda(monkeypatch, "torch-compile-cuda", compile_), []
    for knobs, got in (
        ({"accumulate": 4}, r"accumulate 4 and zero_grad 'none'"),
        ({"zero_grad": "fill"}, "accumulate 1 and zero_grad 'fill'"),
    ):
        if value == "reduce_overhead":
            with pytest.raises(
                ValueError, match=f"^compile_mode: got 'reduce_overhead' with {got}, wanted 1 and 'none'$"
            ):
                made("train_step", "torch", target, **{"zero_grad": "none", **knobs, "compile_mode": value})
    spied(monkeypatch, torch, "compile", lambda *args, mode=None, **options: seen.append(mode))
    made("train_step", "torch", target, zero_grad="none", compile_mode=value)
    return seen


def gpu_cache(value, monkeypatch):
    """How often an epoch has torch give back what it keeps of a GPU's memory; refused on other backends."""
    import torch

    from rl_impls.mario.loop import Pipeline

    if value == "cleared":
        for backend in ("torch", "jax"):
            with pytest.raises(ValueError, match=rf"^gpu_cache: got 'cleared' on {backend}, wanted torch on CUDA, or "):
                made("train_step", backend, gpu_cache=value)
    made("train_step", "torch", on_cuda(monkeypatch, "torch-cuda", eager), gpu_cache=value)
    seen = []
    monkeypatch.setattr(Pipeline, "ask", lambda self, number: None)
    monkeypatch.setattr(Pipeline, "take", lambda self: None)
    spied(monkeypatch, torch.cuda, "empty_cache", lambda: seen.append(None))
    loop = object.__new__(Pipeline)  # without updates, and without processes that play
    loop.spec, loop.knobs = {"updates": 0, "publish_every": 9}, Knobs(gpu_cache=value)
    for number in range(2):
        loop.epoch(number)
    return [len(seen)]


SEEN = {  # knob: where to look, and what each of its values shows there
    "transport": (transport, {kind: kind for kind in ("locked_queue", "local_queues", "shared_ring")}),
    "publication": (publication, {"pickled": (True, False), "shared": (False, True)}),
    "priority": (priority, {"equal": 0, "learner": 19}),
    "resize": (resize, {"dense": "Dense", "sparse": "Sparse"}),
    "push": (push, {"item": 4, "batch": 1}),
    "stacks": (stacks, {"item": ("gather_one_by_one", False), "indexed": ("gather", True)}),
    "tree": (tree, {"literal": "LiteralSumTree", "vectorised": "SumTree"}),
    "acting": (acting, {"each": 1, "together": ENVS}),
    "inference": (inference, RECORDING),
    "images": (images, {"float": ("torch.float32", True), "uint8": ("torch.uint8", False)}),
    "tensors": (tensors, {"new": False, "kept": True}),
    "memory_format": (memory_format, {"contiguous": False, "channels_last": True}),
    "relu": (relu, {"copy": False, "inplace": True}),
    "zero_grad": (zero_grad, {"fill": True, "none": False}),
    "optimizer": (optimizer, {"loop": (False, False), "default": (False, True), "fused": (True, True)}),
    "precision": (precision, {name: name for name in ("float32", "bfloat16", "float16")}),
    "accumulate": (accumulate, {1: BATCH, 4: BATCH // 4}),
    "threads": (threads, {"one": 1, "all": 2}),
    "compile_mode": (compile_mode, {"default": None, "reduce_overhead": "reduce-overhead"}),
    "gpu_cache": (gpu_cache, {"kept": 0, "cleared": 2}),
}
