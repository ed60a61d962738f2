"""pirl: the physics-informed Q-agent, inference over nine batch sizes and training with and without the diffusion."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..case import Case, Inputs
from ..front import ByBackend, Front

BATCHES = (1, 8, 16, 32, 64, 128, 512, 1024, 2048)
POINTS = 32  # of each kind: inside, at tau = 0, on the edge of the safe set
LARGEST = np.array([25, 5, 20, 0.9, 10, *0.01 * np.arange(2, 21, 2) ** 2, 5], np.float32)  # each number of a state
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax", "neuron")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
EAGER = ("torch", "torch-cuda")


def net(rng: np.random.Generator, hidden: int) -> dict[str, Any]:
    """Weights of 16-h-h-h-25.

    Args:
        rng: the generator of all that is drawn.
        hidden: width h of each of the three hidden layers.
    """
    sizes = (16, hidden, hidden, hidden, 25)
    params = {}
    for k, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        params[f"w{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, (rows, columns)).astype(np.float32)
        params[f"b{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, columns).astype(np.float32)
    return params


def multiplications(hidden: int) -> int:
    """Weights of the net, and so multiplications for one state.

    Args:
        hidden: width h of each of the three hidden layers.
    """
    return 16 * hidden + 2 * hidden**2 + hidden * 25


def states(rng: np.random.Generator, batch: int) -> Any:
    """Vehicle states f32[B, 16] in the ranges of an episode.

    Args:
        rng: the generator of all that is drawn.
        batch: states B.
    """
    low = [5, -5, -20, -0.9, -10]  # m/s, deg, deg/s, m, deg
    high = [25, 5, 20, 0.9, 10]
    curvature = rng.uniform(-0.02, 0.02, (batch, 1))
    features = curvature * np.arange(2.0, 21.0, 2.0) ** 2 / 2
    tau = rng.uniform(0, 5, (batch, 1))
    return np.concatenate([rng.uniform(low, high, (batch, 5)), features, tau], axis=1).astype(np.float32)


def with_column(array: Any, column: int, values: Any) -> Any:
    """Return ``array`` with one column replaced.

    Args:
        array: f32[B, S], changed in place.
        column: which one.
        values: what it is to hold: f32[B], or one number.
    """
    array[:, column] = values
    return array


def spec(rng: np.random.Generator, hidden: int = 32) -> dict[str, Any]:
    """Everything an op is built from.

    Args:
        rng: the generator of all that is drawn.
        hidden: width h of each of the three hidden layers.
    """
    return {
        "params": net(rng, hidden),
        "target": net(rng, hidden),
        "dynamics": "vehicle",
        "pde_weight": 1e-4,
        "boundary_weight": 1.0,
        "learning_rate": 5e-4,
        "epsilon": 0.1,
    }


def learning(rng: np.random.Generator, hidden: int = 32) -> dict[str, Any]:
    """The same for a loss to which each term adds: strong noise, and nets that no state of an episode saturates.

    Args:
        rng: the generator of all that is drawn.
        hidden: width h of each of the three hidden layers.
    """
    everything = spec(rng, hidden)
    for part in ("params", "target"):
        everything[part]["w0"] *= 2 / LARGEST[:, None]
    return everything | {"sigma": 3.0, "pde_weight": 1.0}


def forward_inputs(rng: np.random.Generator, batch: int, hidden: int, io: str) -> Inputs:
    """A batch of states.

    Args:
        rng: the generator of all that is drawn.
        batch: states B.
        hidden: width h of each of the three hidden layers.
        io: where the states come from, which changes nothing here.
    """
    return Inputs(spec(rng, hidden), (states(rng, batch),))


def act_inputs(rng: np.random.Generator, hidden: int = 32) -> Inputs:
    """One state and a draw that takes the greedy branch.

    Args:
        rng: the generator of all that is drawn.
        hidden: width h of each of the three hidden layers.
    """
    return Inputs(spec(rng, hidden), (states(rng, 1), 0.5, 7))


def pde_inputs(rng: np.random.Generator, order: int) -> Inputs:
    """Points inside.

    Args:
        rng: the generator of all that is drawn.
        order: 1 for the drift of the PDE alone, 2 with the diffusion.
    """
    return Inputs(learning(rng), (states(rng, POINTS),))


def training_batch(rng: np.random.Generator, batch: int) -> tuple[Any, ...]:
    """Transitions, and points of each kind.

    Args:
        rng: the generator of all that is drawn.
        batch: states B.
    """
    return (
        states(rng, batch),
        rng.integers(0, 25, batch).astype(np.int32),
        (rng.random(batch) < 0.1).astype(np.float32),
        states(rng, batch),
        (rng.random(batch) < 0.2).astype(np.float32),
        states(rng, POINTS),
        with_column(states(rng, POINTS), 15, 0.0),
        with_column(states(rng, POINTS), 3, rng.choice([-1.0, 1.0], POINTS)),
    )


def train_inputs(rng: np.random.Generator, batch: int, order: int, hidden: int = 32) -> Inputs:
    """A training batch.

    Args:
        rng: the generator of all that is drawn.
        batch: states B.
        order: 1 for the drift of the PDE alone, 2 with the diffusion.
        hidden: width h of each of the three hidden layers.
    """
    return Inputs(learning(rng, hidden), training_batch(rng, batch))


def sync_inputs(rng: np.random.Generator, hidden: int) -> Inputs:
    """Weights alone.

    Args:
        rng: the generator of all that is drawn.
        hidden: width h of each of the three hidden layers.
    """
    return Inputs(spec(rng, hidden))


def sustained_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """Sixteen different batches.

    Args:
        rng: the generator of all that is drawn.
        batch: states B.
    """
    return Inputs(spec(rng), (states(rng, 16 * batch).reshape(16, batch, 16),))


def serve_inputs(rng: np.random.Generator, clients: int) -> Inputs:
    """Four requests from each client.

    Args:
        rng: the generator of all that is drawn.
        clients: how many ask at once.
    """
    return Inputs({**spec(rng), "clients": clients}, (states(rng, 4 * clients),))


def hybrid_inputs(rng: np.random.Generator, serve: str, every: int) -> Inputs:
    """A training batch, the inference backend and how often it gets new weights.

    Args:
        rng: the generator of all that is drawn.
        serve: name of the backend that answers.
        every: updates after which it gets new weights.
    """
    return Inputs({**learning(rng), "serve": serve, "every": every}, training_batch(rng, 256))


STREAMS = {1: 1, 2: 1 + 5}  # by the order: what a point carries through the net, one for the drift, one for each noise


def forward_flops(batch: int, hidden: int, **_: Any) -> float:
    """FLOPs of a batch of states.

    Args:
        batch: states B.
        hidden: width h of each of the three hidden layers.
    """
    return 2.0 * multiplications(hidden) * batch


def forward_bytes(batch: int, **_: Any) -> float:
    """Bytes of the states read and the Q-values written.

    Args:
        batch: states B.
    """
    return 4.0 * (16 + 25) * batch


def act_flops(hidden: int = 32) -> float:
    """FLOPs of one state.

    Args:
        hidden: width h of each of the three hidden layers.
    """
    return forward_flops(1, hidden)


def sustained_flops(batch: int) -> float:
    """FLOPs of sixteen batches.

    Args:
        batch: states B.
    """
    return 16 * forward_flops(batch, 32)


def sustained_bytes(batch: int) -> float:
    """Bytes of sixteen batches.

    Args:
        batch: states B.
    """
    return 16 * forward_bytes(batch)


def pde_flops(order: int) -> float:
    """FLOPs of the values, and of the streams in all but the last layer, of which they need the greedy action's row.

    Args:
        order: 1 for the drift of the PDE alone, 2 with the diffusion.
    """
    values, streams = POINTS, POINTS * STREAMS[order]
    return 2.0 * (values * multiplications(32) + streams * (multiplications(32) - 32 * 25))


def train_flops(batch: int, order: int, hidden: int = 32) -> float:
    """FLOPs of the target net forward, and of the online net forward, back to its weights and back to its inputs.

    Nothing goes back to the inputs of the first layer; streams pass all but the last layer, see ``pde_flops``.

    Args:
        batch: states B.
        order: 1 for the drift of the PDE alone, 2 with the diffusion.
        hidden: width h of each of the three hidden layers.
    """
    net, first, last = multiplications(hidden), 16 * hidden, hidden * 25
    values, streams = batch + 3 * POINTS, POINTS * STREAMS[order]
    return 2.0 * (batch * net + values * (3 * net - first) + streams * (3 * (net - last) - first))


COMPILED = ("torch-compile", "torch-compile-cuda")
CPU = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
GATED = ("numpy", "torch", "torch-trace", "onnx", "jax")
LAZY = tuple(name for name in LOWERED + CUDA if name not in EAGER)  # where autograd cannot be left on
FEWER = (1, 32, 128, 512, 1024, 2048)

CASES = (
    Case(
        "pirl", "forward", forward_inputs, LOWERED + CUDA, "samples",
        axes={"batch": BATCHES, "io": ("host", "device"), "hidden": (32, 128, 512)},
        items=lambda batch, **_: batch,
        flops=forward_flops, bytes=forward_bytes,
        exclude=[dict(form="naive", backend=LAZY), dict(io="device", backend=("numpy", "onnx", "neuron"))],
        gate=[
            dict(form="full", hidden=32, io="host", backend="torch-compile", batch=32),
            dict(form="full", hidden=32, io="host", backend=GATED, batch=(1, 32, 2048)),
        ],
        bench=[
            dict(form="full", hidden=32, io="host", backend=CPU),
            dict(form="full", hidden=32, io="host", batch=FEWER),
            dict(form="naive", hidden=32, io="host", batch=(1, 32, 2048)),
            dict(hidden=32, io="device", backend=("torch", "torch-trace", "jax"), batch=(1, 2048)),
            dict(form="full", io="host", backend=("numpy", "torch", "onnx", "jax"), batch=(32, 2048)),
        ],
    ),
    Case(
        "pirl", "act", act_inputs, LOWERED + CUDA, "actions", forms=("full",), io="host",
        items=lambda: 1, flops=act_flops, bench=[{}],
    ),
    Case(
        "pirl", "act", act_inputs, LOWERED + CUDA, "actions", forms=("full",), io="host",
        axes={"hidden": (128, 512)}, items=lambda hidden: 1, flops=act_flops,
    ),
    Case(
        "pirl", "pde_loss", pde_inputs, ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "jax-cuda"), "points",
        axes={"order": (1, 2)}, items=lambda order: POINTS, flops=pde_flops, version=2,
        # NumPy has the reference alone; nested differentiation cannot be compiled
        exclude=[dict(form="full", backend="numpy"), dict(form="naive", backend="torch-compile")],
        gate=[dict(form="full", backend=("torch", "jax"), order=2)], bench=[{}],
    ),
    Case(
        "pirl", "train_step", train_inputs, LEARNING, "updates", reference="torch", version=3,
        axes={"batch": (32, 256, 1024), "order": (1, 2)},
        items=lambda batch, order: 1, flops=train_flops, tolerance=1e-4,
        exclude=[dict(form="naive", backend=COMPILED)],
        gate=[
            dict(form="full", backend=("torch", "torch-compile", "jax"), batch=256, order=2),
            dict(form="naive", backend="torch", batch=256, order=2),
        ],
        bench=[dict(batch=256)],
    ),
    Case(
        "pirl", "train_step", train_inputs, LEARNING, "updates", reference="torch", version=2,
        axes={"batch": (256,), "order": (1, 2), "hidden": (128, 512)},
        items=lambda batch, order, hidden: 1, flops=train_flops, tolerance=1e-4,
        exclude=[dict(form="naive", backend=COMPILED)],
    ),
    Case(
        "pirl", "sync_target", sync_inputs, ("numpy", "torch", "jax"), "copies",
        axes={"hidden": (32, 512)}, items=lambda hidden: 1,
        exclude=[dict(form="naive", backend=("numpy", "jax"))], bench=[{}],
    ),
    Case(
        "pirl", "sustained", sustained_inputs, LOWERED + CUDA, "samples", forms=("full",), io="own",
        axes={"batch": (512, 1024, 2048)}, items=lambda batch: 16 * batch,
        flops=sustained_flops, bytes=sustained_bytes, bench=[dict(batch=2048)],
    ),
    Case(
        "pirl", "serve", serve_inputs, LOWERED + CUDA, "requests", io="own", cores="own",
        axes={"clients": (1, 32)}, items=lambda clients: 4 * clients,
        exclude=[dict(form="naive", backend=COMPILED)],  # its guards fail in a thread that did not compile
        bench=[dict(clients=1, backend="torch"), dict(clients=32, backend=("numpy", "torch", "onnx", "jax"))],
    ),
    Case(
        "pirl", "hybrid", hybrid_inputs, ("torch", "jax"), "updates", forms=("full",), io="own", tolerance=1e-4,
        reference="torch", version=2,
        axes={"serve": ("numpy", "torch-trace", "onnx", "jax", "neuron"), "every": (1, 10)},
        items=lambda serve, every: 10, bench=[dict(every=10)],
    ),
)  # fmt: skip

FRONT = Front(
    "**pirl, forward pass** of the 16-32-32-32-25 net in float32, NumPy arrays in and out, by batch size; `use` names "
    "all backends that cannot be told apart from the fastest:",
    [ByBackend(dict(op="forward", form="full", io="host", hidden=32), by="batch")],
)
