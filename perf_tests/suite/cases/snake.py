"""snake: every piece of a DQN loop, and the loop itself in all its forms."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..case import Axes, Case, Inputs

DIM, START, BORDER = 10, 3, 3
SIZES = (DIM * DIM, 256, 256, 4)
CAPACITY, STORED = 10_000, 1_000
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
ALONE = (
    "memory", "batches", "tensors", "zero_grad", "relu", "inference", "acting", "optimizer", "parameters", "gradient",
    "threads",
)  # fmt: skip
ONLY = tuple(f"only_{knob}" for knob in ALONE)


def net(rng: np.random.Generator) -> dict[str, Any]:
    """Weights of 100-256-256-4."""
    params = {}
    for k, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        params[f"w{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, (rows, columns)).astype(np.float32)
        params[f"b{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, columns).astype(np.float32)
    return params


MULTIPLICATIONS = sum(rows * columns for rows, columns in itertools.pairwise(SIZES))


def start_state(rng: np.random.Generator, envs: int) -> dict[str, Any]:
    """N games at their start: straight snakes of three on drawn cells, food on a drawn free cell."""
    row, column = rng.integers(BORDER, DIM - BORDER, (2, envs))
    heading = rng.integers(4, size=envs)
    head, stride = row * DIM + column, np.array([-DIM, 1, DIM, -1])[heading]
    lifetimes = np.zeros((envs, DIM * DIM), np.float32)
    for k in range(START):
        lifetimes[np.arange(envs), head - k * stride] = START - k
    food = np.where(lifetimes == 0, rng.random(lifetimes.shape), -1).argmax(axis=1)
    length = np.full(envs, START)
    return {
        "lifetimes": lifetimes, "head": head, "heading": heading, "length": length, "food": food,
        "steps": np.zeros_like(length),
    }  # fmt: skip


def boards(rng: np.random.Generator, count: int) -> Any:
    """Observations f32[count, 100] of games at their start."""
    state = start_state(rng, count)
    board = state["lifetimes"] / np.float32(START)
    board[np.arange(count), state["food"]] = -1
    return board


def transitions(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Boards, moves, rewards, next boards, and whether the episode ended there."""
    return (
        boards(rng, count),
        rng.integers(0, 4, count).astype(np.int32),
        rng.choice(np.array([-1, -0.01, 1], np.float32), count),
        boards(rng, count),
        (rng.random(count) < 0.1).astype(np.float32),
    )


def fixed(rng: np.random.Generator) -> dict[str, Any]:
    """Everything a net is trained with."""
    return {"params": net(rng), "target": net(rng), "learning_rate": 1e-3, "gamma": 0.99, "gradient_norm": 10.0}


def forward_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """A board of each environment."""
    return Inputs(fixed(rng), (boards(rng, envs),))


def act_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """A board of each environment; one in ten explores, the first does not."""
    explore = rng.random(envs) < 0.1
    explore[0] = False
    return Inputs(fixed(rng), (boards(rng, envs), explore, rng.integers(0, 4, envs).astype(np.int32)))


def step_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """Eight moves of each environment."""
    return Inputs({"env_state": start_state(rng, envs)}, (moves(rng, 8, envs), draws(rng, 8, envs)))


def moves(rng: np.random.Generator, steps: int, envs: int) -> Any:
    """Drawn moves i32[T, N]."""
    return rng.integers(0, 4, (steps, envs)).astype(np.int32)


def draws(rng: np.random.Generator, steps: int, envs: int) -> Any:
    """What the environments need of randomness, i32[T, N, 3]."""
    return rng.integers(2**31 - 1, size=(steps, envs, 3)).astype(np.int32)


def remember_inputs(rng: np.random.Generator) -> Inputs:
    """A full memory and 64 new transitions."""
    return Inputs({"stored": transitions(rng, STORED)}, transitions(rng, 64))


def sample_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A full memory and the rows wanted."""
    return Inputs({"stored": transitions(rng, CAPACITY)}, (rng.choice(CAPACITY, batch, replace=False),))


def train_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A batch of transitions."""
    return Inputs(fixed(rng), transitions(rng, batch))


STEPS = {1: 64, 64: 4, 1024: 1}  # of each environment in one call of the loop
LONG = {1: 1024, 64: 16, 1024: 1}  # the same of a compiled loop: a call by itself costs as much as several steps


