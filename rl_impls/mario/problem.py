"""Problems of mario: seeded inputs and costs of each op."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.config import read_yaml
from ..common.problem import Problem
from .memory import STACK
from .net import ACTIONS, KERNELS, STRIDES, init_net, shapes
from .senders import EPISODE

HEIGHT, WIDTH = 240, 256  # of a frame of the NES
SENT = 2_000  # experiences of a call of transport
EPSILON = 0.1  # share of random actions in the pipeline
LEARNING = {"learning_rate": 1e-4, "gamma": 0.99, "max_grad_norm": 10.0}
PRIORITIES = {"alpha": 0.6, "beta": 0.4}


def places(side: int) -> list[int]:
    """Return the number of output pixels of each convolution for one state."""
    found = []
    for kernel, stride in zip(KERNELS, STRIDES, strict=True):
        side = (side - kernel) // stride + 1
        found.append(side * side)
    return found


def layer_shapes(side: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each layer's weights, by layer."""
    return {name.removeprefix("w_"): shape for name, shape in shapes(side).items() if name.startswith("w_")}


def multiplications(side: int) -> dict[str, int]:
    """Return the multiplications of each layer for one state, by layer."""
    applied = dict(zip(("conv0", "conv1", "conv2"), places(side), strict=True))
    return {name: applied.get(name, 1) * math.prod(shape) for name, shape in layer_shapes(side).items()}


def net(rng: np.random.Generator, side: int, norm: str = "none") -> dict[str, Any]:
    """Return random weights and biases of the net; with ``norm="batch"``, those of batch norm too."""
    params = {}
    for name, shape in layer_shapes(side).items():
        params[f"w_{name}"] = rng.normal(0, (2 / math.prod(shape[:-1])) ** 0.5, shape).astype(np.float32)
        params[f"b_{name}"] = rng.normal(0, 0.1, shape[-1]).astype(np.float32)
        if norm == "batch" and name.startswith("conv"):
            params[f"g_{name}"] = rng.uniform(0.5, 1.5, shape[-1]).astype(np.float32)
            params[f"m_{name}"] = rng.normal(0, 0.1, shape[-1]).astype(np.float32)
            params[f"v_{name}"] = rng.uniform(0.5, 1.5, shape[-1]).astype(np.float32)
    return params


def config(rng: np.random.Generator, side: int, norm: str = "none") -> dict[str, Any]:
    """Return the configuration of a learner."""
    return {"side": side, "params": net(rng, side, norm), "target": net(rng, side, norm), **LEARNING}


def full_replay(rng: np.random.Generator, capacity: int, side: int) -> dict[str, Any]:
    """Return the configuration of a replay buffer that is full."""
    return {"side": side, "capacity": capacity, "stored": capacity, "seed": int(rng.integers(2**31))}


