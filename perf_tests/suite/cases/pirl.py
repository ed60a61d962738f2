"""pirl: the physics-informed Q-agent, inference over nine batch sizes and training with and without the diffusion."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..case import Axes, Case, Inputs

BATCHES = (1, 8, 16, 32, 64, 128, 512, 1024, 2048)
POINTS = 32  # of each kind: inside, at tau = 0, on the edge of the safe set
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax", "neuron")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
EAGER = ("torch", "torch-cuda")


def net(rng: np.random.Generator, hidden: int) -> dict[str, Any]:
    """Weights of 16-h-h-h-25."""
    sizes = (16, hidden, hidden, hidden, 25)
    params = {}
    for k, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        params[f"w{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, (rows, columns)).astype(np.float32)
        params[f"b{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, columns).astype(np.float32)
    return params


def multiplications(hidden: int) -> int:
    """Weights of the net, and so multiplications for one state."""
    return 16 * hidden + 2 * hidden**2 + hidden * 25


INPUT, OUTPUT = 16 * 32, 32 * 25  # multiplications in the first and in the last layer


def states(rng: np.random.Generator, batch: int) -> Any:
    """Vehicle states f32[B, 16] in the ranges of an episode."""
    low = [5, -5, -20, -0.9, -10]  # m/s, deg, deg/s, m, deg
    high = [25, 5, 20, 0.9, 10]
    curvature = rng.uniform(-0.02, 0.02, (batch, 1))
    features = curvature * np.arange(2.0, 21.0, 2.0) ** 2 / 2
    tau = rng.uniform(0, 5, (batch, 1))
    return np.concatenate([rng.uniform(low, high, (batch, 5)), features, tau], axis=1).astype(np.float32)


def with_column(array: Any, column: int, values: Any) -> Any:
    """Return ``array`` with one column replaced."""
    array[:, column] = values
    return array


def fixed(rng: np.random.Generator, hidden: int = 32) -> dict[str, Any]:
    """Everything an op is built from."""
    return {
        "params": net(rng, hidden),
        "target": net(rng, hidden),
        "dynamics": "vehicle",
        "pde_weight": 1e-4,
        "boundary_weight": 1.0,
        "learning_rate": 5e-4,
        "epsilon": 0.1,
    }


def forward_inputs(rng: np.random.Generator, batch: int, hidden: int, io: str) -> Inputs:
    """A batch of states."""
    return Inputs(fixed(rng, hidden), (states(rng, batch),))


def act_inputs(rng: np.random.Generator) -> Inputs:
    """One state and a draw that takes the greedy branch."""
    return Inputs(fixed(rng), (states(rng, 1), 0.5, 7))


def pde_inputs(rng: np.random.Generator, order: int) -> Inputs:
    """Points inside."""
    return Inputs(fixed(rng), (states(rng, POINTS),))


def training_batch(rng: np.random.Generator, batch: int) -> tuple[Any, ...]:
    """Transitions, and points of each kind."""
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


def train_inputs(rng: np.random.Generator, batch: int, order: int) -> Inputs:
    """A training batch."""
    return Inputs(fixed(rng), training_batch(rng, batch))


def sync_inputs(rng: np.random.Generator, hidden: int) -> Inputs:
    """Weights alone."""
    return Inputs(fixed(rng, hidden))


def sustained_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """Sixteen different batches."""
    return Inputs(fixed(rng), (states(rng, 16 * batch).reshape(16, batch, 16),))


def serve_inputs(rng: np.random.Generator, clients: int) -> Inputs:
    """Four requests from each client."""
    return Inputs({**fixed(rng), "clients": clients}, (states(rng, 4 * clients),))


def hybrid_inputs(rng: np.random.Generator, serve: str, every: int) -> Inputs:
    """A training batch, the inference backend and how often it gets new weights."""
    return Inputs({**fixed(rng), "serve": serve, "every": every}, training_batch(rng, 256))


def per_sample(microseconds: float) -> int:
    """Calls that make a sample of about 10 ms, from a committed rough cost of one."""
    return max(1, round(1e4 / microseconds))


FORWARD_COST = {  # rough us of a call, and us a state at 32 hidden units
    "numpy": (11, 0.11),
    "torch": (33, 0.17),
    "torch-trace": (17, 0.17),
    "torch-compile": (45, 0.15),
    "onnx": (6.5, 0.06),
    "jax": (15, 0.17),
    "neuron": (150, 0.1),
    "torch-cuda": (60, 0.01),
    "torch-compile-cuda": (60, 0.01),
    "jax-cuda": (60, 0.01),
}


def forward_calls(form: str, backend: str, axes: Axes) -> int:
    """Calls in a sample of ``forward``."""
    call, state = FORWARD_COST[backend]
    wider = (multiplications(int(axes["hidden"])) / multiplications(32)) ** 0.8
    return per_sample(call + state * int(axes["batch"]) * wider)


def forward_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: small, middle and large batches from host memory; the naive form where autograd can be left on."""
    batch, hidden, io = axes["batch"], axes["hidden"], axes["io"]
    if form == "naive" and backend not in EAGER:
        return None
    if io == "device" and backend in ("numpy", "onnx", "neuron"):
        return None
    if form == "full" and hidden == 32 and io == "host":
        if backend == "torch-compile":
            return "gate" if batch == 32 else "bench"
        if backend in ("numpy", "torch", "torch-trace", "onnx", "jax"):
            return "gate" if batch in (1, 32, 2048) else "bench"
        return "bench" if batch in (1, 32, 128, 512, 1024, 2048) else "full"
    if form == "naive" and hidden == 32 and io == "host":
        return "bench" if batch in (1, 32, 2048) else "full"
    if hidden == 32 and io == "device" and backend in ("torch", "torch-trace", "jax"):
        return "bench" if batch in (1, 2048) else "full"
    if form == "full" and io == "host" and batch in (32, 2048) and backend in ("numpy", "torch", "onnx", "jax"):
        return "bench"
    return "full"