def loop_inputs(
    rng: np.random.Generator, envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS
) -> Inputs:
    """Every draw of a loop that starts shortly before the target net takes the online weights."""
    length = steps[envs]
    played = -(np.arange(every, length * envs + 1, every) // -envs) * envs  # all environments step before they learn
    rows = np.array([rng.choice(STORED + stored, batch, replace=False) for stored in played])
    everything = fixed(rng) | {
        "env_state": start_state(rng, envs), "stored": transitions(rng, STORED), "capacity": CAPACITY,
        "target_every": 1000, "step": max(0, 1000 - length * envs // 2) // envs * envs,
    }  # fmt: skip
    explore = rng.random((length, envs)) < 0.1  # an agent begins with 1: it asks no net then, and is a tenth faster
    return Inputs(everything, (explore, moves(rng, length, envs), draws(rng, length, envs), rows))


def loop_items(envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS) -> int:
    """Environment steps of a call."""
    return steps[envs] * envs


def loop_flops(envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS) -> float:
    """Of acting, and of the updates as ``train_step`` counts them."""
    update = batch * (4 * MULTIPLICATIONS - SIZES[0] * SIZES[1])
    return steps[envs] * envs * 2.0 * (MULTIPLICATIONS + update / every)


def per_sample(microseconds: float) -> int:
    """Calls that make a sample of about 10 ms, from a committed rough cost of one."""
    return max(1, round(1e4 / microseconds))


FORWARD_COST = {  # rough us of a call, and us a board
    "numpy": (10, 1.4), "torch": (30, 1.2), "torch-trace": (20, 1.2), "torch-compile": (45, 1.2), "onnx": (12, 1.0),
    "jax": (25, 1.2), "torch-cuda": (60, 0.01), "torch-compile-cuda": (60, 0.01), "jax-cuda": (60, 0.01),
}  # fmt: skip
TRAIN_COST = {  # rough us of an update, and us a transition
    "torch": (400, 4), "torch-compile": (350, 4), "jax": (200, 4), "torch-cuda": (1200, 0.1),
    "torch-compile-cuda": (700, 0.1), "jax-cuda": (300, 0.1),
}  # fmt: skip


def calls_of(cost: Mapping[str, tuple[float, float]], axis: str) -> Any:
    """Calls in a sample, from a table of costs."""
    return lambda form, backend, axes: per_sample(cost[backend][0] + cost[backend][1] * int(axes[axis]))


def forward_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Naive where autograd can be left on."""
    if form == "naive" and backend not in ("torch", "torch-cuda"):
        return None
    return "full" if backend == "torch-compile" else "bench"


def act_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: one environment on torch and JAX."""
    if form == "naive" and backend not in ("torch", "torch-cuda"):
        return None
    if backend in CUDA:
        return "bench"
    return "gate" if form == "full" and backend in ("torch", "jax") and axes["envs"] in (1, 64) else "bench"


def step_tier(form: str, backend: str, axes: Axes) -> str | None:
    """One naive form, on NumPy; vectorised NumPy; JAX."""
    if (form, backend) not in (("naive", "numpy"), ("vectorised", "numpy"), ("full", "jax"), ("full", "jax-cuda")):
        return None
    return "gate" if form != "naive" and axes["envs"] == 1024 and backend != "jax-cuda" else "bench"


def train_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: the full update of 32 on torch and JAX."""
    if form in ONLY:
        trains = form.removeprefix("only_") in ("zero_grad", "relu", "optimizer", "parameters", "gradient", "threads")
        return ("bench" if axes["batch"] == 32 else "full") if trains and backend == "torch" else None
    if form == "naive" and backend.startswith("torch-compile"):
        return "full"
    return "gate" if form == "full" and backend in ("torch", "jax") and axes["batch"] == 32 else "bench"


def loop_tier(form: str, backend: str, axes: Axes) -> str | None:
    """Gate: full torch and compiled JAX, an update every four steps."""
    envs, every, batch = axes["envs"], axes["every"], axes["batch"]
    jax = backend.startswith("jax")
    if form == "compiled" and not jax:
        return None
    if form in ("naive", "plain") and (backend not in ("torch", "torch-cuda") or envs != 1):
        return None
    if form in ONLY and (backend, envs, every, batch) != ("torch", 1, 1, 32):
        return None
    if form == "full" and envs != 1:
        return None
    if form in ("vectorised", "threaded") and envs == 1:
        return None
    if batch != 32 or backend in ("torch-compile", "torch-compile-cuda"):
        return "full"
    if (form, backend) in (("full", "torch"), ("compiled", "jax")) and (envs, every) == (1, 4):
        return "gate"
    if envs == 1024:
        return "bench" if (form, every) in (("vectorised", 4), ("compiled", 4)) else "full"
    return "bench" if envs == 1 or every == 4 else "full"


LOOP_COST = {"naive": 1500, "full": 500, "vectorised": 500, "threaded": 500, "compiled": 350}  # rough us an update


def loop_calls(form: str, backend: str, axes: Axes) -> int:
    """Calls in a sample of the loop; each has 64 environment steps or more."""
    envs = int(axes["envs"])
    return per_sample(LOOP_COST.get(form, 1500) * STEPS[envs] * envs / int(axes["every"]))


def long_calls(form: str, backend: str, axes: Axes) -> int:
    """Calls in a sample of a compiled loop: each is long enough."""
    return 1


CASES = (
    Case(
        "snake", "forward", forward_inputs, LOWERED + CUDA, "boards", io="host",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs,
        flops=lambda envs: 2.0 * MULTIPLICATIONS * envs, bytes=lambda envs: 4.0 * MULTIPLICATIONS,
        calls=calls_of(FORWARD_COST, "envs"), tier=forward_tier,
    ),
    Case(
        "snake", "act", act_inputs, LOWERED + CUDA, "moves", io="own",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs,
        flops=lambda envs: 2.0 * MULTIPLICATIONS * envs, bytes=lambda envs: 4.0 * MULTIPLICATIONS,
        calls=calls_of(FORWARD_COST, "envs"), tier=act_tier,
    ),
    Case(
        "snake", "env_step", step_inputs, ("numpy", "jax", "jax-cuda"), "environment steps", version=2,
        forms=("naive", "vectorised", "full"), axes={"envs": (1, 64, 1024)}, items=lambda envs: 8 * envs,
        bytes=lambda envs: 8 * 4.0 * 3 * DIM**2 * envs,  # boards read and written, observations written
        calls=lambda form, backend, axes: per_sample(
            8 * (6 * int(axes["envs"]) if form == "naive" else 40 + 0.3 * int(axes["envs"]))
        ),
        tier=step_tier,
    ),
    Case(
        "snake", "remember", remember_inputs, ("numpy",), "transitions",
        items=lambda: 64, bytes=lambda: 64 * 8.0 * DIM**2,
        calls=lambda form, backend, axes: 50, tier=lambda form, backend, axes: "bench",
    ),
    Case(
        "snake", "sample", sample_inputs, ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "transitions",
        forms=("naive", "only_memory", "only_batches", "full"), io="own",
        axes={"batch": (32, 64, 256)}, items=lambda batch: batch, bytes=lambda batch: 4.0 * 4 * DIM**2 * batch,
        calls=lambda form, backend, axes: per_sample(
            20 * int(axes["batch"]) if form != "full" else 30 + int(axes["batch"])
        ),
        tier=lambda form, backend, axes: None if form.startswith("only") and backend != "torch"
        else "gate" if (form, backend, axes["batch"]) == ("full", "torch", 32) else "bench",
    ),
    Case(
        "snake", "train_step", train_inputs, LEARNING, "updates", reference="torch", version=2,
        forms=("naive", "full", *ONLY), axes={"batch": (32, 64, 256)}, items=lambda batch: 1,
        # the target forward; forward, and backward but for the first layer's input
        flops=lambda batch: 2.0 * batch * (4 * MULTIPLICATIONS - SIZES[0] * SIZES[1]),
        bytes=lambda batch: 4.0 * 9 * MULTIPLICATIONS,  # both nets read, Adam reads and writes three arrays each
        calls=calls_of(TRAIN_COST, "batch"), tier=train_tier, tolerance=1e-4,
    ),
    Case(
        "snake", "train_step", train_inputs, ("torch", "jax"), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": (32, 64, 256)}, items=lambda batch: 1,
        calls=calls_of(TRAIN_COST, "batch"),
        tier=lambda form, backend, axes: "bench" if axes["batch"] == 256 else "full",
    ),
    Case(
        "snake", "train_step", train_inputs, ("torch",), "updates", reference=None, multicore=True,
        forms=("ddp",), axes={"batch": (32, 64, 256)}, items=lambda batch: 1,
        calls=calls_of({"torch": (1500, 4)}, "batch"),
        tier=lambda form, backend, axes: "bench" if axes["batch"] == 256 else "full",
    ),
    Case(
        "snake", "forward", forward_inputs, ("onnx",), "boards", io="host", reference=None,
        forms=("int8",), axes={"envs": (1, 64, 1024)}, items=lambda envs: envs,
        calls=calls_of(FORWARD_COST, "envs"), tier=lambda form, backend, axes: "bench",
    ),
    Case(
        "snake", "collect_and_learn", loop_inputs, LEARNING, "environment steps", io="own", reference=None,
        forms=("naive", "plain", "full", "vectorised", "threaded", *ONLY),
        axes={"envs": (1, 64, 1024), "every": (1, 4), "batch": (32, 64, 256)},
        items=loop_items, flops=loop_flops, calls=loop_calls, tier=loop_tier, version=3,
    ),
    Case(
        "snake", "collect_and_learn", functools.partial(loop_inputs, steps=LONG), ("jax", "jax-cuda"),
        "environment steps", io="own", reference=None, forms=("compiled",),
        axes={"envs": (1, 64, 1024), "every": (1, 4), "batch": (32, 64, 256)},
        items=functools.partial(loop_items, steps=LONG), flops=functools.partial(loop_flops, steps=LONG),
        calls=long_calls, tier=loop_tier, version=3,
    ),
)  # fmt: skip
