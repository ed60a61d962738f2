"""mario: frames made small, transport, replay, the update, publication, and the pipeline of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Case, Inputs

ACTIONS, STACK = 15, 4
SIDES = (84, 128)
HEIGHT, WIDTH = 240, 256  # of a frame of the NES
EPISODE = 100  # steps
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LAZY = ("torch-compile", "jax", *CUDA)  # nothing is timed on them that is naive
LEARNING = {"learning_rate": 1e-4, "gamma": 0.99, "gradient_norm": 10.0}
PRIORITIES = {"alpha": 0.6, "beta": 0.4}


def shapes(side: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of the net, by the name of the layer.

    Args:
        side: pixels along a side of a frame.
    """
    last = places(side)[-1]
    return {
        "conv0": (8, 8, STACK, 32), "conv1": (4, 4, 32, 64), "conv2": (3, 3, 64, 64), "hidden": (last * 64, 512),
        "value": (512, ACTIONS),
    }  # fmt: skip


def places(side: int) -> list[int]:
    """Places in a state where the weights of each convolution are applied.

    Args:
        side: pixels along a side of a frame.
    """
    found = []
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        side = (side - kernel) // stride + 1
        found.append(side * side)
    return found


def products(side: int) -> dict[str, int]:
    """Multiplications of each layer for one state.

    Args:
        side: pixels along a side of a frame.
    """
    applied = dict(zip(("conv0", "conv1", "conv2"), places(side)))
    return {name: applied.get(name, 1) * int(np.prod(shape)) for name, shape in shapes(side).items()}


def net(rng: np.random.Generator, side: int, norm: str = "none") -> dict[str, Any]:
    """Weights of a net, biases, and what batch norm has.

    Args:
        rng: the generator of all that is drawn.
        side: pixels along a side of a frame.
        norm: ``batch`` or ``none``.
    """
    params = {}
    for name, shape in shapes(side).items():
        params[f"w_{name}"] = rng.normal(0, (2 / np.prod(shape[:-1])) ** 0.5, shape).astype(np.float32)
        params[f"b_{name}"] = rng.normal(0, 0.1, shape[-1]).astype(np.float32)
        if norm == "batch" and name.startswith("conv"):
            params[f"g_{name}"] = rng.uniform(0.5, 1.5, shape[-1]).astype(np.float32)
            params[f"m_{name}"] = rng.normal(0, 0.1, shape[-1]).astype(np.float32)
            params[f"v_{name}"] = rng.uniform(0.5, 1.5, shape[-1]).astype(np.float32)
    return params


