"""Problems of treasurehunt: seeded inputs and cost of each op.

N agents with their own nets, K worlds of C = 441 cells, frame size F = 150, state size S = 5 F, Q = 12 quantiles,
M = 755 noise numbers, B = 64 transitions of each agent in an update, T turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..common.problem import Problem

SIDE, RADIUS, VIEW, KINDS = 21, 2, 25, 6
ROWS = SIDE + 2 * RADIUS  # of the grid, including walls
FRAME, FRAMES = KINDS * VIEW, 5
HIDDEN, COSINES, QUANTILES, ACTIONS = 250, 64, 12, 4
STATE = FRAMES * FRAME
LAYERS = {
    "state": (STATE, HIDDEN),
    "cos": (COSINES, HIDDEN),
    "hidden": (HIDDEN, HIDDEN),
    "heads": (HIDDEN, 1 + ACTIONS),
}
NOISE = HIDDEN + HIDDEN + HIDDEN + 1 + ACTIONS  # one for each input and output of the two noisy layers
BATCH, CAPACITY, TURNS, EPISODE = 64, 1024, 10, 50
REWARDS = np.array([-10, -1, 0, 5, 10], np.float32)

# Matrix products per input and layer
FORWARD = dict.fromkeys(LAYERS, 1)
LOOKED_UP = FORWARD | {"state": 1 / KINDS}  # cells are one-hot: a sixth of the first layer's rows is enough
# three passes forward, one back: to the weights, and to the inputs of all layers but the first two
UPDATE = {"state": 4, "cos": 4, "hidden": 5, "heads": 5}

LOOP = "rounding changes which actions are taken; the workload's own tests check the loop"


def nets(rng: np.random.Generator, agents: int) -> dict[str, Any]:
    """Return random weights of every agent; the initial sigma of a noisy layer is 0.5 / sqrt(fan_in)."""
    params = {}
    for layer, (rows, columns) in LAYERS.items():
        edge = rows**-0.5
        params[f"w_{layer}"] = rng.uniform(-edge, edge, (agents, rows, columns)).astype(np.float32)
        params[f"b_{layer}"] = rng.uniform(-edge, edge, (agents, columns)).astype(np.float32)
        if layer in ("hidden", "heads"):
            params[f"sw_{layer}"] = np.full((agents, rows, columns), 0.5 * edge, np.float32)
            params[f"sb_{layer}"] = np.full((agents, columns), 0.5 * edge, np.float32)
    return params


def config(rng: np.random.Generator, agents: int) -> dict[str, Any]:
    """Return an op's configuration with an agent's default hyperparameters and random weights."""
    return {
        "params": nets(rng, agents), "target": nets(rng, agents), "learning_rate": 2.5e-4, "gamma": 0.99,
        "gradient_norm": 1.0, "soft_update": 0.001, "settings": {"agents": agents}, "capacity": CAPACITY,
    }  # fmt: skip


def frames(rng: np.random.Generator, *shape: int) -> Any:
    """Return one-hot frames of random cells, f32[*shape, F]."""
    kinds = rng.integers(KINDS, size=(*shape, 1, VIEW))
    return (kinds == np.arange(KINDS)[:, None]).astype(np.float32).reshape(*shape, FRAME)


def states(rng: np.random.Generator, agents: int, batch_size: int) -> Any:
    """Return states of five frames each, f32[N, B, S]."""
    return frames(rng, agents, batch_size, FRAMES).reshape(agents, batch_size, STATE)


def uniform(rng: np.random.Generator, *shape: int) -> Any:
    """Return f32 quantile fractions."""
    return rng.random(shape, np.float32)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    """Return f32 Gaussian noise."""
    return rng.standard_normal(shape, np.float32)


def world_state(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """Return worlds with items in a tenth of the cells and agents on cells without items."""
    cells = np.arange(ROWS * ROWS).reshape(ROWS, ROWS)[RADIUS:-RADIUS, RADIUS:-RADIUS].ravel()
    grid = np.ones((worlds, ROWS * ROWS), np.int8)
    grid[:, cells] = np.where(rng.random((worlds, len(cells))) < 0.1, rng.integers(2, 5, (worlds, len(cells))), 0)
    where = np.array([rng.choice(cells, agents, replace=False) for _ in range(worlds)], np.int32).T
    grid[np.arange(worlds), where] = 0
    return {"grid": grid, "where": where, "turn": np.array(0, np.int32)}


def replay_memory(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """Return a replay memory filled with as many whole episodes as fit, at most four."""
    length = CAPACITY // worlds
    pushed = min(4, length // (EPISODE + 1)) * (EPISODE + 1)
    slots = np.arange(length)
    return {
        "frames": frames(rng, agents, CAPACITY),
        "actions": rng.integers(ACTIONS, size=(agents, CAPACITY)).astype(np.int32),
        "rewards": rng.choice(REWARDS, (agents, CAPACITY)),
        "time": np.where(slots < pushed, slots % (EPISODE + 1), 0).astype(np.int32),
        "last": ((slots < pushed) & (slots % (EPISODE + 1) == EPISODE)).astype(np.int8),
        "pushed": np.array(pushed),
    }


def starts(worlds: int, pushed: int) -> Any:
    """Return the rows where a transition starts once `pushed` rows were stored per world."""
    length = CAPACITY // worlds
    episodes = min(pushed, length) // (EPISODE + 1)
    slots = (pushed - 1 - np.arange(episodes * (EPISODE + 1))) % length
    slots = slots[np.arange(len(slots)) % (EPISODE + 1) != 0]  # without the final row of each episode
    return (np.arange(worlds)[:, None] * length + slots).ravel()


def sampled_rows(rng: np.random.Generator, agents: int, worlds: int, pushed: int) -> Any:
    """Sample B distinct rows of the replay memory for each agent, i64[N, B]."""
    return np.array([rng.choice(starts(worlds, pushed), BATCH, replace=False) for _ in range(agents)])


def acting_draws(rng: np.random.Generator, *shape: int) -> tuple[Any, ...]:
    """Return quantile fractions, exploration flags (one in ten) and random actions."""
    explore = rng.random(shape) < 0.1
    return uniform(rng, *shape, QUANTILES), explore, rng.integers(ACTIONS, size=shape).astype(np.int32)


def training_draws(rng: np.random.Generator, agents: int) -> tuple[Any, ...]:
    """Return quantile fractions for three forward passes and noise for two."""
    return uniform(rng, agents, 3, BATCH, QUANTILES), normal(rng, agents, 2, NOISE)


def turn_draws(rng: np.random.Generator, turns: int, agents: int, worlds: int) -> tuple[Any, ...]:
    """Return the random arguments of T turns: i32[T, K, C] for the worlds, then :func:`acting_draws`."""
    draws = rng.integers(2**31 - 1, size=(turns, worlds, SIDE * SIDE)).astype(np.int32)
    return draws, *acting_draws(rng, turns, agents, worlds)


def loop_config(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """Return a configuration with worlds and a replay memory."""
    start = {"world_state": world_state(rng, agents, worlds), "stored": replay_memory(rng, agents, worlds)}
    return config(rng, agents) | start


def multiplications(batch_size: int, passes: Mapping[str, float]) -> float:
    """Return the number of multiplications for a batch of states, each layer counted `passes` times."""
    return float(
        sum(
            count * batch_size * LAYERS[layer][0] * LAYERS[layer][1] * (1 if layer == "state" else QUANTILES)
            for layer, count in passes.items()
        )
    )


def observe_bytes(agents: int, worlds: int) -> float:
    """Return the bytes of the frames written."""
    return 4.0 * agents * worlds * FRAME


def stack_bytes(agents: int, worlds: int) -> float:
    """Return the bytes of the frames read and the states written."""
    return 2 * 4.0 * agents * worlds * STATE


def sample_bytes(agents: int) -> float:
    """Return the bytes of both states of each transition, read and written."""
    return 2 * stack_bytes(agents, BATCH)


def forward_flops(agents: int, batch_size: int) -> float:
    """Return the FLOPs of one forward pass of every agent."""
    return 2 * agents * multiplications(batch_size, FORWARD)


def forward_bytes(agents: int, batch_size: int) -> float:
    """Return the bytes of states, quantile fractions and noise read, and of quantiles written."""
    return 4.0 * agents * (batch_size * (STATE + QUANTILES + QUANTILES * ACTIONS) + NOISE)


def train_flops(agents: int) -> float:
    """Return the FLOPs of one update of every agent."""
    return 2 * agents * multiplications(BATCH, UPDATE)


def turn_flops(turns: int, agents: int, worlds: int) -> float:
    """Return the FLOPs of acting for T turns.

    With one world, the few rows of the first layer that a state needs can be looked up; many worlds need all rows.
    """
    return 2 * turns * agents * multiplications(worlds, LOOKED_UP if worlds == 1 else FORWARD)


def epoch_flops(agents: int, worlds: int) -> float:
    """Return the FLOPs of an episode and one update of every agent."""
    return turn_flops(EPISODE, agents, worlds) + train_flops(agents)


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Return a treasurehunt :class:`Problem`."""
    return Problem("treasurehunt", op, config, args, **more)