def pictures(rng: np.random.Generator, *shape: int) -> Any:
    """Return grey frames u8[..., rows, columns] of random tiles of 4 x 4 pixels."""
    *counts, rows, columns = shape
    tiles = rng.integers(256, size=(*counts, rows // 4, columns // 4), dtype=np.uint8)
    return tiles.repeat(4, axis=-2).repeat(4, axis=-1)


def nes_frames(rng: np.random.Generator, batch_size: int) -> Any:
    """Return frames u8[B, 240, 256, 3] of random tiles of 8 x 8 pixels, the size of the NES's tiles."""
    tiles = rng.integers(256, size=(batch_size, HEIGHT // 8, WIDTH // 8, 3), dtype=np.uint8)
    return tiles.repeat(8, axis=1).repeat(8, axis=2)


def actions(rng: np.random.Generator, batch_size: int) -> Any:
    """Return random actions i32[B]."""
    return rng.integers(ACTIONS, size=batch_size).astype(np.int32)


def normals(rng: np.random.Generator, batch_size: int) -> Any:
    """Return samples f32[B] of a standard normal distribution."""
    return rng.standard_normal(batch_size).astype(np.float32)


def training_batch(rng: np.random.Generator, batch_size: int, side: int) -> tuple[Any, ...]:
    """Return B experiences with their importance weights, the arguments of ``train_step``."""
    return (
        pictures(rng, batch_size, STACK, side, side),
        actions(rng, batch_size),
        normals(rng, batch_size),
        pictures(rng, batch_size, STACK, side, side),
        (rng.random(batch_size) < 0.1).astype(np.float32),
        rng.uniform(0.5, 1, batch_size).astype(np.float32),
    )


def sample_bytes(batch_size: int, side: int) -> float:
    """Return the bytes of the gathered frames; the two observations of an experience span five of them."""
    return batch_size * 2.0 * (STACK + 1) * side * side


def train_flops(batch_size: int, side: int) -> float:
    """Return the FLOPs of the online net forward and back, and of both nets forward on the next observations.

    No gradient flows to the inputs of the first layer.
    """
    layers = multiplications(side)
    return 2.0 * batch_size * (5 * sum(layers.values()) - layers["conv0"])


def pipeline_items(collectors: int, num_envs: int, batch_size: int, updates: int, publish: int) -> int:
    """Return the experiences per call: what the updates sample, rounded up to equal shares of the environments."""
    streams = collectors * num_envs
    return publish * math.ceil(batch_size * updates / streams) * streams


def pipeline_flops(
    collectors: int, num_envs: int, batch_size: int, updates: int, publish: int, side: int = 84
) -> float:
    """Return the FLOPs of the updates, and of the net forward for each action that is not random."""
    acted = (1 - EPSILON) * pipeline_items(collectors, num_envs, batch_size, updates, publish)
    return publish * updates * train_flops(batch_size, side) + acted * 2 * sum(multiplications(side).values())


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Return a problem of this workload."""
    return Problem("mario", op, config, args, **more)


def preprocess(seed: int, batch_size: int, side: int) -> Problem:
    """Convert colour frames of the NES to grey and downscale them."""
    rng = np.random.default_rng(seed)
    return problem(
        "preprocess", {"side": side}, nes_frames(rng, batch_size), unit="frames", items=batch_size,
        bytes=batch_size * (HEIGHT * WIDTH * 3.0 + side * side), tolerance=5e-3,  # one shade of grey
    )  # fmt: skip


def transport(seed: int, collectors: int, side: int, frames: int) -> Problem:
    """Send experiences of one frame, or of a stack of frames, from the collectors to the replay."""
    rng = np.random.default_rng(seed)
    shape = (side, side) if frames == 1 else (frames, side, side)
    found = {"shape": shape, "collectors": collectors, "items": SENT, "queue": 10_000 // frames, "chunk": 1_000}
    return problem(
        "transport", found, np.int64(rng.integers(1_000)), unit="experiences", items=SENT,
        bytes=SENT * 4.0 * frames * side * side,  # read and written twice: into the transport, and into the replay
    )  # fmt: skip


def push(seed: int, batch_size: int, side: int) -> Problem:
    """Store one collector's experiences, in episodes of a hundred steps, in a replay of 10,000."""
    rng = np.random.default_rng(seed)
    times = np.arange(batch_size, dtype=np.int32) % EPISODE
    return problem(
        "push", {"side": side, "capacity": 10_000}, pictures(rng, batch_size, side, side), actions(rng, batch_size),
        normals(rng, batch_size), times == EPISODE - 1, times, unit="experiences", items=batch_size,
        bytes=batch_size * 2.0 * side * side,  # copied once
    )  # fmt: skip


def sample(seed: int, batch_size: int, capacity: int, side: int) -> Problem:
    """Sample a batch uniformly from a full replay."""
    rng = np.random.default_rng(seed)
    found = {**full_replay(rng, capacity, side), "batch_size": batch_size}
    return problem(
        "sample", found, np.int64(rng.integers(2**31)), unit="experiences", items=batch_size,
        bytes=sample_bytes(batch_size, side),
    )  # fmt: skip


def per_sample(seed: int, batch_size: int, capacity: int, side: int) -> Problem:
    """Sample a batch from a full prioritised replay."""
    rng = np.random.default_rng(seed)
    found = {**full_replay(rng, capacity, side), **PRIORITIES}
    return problem(
        "per_sample", found, rng.random(batch_size, np.float32), unit="experiences", items=batch_size,
        bytes=sample_bytes(batch_size, side),
    )  # fmt: skip


def per_update(seed: int, batch_size: int, capacity: int, side: int) -> Problem:
    """Set the priorities of some rows of a full replay from new TD errors."""
    rng = np.random.default_rng(seed)
    found = {**full_replay(rng, capacity, side), **PRIORITIES}
    rows = rng.integers(capacity - 1, size=batch_size)
    return problem("per_update", found, rows, normals(rng, batch_size), unit="experiences", items=batch_size)


def train_step(seed: int, batch_size: int, side: int, norm: str = "none", accumulate: int = 1) -> Problem:
    """One update of a network with or without batch norm, with the batch in one part or several."""
    rng = np.random.default_rng(seed)
    why = "rounding turns a ReLU on or off, and the batch's statistics spread that to all weights"
    return problem(
        "train_step", config(rng, side, norm), *training_batch(rng, batch_size, side), unit="updates",
        flops=train_flops(batch_size, side), reference="torch", unreferenced=why if norm == "batch" else "",
        tolerance=1e-4, options={"accumulate": accumulate},
    )  # fmt: skip


def forward(seed: int, batch_size: int) -> Problem:
    """One forward pass on observations that are on the device."""
    rng = np.random.default_rng(seed)
    found = {"params": net(rng, 84), "obs": pictures(rng, batch_size, STACK, 84, 84)}
    flops = 2.0 * batch_size * sum(multiplications(84).values())
    return problem("forward", found, unit="states", items=batch_size, flops=flops, reference="torch", tolerance=1e-4)


def backward(seed: int, batch_size: int) -> Problem:
    """One backward pass: gradients of the weights, and of the inputs of all layers but the first."""
    ahead = forward(seed, batch_size)
    layers = multiplications(84)
    flops = 2.0 * batch_size * (2 * sum(layers.values()) - layers["conv0"])
    return replace(ahead, op="backward", flops=flops)


def store(seed: int) -> Problem:
    """Store a hundred copies of a hundred frames."""
    rng = np.random.default_rng(seed)
    why = "a form converts the frames or copies them as they are, which NumPy does exactly"
    return problem("store", {"copies": 100}, pictures(rng, 100, 84, 84), unit="frames", items=10_000, unreferenced=why)


def publish(seed: int, collectors: int, side: int) -> Problem:
    """Publish one version of the weights to the collectors."""
    rng, weights = np.random.default_rng(seed), sum(map(math.prod, shapes(side).values()))
    found = {"params": net(rng, side), "collectors": collectors}
    return problem(
        "publish", found, np.int64(rng.integers(1, 1_000)), unit="publications",
        bytes=2.0 * 4 * weights * (1 + collectors),  # read and written by the publisher and by each collector
    )  # fmt: skip


def pipeline(
    seed: int,
    collectors: int,
    num_envs: int,
    batch_size: int,
    updates: int,
    publish: int,
    prioritised: int,
    side: int = 84,
) -> Problem:
    """Training on coinrun from one publication of the weights to the next, ``publish`` epochs of ``updates`` each.

    The updates sample as many experiences as are played, as in the source document, which states about 1,000 of
    both per second.
    """
    rng = np.random.default_rng(seed)
    params = net(rng, side)
    found = {
        "side": side, "params": params, "target": params, "collectors": collectors, "num_envs": num_envs,
        "game": "coinrun", "mode": "easy", "levels": 200, "start_level": 0, "capacity": 10_000,
        "seed": int(rng.integers(2**31)), "updates": updates, "batch_size": batch_size, "reuse": 1.0,
        "publish_every": publish, "target_frequency": 100, "epsilon": (EPSILON, EPSILON), "explore": 1,
        "prioritised": bool(prioritised), "queue": 10_000, "chunk": 1_000, **PRIORITIES, **LEARNING,
    }  # fmt: skip
    return problem(
        "pipeline", found, np.arange(publish), io="own", max_calls=1, unit="experiences",
        items=pipeline_items(collectors, num_envs, batch_size, updates, publish),
        flops=pipeline_flops(collectors, num_envs, batch_size, updates, publish, side),
        unreferenced="rounding changes which actions are taken; the workload's own tests check the loop",
    )  # fmt: skip


def shipped_pipeline(seed: int, name: str) -> Problem:
    """One epoch of a shipped configuration, cut to one batch that passes through the network at once.

    It publishes no weights: ``original`` and ``optimised``, the two that are timed, publish after 24 and 320 of these
    batches. As after exploration, a tenth of the actions are random.
    """
    from .agent import Config

    values = dict(read_yaml(Path(__file__).parent / "configs" / f"{name}.yaml").values)
    del values["seed"]
    values |= {"updates": 1, "batch_size": values["batch_size"] // values["accumulate"], "accumulate": 1}
    rng, of = np.random.default_rng(seed), Config(**values)
    params = init_net(rng, of.side, of.norm == "batch", of.init)
    found = of.pipeline(int(rng.integers(2**31))) | {"params": params, "target": params}
    found |= {"epsilon": (EPSILON, EPSILON), "explore": 1}
    sizes = of.collectors, of.num_envs, of.batch_size, of.updates, 1
    return problem(
        "pipeline", found, np.array([0]), io="own", max_calls=1, unit="experiences",
        items=pipeline_items(*sizes), flops=pipeline_flops(*sizes, of.side),
        unreferenced="rounding changes which actions are taken; the workload's own tests check the loop",
    )  # fmt: skip
