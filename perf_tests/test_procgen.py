"""procgen: forward passes, advantages, updates and whole training loops of PPO, A2C, A3C and IMPALA on pixels."""

from __future__ import annotations

from typing import Any

import pytest

from rl_impls.procgen import problem as procgen

from .grid import grid
from .ops import build

FORMS = ("naive", "full", "bfloat16")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LAZY = ("torch-compile", "jax", *CUDA)  # have no naive form
ADVANTAGES = ("numpy", "torch", "jax", "torch-cuda", "jax-cuda")
ENVS, BATCHES = (16, 32, 64, 112), (64, 256, 1024)
GAMES = (
    "coinrun", "bigfish", "bossfight", "caveflyer", "chaser", "climber", "dodgeball", "fruitbot", "heist", "jumper",
    "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip

NO_FORM: list[dict[str, Any]] = [  # missing in updates and loops
    dict(form="naive", backend=LAZY),
    dict(form="bfloat16", backend="torch-compile"),
]
PLAYED: dict[str, Any] = dict(num_envs=(8, 32, 112), num_steps=(8, 16, 128))
NO_SIZE: list[dict[str, Any]] = [  # loops run at four of the nine sizes
    dict(num_envs=8, num_steps=(16, 128)),
    dict(num_envs=(32, 112), num_steps=8),
    dict(num_envs=112, num_steps=16),
]
NO_LOOP = [*NO_SIZE, *NO_FORM, dict(form="naive", num_envs=112)]
SMALL: dict[str, Any] = dict(form="full", backend="torch", num_envs=8, num_steps=8)  # less than 50 ms on one core
USUAL: dict[str, Any] = dict(backend="torch", num_envs=32, num_steps=16)
ON_GPU: dict[str, Any] = dict(form="full", backend=("torch-cuda", "jax-cuda"), num_envs=32, num_steps=16)


@grid(
    form=FORMS, backend=("numpy", *LEARNING), num_envs=ENVS, net=("nature", "residual"),
    exclude=[
        dict(form="naive", backend=("numpy", *LAZY)),
        dict(form="bfloat16", backend=("numpy", "torch-compile")),
        dict(net="residual", form=("naive", "bfloat16")),
        dict(net="residual", num_envs=112),
    ],
    gate=[dict(form="full", backend=("torch", "jax"), num_envs=32, net="nature")],
    bench=[
        dict(form=("naive", "full"), backend=("numpy", "torch", "jax"), num_envs=64, net="nature"),
        dict(form="bfloat16", backend="torch", num_envs=64, net="nature"),
        dict(backend="torch", num_envs=32, net="residual"),
        dict(form="full", backend=CUDA, num_envs=64, net="nature"),
    ],
)  # fmt: skip
def test_forward(bench, seed, form, backend, num_envs, net):
    op = build(procgen.forward(seed, num_envs, net), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "full"), backend=ADVANTAGES, num_envs=ENVS,
    exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
    gate=[dict(form="full", backend="numpy", num_envs=32)], bench=[dict(num_envs=32)],
)  # fmt: skip
def test_gae(bench, seed, form, backend, num_envs):
    op = build(procgen.gae(seed, num_envs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "full"), backend=ADVANTAGES, num_envs=ENVS,
    exclude=[dict(form="naive", backend=("jax", "torch-cuda", "jax-cuda"))],
    gate=[dict(form="full", backend="torch", num_envs=32)],
    bench=[
        dict(form="full", num_envs=32),
        dict(form="naive", backend="torch", num_envs=32),  # naive NumPy is timed in gae, by the same loop
    ],
)  # fmt: skip
def test_vtrace(bench, seed, form, backend, num_envs):
    op = build(procgen.vtrace(seed, num_envs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, batch_size=BATCHES, net=("nature", "residual"),
    exclude=[
        *NO_FORM,
        dict(net="residual", form="naive"),
        dict(net="residual", form="bfloat16", backend="jax"),
        dict(net="residual", batch_size=1024),
    ],
    gate=[dict(form="full", backend="torch", batch_size=64, net="nature")],
    bench=[
        dict(form="full", backend=("torch", "jax"), net="nature"),
        dict(form="naive", backend="torch", batch_size=(256, 1024), net="nature"),
        dict(form="bfloat16", backend="torch", batch_size=1024, net="nature"),
        dict(form="full", backend=CUDA, batch_size=(256, 1024), net="nature"),
        dict(form="bfloat16", backend="torch-cuda", batch_size=1024, net="nature"),
    ],
)  # fmt: skip
def test_ppo_update(bench, seed, form, backend, batch_size, net):
    op = build(procgen.ppo_update(seed, batch_size, net), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, batch_size=BATCHES, exclude=NO_FORM,
    bench=[
        dict(form="full", backend=("torch", "jax", *CUDA), batch_size=256),
        dict(form="naive", backend="torch", batch_size=256),
    ],
)  # fmt: skip
def test_a2c_update(bench, seed, form, backend, batch_size):
    op = build(procgen.a2c_update(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, batch_size=BATCHES, exclude=NO_FORM,
    gate=[dict(form="full", backend="torch", batch_size=64)],
    bench=[
        dict(form="full", backend=("torch", "jax"), batch_size=(64, 256)),
        dict(form=("naive", "bfloat16"), backend="torch", batch_size=256),
        dict(form="full", backend=CUDA, batch_size=256),
    ],
)  # fmt: skip
def test_impala_update(bench, seed, form, backend, batch_size):
    op = build(procgen.impala_update(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "full"), backend=("numpy",), num_envs=ENVS, game=GAMES,
    exclude=[dict(game=GAMES[1:], num_envs=(16, 32, 112)), dict(game=GAMES[1:], form="naive")],
    gate=[dict(form="full", num_envs=16, game="coinrun")],
    bench=[
        dict(form="full", num_envs=(16, 32, 64), game="coinrun"),
        dict(form="naive", num_envs=32, game="coinrun"),  # the gain hardly depends on the number of environments
    ],
)  # fmt: skip
def test_env_step(bench, seed, form, backend, num_envs, game):
    op = build(procgen.env_step(seed, num_envs, game), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=LEARNING, **PLAYED, epochs=(1, 4), exclude=NO_LOOP,
    gate=[dict(SMALL, epochs=1)], bench=[dict(USUAL, epochs=1), dict(ON_GPU, epochs=1)],
)  # fmt: skip
def test_ppo(bench, seed, form, backend, num_envs, num_steps, epochs):
    op = build(procgen.ppo(seed, num_envs, num_steps, epochs), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=FORMS, backend=LEARNING, **PLAYED, exclude=NO_LOOP, gate=[SMALL], bench=[USUAL, ON_GPU])
def test_a2c(bench, seed, form, backend, num_envs, num_steps):
    op = build(procgen.a2c(seed, num_envs, num_steps), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=FORMS, backend=LEARNING, **PLAYED, exclude=NO_LOOP, gate=[SMALL], bench=[USUAL, ON_GPU])
def test_impala(bench, seed, form, backend, num_envs, num_steps):
    op = build(procgen.impala(seed, num_envs, num_steps), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("full", "bfloat16"), backend=("torch",), **PLAYED, epochs=(1, 4), actors=(2, 4, 8), lag=(0, 1),
    exclude=NO_SIZE, bench=[dict(USUAL, form="full", epochs=1, actors=2, lag=0)],
)  # fmt: skip
def test_parallel_ppo(bench, seed, form, backend, num_envs, num_steps, epochs, actors, lag):
    op = build(procgen.parallel_ppo(seed, num_envs, num_steps, epochs, actors, lag), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("full", "bfloat16"), backend=("torch",), **PLAYED, actors=(2, 4, 8), exclude=NO_SIZE,
    bench=[dict(USUAL, form="full", actors=2)],
)  # fmt: skip
def test_a3c(bench, seed, form, backend, num_envs, num_steps, actors):
    op = build(procgen.a3c(seed, num_envs, num_steps, actors), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("full", "bfloat16"), backend=("torch",), **PLAYED, actors=(2, 4, 8), lag=(0, 1), exclude=NO_SIZE,
    bench=[dict(USUAL, form="full", actors=2, lag=0)],
)  # fmt: skip
def test_parallel_impala(bench, seed, form, backend, num_envs, num_steps, actors, lag):
    op = build(procgen.parallel_impala(seed, num_envs, num_steps, actors, lag), form, backend)
    bench(op.call, *op.args, **op.keywords)