def observe(seed: int, agents: int, worlds: int) -> Problem:
    """Observations of every agent."""
    rng = np.random.default_rng(seed)
    found = {"settings": {"agents": agents}, "world_state": world_state(rng, agents, worlds)}
    return problem("observe", found, unit="observations", items=agents * worlds, bytes=observe_bytes(agents, worlds))


def stack(seed: int, agents: int, worlds: int) -> Problem:
    """States from the previous four frames and the current one."""
    rng = np.random.default_rng(seed)
    return problem(
        "stack", {}, frames(rng, agents, worlds, FRAMES - 1), frames(rng, agents, worlds), unit="states",
        items=agents * worlds, bytes=stack_bytes(agents, worlds),
    )  # fmt: skip


def sample(seed: int, agents: int) -> Problem:
    """One batch of transitions per agent from the replay memory."""
    rng = np.random.default_rng(seed)
    stored = replay_memory(rng, agents, 1)
    return problem(
        "sample", {"stored": stored, "gamma": 0.99}, sampled_rows(rng, agents, 1, int(stored["pushed"])),
        unit="transitions", items=agents * BATCH, bytes=sample_bytes(agents),
    )  # fmt: skip


def quantile_huber(seed: int, batch_size: int) -> Problem:
    """Quantile Huber loss, with errors on both sides of the Huber threshold."""
    rng = np.random.default_rng(seed)
    shape = batch_size, QUANTILES
    return problem(
        "quantile_huber", {}, 2 * normal(rng, *shape), 2 * normal(rng, *shape), uniform(rng, *shape), unit="losses"
    )


