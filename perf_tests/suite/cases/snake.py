"""snake: every piece of a DQN loop, and the loop itself in all its forms."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..case import Case, Inputs
from ..front import ByForm, Front

DIM, START, BORDER = 10, 3, 3
SIZES = (DIM * DIM, 256, 256, 4)
CAPACITY, STORED = 10_000, 1_000
LOWERED = ("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax")
CUDA = ("torch-cuda", "torch-compile-cuda", "jax-cuda")
LEARNING = ("torch", "torch-compile", "jax", *CUDA)
LOOPING = ("torch", "jax", "torch-cuda", "jax-cuda")  # whose loops are timed by default
BATCHES, SHOWN = (32, 64, 128, 256), (32, 64, 256)
ALONE = (
    "memory", "batches", "tensors", "zero_grad", "relu", "inference", "acting", "optimizer", "parameters", "gradient",
    "threads",
)  # fmt: skip
ONLY = tuple(f"only_{knob}" for knob in ALONE)


def net(rng: np.random.Generator) -> dict[str, Any]:
    """Weights of 100-256-256-4.

    Args:
        rng: the generator of all that is drawn.
    """
    params = {}
    for k, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        params[f"w{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, (rows, columns)).astype(np.float32)
        params[f"b{k}"] = rng.uniform(-(rows**-0.5), rows**-0.5, columns).astype(np.float32)
    return params


MULTIPLICATIONS = sum(rows * columns for rows, columns in itertools.pairwise(SIZES))


def start_state(rng: np.random.Generator, envs: int) -> dict[str, Any]:
    """N games at their start: straight snakes of three on drawn cells, food on a drawn free cell.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
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
    """Observations f32[count, 100] of games at their start.

    Args:
        rng: the generator of all that is drawn.
        count: how many.
    """
    state = start_state(rng, count)
    board = state["lifetimes"] / np.float32(START)
    board[np.arange(count), state["food"]] = -1
    return board


