"""treasurehunt: environments, IQN networks and whole epochs of many independent agents."""

from __future__ import annotations

import pytest

from rl_impls.treasurehunt import problem as treasurehunt

from .grid import Pattern, grid
from .ops import build

AGENTS, WORLDS = (1, 5, 16), (1, 16)
BATCHES = (16, 64, 256)
JAX = ("jax", "jax-cuda")
WORLD = ("numpy", *JAX)
LEARNING = ("torch", "torch-compile", "jax", "torch-cuda", "jax-cuda")
REST = ("torch-compile", "torch-cuda", "jax-cuda")  # timed only in some forms
TORCH = ("torch", "torch-compile", "torch-cuda")
FEWER = ("torch", "torch-cuda", *JAX)  # a plain run also times these with a single agent, or another batch size

NETS = ("naive", "one_by_one", "full")
NO_NETS: list[Pattern] = [  # the backend lacks the form, or one_by_one has a single agent
    dict(form="naive", backend=("torch-compile", *JAX)),
    dict(form="one_by_one", backend=("torch-compile", "torch-cuda")),
    dict(form="one_by_one", num_agents=1),
]
NO_REFERENCE: Pattern = dict(form=("naive", "one_by_one"), backend="numpy")

LOOPS = ("naive", "one_by_one", "full", "bfloat16", "interleaved", "compiled")
NO_LOOPS: list[Pattern] = [
    dict(form=("naive", "one_by_one"), backend="torch-compile"),
    dict(form=("bfloat16", "interleaved"), backend=REST),
    dict(form="compiled", backend=TORCH),
]
SHOWN_LOOPS: list[Pattern] = [
    dict(num_agents=5, num_worlds=1, form="naive", backend=("torch", "jax")),
    dict(num_agents=5, num_worlds=1, form=("one_by_one", "interleaved"), backend="torch"),  # JAX compiles for 3 s
    dict(num_agents=5, form=("full", "compiled"), num_worlds=16, backend=("torch", *JAX)),
    dict(num_agents=5, form=("full", "compiled"), num_worlds=1),
]


@grid(
    form=("naive", "full"), backend=WORLD, num_agents=AGENTS, num_worlds=WORLDS,
    exclude=[dict(form="naive", backend=JAX)],
    gate=[dict(form="full", backend="numpy", num_agents=5, num_worlds=1)],
    bench=[dict(num_agents=5)],  # cost grows with agents
)  # fmt: skip
def test_observe(bench, seed, form, backend, num_agents, num_worlds):
    op = build(treasurehunt.observe(seed, num_agents, num_worlds), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "full"), backend=WORLD, num_agents=AGENTS, num_worlds=WORLDS,
    exclude=[dict(form="naive", backend=JAX)], bench=[dict(num_agents=5)],  # as test_observe
)  # fmt: skip
def test_stack(bench, seed, form, backend, num_agents, num_worlds):
    op = build(treasurehunt.stack(seed, num_agents, num_worlds), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("naive", "full"), backend=WORLD, num_agents=AGENTS, exclude=[dict(form="naive", backend=JAX)],
    gate=[dict(form="full", backend="numpy", num_agents=5)], bench=[dict(num_agents=5)],  # as test_observe
)  # fmt: skip
def test_sample(bench, seed, form, backend, num_agents):
    op = build(treasurehunt.sample(seed, num_agents), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("naive", "full"), backend=WORLD, batch_size=BATCHES, exclude=[dict(form="naive", backend=JAX)])