TRAIN_COST = {  # rough us of an update at batch 256
    "torch": 850,
    "torch-compile": 400,
    "jax": 250,
    "torch-cuda": 1500,
    "torch-compile-cuda": 800,
    "jax-cuda": 400,
}


def train_calls(form: str, backend: str, axes: Axes) -> int:
    """Calls in a sample of ``train_step``."""
    naive = {1: 2.5, 2: 5}[int(axes["order"])] if form == "naive" else 1
    return per_sample(TRAIN_COST[backend] * naive)


def train_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: batch 256 with the diffusion, and the naive step without."""
    if backend.startswith("torch-compile") and form == "naive":
        return None  # nested differentiation cannot be compiled
    if axes["batch"] != 256 or backend in CUDA:
        return "full" if axes["batch"] != 256 else "bench"
    gate = {("full", "torch"), ("full", "jax"), ("full", "torch-compile"), ("naive", "torch")}
    return "gate" if (form, backend) in gate and axes["order"] == 2 else "bench"


def pde_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: with the diffusion on torch and JAX."""
    if (form, backend) in (("full", "numpy"), ("naive", "torch-compile")):
        return None  # NumPy has the reference alone; nested differentiation cannot be compiled
    return "gate" if (form, axes["order"]) == ("full", 2) and backend in ("torch", "jax") else "bench"


def serve_calls(form: str, backend: str, axes: Axes) -> int:
    """Calls in a sample of ``serve``: torch under 32 threads takes ten times as long a request as alone."""
    request = {1: 40, 32: 25}[int(axes["clients"])] * (8 if (form, axes["clients"]) == ("naive", 32) else 1)
    return per_sample(4 * int(axes["clients"]) * request)


def serve_tier(form: str, backend: str, axes: Axes) -> str | None:
    """All but what torch.compile refuses: its guards fail in a thread that did not compile."""
    if form == "naive" and backend.startswith("torch-compile"):
        return None
    if axes["clients"] == 1:
        return "bench" if backend == "torch" else "full"
    return "bench" if backend in ("numpy", "torch", "onnx", "jax") else "full"


STREAMS = {1: 1, 2: 1 + 5}  # by the order: what a point carries through the net, one for the drift, one for each noise


def forward_flops(batch: int, hidden: int, **_: Any) -> float:
    """FLOPs of a batch of states."""
    return 2.0 * multiplications(hidden) * batch


def forward_bytes(batch: int, **_: Any) -> float:
    """Bytes of the states read and the Q-values written."""
    return 4.0 * (16 + 25) * batch


def act_flops() -> float:
    """FLOPs of one state."""
    return forward_flops(1, 32)


def sustained_flops(batch: int) -> float:
    """FLOPs of sixteen batches."""
    return 16 * forward_flops(batch, 32)


