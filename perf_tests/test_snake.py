"""snake: each part of a DQN loop, and the whole loop with each optimisation alone and with all together."""

from __future__ import annotations

import pytest

from rl_impls.snake import problem as snake

from .grid import grid
from .ops import build

FORMS = ("naive", "full")
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LOOPING = ("torch", "jax", "torch-cuda", "jax-cuda")  # their loops are in the tier bench
EAGER = ("torch", "torch-cuda")
LAZY = tuple(name for name in LOWERED + CUDA if name not in EAGER)  # these never record gradients
JAX = ("jax", "jax-cuda")
ENVS = (1, 64, 1024)
BATCHES, FEWER = (32, 64, 128, 256), (32, 64, 256)
EVERY = (1, 4, 8, 16)
BEFORE = ("only_memory", "only_batches", "only_tensors", "only_inference", "only_acting")  # options outside an update
WITHIN = ("only_zero_grad", "only_relu", "only_optimizer", "only_parameters", "only_gradient", "only_threads")
ONLY = BEFORE + WITHIN


def without(names: tuple[str, ...], left_out: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are not left out."""
    return tuple(name for name in names if name not in left_out)


@grid(
    form=(*FORMS, "int8"), backend=LOWERED + CUDA, num_envs=ENVS,
    exclude=[dict(form="naive", backend=LAZY), dict(form="int8", backend=without(LOWERED + CUDA, ("onnx",)))],
    # 1,024 boards differ from 64 in arithmetic alone
    bench=[dict(backend=("numpy", "torch", "torch-trace", "onnx", "jax", *CUDA), num_envs=(1, 64))],
)  # fmt: skip
def test_forward(bench, seed, form, backend, num_envs):
    op = build(snake.forward(seed, num_envs, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LOWERED + CUDA, num_envs=ENVS,
    exclude=[dict(form="naive", backend=LAZY)],
    gate=[dict(form="full", backend=("torch", "jax"), num_envs=(1, 64))], bench=[dict(num_envs=(1, 64))],
)  # fmt: skip
def test_act(bench, seed, form, backend, num_envs):
    op = build(snake.act(seed, num_envs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "vectorised", "full"), backend=("numpy", *JAX), num_envs=ENVS,
    exclude=[dict(form=("naive", "vectorised"), backend=JAX), dict(form="full", backend="numpy")],
    gate=[dict(backend="numpy", form="vectorised", num_envs=1024), dict(backend="jax", num_envs=1024)],
    bench=[dict(num_envs=(1, 1024))],
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
    gate=[dict(form="full", backend="torch", batch_size=32)], bench=[dict(batch_size=256)],
)  # fmt: skip
def test_sample(bench, seed, form, backend, batch_size):
    op = build(snake.sample(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=(*FORMS, *WITHIN, "bfloat16", "tf32"), backend=LEARNING, batch_size=BATCHES,
    exclude=[
        dict(form=WITHIN, backend=without(LEARNING, ("torch",))),
        dict(form="bfloat16", backend=without(LEARNING, ("torch", "jax"))), dict(form="bfloat16", batch_size=128),
        dict(form="tf32", backend=without(LEARNING, ("torch-cuda", "torch-compile-cuda"))),
    ],
    gate=[dict(form="full", backend=("torch", "jax"), batch_size=32)],
    bench=[
        dict(form="full", batch_size=(32, 256)), dict(form="naive", backend=LOOPING, batch_size=(32, 256)),
        dict(form=WITHIN, batch_size=32), dict(form=("bfloat16", "tf32"), batch_size=256),
    ],
)  # fmt: skip
def test_train_step(bench, seed, form, backend, batch_size):
    op = build(snake.train_step(seed, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(form=("ddp",), backend=("torch",), batch_size=FEWER, bench=[dict(batch_size=256)])
def test_train_step_ddp(bench, seed, form, backend, batch_size):
    op = build(snake.train_step(seed, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "plain", "full", "vectorised", "compiled", *ONLY), backend=LEARNING, num_envs=ENVS, every=EVERY,
    batch_size=BATCHES,
    exclude=[
        dict(form=("naive", "plain"), backend=without(LEARNING, EAGER)),
        dict(form=("naive", "plain", "full", *ONLY), num_envs=(64, 1024)), dict(form="vectorised", num_envs=1),
        dict(form="compiled", backend=without(LEARNING, JAX)),
        dict(form=ONLY, backend=without(LEARNING, ("torch",))), dict(form=ONLY, every=EVERY[1:]),
        dict(form=ONLY, batch_size=BATCHES[1:]),
    ],
    gate=[
        dict(form="full", backend="torch", num_envs=1, every=4, batch_size=32),
        dict(form="compiled", backend="jax", num_envs=1, every=4, batch_size=32),
    ],
    bench=[
        dict(backend=LOOPING, batch_size=32, num_envs=1, every=1),
        dict(backend=LOOPING, batch_size=32, num_envs=(64, 1024), every=4),
    ],
)  # fmt: skip
def test_collect_and_learn(bench, seed, form, backend, num_envs, every, batch_size):
    op = build(snake.collect_and_learn(seed, num_envs, every, batch_size, form), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("threaded",), backend=LEARNING, num_envs=(64, 1024), every=EVERY, batch_size=BATCHES,
    bench=[dict(backend=LOOPING, batch_size=32, num_envs=64, every=4)],
)  # fmt: skip
def test_collect_and_learn_threaded(bench, seed, form, backend, num_envs, every, batch_size):
    op = build(snake.collect_and_learn(seed, num_envs, every, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)
