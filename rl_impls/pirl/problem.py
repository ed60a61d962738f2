"""Benchmark problems of pirl: seeded inputs and the cost of each op in FLOPs and bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..common.problem import Problem
from ..params import count_mlp, init_mlp
from .physics import road

POINTS = 32  # of each kind: inside the safe set, at tau = 0, on the edge of the safe set
LARGEST = np.array([25, 5, 20, 0.9, 10, *0.01 * np.arange(2, 21, 2) ** 2, 5], np.float32)  # |values| in states()
STREAMS = {1: 1, 2: 1 + 5}  # by order: streams per point, one for the drift and one per noise component


def sizes(hidden: int) -> tuple[int, ...]:
    """Return the widths of the net's layers."""
    return (16, hidden, hidden, hidden, 25)


def states(rng: np.random.Generator, batch_size: int) -> Any:
    """Return vehicle states f32[B, 16] in the ranges of an episode."""
    low = [5, -5, -20, -0.9, -10]  # m/s, deg, deg/s, m, deg
    high = [25, 5, 20, 0.9, 10]
    features = road(rng.uniform(-0.02, 0.02, batch_size))  # of a curvature in 1/m
    tau = rng.uniform(0, 5, (batch_size, 1))
    return np.concatenate([rng.uniform(low, high, (batch_size, 5)), features, tau], axis=1).astype(np.float32)


def with_column(array: Any, column: int, values: Any) -> Any:
    """Set a column of f32[B, S] in place and return the array."""
    array[:, column] = values
    return array


def config(rng: np.random.Generator, hidden: int = 32) -> dict[str, Any]:
    """Return a configuration with the agent's default settings."""
    return {
        "params": init_mlp(rng, sizes(hidden)),
        "target": init_mlp(rng, sizes(hidden)),
        "dynamics": "vehicle",
        "pde_weight": 1e-4,
        "boundary_weight": 1.0,
        "learning_rate": 5e-4,
        "epsilon": 0.1,
    }


def learning(rng: np.random.Generator, hidden: int = 32) -> dict[str, Any]:
    """Return a configuration in which every term of the loss matters.

    The noise is strong, and the first layer is scaled so that no state of an episode saturates the net.
    """
    everything = config(rng, hidden)
    for part in ("params", "target"):
        everything[part]["w0"] *= 2 / LARGEST[:, None]
    return everything | {"sigma": 3.0, "pde_weight": 1.0}


def training_batch(rng: np.random.Generator, batch_size: int) -> tuple[Any, ...]:
    """Return B transitions and P points of each kind."""
    return (
        states(rng, batch_size),
        rng.integers(0, 25, batch_size).astype(np.int32),
        (rng.random(batch_size) < 0.1).astype(np.float32),
        states(rng, batch_size),
        (rng.random(batch_size) < 0.2).astype(np.float32),
        states(rng, POINTS),
        with_column(states(rng, POINTS), 15, 0.0),
        with_column(states(rng, POINTS), 3, rng.choice([-1.0, 1.0], POINTS)),
    )


def forward_flops(batch_size: int, hidden: int) -> float:
    """Return the FLOPs of a forward pass."""
    return 2.0 * count_mlp(sizes(hidden)) * batch_size


def forward_bytes(batch_size: int) -> float:
    """Return the bytes of states read and Q-values written."""
    return 4.0 * (16 + 25) * batch_size


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Create a problem of this workload."""
    return Problem("pirl", op, config, args, **more)


def forward(seed: int, batch_size: int, hidden: int = 32, io: str = "host") -> Problem:
    """Q-values of a batch of states, with arrays on the host or on the device."""
    rng = np.random.default_rng(seed)
    return problem(
        "forward", config(rng, hidden), states(rng, batch_size), io=io, unit="samples", items=batch_size,
        flops=forward_flops(batch_size, hidden), bytes=forward_bytes(batch_size),
    )  # fmt: skip


def act(seed: int, hidden: int = 32) -> Problem:
    """One state, with random numbers that lead to the greedy action."""
    rng = np.random.default_rng(seed)
    return problem(
        "act", config(rng, hidden), states(rng, 1), 0.5, 7, io="host", unit="actions", flops=forward_flops(1, hidden)
    )


def pde_loss(seed: int, order: int) -> Problem:
    """Residual at interior points; order 1 has the drift only, order 2 also the diffusion.

    The FLOPs are those of values and streams; in the last layer, streams need only the greedy action's row.
    """
    rng, weights = np.random.default_rng(seed), count_mlp(sizes(32))
    return problem(
        "pde_loss", learning(rng), states(rng, POINTS), unit="points", items=POINTS,
        flops=2.0 * (POINTS * weights + POINTS * STREAMS[order] * (weights - 32 * 25)), options={"order": order},
    )  # fmt: skip


def train_step(seed: int, batch_size: int, order: int, hidden: int = 32) -> Problem:
    """One update: the target net forward, the online net forward and back to weights and inputs.

    No gradient flows to the inputs of the first layer, and streams skip the last layer, see :func:`pde_loss`.
    """
    rng = np.random.default_rng(seed)
    net, first, last = count_mlp(sizes(hidden)), 16 * hidden, hidden * 25
    values, streams = batch_size + 3 * POINTS, POINTS * STREAMS[order]
    flops = 2.0 * (batch_size * net + values * (3 * net - first) + streams * (3 * (net - last) - first))
    return problem(
        "train_step", learning(rng, hidden), *training_batch(rng, batch_size), unit="updates", reference="torch",
        tolerance=1e-4, flops=flops, options={"order": order},
    )  # fmt: skip


def loss_and_backward(seed: int, batch_size: int, order: int) -> Problem:
    """The loss of one update and its gradients, without the optimiser."""
    return replace(train_step(seed, batch_size, order), op="loss_and_backward", unit="gradients")


def sync_target(seed: int, hidden: int) -> Problem:
    """Copy the online weights to the target network."""
    return problem("sync_target", config(np.random.default_rng(seed), hidden), unit="copies")


def sustained(seed: int, batch_size: int) -> Problem:
    """Sixteen different batches, each from and to host memory."""
    rng = np.random.default_rng(seed)
    return problem(
        "sustained", config(rng), states(rng, 16 * batch_size).reshape(16, batch_size, 16), io="own", unit="samples",
        items=16 * batch_size, flops=16 * forward_flops(batch_size, 32), bytes=16 * forward_bytes(batch_size),
    )  # fmt: skip


def serve(seed: int, clients: int) -> Problem:
    """Four requests from each client thread."""
    rng = np.random.default_rng(seed)
    found = config(rng) | {"clients": clients}
    return problem("serve", found, states(rng, 4 * clients), io="own", unit="requests", items=4 * clients)


def hybrid(seed: int, serve: str, sync_frequency: int) -> Problem:
    """Ten updates; the acting backend ``serve`` takes the weights every ``sync_frequency`` updates."""
    rng = np.random.default_rng(seed)
    found = learning(rng) | {"serve": serve, "sync_frequency": sync_frequency}
    return problem(
        "hybrid", found, *training_batch(rng, 256), io="own", unit="updates", items=10, reference="torch",
        tolerance=1e-4,
    )  # fmt: skip