def test_sample_batches(bench, seed, form, backend, batch_size):
    op = build(treasurehunt.sample(seed, 5, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=("numpy", *LEARNING), batch_size=BATCHES, bench=[dict(batch_size=64)])
def test_quantile_huber(bench, seed, form, backend, batch_size):
    op = build(treasurehunt.quantile_huber(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=NETS, backend=("numpy", *LEARNING), num_agents=AGENTS, batch_size=(64,), exclude=[*NO_NETS, NO_REFERENCE],
    bench=[dict(num_agents=5)],  # test_train_step covers a single agent
)  # fmt: skip
def test_forward(bench, seed, form, backend, num_agents, batch_size):
    op = build(treasurehunt.forward(seed, num_agents, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=NETS, backend=("numpy", *LEARNING), num_agents=AGENTS, num_worlds=(*WORLDS, 64, 256),
    exclude=[*NO_NETS, NO_REFERENCE, dict(num_agents=(1, 16), num_worlds=(64, 256))],
    gate=[dict(form="full", backend=("torch", "jax"), num_agents=5, num_worlds=1)],
    bench=[  # 64 and 256 worlds compute as test_forward does
        dict(form=("naive", "full"), num_agents=5, num_worlds=WORLDS), dict(num_agents=5, num_worlds=1),
    ],
)  # fmt: skip
def test_act(bench, seed, form, backend, num_agents, num_worlds):
    op = build(treasurehunt.act(seed, num_agents, num_worlds), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=(*NETS, "bfloat16"), backend=LEARNING, num_agents=AGENTS,
    exclude=[*NO_NETS, dict(form="bfloat16", backend=REST)],
    gate=[dict(form="full", backend=("torch", "jax"), num_agents=5)],
    bench=[dict(num_agents=5), dict(form="full", num_agents=1, backend=FEWER)],
)  # fmt: skip
def test_train_step(bench, seed, form, backend, num_agents):
    op = build(treasurehunt.train_step(seed, num_agents), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("one_by_one", "full"), backend=LEARNING, batch_size=BATCHES, exclude=[dict(form="one_by_one", backend=REST)],
    bench=[dict(form="full", backend=FEWER, batch_size=(16, 256))],  # test_train_step covers 64
)  # fmt: skip
def test_train_step_batches(bench, seed, form, backend, batch_size):
    op = build(treasurehunt.train_step(seed, 5, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("naive",), backend=("torch", "jax", "torch-cuda", "jax-cuda"))
def test_gradient(bench, seed, form, backend):
    op = build(treasurehunt.gradient(seed), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("full",), backend=WORLD)
def test_draw(bench, seed, form, backend):
    op = build(treasurehunt.draw(seed), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("full",), backend=("torch", "torch-compile", *JAX), num_agents=(1, 5), batch_size=(64,),
    bench=[dict(backend=("torch", "jax"), num_agents=5)],
)  # fmt: skip
def test_first_call(bench, seed, form, backend, num_agents, batch_size):
    op = build(treasurehunt.first_call(seed, num_agents, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=LOOPS, backend=LEARNING, num_agents=AGENTS, num_worlds=WORLDS, exclude=NO_LOOPS,
    gate=[
        dict(form="full", backend="torch", num_agents=5, num_worlds=1),
        dict(form="compiled", backend="jax", num_agents=5, num_worlds=1),
    ],
    bench=SHOWN_LOOPS,
)  # fmt: skip
def test_turn(bench, seed, form, backend, num_agents, num_worlds):
    op = build(treasurehunt.turn(seed, num_agents, num_worlds), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=(*LOOPS, "keyed", "processes"), backend=LEARNING, num_agents=AGENTS, num_worlds=WORLDS,
    exclude=[*NO_LOOPS, dict(form="keyed", backend=TORCH), dict(form="processes", backend=REST)],
    # not torch: its epoch consists of turns and an update, which are gated themselves
    gate=[dict(form="compiled", backend="jax", num_agents=5, num_worlds=1)],
    bench=[  # not several worlds, which test_turn covers; on JAX, whose epochs compile for 6 s, fewer forms
        dict(form=("full", "compiled", "keyed"), num_agents=5, num_worlds=1),
        dict(form="naive", backend=("torch", "jax"), num_agents=5, num_worlds=1),
        dict(form=("one_by_one", "bfloat16", "interleaved", "processes"), backend="torch", num_agents=5, num_worlds=1),
    ],
)  # fmt: skip
def test_epoch(bench, seed, form, backend, num_agents, num_worlds):
    op = build(treasurehunt.epoch(seed, num_agents, num_worlds, keyed=form == "keyed"), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("full", "processes"), backend=("torch", *JAX), num_agents=(2,),
    exclude=[dict(form="full", backend="torch"), dict(form="processes", backend=JAX)],
)  # fmt: skip
def test_epoch_of_few(bench, seed, form, backend, num_agents):
    op = build(treasurehunt.epoch(seed, num_agents, 1), form, backend)
    bench(op.call, *op.args, **op.keywords)
