"""Benchmark problems of snake: seeded inputs and the cost of each op in FLOPs and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.problem import Problem
from ..params import count_mlp, init_mlp

DIM, START, BORDER = 10, 3, 3  # side of the board, length of a new snake, distance of its head from the border
SIZES = (DIM * DIM, 256, 256, 4)
MULTIPLICATIONS = count_mlp(SIZES)  # per board
CAPACITY, STORED = 10_000, 1_000  # transitions: the replay buffer's capacity and initial size
STEPS = {1: 64, 64: 4, 1024: 1}  # by num_envs: steps of each environment per call of the loop
COMPILED_STEPS = {1: 1024, 64: 16, 1024: 1}  # for a compiled loop, whose call overhead equals several steps
UNREFERENCED = {  # by form
    "bfloat16": "bfloat16 rounds more coarsely than float32; the workload's own tests bound the difference",
    "tf32": "TF32 rounds more coarsely than float32",
    "int8": "int8 rounds more coarsely than float32; the workload's own tests bound the difference",
    "ddp": "the workload's own tests compare two processes with one",
}


def start_state(rng: np.random.Generator, num_envs: int) -> dict[str, Any]:
    """Return the state of N new games: straight snakes at random cells, and food on a random free cell."""
    row, column = rng.integers(BORDER, DIM - BORDER, (2, num_envs))
    heading = rng.integers(4, size=num_envs)
    head, stride = row * DIM + column, np.array([-DIM, 1, DIM, -1])[heading]
    lifetimes = np.zeros((num_envs, DIM * DIM), np.float32)
    for k in range(START):
        lifetimes[np.arange(num_envs), head - k * stride] = START - k
    food = np.where(lifetimes == 0, rng.random(lifetimes.shape), -1).argmax(axis=1)
    length = np.full(num_envs, START)
    return {
        "lifetimes": lifetimes, "head": head, "heading": heading, "length": length, "food": food,
        "steps": np.zeros_like(length),
    }  # fmt: skip


def boards(rng: np.random.Generator, count: int) -> Any:
    """Return observations f32[count, 100] of new games."""
    state = start_state(rng, count)
    board = state["lifetimes"] / np.float32(START)
    board[np.arange(count), state["food"]] = -1
    return board


def transitions(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Return obs, actions, rewards, next_obs and terminated of random transitions."""
    return (
        boards(rng, count),
        rng.integers(0, 4, count).astype(np.int32),
        rng.choice(np.array([-1, -0.01, 1], np.float32), count),
        boards(rng, count),
        (rng.random(count) < 0.1).astype(np.float32),
    )


def moves(rng: np.random.Generator, num_steps: int, num_envs: int) -> Any:
    """Return random actions i32[T, N]."""
    return rng.integers(0, 4, (num_steps, num_envs)).astype(np.int32)


def draws(rng: np.random.Generator, num_steps: int, num_envs: int) -> Any:
    """Return the environments' random numbers, i32[T, N, 3]."""
    return rng.integers(2**31 - 1, size=(num_steps, num_envs, 3)).astype(np.int32)


def config(rng: np.random.Generator) -> dict[str, Any]:
    """Return a configuration with the agent's settings."""
    params, target = init_mlp(rng, SIZES), init_mlp(rng, SIZES)
    return {"params": params, "target": target, "learning_rate": 1e-3, "gamma": 0.99, "max_grad_norm": 10.0}


def loop_steps(num_envs: int, form: str = "full") -> int:
    """Return the steps T of each environment per call of the loop."""
    return (COMPILED_STEPS if form == "compiled" else STEPS)[num_envs]


def forward_flops(num_envs: int) -> float:
    """Return the FLOPs of the Q-values of N boards."""
    return 2.0 * MULTIPLICATIONS * num_envs


def transition_bytes(count: int) -> float:
    """Return the bytes of both boards of each transition, read and written."""
    return 2 * 2 * 4.0 * DIM**2 * count