def sustained_bytes(batch: int) -> float:
    """Bytes of sixteen batches."""
    return 16 * forward_bytes(batch)


def pde_flops(order: int) -> float:
    """FLOPs of the values, and of the streams in all but the last layer, of which they need the greedy action's row."""
    values, streams = POINTS, POINTS * STREAMS[order]
    return 2.0 * (values * multiplications(32) + streams * (multiplications(32) - OUTPUT))


def train_flops(batch: int, order: int) -> float:
    """FLOPs of the target net forward, and of the online net forward, back to its weights and back to its inputs.

    Nothing goes back to the inputs of the first layer; streams pass all but the last layer, see ``pde_flops``.
    """
    net, values, streams = multiplications(32), batch + 3 * POINTS, POINTS * STREAMS[order]
    return 2.0 * (batch * net + values * (3 * net - INPUT) + streams * (3 * (net - OUTPUT) - INPUT))


def full_form(tier: str) -> Any:
    """Give the full form a tier; the naive form does not differ on this op."""
    return lambda form, backend, axes: tier if form == "full" else None


CASES = (
    Case(
        "pirl", "forward", forward_inputs, LOWERED + CUDA, "samples",
        axes={"batch": BATCHES, "io": ("host", "device"), "hidden": (32, 128, 512)},
        items=lambda batch, **_: batch,
        flops=forward_flops, bytes=forward_bytes,
        calls=forward_calls, tier=forward_tier,
    ),
    Case(
        "pirl", "act", act_inputs, LOWERED + CUDA, "actions", io="host",
        items=lambda: 1, flops=act_flops,
        calls=lambda form, backend, axes: per_sample(sum(FORWARD_COST[backend])),
        tier=full_form("bench"),
    ),
    Case(
        "pirl", "pde_loss", pde_inputs, ("numpy", "torch", "torch-compile", "jax", "torch-cuda", "jax-cuda"), "points",
        axes={"order": (1, 2)}, items=lambda order: POINTS, flops=pde_flops, tolerance=1e-3,
        calls=lambda form, backend, axes: per_sample(
            {"numpy": 230, "torch": 350, "jax": 80}.get(backend, 200)
            * (4 if (form, backend) == ("naive", "torch") else 1)
        ),
        tier=pde_tier,
    ),
    Case(
        "pirl", "train_step", train_inputs, ("torch", "torch-compile", "jax", *CUDA), "updates",
        reference="torch", version=2,
        axes={"batch": (32, 256, 1024), "order": (1, 2)},
        items=lambda batch, order: 1, flops=train_flops, calls=train_calls, tier=train_tier, tolerance=1e-4,
    ),
    Case(
        "pirl", "sync_target", sync_inputs, ("numpy", "torch", "jax"), "copies",
        axes={"hidden": (32, 512)}, items=lambda hidden: 1,
        calls=lambda form, backend, axes: {"numpy": 3000, "torch": 1500, "jax": 600}[backend] // (
            (1 if form == "full" else 10) * (1 if axes["hidden"] == 32 else 6)
        ),
        tier=lambda form, backend, axes: "bench" if form == "full" or backend == "torch" else None,
    ),
    Case(
        "pirl", "sustained", sustained_inputs, LOWERED + CUDA, "samples", io="own",
        axes={"batch": (512, 1024, 2048)}, items=lambda batch: 16 * batch,
        flops=sustained_flops, bytes=sustained_bytes,
        calls=lambda form, backend, axes: per_sample(2.5 * int(axes["batch"])),
        tier=lambda form, backend, axes: None if form == "naive" else "bench" if axes["batch"] == 2048 else "full",
    ),
    Case(
        "pirl", "serve", serve_inputs, LOWERED + CUDA, "requests", io="own", multicore=True,
        axes={"clients": (1, 32)}, items=lambda clients: 4 * clients,
        calls=serve_calls,
        tier=serve_tier,
    ),
    Case(
        "pirl", "hybrid", hybrid_inputs, ("torch", "jax"), "updates", io="own", tolerance=1e-4,
        reference="torch",
        axes={"serve": ("numpy", "torch-trace", "onnx", "jax", "neuron"), "every": (1, 10)},
        items=lambda serve, every: 10, calls=lambda form, backend, axes: 1,
        tier=lambda form, backend, axes: None if form == "naive" else "bench" if axes["every"] == 10 else "full",
    ),
)  # fmt: skip
