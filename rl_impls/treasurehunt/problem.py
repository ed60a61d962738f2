"""Problems of treasurehunt: seeded inputs and cost of each op."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..common.problem import Problem
from ._numpy import init_params, layer_sizes

SIDE, RADIUS, VIEW, KINDS = 21, 2, 25, 6
ROWS = SIDE + 2 * RADIUS  # of the grid, including walls
FRAME, FRAMES = KINDS * VIEW, 5
HIDDEN, QUANTILES, ACTIONS = 250, 12, 4
STATE = FRAMES * FRAME
LAYERS = layer_sizes(STATE, HIDDEN)
NOISE = HIDDEN + HIDDEN + HIDDEN + 1 + ACTIONS  # one for each input and output of the two noisy layers
BATCH, CAPACITY, TURNS, EPISODE = 64, 1024, 10, 50
REWARDS = np.array([-10, -1, 0, 5, 10], np.float32)

# Matrix products per input and layer
FORWARD = dict.fromkeys(LAYERS, 1)
LOOKED_UP = FORWARD | {"state": 1 / KINDS}  # cells are one-hot: a sixth of the first layer's rows is enough
# three passes forward, one back: to the weights, and to the inputs of all layers but the first two
UPDATE = {"state": 4, "cos": 4, "hidden": 5, "heads": 5}

LOOP = "rounding changes which actions are taken; the workload's own tests check the loop"


def config(rng: np.random.Generator, num_agents: int) -> dict[str, Any]:
    """Return an op's configuration with an agent's default hyperparameters and random weights."""
    params, target = (init_params(rng, num_agents, STATE, HIDDEN) for _ in range(2))
    return {
        "params": params, "target": target, "learning_rate": 2.5e-4, "gamma": 0.99, "max_grad_norm": 1.0,
        "soft_update": 0.001, "settings": {"num_agents": num_agents}, "capacity": CAPACITY,
    }  # fmt: skip


def frames(rng: np.random.Generator, *shape: int) -> Any:
    """Return one-hot frames of random cells, f32[*shape, F]."""
    kinds = rng.integers(KINDS, size=(*shape, 1, VIEW))
    return (kinds == np.arange(KINDS)[:, None]).astype(np.float32).reshape(*shape, FRAME)


def states(rng: np.random.Generator, num_agents: int, batch_size: int) -> Any:
    """Return states of five frames each, f32[N, B, S]."""
    return frames(rng, num_agents, batch_size, FRAMES).reshape(num_agents, batch_size, STATE)


def uniform(rng: np.random.Generator, *shape: int) -> Any:
    """Return uniform numbers in [0, 1), f32[*shape]."""
    return rng.random(shape, np.float32)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    """Return standard normal numbers, f32[*shape]."""
    return rng.standard_normal(shape, np.float32)


def world_state(rng: np.random.Generator, num_agents: int, num_worlds: int) -> dict[str, Any]:
    """Return worlds with items in a tenth of the cells and agents on cells without items."""
    cells = np.arange(ROWS * ROWS).reshape(ROWS, ROWS)[RADIUS:-RADIUS, RADIUS:-RADIUS].ravel()
    grid = np.ones((num_worlds, ROWS * ROWS), np.int8)
    shape = num_worlds, len(cells)
    grid[:, cells] = np.where(rng.random(shape) < 0.1, rng.integers(2, 5, shape), 0)
    where = np.array([rng.choice(cells, num_agents, replace=False) for _ in range(num_worlds)], np.int32).T
    grid[np.arange(num_worlds), where] = 0
    return {"grid": grid, "where": where, "turn": np.array(0, np.int32)}


def replay_memory(rng: np.random.Generator, num_agents: int, num_worlds: int, episodes: int = 4) -> dict[str, Any]:
    """Return a replay memory filled with as many whole episodes as fit, at most `episodes`."""
    length = CAPACITY // num_worlds
    pushed = min(episodes, length // (EPISODE + 1)) * (EPISODE + 1)
    slots = np.arange(length)
    return {
        "frames": frames(rng, num_agents, CAPACITY),
        "actions": rng.integers(ACTIONS, size=(num_agents, CAPACITY)).astype(np.int32),
        "rewards": rng.choice(REWARDS, (num_agents, CAPACITY)),
        "time": np.where(slots < pushed, slots % (EPISODE + 1), 0).astype(np.int32),
        "last": (slots < pushed) & (slots % (EPISODE + 1) == EPISODE),
        "pushed": np.array(pushed),
    }


def sampled_rows(
    rng: np.random.Generator, num_agents: int, num_worlds: int, pushed: int, batch_size: int = BATCH
) -> Any:
    """Sample B rows for each agent where a transition starts, i64[N, B], once `pushed` rows were stored per world."""
    length = CAPACITY // num_worlds
    episodes = min(pushed, length) // (EPISODE + 1)
    slots = (pushed - 1 - np.arange(episodes * (EPISODE + 1))) % length
    slots = slots[np.arange(len(slots)) % (EPISODE + 1) != 0]  # without the final row of each episode
    starts = (np.arange(num_worlds)[:, None] * length + slots).ravel()
    return np.array([rng.choice(starts, batch_size, replace=False) for _ in range(num_agents)])


def acting_draws(rng: np.random.Generator, *shape: int) -> tuple[Any, ...]:
    """Return quantile fractions f32[*shape, Q], flags to explore (one in ten) and random actions, [*shape] each."""
    explore = rng.random(shape) < 0.1
    return uniform(rng, *shape, QUANTILES), explore, rng.integers(ACTIONS, size=shape).astype(np.int32)


def training_draws(rng: np.random.Generator, num_agents: int, batch_size: int = BATCH) -> tuple[Any, ...]:
    """Return quantile fractions f32[N, 3, B, Q] for three forward passes, and noise f32[N, 2, M] for two."""
    return uniform(rng, num_agents, 3, batch_size, QUANTILES), normal(rng, num_agents, 2, NOISE)


def turn_draws(rng: np.random.Generator, turns: int, num_agents: int, num_worlds: int) -> tuple[Any, ...]:
    """Return the random arguments of T turns: i32[T, K, C] for the worlds, then :func:`acting_draws`."""
    draws = rng.integers(2**31 - 1, size=(turns, num_worlds, SIDE * SIDE)).astype(np.int32)
    return draws, *acting_draws(rng, turns, num_agents, num_worlds)


def loop_config(rng: np.random.Generator, num_agents: int, num_worlds: int) -> dict[str, Any]:
    """Return a configuration with worlds and a replay memory."""
    state, stored = world_state(rng, num_agents, num_worlds), replay_memory(rng, num_agents, num_worlds)
    return config(rng, num_agents) | {"world_state": state, "stored": stored}


def multiplications(batch_size: int, passes: Mapping[str, float]) -> float:
    """Return the number of multiplications for a batch of states, each layer counted `passes` times."""
    return float(
        sum(
            count * batch_size * LAYERS[layer][0] * LAYERS[layer][1] * (1 if layer == "state" else QUANTILES)
            for layer, count in passes.items()
        )
    )


def stack_bytes(num_agents: int, num_worlds: int) -> float:
    """Return the bytes of the frames read and the states written."""
    return 2 * 4.0 * num_agents * num_worlds * STATE


def forward_flops(num_agents: int, batch_size: int) -> float:
    """Return the FLOPs of one forward pass of every agent."""
    return 2 * num_agents * multiplications(batch_size, FORWARD)


def train_flops(num_agents: int, batch_size: int = BATCH) -> float:
    """Return the FLOPs of one update of every agent."""
    return 2 * num_agents * multiplications(batch_size, UPDATE)


def turn_flops(turns: int, num_agents: int, num_worlds: int) -> float:
    """Return the FLOPs of acting for T turns.

    With one world, the few rows of the first layer that a state needs can be looked up; many worlds need all rows.
    """
    return 2 * turns * num_agents * multiplications(num_worlds, LOOKED_UP if num_worlds == 1 else FORWARD)


def problem(op: str, config: dict[str, Any], *args: Any, **more: Any) -> Problem:
    """Return a treasurehunt :class:`Problem`."""
    return Problem("treasurehunt", op, config, args, **more)


def observe(seed: int, num_agents: int, num_worlds: int) -> Problem:
    """What every agent sees in every world."""
    rng = np.random.default_rng(seed)
    worlds = {"settings": {"num_agents": num_agents}, "world_state": world_state(rng, num_agents, num_worlds)}
    return problem(
        "observe", worlds, unit="observations", items=num_agents * num_worlds,
        bytes=4.0 * num_agents * num_worlds * FRAME,
    )  # fmt: skip


def stack(seed: int, num_agents: int, num_worlds: int) -> Problem:
    """States from the previous four frames and the current one."""
    rng, shape = np.random.default_rng(seed), (num_agents, num_worlds)
    return problem(
        "stack", {}, frames(rng, *shape, FRAMES - 1), frames(rng, *shape), unit="states",
        items=num_agents * num_worlds, bytes=stack_bytes(*shape),
    )  # fmt: skip


def sample(seed: int, num_agents: int, batch_size: int = BATCH) -> Problem:
    """One batch of transitions per agent from the replay memory."""
    rng = np.random.default_rng(seed)
    stored = replay_memory(rng, num_agents, 1, episodes=max(4, math.ceil(batch_size / EPISODE)))
    rows = sampled_rows(rng, num_agents, 1, int(stored["pushed"]), batch_size)
    return problem(
        "sample", {"stored": stored, "gamma": 0.99}, rows, unit="transitions", items=num_agents * batch_size,
        bytes=2 * stack_bytes(num_agents, batch_size),  # both states of each transition
    )  # fmt: skip


def quantile_huber(seed: int, batch_size: int) -> Problem:
    """Quantile Huber loss, with errors on both sides of the Huber threshold."""
    rng = np.random.default_rng(seed)
    shape = batch_size, QUANTILES
    return problem(
        "quantile_huber", {}, 2 * normal(rng, *shape), 2 * normal(rng, *shape), uniform(rng, *shape), unit="losses"
    )


def forward_inputs(seed: int, num_agents: int, batch_size: int) -> tuple[Any, ...]:
    """Return a configuration, and states, quantile fractions and noise for every agent."""
    rng = np.random.default_rng(seed)
    return (
        config(rng, num_agents), states(rng, num_agents, batch_size), uniform(rng, num_agents, batch_size, QUANTILES),
        normal(rng, num_agents, NOISE),
    )  # fmt: skip


def forward(seed: int, num_agents: int, batch_size: int) -> Problem:
    """Quantiles of a batch of states per agent."""
    return problem(
        "forward", *forward_inputs(seed, num_agents, batch_size), unit="states", items=num_agents * batch_size,
        flops=forward_flops(num_agents, batch_size),
        # states, quantile fractions and noise read, quantiles written
        bytes=4.0 * num_agents * (batch_size * (STATE + QUANTILES + QUANTILES * ACTIONS) + NOISE),
    )  # fmt: skip


def first_call(seed: int, num_agents: int, batch_size: int) -> Problem:
    """Build ``forward`` and call it for the first time; mostly compile time."""
    return problem("first_call", *forward_inputs(seed, num_agents, batch_size), unit="first calls")


def act(seed: int, num_agents: int, num_worlds: int) -> Problem:
    """Actions of every agent in every world, one in ten of them random."""
    rng = np.random.default_rng(seed)
    return problem(
        "act", config(rng, num_agents), states(rng, num_agents, num_worlds), *acting_draws(rng, num_agents, num_worlds),
        unit="actions", items=num_agents * num_worlds, flops=forward_flops(num_agents, num_worlds),
    )  # fmt: skip


def train_step(seed: int, num_agents: int, batch_size: int = BATCH) -> Problem:
    """One update of every agent."""
    rng, shape = np.random.default_rng(seed), (num_agents, batch_size)
    batch = (
        states(rng, *shape),
        rng.integers(ACTIONS, size=shape).astype(np.int32),
        rng.choice(REWARDS, shape),
        states(rng, *shape),
        np.float32(0.99) ** rng.integers(1, 4, shape).astype(np.float32),
    )
    return problem(
        "train_step", config(rng, num_agents), *batch, *training_draws(rng, *shape), unit="updates",
        items=num_agents, flops=train_flops(*shape), reference="torch", tolerance=1e-4,
    )  # fmt: skip


def gradient(seed: int) -> Problem:
    """Loss and gradient of one agent: an update without the optimiser."""
    update = train_step(seed, 1)
    nets = {net: {name: value[0] for name, value in update.config[net].items()} for net in ("params", "target")}
    return problem(
        "gradient", nets, *(array[0] for array in update.args), unit="gradients", flops=update.flops,
        reference="torch", tolerance=1e-4,
    )  # fmt: skip


def draw(seed: int) -> Problem:
    """Distinct rows of the replay memory for one batch, sampled by each library's own generator."""
    return problem(
        "draw", {"seed": seed, "capacity": CAPACITY, "batch_size": BATCH}, unit="draws", repeatable=False,
        unreferenced="each library draws numbers of its own",
    )  # fmt: skip