def transitions(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Boards, moves, rewards, next boards, and whether the episode ended there.

    Args:
        rng: the generator of all that is drawn.
        count: how many.
    """
    return (
        boards(rng, count),
        rng.integers(0, 4, count).astype(np.int32),
        rng.choice(np.array([-1, -0.01, 1], np.float32), count),
        boards(rng, count),
        (rng.random(count) < 0.1).astype(np.float32),
    )


def spec(rng: np.random.Generator) -> dict[str, Any]:
    """Everything a net is trained with.

    Args:
        rng: the generator of all that is drawn.
    """
    return {"params": net(rng), "target": net(rng), "learning_rate": 1e-3, "gamma": 0.99, "gradient_norm": 10.0}


def forward_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """A board of each environment.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    return Inputs(spec(rng), (boards(rng, envs),))


def act_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """A board of each environment; one in ten explores, the first does not.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    explore = rng.random(envs) < 0.1
    explore[0] = False
    return Inputs(spec(rng), (boards(rng, envs), explore, rng.integers(0, 4, envs).astype(np.int32)))


def step_inputs(rng: np.random.Generator, envs: int) -> Inputs:
    """Eight moves of each environment.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
    """
    return Inputs({"env_state": start_state(rng, envs)}, (moves(rng, 8, envs), draws(rng, 8, envs)))


def moves(rng: np.random.Generator, steps: int, envs: int) -> Any:
    """Drawn moves i32[T, N].

    Args:
        rng: the generator of all that is drawn.
        steps: of each environment, T.
        envs: environments N that are played at once.
    """
    return rng.integers(0, 4, (steps, envs)).astype(np.int32)


def draws(rng: np.random.Generator, steps: int, envs: int) -> Any:
    """What the environments need of randomness, i32[T, N, 3].

    Args:
        rng: the generator of all that is drawn.
        steps: of each environment, T.
        envs: environments N that are played at once.
    """
    return rng.integers(2**31 - 1, size=(steps, envs, 3)).astype(np.int32)


def remember_inputs(rng: np.random.Generator) -> Inputs:
    """A full memory and 64 new transitions.

    Args:
        rng: the generator of all that is drawn.
    """
    return Inputs({"stored": transitions(rng, STORED)}, transitions(rng, 64))


def sample_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A full memory and the rows wanted.

    Args:
        rng: the generator of all that is drawn.
        batch: transitions of an update.
    """
    return Inputs({"stored": transitions(rng, CAPACITY)}, (rng.choice(CAPACITY, batch, replace=False),))


def train_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """A batch of transitions.

    Args:
        rng: the generator of all that is drawn.
        batch: transitions of an update.
    """
    return Inputs(spec(rng), transitions(rng, batch))


STEPS = {1: 64, 64: 4, 1024: 1}  # of each environment in one call of the loop
LONG = {1: 1024, 64: 16, 1024: 1}  # the same of a compiled loop: a call by itself costs as much as several steps


def loop_inputs(
    rng: np.random.Generator, envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS
) -> Inputs:
    """Every draw of a loop that starts shortly before the target net takes the online weights.

    Args:
        rng: the generator of all that is drawn.
        envs: environments N that are played at once.
        every: environment steps for each update.
        batch: transitions of an update.
        steps: of each environment in one call, by the number of environments.
    """
    length, round_ = steps[envs], max(envs, every)  # updates fall on whole rounds
    played = -(np.arange(every, length * envs + 1, every) // -envs) * envs  # all environments step before they learn
    rows = np.array([rng.choice(STORED + stored, batch, replace=False) for stored in played])
    everything = spec(rng) | {
        "env_state": start_state(rng, envs), "stored": transitions(rng, STORED), "capacity": CAPACITY,
        "target_every": 1000, "step": max(0, 1000 - length * envs // 2) // round_ * round_,
    }  # fmt: skip
    explore = rng.random((length, envs)) < 0.1  # an agent begins with 1: it asks no net then, and is a tenth faster
    return Inputs(everything, (explore, moves(rng, length, envs), draws(rng, length, envs), rows))


def loop_items(envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS) -> int:
    """Environment steps of a call.

    Args:
        envs: environments N that are played at once.
        every: environment steps for each update.
        batch: transitions of an update.
        steps: of each environment in one call, by the number of environments.
    """
    return steps[envs] * envs


def forward_flops(envs: int) -> float:
    """FLOPs of a board of each environment.

    Args:
        envs: environments N that are played at once.
    """
    return 2.0 * MULTIPLICATIONS * envs


def forward_bytes(envs: int) -> float:
    """Bytes of the boards read and the Q-values written.

    Args:
        envs: environments N that are played at once.
    """
    return 4.0 * (SIZES[0] + SIZES[-1]) * envs


def step_bytes(envs: int) -> float:
    """Bytes of eight steps: moves and draws read, rewards and ends written; and of the last boards, written.

    Args:
        envs: environments N that are played at once.
    """
    return (8 * (4 + 3 * 4 + 4 + 1) + 4.0 * DIM**2) * envs


def remember_bytes() -> float:
    """Bytes of both boards of 64 transitions, read and written."""
    return sample_bytes(64)


def sample_bytes(batch: int) -> float:
    """Bytes of both boards of each transition, read and written.

    Args:
        batch: transitions of an update.
    """
    return 2 * 2 * 4.0 * DIM**2 * batch


def train_flops(batch: int) -> float:
    """FLOPs of the target net forward, and of the online net forward, back to its weights and back to its inputs.

    Nothing goes back to the inputs of the first layer.

    Args:
        batch: transitions of an update.
    """
    return 2.0 * batch * (4 * MULTIPLICATIONS - SIZES[0] * SIZES[1])


def loop_flops(envs: int, every: int, batch: int, steps: Mapping[int, int] = STEPS) -> float:
    """FLOPs of a call: a board for each environment step, and the updates.

    Args:
        envs: environments N that are played at once.
        every: environment steps for each update.
        batch: transitions of an update.
        steps: of each environment in one call, by the number of environments.
    """
    return steps[envs] * envs * (forward_flops(1) + train_flops(batch) / every)


COMPILED = ("torch-compile", "torch-compile-cuda")
LAZY = tuple(name for name in LOWERED + CUDA if name not in ("torch", "torch-cuda"))  # no autograd to be left on
BEFORE = ("memory", "batches", "tensors", "inference", "acting")  # knobs of what comes before an update
TRAINED = tuple(f"only_{knob}" for knob in ALONE if knob not in BEFORE)
ELSEWHERE = tuple(name for name in LEARNING if name != "torch")

CASES = (
    Case(
        "snake", "forward", forward_inputs, LOWERED + CUDA, "boards", io="host",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, flops=forward_flops, bytes=forward_bytes,
        exclude=[dict(form="naive", backend=LAZY)],
        bench=[dict(backend=("numpy", "torch", "torch-trace", "onnx", "jax", *CUDA))],
    ),
    Case(
        "snake", "act", act_inputs, LOWERED + CUDA, "moves", io="own",
        axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, flops=forward_flops,
        exclude=[dict(form="naive", backend=LAZY)],
        gate=[dict(form="full", backend=("torch", "jax"), envs=(1, 64))], bench=[{}],
    ),
    Case(
        "snake", "env_step", step_inputs, ("numpy", "jax", "jax-cuda"), "environment steps", version=2,
        forms=("naive", "vectorised", "full"), axes={"envs": (1, 64, 1024)}, items=lambda envs: 8 * envs,
        bytes=step_bytes,
        exclude=[dict(form=("naive", "vectorised"), backend=("jax", "jax-cuda")), dict(form="full", backend="numpy")],
        gate=[dict(form=("vectorised", "full"), backend=("numpy", "jax"), envs=1024)], bench=[{}],
    ),
    Case(
        "snake", "remember", remember_inputs, ("numpy",), "transitions",
        items=lambda: 64, bytes=remember_bytes, bench=[{}],
    ),
    Case(
        "snake", "sample", sample_inputs, ("numpy", "torch", "jax", "torch-cuda", "jax-cuda"), "transitions",
        forms=("naive", "only_memory", "only_batches", "full"), io="own", version=2,
        axes={"batch": BATCHES}, items=lambda batch: batch, bytes=sample_bytes,
        exclude=[dict(form=("only_memory", "only_batches"), backend=("numpy", "jax", "torch-cuda", "jax-cuda"))],
        gate=[dict(form="full", backend="torch", batch=32)], bench=[dict(batch=SHOWN)],
    ),
    Case(
        "snake", "train_step", train_inputs, LEARNING, "updates", reference="torch", version=2,
        forms=("naive", "full", *ONLY), axes={"batch": BATCHES}, items=lambda batch: 1,
        flops=train_flops, tolerance=1e-4,
        exclude=[
            dict(form=tuple(form for form in ONLY if form not in TRAINED)), dict(form=TRAINED, backend=ELSEWHERE),
        ],
        gate=[dict(form="full", backend=("torch", "jax"), batch=32)],
        bench=[
            dict(form=TRAINED, batch=32), dict(form="full", batch=SHOWN),
            dict(form="naive", backend=tuple(name for name in LEARNING if name not in COMPILED), batch=SHOWN),
        ],
    ),
    Case(
        "snake", "train_step", train_inputs, ("torch", "jax"), "updates", reference=None,
        forms=("bfloat16",), axes={"batch": SHOWN}, items=lambda batch: 1, flops=train_flops, bench=[dict(batch=256)],
    ),
    Case(
        "snake", "train_step", train_inputs, ("torch-cuda", "torch-compile-cuda"), "updates", reference=None,
        forms=("tf32",), axes={"batch": BATCHES}, items=lambda batch: 1, flops=train_flops,
    ),
    Case(
        "snake", "train_step", train_inputs, ("torch",), "updates", reference=None, cores="own",
        forms=("ddp",), axes={"batch": SHOWN}, items=lambda batch: 1, flops=train_flops, bench=[dict(batch=256)],
    ),
    Case(
        "snake", "forward", forward_inputs, ("onnx",), "boards", io="host", reference=None,
        forms=("int8",), axes={"envs": (1, 64, 1024)}, items=lambda envs: envs, bench=[{}], version=2,
    ),
    Case(
        "snake", "collect_and_learn", loop_inputs, LEARNING, "environment steps", io="own", reference=None,
        forms=("naive", "plain", "full", "vectorised", *ONLY), most_calls=1, version=3,
        axes={"envs": (1, 64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES}, items=loop_items, flops=loop_flops,
        exclude=[
            dict(form=("naive", "plain"), backend=tuple(name for name in LEARNING if name in LAZY)),
            dict(form=("naive", "plain", "full", *ONLY), envs=(64, 1024)),
            dict(form="vectorised", envs=1),
            dict(form=ONLY, backend=ELSEWHERE), dict(form=ONLY, every=(4, 8, 16)), dict(form=ONLY, batch=BATCHES[1:]),
        ],
        gate=[dict(form="full", backend="torch", envs=1, every=4, batch=32)],
        bench=[
            dict(backend=LOOPING, batch=32, envs=1, every=(1, 4)), dict(backend=LOOPING, batch=32, envs=64, every=4),
            dict(backend=LOOPING, batch=32, envs=1024, every=4, form="vectorised"),
        ],
    ),
    Case(
        "snake", "collect_and_learn", loop_inputs, LEARNING, "environment steps", io="own", reference=None,
        forms=("threaded",), most_calls=1, version=3, cores="own",
        axes={"envs": (64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES}, items=loop_items, flops=loop_flops,
        bench=[dict(backend=LOOPING, batch=32, envs=64, every=4)],
    ),
    Case(
        "snake", "collect_and_learn", functools.partial(loop_inputs, steps=LONG), ("jax", "jax-cuda"),
        "environment steps", io="own", reference=None, forms=("compiled",), most_calls=1, version=3,
        axes={"envs": (1, 64, 1024), "every": (1, 4, 8, 16), "batch": BATCHES},
        items=functools.partial(loop_items, steps=LONG), flops=functools.partial(loop_flops, steps=LONG),
        gate=[dict(backend="jax", envs=1, every=4, batch=32)],
        bench=[dict(batch=32, envs=1, every=(1, 4)), dict(batch=32, envs=(64, 1024), every=4)],
    ),
)  # fmt: skip

FRONT = Front(
    "**snake, the whole loop** in torch: what each optimisation of a DQN is worth alone, and all together, per "
    "environment step, against `naive` and against `plain`:",
    [
        ByForm(
            dict(
                op="collect_and_learn", backend="torch", form=("naive", "plain", "full", *ONLY), envs=1, every=1,
                batch=32,
            ),
            "an update every step", "an environment step",
        )
    ],
)  # fmt: skip
