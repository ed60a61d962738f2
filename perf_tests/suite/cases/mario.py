"""mario: frames made small, transport, replay, the update, publication, and the pipeline of all of them."""

from __future__ import annotations

from typing import Any

from rl_impls.mario import problem

from ..case import Case, inputs_of

SIDES = (84, 128)
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LAZY = ("torch-compile", "jax", *CUDA)  # nothing is timed on them that is naive


def train_flops(batch: int, side: int, norm: str, accumulate: int) -> float:
    """Return the FLOPs of an update."""
    return problem.train_flops(batch, side)


def pipeline_items(
    collectors: int, envs: int, batch: int, updates: int, publish: int, prioritised: int, side: int = 84
) -> int:
    """Return the experiences of a call."""
    return problem.pipeline_items(collectors, envs, batch, updates, publish)


def pipeline_flops(
    collectors: int, envs: int, batch: int, updates: int, publish: int, prioritised: int, side: int = 84
) -> float:
    """Return the FLOPs of a call."""
    return problem.pipeline_flops(collectors, envs, batch, updates, publish, side)


Axes = dict[str, tuple[int | str, ...]]
ONE: Axes = {
    "collectors": (1,), "envs": (2,), "batch": (8,), "updates": (1,), "publish": (1,), "prioritised": (0,),
}  # fmt: skip
SOURCE: Axes = ONE | {"collectors": (2,), "envs": (1, 8), "batch": (256,), "updates": (8,)}  # before it was optimised
SHORT: Axes = SOURCE | {"batch": (64,), "updates": (4,)}  # the same, so that it is timed in a second
OPTIMISED: Axes = SOURCE | {"collectors": (4,), "envs": (1,), "batch": (512,), "updates": (16,), "publish": (5,)}


def pipelines(
    axes: Axes,
    backends: tuple[str, ...] = ("torch", "torch-compile", "torch-cuda", "torch-compile-cuda"),
    forms: tuple[str, ...] = ("naive", "local_queues", "full", "bfloat16"),
    **more: Any,
) -> Case:
    """Return some benchmarks of the pipeline.

    Args:
        axes: of them.
        backends: that learn.
        forms: named settings of the knobs.
        more: patterns of tiers, and a version.
    """
    plain = dict(form=("naive", "local_queues"), backend=("torch-compile", "torch-cuda", "torch-compile-cuda"))
    return Case(
        "mario", "pipeline", inputs_of(problem.pipeline), backends, "experiences", forms=forms, axes=axes,
        items=pipeline_items, flops=pipeline_flops, io="own", reference=None, cores="own", most_calls=1, **more,
        exclude=[plain] if "naive" in forms else [],
    )  # fmt: skip