def pictures(rng: np.random.Generator, *shape: int) -> Any:
    """Grey frames u8[...] of drawn tiles, 4 pixels along a side.

    Args:
        rng: the generator of all that is drawn.
        shape: of the array; the last two axes are the pixels of a frame.
    """
    *counts, rows, columns = shape
    tiles = rng.integers(256, size=(*counts, rows // 4, columns // 4), dtype=np.uint8)
    return tiles.repeat(4, axis=-2).repeat(4, axis=-1)


def preprocess_inputs(rng: np.random.Generator, batch: int, side: int) -> Inputs:
    """Frames as the NES draws them, of tiles of 8 pixels.

    Args:
        rng: the generator of all that is drawn.
        batch: frames of a call.
        side: pixels along a side of the result.
    """
    tiles = rng.integers(256, size=(batch, HEIGHT // 8, WIDTH // 8, 3), dtype=np.uint8)
    return Inputs({"side": side}, (tiles.repeat(8, axis=1).repeat(8, axis=2),))


def preprocess_bytes(batch: int, side: int) -> float:
    """Bytes of the frames read, and of those written.

    Args:
        batch: frames of a call.
        side: pixels along a side of the result.
    """
    return batch * (HEIGHT * WIDTH * 3.0 + side * side)


SENT = 2_000  # experiences of a call of transport


def transport_inputs(rng: np.random.Generator, collectors: int, side: int, frames: int) -> Inputs:
    """What is handed over: single frames, or stacks.

    Args:
        rng: the generator of all that is drawn.
        collectors: processes that hand over.
        side: pixels along a side of a frame.
        frames: of an experience.
    """
    shape = (side, side) if frames == 1 else (frames, side, side)
    spec = {"shape": shape, "collectors": collectors, "items": SENT, "queue": 10_000 // frames, "chunk": 1_000}
    return Inputs(spec, (np.int64(rng.integers(1_000)),))


def transport_bytes(collectors: int, side: int, frames: int) -> float:
    """Bytes of the frames, which are read and written twice: to what they go through, and to the replay.

    Args:
        collectors: processes that hand over.
        side: pixels along a side of a frame.
        frames: of an experience.
    """
    return SENT * 4.0 * frames * side * side


def push_inputs(rng: np.random.Generator, batch: int, side: int) -> Inputs:
    """Experiences of one collector, of episodes of a hundred steps.

    Args:
        rng: the generator of all that is drawn.
        batch: experiences of a call.
        side: pixels along a side of a frame.
    """
    times = np.arange(batch, dtype=np.int32) % EPISODE
    args = pictures(rng, batch, side, side), actions(rng, batch), normals(rng, batch), times == EPISODE - 1, times
    return Inputs({"side": side, "capacity": 10_000}, args)


def actions(rng: np.random.Generator, batch: int) -> Any:
    """Actions i32[B].

    Args:
        rng: the generator of all that is drawn.
        batch: how many, B.
    """
    return rng.integers(ACTIONS, size=batch).astype(np.int32)


def normals(rng: np.random.Generator, batch: int) -> Any:
    """Draws of a standard normal distribution, f32[B].

    Args:
        rng: the generator of all that is drawn.
        batch: how many, B.
    """
    return rng.standard_normal(batch).astype(np.float32)


def push_bytes(batch: int, side: int) -> float:
    """Bytes of the frames, read and written.

    Args:
        batch: experiences of a call.
        side: pixels along a side of a frame.
    """
    return batch * 2.0 * side * side


def replay_of(rng: np.random.Generator, buffer: int, side: int) -> dict[str, Any]:
    """A full replay.

    Args:
        rng: the generator of all that is drawn.
        buffer: experiences that it keeps.
        side: pixels along a side of a frame.
    """
    return {"side": side, "capacity": buffer, "stored": buffer, "seed": int(rng.integers(2**31))}


def sample_inputs(rng: np.random.Generator, batch: int, buffer: int, side: int) -> Inputs:
    """A full replay, and the seed by which is drawn from it.

    Args:
        rng: the generator of all that is drawn.
        batch: experiences that are drawn.
        buffer: experiences that are stored.
        side: pixels along a side of a frame.
    """
    return Inputs(replay_of(rng, buffer, side) | {"batch": batch}, (np.int64(rng.integers(2**31)),))


def per_sample_inputs(rng: np.random.Generator, batch: int, buffer: int, side: int) -> Inputs:
    """A full replay with priorities, and the numbers by which is drawn from it.

    Args:
        rng: the generator of all that is drawn.
        batch: experiences that are drawn.
        buffer: experiences that are stored.
        side: pixels along a side of a frame.
    """
    return Inputs(replay_of(rng, buffer, side) | PRIORITIES, (rng.random(batch, np.float32),))


def per_update_inputs(rng: np.random.Generator, batch: int, buffer: int, side: int) -> Inputs:
    """A full replay with priorities, some of its rows and their errors.

    Args:
        rng: the generator of all that is drawn.
        batch: experiences of a call.
        buffer: experiences that are stored.
        side: pixels along a side of a frame.
    """
    spec = replay_of(rng, buffer, side) | PRIORITIES
    return Inputs(spec, (rng.integers(buffer - 1, size=batch), normals(rng, batch)))


def sample_bytes(batch: int, buffer: int, side: int) -> float:
    """Bytes of the five frames of each experience, which both its states are made of, read and written.

    Args:
        batch: experiences that are drawn.
        buffer: experiences that are stored.
        side: pixels along a side of a frame.
    """
    return batch * 2.0 * (STACK + 1) * side * side


def train_inputs(rng: np.random.Generator, batch: int, side: int, norm: str, accumulate: int) -> Inputs:
    """A batch of experiences, and the weights of both nets.

    Args:
        rng: the generator of all that is drawn.
        batch: experiences of an update.
        side: pixels along a side of a frame.
        norm: ``batch`` or ``none``.
        accumulate: parts of the batch; of no account here.
    """
    shape = batch, STACK, side, side
    spec = {"side": side, "params": net(rng, side, norm), "target": net(rng, side, norm), **LEARNING}
    args = (
        pictures(rng, *shape), actions(rng, batch), normals(rng, batch), pictures(rng, *shape),
        (rng.random(batch) < 0.1).astype(np.float32), rng.uniform(0.5, 1, batch).astype(np.float32),
    )  # fmt: skip
    return Inputs(spec, args)


def train_flops(batch: int, side: int, norm: str = "none", accumulate: int = 1) -> float:
    """FLOPs of an update: the online net forward, back to its weights and back to its inputs, both nets on next states.

    Args:
        batch: experiences of an update.
        side: pixels along a side of a frame.
        norm: of no account.
        accumulate: of no account.
    """
    forward = sum(products(side).values())
    return 2.0 * batch * (5 * forward - products(side)["conv0"])


def publish_inputs(rng: np.random.Generator, collectors: int, side: int) -> Inputs:
    """Weights, and their version.

    Args:
        rng: the generator of all that is drawn.
        collectors: processes that get them.
        side: pixels along a side of a frame, which the hidden layer's weights go by.
    """
    return Inputs({"params": net(rng, side), "collectors": collectors}, (np.int64(rng.integers(1, 1_000)),))


def publish_bytes(collectors: int, side: int) -> float:
    """Bytes of the weights, read and written once, and once more by each process.

    Args:
        collectors: processes that get them.
        side: pixels along a side of a frame, which the hidden layer's weights go by.
    """
    weights = sum(int(np.prod(shape)) + shape[-1] for shape in shapes(side).values())
    return 2.0 * 4 * weights * (1 + collectors)


def pipeline_inputs(
    rng: np.random.Generator,
    collectors: int,
    envs: int,
    batch: int,
    updates: int,
    publish: int,
    prioritised: int,
    side: int = 84,
) -> Inputs:
    """The epochs from one publication to the next of a training of coinrun, with a net that has not learned.

    As many experiences are drawn as are played, as in the source, which states about 1,000 of both a second.

    Args:
        rng: the generator of all that is drawn.
        collectors: processes that play.
        envs: environments of each.
        batch: experiences of an update.
        updates: of an epoch.
        publish: epochs from one publication to the next.
        prioritised: 1 where experiences are drawn by their priorities.
        side: pixels along a side of a frame.
    """
    params = net(rng, side)
    spec = {
        "side": side, "params": params, "target": params, "collectors": collectors, "envs": envs, "game": "coinrun",
        "mode": "easy", "levels": 200, "start_level": 0, "capacity": 10_000, "seed": int(rng.integers(2**31)),
        "updates": updates, "batch": batch, "reuse": 1.0, "publish_every": publish, "target_every": 100,
        "epsilon": (0.1, 0.1), "explore": 1, "prioritised": bool(prioritised), "queue": 10_000, "chunk": 1_000,
        **PRIORITIES, **LEARNING,
    }  # fmt: skip
    return Inputs(spec, (np.arange(publish),))


def pipeline_items(
    collectors: int, envs: int, batch: int, updates: int, publish: int, prioritised: int, side: int = 84
) -> int:
    """Experiences of the epochs of a call.

    Args:
        collectors: processes that play.
        envs: environments of each.
        batch: experiences of an update.
        updates: of an epoch.
        publish: epochs of a call, after the last of which weights are published.
        prioritised: of no account.
        side: of no account.
    """
    streams = collectors * envs
    return publish * -(-batch * updates // streams) * streams


def pipeline_flops(
    collectors: int, envs: int, batch: int, updates: int, publish: int, prioritised: int, side: int = 84
) -> float:
    """FLOPs of a call: its updates, and of nine experiences in ten the net forward, to act.

    Args:
        collectors: processes that play.
        envs: environments of each.
        batch: experiences of an update.
        updates: of an epoch.
        publish: epochs of a call.
        prioritised: of no account.
        side: pixels along a side of a frame.
    """
    played = pipeline_items(collectors, envs, batch, updates, publish, prioritised)
    return publish * updates * train_flops(batch, side) + 0.9 * played * 2 * sum(products(side).values())


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
        "mario", "pipeline", pipeline_inputs, backends, "experiences", forms=forms, axes=axes, items=pipeline_items,
        flops=pipeline_flops, io="own", reference=None, cores="own", most_calls=1, **more,
        exclude=[plain] if "naive" in forms else [],
    )  # fmt: skip


CASES = (
    Case(
        "mario", "preprocess", preprocess_inputs, ("numpy",), "frames",
        forms=("full", "sparse"), tolerance=5e-3,  # one shade of grey
        axes={"batch": (1, 8), "side": SIDES}, items=lambda batch, side: batch, bytes=preprocess_bytes,
        gate=[dict(form="full", batch=1, side=84)], bench=[{}],
    ),
    Case(
        "mario", "transport", transport_inputs, ("numpy",), "experiences", forms=("naive", "local_queues", "full"),
        axes={"collectors": (1, 2, 4), "side": SIDES, "frames": (1, STACK)}, cores="own",
        items=lambda collectors, side, frames: SENT, bytes=transport_bytes, exclude=[dict(side=128, frames=STACK)],
        gate=[dict(form="full", collectors=2, side=84, frames=1)], bench=[dict(collectors=(1, 2), side=84, frames=1)],
    ),
    Case(
        "mario", "push", push_inputs, ("numpy",), "experiences", axes={"batch": (1_000, 2_000), "side": SIDES},
        items=lambda batch, side: batch, bytes=push_bytes,
        gate=[dict(form="full", batch=1_000, side=84)], bench=[dict(side=84)],
    ),
    Case(
        "mario", "sample", sample_inputs, ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 25_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch, bytes=sample_bytes,
        exclude=[dict(buffer=(25_000, 50_000), side=128)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)],
        bench=[dict(batch=256, buffer=50_000, side=84), dict(batch=256, buffer=10_000)],
    ),
    Case(
        "mario", "per_sample", per_sample_inputs, ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch, bytes=sample_bytes,
        exclude=[dict(side=128, batch=(512, 1_024)), dict(side=128, buffer=50_000)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)], bench=[dict(batch=256, buffer=50_000)],
    ),
    Case(
        "mario", "per_update", per_update_inputs, ("numpy",), "experiences",
        axes={"batch": (256, 512, 1_024), "buffer": (10_000, 50_000), "side": SIDES},
        items=lambda batch, buffer, side: batch,
        exclude=[dict(side=128, batch=(512, 1_024)), dict(side=128, buffer=50_000)],
        gate=[dict(form="full", batch=256, buffer=10_000, side=84)], bench=[dict(batch=256, buffer=50_000)],
    ),
    Case(
        "mario", "train_step", train_inputs, ("torch", "torch-compile", "jax", *CUDA), "updates", reference="torch",
        tolerance=1e-4,
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
        "mario", "train_step", train_inputs, ("torch", "torch-compile", *CUDA[:2]), "updates", reference=None,
        axes={"batch": (16, 256), "side": (84,), "norm": ("batch",), "accumulate": (1,)}, flops=train_flops,
        items=lambda batch, side, norm, accumulate: 1, exclude=[dict(form="naive", backend=LAZY[:1] + CUDA[:2])],
        bench=[dict(backend="torch", batch=256)],
    ),
    Case(
        "mario", "train_step", train_inputs, ("torch", "jax", *CUDA), "updates", reference=None, forms=("bfloat16",),
        axes={"batch": (16, 256, 512, 1_024, 2_048), "side": SIDES, "norm": ("none",), "accumulate": (1, 4)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
        exclude=[
            dict(accumulate=4, batch=(16, 256, 512, 1_024)), dict(side=128, batch=(512, 1_024, 2_048)),
            dict(side=128, accumulate=4),
        ],
        bench=[dict(backend="torch", batch=256, side=84)],
    ),
    Case(
        "mario", "train_step", train_inputs, ("torch-cuda", "torch-compile-cuda"), "updates", reference=None,
        forms=("float16",), axes={"batch": (256, 512, 1_024), "side": (84,), "norm": ("none",), "accumulate": (1,)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
    ),
    Case(
        "mario", "train_step", train_inputs, ("torch-compile-cuda",), "updates", reference=None,
        forms=("reduce_overhead",), axes={"batch": (256, 512), "side": (84,), "norm": ("none",), "accumulate": (1,)},
        items=lambda batch, side, norm, accumulate: 1, flops=train_flops,
    ),
    Case(
        "mario", "publish", publish_inputs, ("numpy",), "publications", axes={"collectors": (1, 2, 4), "side": SIDES},
        items=lambda collectors, side: 1, bytes=publish_bytes, cores="own",
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