def forward_inputs(seed: int, agents: int, batch_size: int) -> tuple[Any, ...]:
    """Return a configuration, and states, quantile fractions and noise for every agent."""
    rng = np.random.default_rng(seed)
    return (
        config(rng, agents), states(rng, agents, batch_size), uniform(rng, agents, batch_size, QUANTILES),
        normal(rng, agents, NOISE),
    )  # fmt: skip


def forward(seed: int, agents: int, batch_size: int) -> Problem:
    """Quantiles of a batch of states per agent."""
    return problem(
        "forward", *forward_inputs(seed, agents, batch_size), unit="states", items=agents * batch_size,
        flops=forward_flops(agents, batch_size), bytes=forward_bytes(agents, batch_size),
    )  # fmt: skip


def first_call(seed: int, agents: int, batch_size: int) -> Problem:
    """Build ``forward`` and call it for the first time; mostly compile time."""
    return problem("first_call", *forward_inputs(seed, agents, batch_size), unit="first calls")


def act(seed: int, agents: int, worlds: int) -> Problem:
    """Actions of every agent in every world, one in ten of them random."""
    rng = np.random.default_rng(seed)
    return problem(
        "act", config(rng, agents), states(rng, agents, worlds), *acting_draws(rng, agents, worlds), unit="actions",
        items=agents * worlds, flops=forward_flops(agents, worlds),
    )  # fmt: skip


def train_step(seed: int, agents: int) -> Problem:
    """One update of every agent."""
    rng = np.random.default_rng(seed)
    batch = (
        states(rng, agents, BATCH),
        rng.integers(ACTIONS, size=(agents, BATCH)).astype(np.int32),
        rng.choice(REWARDS, (agents, BATCH)),
        states(rng, agents, BATCH),
        np.float32(0.99) ** rng.integers(1, 4, (agents, BATCH)).astype(np.float32),
    )
    return problem(
        "train_step", config(rng, agents), *batch, *training_draws(rng, agents), unit="updates", items=agents,
        flops=train_flops(agents), reference="torch", tolerance=1e-4,
    )  # fmt: skip


def gradient(seed: int) -> Problem:
    """Loss and gradient of one agent: an update without the optimiser."""
    whole = train_step(seed, 1)
    found = {part: {name: value[0] for name, value in whole.config[part].items()} for part in ("params", "target")}
    return problem(
        "gradient", found, *(array[0] for array in whole.args), unit="gradients", flops=whole.flops,
        reference="torch", tolerance=1e-4,
    )  # fmt: skip


def draw(seed: int) -> Problem:
    """Distinct rows of the replay memory for one batch, sampled by each library's own generator."""
    return problem(
        "draw", {"seed": seed, "capacity": CAPACITY, "batch": BATCH}, unit="draws", repeatable=False,
        unreferenced="each library draws numbers of its own",
    )  # fmt: skip


def turn(seed: int, agents: int, worlds: int) -> Problem:
    """Ten turns with scaled-up nets, so that actions depend on the observations and on who moved before."""
    rng = np.random.default_rng(seed)
    found = loop_config(rng, agents, worlds)
    params = found["params"]
    params["w_state"] *= 3
    params["w_hidden"] *= 3
    params["w_heads"] -= params["w_heads"].mean(axis=1, keepdims=True)
    params["b_heads"][:] = 0
    return problem(
        "turn", found, *turn_draws(rng, TURNS, agents, worlds), io="own", unit="turns", items=TURNS * worlds,
        flops=turn_flops(TURNS, agents, worlds), max_calls=EPISODE // TURNS, unreferenced=LOOP,
    )  # fmt: skip


def epoch(seed: int, agents: int, worlds: int) -> Problem:
    """An episode of fifty turns and one update of every agent."""
    rng = np.random.default_rng(seed)
    found = loop_config(rng, agents, worlds)
    reset = rng.integers(2**31 - 1, size=(worlds, SIDE * SIDE)).astype(np.int32)
    rows = sampled_rows(rng, agents, worlds, int(found["stored"]["pushed"]) + EPISODE + 1)
    return problem(
        "epoch", found, reset, *turn_draws(rng, EPISODE, agents, worlds), rows, *training_draws(rng, agents), io="own",
        unit="turns", items=EPISODE * worlds, flops=epoch_flops(agents, worlds), max_calls=1, unreferenced=LOOP,
    )  # fmt: skip