CASES = (
    Case(
        "mario", "preprocess", inputs_of(problem.preprocess), ("numpy",), "frames",
        forms=("full", "sparse"), tolerance=5e-3,  # one shade of grey
        axes={"batch": (1, 8), "side": SIDES}, items=lambda batch, side: batch,
        bytes=lambda batch, side: problem.preprocess_bytes(batch, side),
        gate=[dict(form="full", batch=1, side=84)], bench=[{}],
    ),
    Case(
        "mario", "transport", inputs_of(problem.transport), ("numpy",), "experiences",
        forms=("naive", "local_queues", "full"),
        axes={"collectors": (1, 2, 4), "side": SIDES, "frames": (1, 4)}, cores="own",
        items=lambda **_: problem.SENT,
        bytes=lambda collectors, side, frames: problem.transport_bytes(side, frames),
        exclude=[dict(side=128, frames=4)],
        gate=[dict(form="full", collectors=2, side=84, frames=1)], bench=[dict(collectors=(1, 2), side=84, frames=1)],
    ),
    Case(
        "mario", "push", inputs_of(problem.push), ("numpy",), "experiences",
        axes={"batch": (1_000, 2_000), "side": SIDES}, items=lambda batch, side: batch,
        bytes=lambda batch, side: problem.push_bytes(batch, side),
        gate=[dict(form="full", batch=1_000, side=84)], bench=[dict(side=84)],
    ),
    Case(
        "mario", "sample", inputs_of(problem.sample), ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 25_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch, bytes=lambda batch, buffer, side: problem.sample_bytes(batch, side),
        exclude=[dict(buffer=(25_000, 50_000), side=128)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)],
        bench=[dict(batch=256, buffer=50_000, side=84), dict(batch=256, buffer=10_000)],
    ),
    Case(
        "mario", "per_sample", inputs_of(problem.per_sample), ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch, bytes=lambda batch, buffer, side: problem.sample_bytes(batch, side),
        exclude=[dict(side=128, batch=(512, 1_024)), dict(side=128, buffer=50_000)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)], bench=[dict(batch=256, buffer=50_000)],
    ),
    Case(
        "mario", "per_update", inputs_of(problem.per_update), ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch,
        exclude=[dict(side=128, batch=(512, 1_024)), dict(side=128, buffer=50_000)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)], bench=[dict(batch=256, buffer=50_000)],
    ),
    Case(
        "mario", "train_step", inputs_of(problem.train_step), ("torch", "torch-compile", "jax", *CUDA), "updates",
        reference="torch", tolerance=1e-4,
        axes={"batch": (16, 256, 512, 1_024, 2_048), "side": SIDES, "norm": ("none",), "accumulate": (1, 4)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
        exclude=[
            dict(form="naive", backend=LAZY), dict(accumulate=4, batch=(256, 512, 1_024)),
            dict(side=128, batch=(512, 1_024, 2_048)), dict(side=128, accumulate=4),
        ],
        gate=[dict(form="full", backend=("torch", "jax"), batch=16, side=84, norm="none", accumulate=1)],
        bench=[
            dict(backend="torch", batch=16, side=84, norm="none", accumulate=1),
            dict(backend="torch", batch=256, side=84, accumulate=1),
        ],
    ),
    Case(  # that rounding turns a ReLU on or off shows in the statistics of a batch: no two programs move alike
        "mario", "train_step", inputs_of(problem.train_step), ("torch", "torch-compile", *CUDA[:2]), "updates",
        reference=None, axes={"batch": (16, 256), "side": (84,), "norm": ("batch",), "accumulate": (1,)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
        exclude=[dict(form="naive", backend=LAZY[:1] + CUDA[:2])],
        bench=[dict(backend="torch", batch=256)],
    ),
    Case(
        "mario", "train_step", inputs_of(problem.train_step), ("torch", "jax", *CUDA), "updates", reference=None,
        forms=("bfloat16",),
        axes={"batch": (16, 256, 512, 1_024, 2_048), "side": SIDES, "norm": ("none",), "accumulate": (1, 4)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
        exclude=[
            dict(accumulate=4, batch=(16, 256, 512, 1_024)), dict(side=128, batch=(512, 1_024, 2_048)),
            dict(side=128, accumulate=4),
        ],
        bench=[dict(backend="torch", batch=256, side=84)],
    ),
    Case(
        "mario", "train_step", inputs_of(problem.train_step), ("torch-cuda", "torch-compile-cuda"), "updates",
        reference=None, forms=("float16",),
        axes={"batch": (256, 512, 1_024), "side": (84,), "norm": ("none",), "accumulate": (1,)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
    ),
    Case(
        "mario", "train_step", inputs_of(problem.train_step), ("torch-compile-cuda",), "updates", reference=None,
        forms=("reduce_overhead",),
        axes={"batch": (256, 512), "side": (84,), "norm": ("none",), "accumulate": (1,)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
    ),
    Case(
        "mario", "publish", inputs_of(problem.publish), ("numpy",), "publications",
        axes={"collectors": (1, 2, 4), "side": SIDES}, items=lambda collectors, side: 1,
        bytes=problem.publish_bytes, cores="own",
        gate=[dict(form="full", collectors=2, side=84)], bench=[dict(collectors=2, side=84)],
    ),
    pipelines(ONE, gate=[dict(form="full", backend="torch")]),
    pipelines(
        SHORT,
        bench=[dict(form="naive", backend="torch", envs=1), dict(form=("full", "bfloat16"), backend="torch", envs=8)],
    ),
    pipelines(SOURCE),
    pipelines(SOURCE, backends=("torch-cuda",), forms=("cache_cleared",)),
    pipelines(SOURCE, backends=("torch-compile-cuda",), forms=("reduce_overhead",)),
    pipelines(SOURCE | {"collectors": (1, 4)}),
    pipelines(SOURCE | {"updates": (16,)}),
    pipelines(SOURCE | {"publish": (3, 5)}, version=2),
    pipelines(SOURCE | {"prioritised": (1,)}),
    pipelines(SOURCE | {"envs": (8,), "side": (128,)}),
    pipelines(OPTIMISED, version=2),
)  # fmt: skip