def train_flops(batch_size: int) -> float:
    """Return the FLOPs of an update; the backward pass skips the target net and the inputs of the first layer."""
    return 2.0 * batch_size * (4 * MULTIPLICATIONS - SIZES[0] * SIZES[1])


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Create a problem of this workload."""
    return Problem("snake", op, config, args, **more)


def forward(seed: int, num_envs: int, form: str = "full") -> Problem:
    """Q-values of one board per environment; int8 products do not count as FLOPs."""
    rng = np.random.default_rng(seed)
    cost = {"flops": forward_flops(num_envs), "bytes": 4.0 * (SIZES[0] + SIZES[-1]) * num_envs}
    return problem(
        "forward", config(rng), boards(rng, num_envs), io="host", unit="boards", items=num_envs,
        unreferenced=UNREFERENCED.get(form, ""), **({} if form == "int8" else cost),
    )  # fmt: skip


def act(seed: int, num_envs: int) -> Problem:
    """One action per environment; about one in ten explores, but never the first."""
    rng = np.random.default_rng(seed)
    explore = rng.random(num_envs) < 0.1
    explore[0] = False
    return problem(
        "act", config(rng), boards(rng, num_envs), explore, rng.integers(0, 4, num_envs).astype(np.int32), io="own",
        unit="moves", items=num_envs, flops=forward_flops(num_envs),
    )  # fmt: skip


def env_step(seed: int, num_envs: int) -> Problem:
    """Eight random actions in each environment."""
    rng = np.random.default_rng(seed)
    return problem(
        "env_step", {"env_state": start_state(rng, num_envs)}, moves(rng, 8, num_envs), draws(rng, 8, num_envs),
        unit="environment steps", items=8 * num_envs,
        # actions and draws read; rewards, ends and last boards written
        bytes=(8 * (4 + 3 * 4 + 4 + 1) + 4.0 * DIM**2) * num_envs,
    )  # fmt: skip


def remember(seed: int) -> Problem:
    """Store 64 transitions in a full replay buffer of 1,000."""
    rng = np.random.default_rng(seed)
    return problem(
        "remember", {"stored": transitions(rng, STORED)}, *transitions(rng, 64), unit="transitions", items=64,
        bytes=transition_bytes(64),
    )  # fmt: skip


def sample(seed: int, batch_size: int) -> Problem:
    """Take a batch from a full replay buffer."""
    rng = np.random.default_rng(seed)
    return problem(
        "sample", {"stored": transitions(rng, CAPACITY)}, rng.choice(CAPACITY, batch_size, replace=False), io="own",
        unit="transitions", items=batch_size, bytes=transition_bytes(batch_size), options={"batch_size": batch_size},
    )  # fmt: skip


def train_step(seed: int, batch_size: int, form: str = "full") -> Problem:
    """One update of the online network."""
    rng = np.random.default_rng(seed)
    reference = {"reference": "torch", "tolerance": 1e-4}
    if form in UNREFERENCED:
        reference = {"unreferenced": UNREFERENCED[form]}
    return problem(
        "train_step", config(rng), *transitions(rng, batch_size), unit="updates", flops=train_flops(batch_size),
        options={"batch_size": batch_size}, **reference,
    )  # fmt: skip


def collect_and_learn(seed: int, num_envs: int, train_frequency: int, batch_size: int, form: str = "full") -> Problem:
    """Play and learn; the loop starts shortly before the target network takes the online weights."""
    rng = np.random.default_rng(seed)
    num_steps, whole_round = loop_steps(num_envs, form), max(num_envs, train_frequency)  # updates fall on whole rounds
    total = num_steps * num_envs
    # an update follows a step of all environments
    played = -(np.arange(train_frequency, total + 1, train_frequency) // -num_envs) * num_envs
    rows = np.array([rng.choice(STORED + stored, batch_size, replace=False) for stored in played])
    everything = config(rng) | {
        "env_state": start_state(rng, num_envs), "stored": transitions(rng, STORED), "capacity": CAPACITY,
        "target_frequency": 1000, "step": max(0, 1000 - total // 2) // whole_round * whole_round,
    }  # fmt: skip
    # The number of exploring steps must not depend on the seed: a single environment skips the net in these steps
    explore = (rng.permutation(total) < total // 10).reshape(num_steps, num_envs)
    return problem(
        "collect_and_learn", everything, explore, moves(rng, num_steps, num_envs), draws(rng, num_steps, num_envs),
        rows, io="own", unit="environment steps", items=total,
        flops=total * (forward_flops(1) + train_flops(batch_size) / train_frequency), max_calls=1,
        unreferenced="rounding changes which moves are taken; the workload's own tests replay the moves in float64",
        options={"train_frequency": train_frequency, "batch_size": batch_size},
    )  # fmt: skip
