"""snake: each part of a DQN loop, and the whole loop with single optimisations and with all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl_impls.snake import problem as snake
from rl_impls.snake.env import Geometry

from .counters import of_torch
from .grid import grid
from .ops import build

FORMS = ("naive", "full")
CPU = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LOOPING = ("torch", "jax", "torch-cuda", "jax-cuda")  # backends whose loops are in the bench tier
EAGER = ("torch", "torch-cuda")
LAZY = tuple(name for name in CPU + CUDA if name not in EAGER)  # never record gradients
JAX = ("jax", "jax-cuda")
ENVS = (1, 64, 1024)
BATCHES, FEWER = (32, 64, 128, 256), (32, 64, 256)
FREQUENCIES = (1, 4, 8, 16)
BEFORE = ("only_memory", "only_batches", "only_tensors", "only_inference", "only_acting")  # options outside an update
WITHIN = ("only_zero_grad", "only_relu", "only_optimizer", "only_parameters", "only_gradient", "only_threads")
ONLY = BEFORE + WITHIN

BY_AUTOGRAD = dict(gradient="autograd", parameters="separate")
OPTIONS = {  # overrides for which there is no form
    "by_autograd": BY_AUTOGRAD, "less_memory": dict(zero_grad="none", relu="inplace", memory="arrays"),
    "more_memory": BY_AUTOGRAD | dict(zero_grad="fill", relu="copy", memory="lists"),
    "bfloat16": BY_AUTOGRAD | dict(precision="bfloat16"), "float16": BY_AUTOGRAD | dict(precision="float16"),
    "tf32": dict(tf32=True), "cudnn": dict(cudnn_benchmark=True),
    "comprehension": dict(batches="comprehension"), "one_thread": dict(threads="one"), "moved": dict(tensors="moved"),
    "inference_mode": dict(inference="inference_mode"), "by_torch": dict(acting="torch"),
    "by_torch_with_grad": dict(acting="torch", inference="grad"),
}  # fmt: skip


def without(names: tuple[str, ...], left_out: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are not in ``left_out``."""
    return tuple(name for name in names if name not in left_out)


@grid(
    form=(*FORMS, "int8"), backend=CPU + CUDA, num_envs=ENVS,
    exclude=[dict(form="naive", backend=LAZY), dict(form="int8", backend=without(CPU + CUDA, ("onnx",)))],
    # 1,024 boards differ from 64 only in the amount of arithmetic
    bench=[dict(backend=("numpy", "torch", "torch-trace", "onnx", "jax", *CUDA), num_envs=(1, 64))],
)  # fmt: skip
def test_forward(bench, seed, form, backend, num_envs):
    op = build(snake.forward(seed, num_envs, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=CPU + CUDA, num_envs=ENVS,
    exclude=[dict(form="naive", backend=LAZY)],
    gate=[dict(form="full", backend=("torch", "jax"), num_envs=(1, 64))],
    bench=[dict(num_envs=1)],  # test_forward covers 64 boards
)  # fmt: skip
def test_act(bench, seed, form, backend, num_envs):
    op = build(snake.act(seed, num_envs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("torch",), num_envs=(1,), options=("inference_mode", "by_torch", "by_torch_with_grad"),
    exclude=[
        dict(form="naive", options=("by_torch", "by_torch_with_grad")), dict(form="full", options="inference_mode"),
    ],
)  # fmt: skip
def test_act_with(bench, seed, form, backend, num_envs, options):
    op = build(snake.act(seed, num_envs), form, backend, **OPTIONS[options])
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "vectorised", "full"), backend=("numpy", *JAX), num_envs=ENVS,
    exclude=[dict(form=("naive", "vectorised"), backend=JAX), dict(form="full", backend="numpy")],
    gate=[dict(backend="numpy", form="vectorised", num_envs=1024), dict(backend="jax", num_envs=1024)],
    bench=[dict(num_envs=(1, 1024))],  # 64 lies between
)  # fmt: skip
def test_env_step(bench, seed, form, backend, num_envs):
    op = build(snake.env_step(seed, num_envs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=FORMS, backend=("numpy",), bench=[{}])
def test_remember(bench, seed, form, backend):
    op = build(snake.remember(seed), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "only_memory", "only_batches", "full"), backend=("numpy", *LOOPING), batch_size=BATCHES,
    exclude=[dict(form=("only_memory", "only_batches"), backend=without(("numpy", *LOOPING), ("torch",)))],
    gate=[dict(form="full", backend="torch", batch_size=32)],
    bench=[dict(batch_size=256)],  # at smaller batches, the overhead of a call dominates
)  # fmt: skip
def test_sample(bench, seed, form, backend, batch_size):
    op = build(snake.sample(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=("torch",), batch_size=(32,), options=("comprehension",))
def test_sample_with(bench, seed, form, backend, batch_size, options):
    op = build(snake.sample(seed, batch_size), form, backend, **OPTIONS[options])
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=(*FORMS, *WITHIN, "bfloat16", "tf32"), backend=LEARNING, batch_size=BATCHES,
    exclude=[
        dict(form=WITHIN, backend=without(LEARNING, ("torch",))),
        dict(form="bfloat16", backend=without(LEARNING, ("torch", "jax"))), dict(form="bfloat16", batch_size=128),
        dict(form="tf32", backend=without(LEARNING, ("torch-cuda", "torch-compile-cuda"))),
    ],
    gate=[dict(form="full", backend=("torch", "jax"), batch_size=32)],
    bench=[  # 64 and 128 lie between; a single option matters most at the source's batch of 32
        dict(form="full", batch_size=(32, 256)), dict(form="naive", backend=LOOPING, batch_size=(32, 256)),
        dict(form=WITHIN, batch_size=32), dict(form=("bfloat16", "tf32"), batch_size=256),
    ],
)  # fmt: skip
def test_train_step(bench, seed, form, backend, batch_size):
    op = build(snake.train_step(seed, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=0.01)  # for half precision
@grid(
    form=FORMS, backend=EAGER, batch_size=(256,), options=("by_autograd", "bfloat16", "float16", "tf32", "cudnn"),
    exclude=[
        dict(form="naive", options=("tf32", "cudnn")), dict(backend="torch", options=("tf32", "cudnn")),
        dict(form="naive", options="by_autograd"), dict(form="naive", backend="torch-cuda", options="bfloat16"),
        dict(backend="torch", options="float16"),
    ],
)  # fmt: skip
def test_train_step_with(bench, seed, form, backend, batch_size, options):
    op = build(snake.train_step(seed, batch_size, form), form, backend, **OPTIONS[options])
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("torch",), batch_size=(32,), options=("none", "by_autograd", "less_memory", "more_memory"),
    exclude=[
        dict(form="naive", options=("by_autograd", "more_memory")), dict(form="full", options=("none", "less_memory")),
    ],
)  # fmt: skip
def test_train_step_memory(bench, seed, form, backend, batch_size, options):
    op = build(snake.train_step(seed, batch_size, form), form, backend, **OPTIONS.get(options, {}))
    bench(op.call, *op.args, **op.keywords | {"figures": lambda: of_torch(op)})


