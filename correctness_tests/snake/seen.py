"""Where to look for what each knob switches."""

from __future__ import annotations

import functools
import threading

import numpy as np

from correctness_tests.observed import RECORDING, dispatched, keeps_gradients, program, recording, spied
from correctness_tests.snake.problem import problem
from rl_impls.backends import get
from rl_impls.lowering import Target
from rl_impls.snake.knobs import Knobs
from rl_impls.snake.problem import boards, collect_and_learn, start_state, transitions

BOARDS = 3
STEPS = 16


@functools.cache
def arguments():
    """What ops are built from, and what each takes."""
    everything, [batch] = problem(7)
    rng = np.random.default_rng(8)
    everything |= {"stored": transitions(rng, 100), "env_state": start_state(rng, BOARDS)}
    obs = boards(rng, BOARDS)
    acting = obs, np.zeros(BOARDS, bool), np.zeros(BOARDS, np.int32)
    rows = rng.choice(100, 32, replace=False)
    stepping = np.zeros((2, BOARDS), np.int32), np.zeros((2, BOARDS, 3), np.int32)
    return everything, {
        "forward": (obs,), "act": acting, "train_step": batch, "sample": (rows,), "remember": transitions(rng, 2),
        "env_step": stepping,
    }  # fmt: skip


def made(op, backend="torch", target=None, **knobs):
    """An op that is naive but for these knobs, and the arguments it takes."""
    everything, args = arguments()
    args = args[op]
    args = args if op in ("act", "sample") else tuple(map(get(backend).to_device, args))
    return get(backend).build("snake", op, everything, args, Knobs(**knobs), target), args


def called(op, **knobs):
    """What torch answers."""
    call, args = made(op, **knobs)
    return call(*args)


def operations(op, **knobs):
    """What torch dispatches in a call of an op."""
    call, args = made(op, **knobs)
    return dispatched(call, *args)


def traced(op, **knobs):
    """What JAX traces of an op, as text."""
    target = get("jax").lowering_here()
    made(op, "jax", target, **knobs)
    return program(target)


