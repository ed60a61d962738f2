"""mario: each stage of the experience pipeline (Double DQN with collector processes), and the whole pipeline."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rl_impls.mario import problem as mario

from .counters import gpu_peak, of_torch
from .grid import grid
from .ops import build

FORMS = ("naive", "full")
SIDES = (84, 128)
BATCHES = (16, 256, 512, 1024, 2048)
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LAZY = ("torch-compile", "jax", *CUDA)  # not timed in the naive form
ROUNDED = 1e-2  # relative to the largest value: rounding in bfloat16 and float16

# pipeline sizes
LEARNERS = ("torch", "torch-compile", "jax", "torch-cuda", "torch-compile-cuda", "jax-cuda")
FLOAT32 = ("naive", "local_queues", "full")
ONLY_TORCH = dict(form=("naive", "local_queues"), backend=LEARNERS[1:])
Sizes = dict[str, Any]
SMALLEST: Sizes = dict(
    collectors=(1,), num_envs=(2,), batch_size=(8,), updates=(1,), publish=(1,), prioritised=(0,)
)  # fmt: skip
SOURCE: Sizes = dict(  # the source's settings before its optimisations
    collectors=(2,), num_envs=(1, 8), batch_size=(256,), updates=(8,), publish=(1,), prioritised=(0,)
)  # fmt: skip
SHORT = SOURCE | dict(batch_size=(64,), updates=(4,))  # a smaller SOURCE that takes about a second
OPTIMISED = SOURCE | dict(collectors=(4,), num_envs=(1,), batch_size=(512,), updates=(16,), publish=(5,))
LARGE_FRAMES = SOURCE | dict(num_envs=(8,), side=(128,))
VARIED = SOURCE | dict(collectors=(1, 2, 4), updates=(8, 16), publish=(1, 3, 5), prioritised=(0, 1))
CHANGES: tuple[Sizes, ...] = (
    dict(collectors=(1, 4)), dict(updates=16), dict(publish=(3, 5)), dict(prioritised=1)
)  # fmt: skip
ONE_CHANGE = ("naive", "only_local", "only_transport", "only_threads", "only_precision")
UPDATES = 2  # per epoch of a pipeline that claims compare, half of SHORT
SEVERAL = [one | other for one, other in itertools.combinations(CHANGES, 2)]  # VARIED changes one setting at a time


@grid(
    form=("full", "sparse"), backend=("numpy",), batch_size=(1, 8), side=SIDES,
    gate=[dict(form="full", batch_size=1, side=84)], bench=[dict(side=84)],  # the source's size
)  # fmt: skip
def test_preprocess(bench, seed, form, backend, batch_size, side):
    op = build(mario.preprocess(seed, batch_size, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("naive", "local_queues", "full"), backend=("numpy",), collectors=(1, 2, 4), side=SIDES, frames=(1, 4),
    exclude=[dict(side=128, frames=4)],
    gate=[dict(form="full", collectors=2, side=84, frames=1)],
    bench=[dict(collectors=2, side=84, frames=1)],  # as in the pipeline, which stores a frame once
)  # fmt: skip
def test_transport(bench, seed, form, backend, collectors, side, frames):
    op = build(mario.transport(seed, collectors, side, frames), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy",), batch_size=(1000, 2000), side=SIDES,
    gate=[dict(form="full", batch_size=1000, side=84)], bench=[dict(side=84)],  # the source's size
)  # fmt: skip
def test_push(bench, seed, form, backend, batch_size, side):
    op = build(mario.push(seed, batch_size, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy",), batch_size=(256, 512, 1024), capacity=(10_000, 25_000, 50_000), side=SIDES,
    exclude=[dict(capacity=(25_000, 50_000), side=128)],
    gate=[dict(form="full", batch_size=256, capacity=10_000, side=84)],
    bench=[  # larger batches take longer in proportion
        dict(batch_size=256, capacity=50_000, side=84), dict(batch_size=256, capacity=10_000),
    ],
)  # fmt: skip
def test_sample(bench, seed, form, backend, batch_size, capacity, side):
    op = build(mario.sample(seed, batch_size, capacity, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy",), batch_size=(256, 512, 1024), capacity=(10_000, 50_000), side=SIDES,
    exclude=[dict(side=128, batch_size=(512, 1024)), dict(side=128, capacity=50_000)],
    gate=[dict(form="full", batch_size=256, capacity=10_000, side=84)],
    bench=[dict(batch_size=256, capacity=50_000)],  # the source's; larger batches take longer in proportion
)  # fmt: skip
def test_per_sample(bench, seed, form, backend, batch_size, capacity, side):
    op = build(mario.per_sample(seed, batch_size, capacity, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("numpy",), batch_size=(256, 512, 1024), capacity=(10_000, 50_000), side=SIDES,
    exclude=[dict(side=128, batch_size=(512, 1024)), dict(side=128, capacity=50_000)],
    gate=[dict(form="full", batch_size=256, capacity=10_000, side=84)],
    bench=[dict(batch_size=256, capacity=50_000)],  # the source's; larger batches take longer in proportion
)  # fmt: skip
def test_per_update(bench, seed, form, backend, batch_size, capacity, side):
    op = build(mario.per_update(seed, batch_size, capacity, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("torch", *LAZY), batch_size=BATCHES, side=SIDES, norm=("none", "batch"), accumulate=(1, 4),
    exclude=[
        dict(form="naive", backend=LAZY), dict(accumulate=4, batch_size=(256, 512, 1024)),
        dict(side=128, batch_size=(512, 1024, 2048)), dict(side=128, accumulate=4),
        dict(norm="batch", batch_size=(512, 1024, 2048)), dict(norm="batch", side=128),
        dict(norm="batch", accumulate=4),
    ],
    gate=[dict(form="full", backend=("torch", "jax"), batch_size=16, side=84, norm="none", accumulate=1)],
    bench=[
        dict(backend="torch", batch_size=16, side=84, norm="none", accumulate=1),
        dict(backend="torch", batch_size=256, side=84, accumulate=1),
        dict(form="full", backend=CUDA, batch_size=256, side=84, norm="none", accumulate=1),
    ],
)  # fmt: skip
def test_train_step(bench, seed, form, backend, batch_size, side, norm, accumulate):
    op = build(mario.train_step(seed, batch_size, side, norm, accumulate), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(
    form=("bfloat16", "float16"), backend=("torch", "jax", *CUDA), batch_size=BATCHES, side=SIDES, norm=("none",),
    accumulate=(1, 4),
    exclude=[
        dict(accumulate=4, batch_size=(16, 256, 512, 1024)),
        dict(side=128, batch_size=(512, 1024, 2048)), dict(side=128, accumulate=4),
        dict(form="float16", backend=("torch", "jax", "jax-cuda")), dict(form="float16", batch_size=(16, 2048)),
        dict(form="float16", side=128),
    ],
    bench=[
        dict(form="bfloat16", backend=("torch", "torch-cuda"), batch_size=256, side=84),
        dict(form="float16", backend="torch-cuda", batch_size=256),
    ],
)  # fmt: skip
def test_train_step_in_half_precision(bench, seed, form, backend, batch_size, side, norm, accumulate):
    op = build(mario.train_step(seed, batch_size, side, norm, accumulate), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=("reduce_overhead",), backend=("torch-compile-cuda",), batch_size=(256, 512), side=(84,), norm=("none",),
    accumulate=(1,), bench=[dict(batch_size=256)],
)  # fmt: skip
def test_train_step_as_cuda_graph(bench, seed, form, backend, batch_size, side, norm, accumulate):
    op = build(mario.train_step(seed, batch_size, side, norm, accumulate), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(
    form=FORMS, backend=("torch",), batch_size=(256,), tensors=("new", "kept"),
    exclude=[dict(form="naive", tensors="new"), dict(form="full", tensors="kept")],
)  # fmt: skip
def test_train_step_with(bench, seed, form, backend, batch_size, tensors):
    op = build(mario.train_step(seed, batch_size, 84), form, backend, tensors=tensors)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(
    form=("full", "bfloat16", "float16"), backend=("torch", "torch-cuda"), batch_size=(256,),
    exclude=[dict(form="float16", backend="torch")],
)  # fmt: skip
def test_train_step_memory(bench, seed, form, backend, batch_size):
    op = build(mario.train_step(seed, batch_size, 84), form, backend)
    memory = gpu_peak if backend == "torch-cuda" else of_torch
    bench(op.call, *op.args, **op.keywords | {"figures": lambda: memory(op)})


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(
    form=("naive", "only_precision", "full", "bfloat16"), backend=("torch", "torch-compile"), batch_size=(64,),
    exclude=[dict(form=("only_precision", "bfloat16"), backend="torch-compile")],
)  # fmt: skip
def test_forward(bench, seed, form, backend, batch_size):
    op = build(mario.forward(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(form=("naive", "only_precision", "full", "bfloat16", "float16"), backend=("torch-cuda",), batch_size=(256,))
def test_forward_on_gpu(bench, seed, form, backend, batch_size):
    op = build(mario.forward(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=FORMS, backend=("torch-compile-cuda",), batch_size=(256,), compile_mode=("reduce_overhead",))
def test_forward_compiled(bench, seed, form, backend, batch_size, compile_mode):
    op = build(mario.forward(seed, batch_size), form, backend, compile_mode=compile_mode)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(form=("naive", "only_precision", "full", "bfloat16"), backend=("torch",), batch_size=(64,))
def test_backward(bench, seed, form, backend, batch_size):
    op = build(mario.backward(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(tolerance=ROUNDED)
@grid(form=("naive", "only_precision", "full", "bfloat16", "float16"), backend=("torch-cuda",), batch_size=(256,))
def test_backward_on_gpu(bench, seed, form, backend, batch_size):
    op = build(mario.backward(seed, batch_size), form, backend)
    bench(op.call, *op.args, **op.keywords)


@grid(form=("naive", "only_images"), backend=("numpy",))
def test_store(bench, seed, form, backend):
    op = build(mario.store(seed), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=FORMS, backend=("numpy",), collectors=(1, 2, 4), side=SIDES,
    gate=[dict(form="full", collectors=2, side=84)], bench=[dict(collectors=2, side=84)],
)  # fmt: skip
def test_publish(bench, seed, form, backend, collectors, side):
    op = build(mario.publish(seed, collectors, side), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(form=FLOAT32, backend=LEARNERS, **SMALLEST, exclude=[ONLY_TORCH], gate=[dict(form="full", backend="torch")])
def test_pipeline(bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(form=("bfloat16",), backend=LEARNERS, **SMALLEST)
def test_pipeline_bfloat16(bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=FLOAT32, backend=LEARNERS, **SHORT, exclude=[ONLY_TORCH],
    bench=[
        dict(form="naive", backend="torch", num_envs=1),
        dict(form="full", backend=("torch", "torch-cuda"), num_envs=8),
    ],
)  # fmt: skip
def test_pipeline_short(bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(form=("bfloat16",), backend=LEARNERS, **SHORT, bench=[dict(backend="torch", num_envs=8)])
def test_pipeline_short_bfloat16(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised
):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(form=FLOAT32, backend=LEARNERS, **VARIED, exclude=[ONLY_TORCH, *SEVERAL])
def test_pipeline_of_source(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised
):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(form=("bfloat16",), backend=LEARNERS, **VARIED, exclude=SEVERAL)
def test_pipeline_of_source_bfloat16(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised
):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(form=FLOAT32, backend=LEARNERS, **LARGE_FRAMES, exclude=[ONLY_TORCH])
def test_pipeline_large_frames(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised, side
):
    op = build(
        mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised, side), form, backend
    )
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(form=("bfloat16",), backend=LEARNERS, **LARGE_FRAMES)
def test_pipeline_large_frames_bfloat16(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised, side
):
    op = build(
        mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised, side), form, backend
    )
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(form=FLOAT32, backend=LEARNERS, **OPTIMISED, exclude=[ONLY_TORCH])
def test_pipeline_optimised(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised
):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(form=("bfloat16",), backend=LEARNERS, **OPTIMISED)
def test_pipeline_optimised_bfloat16(
    bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised
):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


@pytest.mark.rlgauge(cores="all")
@grid(
    form=("cache_cleared", "reduce_overhead"), backend=("torch-cuda", "torch-compile-cuda"), **SOURCE,
    exclude=[
        dict(form="cache_cleared", backend="torch-compile-cuda"), dict(form="reduce_overhead", backend="torch-cuda"),
    ],
)  # fmt: skip
def test_pipeline_on_gpu(bench, seed, form, backend, collectors, num_envs, batch_size, updates, publish, prioritised):
    op = build(mario.pipeline(seed, collectors, num_envs, batch_size, updates, publish, prioritised), form, backend)
    bench(op.call, *op.args, **op.keywords)


def waits(op):
    """Return an epoch's figures, with the collectors' mean time per call of ``put``, and the lock waits of all feeders.

    ``feeder_wait`` is the seconds for which the queues' feeder threads wait for their lock, at least 1 µs. The
    collectors themselves do not wait meanwhile.
    """
    found = op.figures()
    found["seconds_per_put"] = found["putting"] / found["delivered"]
    found["feeder_wait"] = max(found["blocked_lock"], 1e-6)
    if "gpu_utilisation" in found:
        found["gpu_utilisation"] = max(found["gpu_utilisation"], 0.01)  # it is counted in whole percents
    return found


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(
    form=(*ONE_CHANGE, "local_queues", "full"), backend=("torch",), num_envs=(1, 8), publish=(1, 5),
    exclude=[
        dict(form=ONE_CHANGE, num_envs=8), dict(form=("local_queues", "full"), num_envs=1),
        dict(form=(*ONE_CHANGE[1:], "local_queues", "full"), publish=5),
    ],
)  # fmt: skip
def test_pipeline_waits(bench, seed, form, backend, num_envs, publish):
    op = build(mario.pipeline(seed, 2, num_envs, 64, UPDATES, publish, 0), form, backend)
    bench(op.call, *op.args, **op.keywords | {"figures": lambda: waits(op)})


@pytest.mark.rlgauge(cores="all")
@grid(form=("full",), backend=("torch",), num_envs=(8,), transport=("locked_queue",))
def test_pipeline_with(bench, seed, form, backend, num_envs, transport):
    op = build(mario.pipeline(seed, 2, num_envs, 64, UPDATES, 1, 0), form, backend, transport=transport)
    bench(op.call, *op.args, **op.keywords | {"figures": lambda: waits(op)})


@pytest.mark.rlgauge(cores="all", tolerance=ROUNDED)
@grid(
    form=("naive", "optimised"), backend=("torch", "torch-cuda", "torch-compile-cuda"),
    config=("original", "optimised"),
    exclude=[
        dict(form="naive", config="optimised"), dict(form="optimised", config="original"),
        dict(form="naive", backend="torch-compile-cuda"),
    ],
)  # fmt: skip
def test_pipeline_shipped(bench, seed, form, backend, config):
    op = build(mario.shipped_pipeline(seed, config), form, backend)
    bench(op.call, *op.args, **op.keywords | {"figures": lambda: waits(op)})