@grid(
    form=FORMS, backend=EAGER, batch_size=BATCHES, exclude=[dict(form="naive", batch_size=(128, 256))]
)  # fmt: skip
def test_train_step_transitions(bench, seed, form, backend, batch_size):
    op = build(snake.train_step(seed, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords | {"items": batch_size, "unit": "transitions"})


@pytest.mark.rlgauge(cores="all")
@grid(form=("ddp",), backend=("torch",), batch_size=FEWER, bench=[dict(batch_size=256)])
def test_train_step_ddp(bench, seed, form, backend, batch_size):
    op = build(snake.train_step(seed, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "plain", "full", "vectorised", "compiled", "tf32", *ONLY), backend=LEARNING, num_envs=ENVS,
    train_frequency=FREQUENCIES, batch_size=BATCHES,
    exclude=[
        dict(form=("naive", "plain"), backend=without(LEARNING, EAGER)),
        dict(form=("naive", "plain", "full", "tf32", *ONLY), num_envs=(64, 1024)), dict(form="vectorised", num_envs=1),
        dict(form="tf32", backend=without(LEARNING, ("torch-cuda", "torch-compile-cuda"))),
        dict(form="compiled", backend=without(LEARNING, JAX)),
        dict(form=ONLY, backend=without(LEARNING, ("torch",))), dict(form=ONLY, train_frequency=FREQUENCIES[1:]),
        dict(form=ONLY, batch_size=BATCHES[1:]),
    ],
    gate=[
        dict(form="full", backend="torch", num_envs=1, train_frequency=4, batch_size=32),
        dict(form="compiled", backend="jax", num_envs=1, train_frequency=4, batch_size=32),
    ],
    bench=[
        dict(backend=LOOPING, batch_size=32, num_envs=1, train_frequency=1),
        dict(backend=LOOPING, batch_size=32, num_envs=(64, 1024), train_frequency=4),
        dict(form="tf32", batch_size=64, train_frequency=4),  # the backend auto chooses this on a GPU
    ],
)  # fmt: skip
def test_collect_and_learn(bench, seed, form, backend, num_envs, train_frequency, batch_size):
    op = build(snake.collect_and_learn(seed, num_envs, train_frequency, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=EAGER, num_envs=(1,), train_frequency=(1,), batch_size=(32,),
    options=("by_autograd", "less_memory", "more_memory", "one_thread", "moved"),
    exclude=[
        dict(backend="torch-cuda", options=("by_autograd", "less_memory", "more_memory", "one_thread")),
        dict(form="naive", options=("by_autograd", "more_memory", "one_thread", "moved")),
        dict(form="full", options="less_memory"),
    ],
)  # fmt: skip
def test_collect_and_learn_with(bench, seed, form, backend, num_envs, train_frequency, batch_size, options):
    op = build(
        snake.collect_and_learn(seed, num_envs, train_frequency, batch_size, form), form, backend, **OPTIONS[options]
    )
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=("torch",), max_steps=(300,))
def test_collect_and_learn_short(bench, seed, form, backend, max_steps):
    problem = snake.collect_and_learn(seed, 1, 4, 32, form)
    config = {**problem.config, "geometry": Geometry(max_steps=max_steps)}
    op = build(replace(problem, config=config), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    # not 1,024 environments: a call is then one step, and the thread has nothing to play ahead
    form=("threaded",), backend=LEARNING, num_envs=(64,), train_frequency=FREQUENCIES, batch_size=BATCHES,
    bench=[dict(backend=LOOPING, batch_size=32, train_frequency=4)],
)  # fmt: skip
def test_collect_and_learn_threaded(bench, seed, form, backend, num_envs, train_frequency, batch_size):
    op = build(snake.collect_and_learn(seed, num_envs, train_frequency, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)