@functools.cache
def drawn(every, batch):
    """What a loop of one game starts from, and the draws of its first steps."""
    found = collect_and_learn(0, 1, every, batch)
    *per_step, rows = found.args
    return found.config, (*(array[:STEPS] for array in per_step), rows[: STEPS // every])


def looped(backend="torch", **knobs):
    """A loop that is naive but for these knobs, and the arguments it takes."""
    spec, args = drawn(knobs.get("every", 1), knobs.get("batch", 32))
    return get(backend).build("snake", "collect_and_learn", spec, args, Knobs(**knobs)), args


def played(backend="torch", **knobs):
    """What a loop returns."""
    loop, args = looped(backend, **knobs)
    try:
        return loop(*args)
    finally:
        loop.close()


def memory(value, monkeypatch):
    """As what a memory hands out boards."""
    from rl_impls.snake.memory import DequeMemory, RingMemory

    memories = [made("remember", "numpy", memory=value)[0].memory, looped(memory=value)[0].memory]
    for kind in (DequeMemory, RingMemory):
        spied(monkeypatch, kind, "columns", lambda self, rows: memories.append(self))
    for backend in ("numpy", "torch", "jax"):
        call, args = made("sample", backend, memory=value)
        call(*args)
    for found in dict.fromkeys(memories):
        boards_of, *_ = found.columns(np.arange(1))
        yield "array" if isinstance(boards_of, np.ndarray) else f"list of {type(boards_of[0]).__name__}"


def batches(value, monkeypatch):
    """Whether each field of a batch is an array before it is a tensor."""
    import torch

    seen = []
    spied(monkeypatch, torch, "as_tensor", lambda *args, **kwargs: seen.append("array"))
    called("sample", batches=value)
    yield bool(seen)
    seen.clear()
    played(batches=value)
    yield bool(seen)


def tensors(value, monkeypatch):
    """Whether a tensor is told its device when it is made."""
    import torch

    seen = []
    spied(monkeypatch, torch, "as_tensor", lambda *args, **kwargs: seen.extend(kwargs))
    for op in ("act", "sample"):
        called(op, tensors=value, batches="stacked")
        yield "device" in seen
        seen.clear()


def zero_grad(value, monkeypatch):
    """Whether gradients stay where they are."""
    step, batch = made("train_step", zero_grad=value)
    yield keeps_gradients(step, *batch)


def relu(value, monkeypatch):
    """The operation."""
    for op in ("forward", "act", "train_step"):
        text = operations(op, relu=value)
        yield "aten.relu_.default" in text
        yield "aten.relu.default" not in text


def inference(value, monkeypatch):
    """Whether autograd records while the net computes, and whether it is in inference mode."""
    from rl_impls.snake import _torch

    seen, (_, args) = [], arguments()
    spied(monkeypatch, _torch.Net, "forward", lambda *args: seen.append(recording()))
    for op in ("forward", "act"):
        called(op, inference=value)
    made("train_step", inference=value)[0].actor(args["act"][0])(*args["act"])
    assert len(seen) == 3
    return seen


def acting(value, monkeypatch):
    """Whether torch is asked for the moves."""
    yield bool(operations("act", acting=value))
    _, args = arguments()
    actor = made("train_step", acting=value)[0].actor(args["act"][0])
    yield bool(dispatched(actor, *args["act"]))


def optimizer(value, monkeypatch):
    """Whether Adam, and the norm of the gradient, take all arrays at once."""
    text = operations("train_step", optimizer=value)
    yield "_fused_adam_" in text, "_foreach_norm" in text


def parameters(value, monkeypatch):
    """How many arrays Adam updates."""
    yield len(made("train_step", parameters=value)[0].updated)


def gradient(value, monkeypatch):
    """Whether torch goes back by itself."""
    import torch

    seen = []
    spied(monkeypatch, torch.Tensor, "backward", lambda *args, **kwargs: seen.append("backward"))
    called("train_step", gradient=value)
    yield bool(seen)


def every(value, monkeypatch):
    """How many updates there are in sixteen steps."""
    *_, losses = played(every=value)
    yield len(losses)


def batch(value, monkeypatch):
    """How many transitions an update is given."""
    from rl_impls.snake import _torch

    seen = []
    spied(monkeypatch, _torch.TrainStep, "__call__", lambda self, *columns: seen.append(len(columns[0])))
    played(batch=value, every=16)
    return seen


def threads(value, monkeypatch):
    """How many of two threads an operation has."""
    import torch

    seen, before = [], torch.get_num_threads()
    spied(monkeypatch, torch.nn.Linear, "forward", lambda *args: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        for op in ("act", "train_step"):
            called(op, threads=value)
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 9
    return seen


def environment(value, monkeypatch):
    """What the games are."""
    yield type(made("env_step", "numpy", environment=value)[0].envs).__name__
    yield type(looped(environment=value)[0].environment).__name__


def collection(value, monkeypatch):
    """Whether the thread that learns plays."""
    from rl_impls.snake.vector_env import PlainEnvs

    seen = []
    spied(monkeypatch, PlainEnvs, "advance", lambda *args: seen.append(threading.current_thread()))
    played(collection=value)
    return [thread is threading.current_thread() for thread in seen]


def loop(value, monkeypatch):
    """Whether all steps are one program."""
    yield "program" in looped("jax", loop=value)[0].phases()


def precision(value, monkeypatch):
    """What products are of."""
    for op in ("act", "train_step"):
        text = operations(op, precision=value)
        yield "bfloat16" if "addmm.default torch.bfloat16" in text else "float32"
        yield "float32" if "addmm.default torch.float32" in text else "bfloat16"
    for op in ("forward", "act", "train_step"):
        yield "bfloat16" if "bf16" in traced(op, precision=value) else "float32"


def quantised(value, monkeypatch):
    """What is asked of the export to ONNX; that it is done, other tests see."""
    from rl_impls.snake import _torch

    everything, args = arguments()
    for op in ("forward", "act"):
        asked = []
        target = Target("onnx", lambda net, example, asked=asked, **options: asked.append(options), "cpu", "numpy")
        getattr(_torch, op)(everything, args[op], knobs=Knobs(quantised=value), target=target)
        yield asked[0].get("quantised", False)


def processes(value, monkeypatch):
    """Whether a second process is asked for; that it is there, other tests see."""
    from rl_impls.snake import _torch

    class Asked:
        """Stands in for what would start it."""

        def __init__(self, *args):
            pass

    monkeypatch.setattr(_torch, "DistributedTrainStep", Asked)
    yield isinstance(made("train_step", processes=value)[0], Asked)


def flag_of_cuda(knob, value, monkeypatch):
    """Whether a flag of torch is set; that it is where a net computes, other tests see."""
    import torch

    from rl_impls.snake._torch import cuda_flags

    with cuda_flags(Knobs(**{knob: value})):
        flags = {"tf32": torch.backends.cuda.matmul.allow_tf32, "cudnn_benchmark": torch.backends.cudnn.benchmark}
        yield flags[knob]


SEEN = {  # knob: where to look, and what each of its values shows there
    "memory": (memory, {"lists": "list of list", "arrays": "list of ndarray", "ring": "array"}),
    "batches": (batches, {"comprehension": False, "stacked": True}),
    "tensors": (tensors, {"moved": False, "direct": True}),
    "zero_grad": (zero_grad, {"fill": True, "none": False}),
    "relu": (relu, {"copy": False, "inplace": True}),
    "inference": (inference, RECORDING),
    "acting": (acting, {"torch": True, "numpy": False}),
    "optimizer": (optimizer, {"loop": (False, False), "default": (False, True), "fused": (True, True)}),
    "parameters": (parameters, {"separate": 6, "flat": 1}),
    "gradient": (gradient, {"autograd": True, "by_hand": False}),
    "every": (every, {1: 16, 4: 4, 8: 2, 16: 1}),
    "batch": (batch, {32: 32, 64: 64, 128: 128, 256: 256}),
    "threads": (threads, {"one": 1, "all": 2}),
    "environment": (environment, {"plain": "PlainEnvs", "vectorised": "VectorisedEnvs"}),
    "collection": (collection, {"inline": True, "thread": False}),
    "loop": (loop, {"python": False, "scan": True}),
    "precision": (precision, {"float32": "float32", "bfloat16": "bfloat16"}),
    "quantised": (quantised, {"none": False, "int8": True}),
    "processes": (processes, {1: False, 2: True}),
    "tf32": (functools.partial(flag_of_cuda, "tf32"), {False: False, True: True}),
    "cudnn_benchmark": (functools.partial(flag_of_cuda, "cudnn_benchmark"), {False: False, True: True}),
}