def turn(seed: int, num_agents: int, num_worlds: int) -> Problem:
    """Ten turns with scaled-up nets, so that actions depend on the observations and on who moved before."""
    rng = np.random.default_rng(seed)
    config = loop_config(rng, num_agents, num_worlds)
    params = config["params"]
    params["w_state"] *= 3
    params["w_hidden"] *= 3
    params["w_heads"] -= params["w_heads"].mean(axis=1, keepdims=True)
    params["b_heads"][:] = 0
    return problem(
        "turn", config, *turn_draws(rng, TURNS, num_agents, num_worlds), io="own", unit="turns",
        items=TURNS * num_worlds, flops=turn_flops(TURNS, num_agents, num_worlds), max_calls=EPISODE // TURNS,
        unreferenced=LOOP,
    )  # fmt: skip


def epoch(seed: int, num_agents: int, num_worlds: int, keyed: bool = False) -> Problem:
    """An episode of fifty turns and one update of every agent; if `keyed`, the arguments are a key and epsilon."""
    rng = np.random.default_rng(seed)
    config = loop_config(rng, num_agents, num_worlds)
    draws: tuple[Any, ...]
    if keyed:
        config["batch_size"] = BATCH
        draws = rng.integers(2**32, size=2, dtype=np.uint32), np.float32(0.1)
    else:
        reset_draws = rng.integers(2**31 - 1, size=(num_worlds, SIDE * SIDE)).astype(np.int32)
        rows = sampled_rows(rng, num_agents, num_worlds, int(config["stored"]["pushed"]) + EPISODE + 1)
        turns = turn_draws(rng, EPISODE, num_agents, num_worlds)
        draws = reset_draws, *turns, rows, *training_draws(rng, num_agents)
    return problem(
        "epoch", config, *draws, io="own", unit="turns", items=EPISODE * num_worlds,
        flops=turn_flops(EPISODE, num_agents, num_worlds) + train_flops(num_agents), max_calls=1, unreferenced=LOOP,
    )  # fmt: skip
