"""treasurehunt: worlds, nets and whole epochs of many agents that each learn alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..case import Case, Inputs, Pattern
from ..front import ByColumn, Front

AGENTS, WORLDS = (1, 5, 16), (1, 16)
SIDE, RADIUS, VIEW, KINDS = 21, 2, 25, 6
ROWS = SIDE + 2 * RADIUS
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
LEARNING = ("torch", "torch-compile", "jax", "torch-cuda", "jax-cuda")


def nets(rng: np.random.Generator, agents: int) -> dict[str, Any]:
    """Weights of every agent; the spread of a noisy layer starts at 0.5 / sqrt(inputs).

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
    """
    params = {}
    for layer, (rows, columns) in LAYERS.items():
        edge = rows**-0.5
        params[f"w_{layer}"] = rng.uniform(-edge, edge, (agents, rows, columns)).astype(np.float32)
        params[f"b_{layer}"] = rng.uniform(-edge, edge, (agents, columns)).astype(np.float32)
        if layer in ("hidden", "heads"):
            params[f"sw_{layer}"] = np.full((agents, rows, columns), 0.5 * edge, np.float32)
            params[f"sb_{layer}"] = np.full((agents, columns), 0.5 * edge, np.float32)
    return params


def spec(rng: np.random.Generator, agents: int) -> dict[str, Any]:
    """Everything nets are trained with.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
    """
    return {
        "params": nets(rng, agents), "target": nets(rng, agents), "learning_rate": 2.5e-4, "gamma": 0.99,
        "gradient_norm": 1.0, "soft_update": 0.001, "settings": {"agents": agents}, "capacity": CAPACITY,
    }  # fmt: skip


def frames(rng: np.random.Generator, *shape: int) -> Any:
    """What agents see, drawn: each cell of one kind, one-hot.  f32[..., F]

    Args:
        rng: the generator of all that is drawn.
        shape: of the array, but for its last axis.
    """
    kinds = rng.integers(KINDS, size=(*shape, 1, VIEW))
    return (kinds == np.arange(KINDS)[:, None]).astype(np.float32).reshape(*shape, FRAME)


def uniform(rng: np.random.Generator, *shape: int) -> Any:
    """Quantiles f32.

    Args:
        rng: the generator of all that is drawn.
        shape: of the array.
    """
    return rng.random(shape, np.float32)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    """Noise f32.

    Args:
        rng: the generator of all that is drawn.
        shape: of the array.
    """
    return rng.standard_normal(shape, np.float32)


def world_state(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """Worlds in which a cell in ten has an item, and agents on cells that have none.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    cells = np.arange(ROWS * ROWS).reshape(ROWS, ROWS)[RADIUS:-RADIUS, RADIUS:-RADIUS].ravel()
    grid = np.ones((worlds, ROWS * ROWS), np.int8)
    grid[:, cells] = np.where(rng.random((worlds, len(cells))) < 0.1, rng.integers(2, 5, (worlds, len(cells))), 0)
    where = np.array([rng.choice(cells, agents, replace=False) for _ in range(worlds)], np.int32).T
    grid[np.arange(worlds), where] = 0
    return {"grid": grid, "where": where, "turn": np.array(0, np.int32)}


def stored(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """A memory that holds as many whole episodes as there is room for, at most four.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    length = CAPACITY // worlds
    pushed = min(4, length // (EPISODE + 1)) * (EPISODE + 1)
    slots = np.arange(length)
    return {
        "frames": frames(rng, agents, CAPACITY),
        "actions": rng.integers(ACTIONS, size=(agents, CAPACITY)).astype(np.int32),
        "rewards": rng.choice(np.array([-10, -1, 0, 5, 10], np.float32), (agents, CAPACITY)),
        "time": np.where(slots < pushed, slots % (EPISODE + 1), 0).astype(np.int32),
        "last": ((slots < pushed) & (slots % (EPISODE + 1) == EPISODE)).astype(np.int8),
        "pushed": np.array(pushed),
    }


def starts(worlds: int, pushed: int) -> Any:
    """Rows of whole episodes, after ``pushed`` rows of each lane.

    Args:
        worlds: how many are played at once.
        pushed: rows that each lane of the memory has been given so far.
    """
    length = CAPACITY // worlds
    episodes = min(pushed, length) // (EPISODE + 1)
    slots = (pushed - 1 - np.arange(episodes * (EPISODE + 1))) % length
    slots = slots[np.arange(len(slots)) % (EPISODE + 1) != 0]  # but for the final row of each
    return (np.arange(worlds)[:, None] * length + slots).ravel()


def rows_of(rng: np.random.Generator, agents: int, worlds: int, pushed: int) -> Any:
    """Different rows for each agent's batch.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
        pushed: rows that each lane of the memory has been given so far.
    """
    return np.array([rng.choice(starts(worlds, pushed), BATCH, replace=False) for _ in range(agents)])


def observe_inputs(rng: np.random.Generator, agents: int, worlds: int) -> Inputs:
    """Worlds to look at.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return Inputs({"settings": {"agents": agents}, "world_state": world_state(rng, agents, worlds)})


def stack_inputs(rng: np.random.Generator, agents: int, worlds: int) -> Inputs:
    """The last frames of each agent, and the present one.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return Inputs({}, (frames(rng, agents, worlds, FRAMES - 1), frames(rng, agents, worlds)))


def sample_inputs(rng: np.random.Generator, agents: int) -> Inputs:
    """A memory and the rows wanted.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
    """
    memory = stored(rng, agents, 1)
    return Inputs({"stored": memory, "gamma": 0.99}, (rows_of(rng, agents, 1, int(memory["pushed"])),))


def huber_inputs(rng: np.random.Generator, batch: int) -> Inputs:
    """Quantiles of a batch, on both sides of the corner of the Huber loss.

    Args:
        rng: the generator of all that is drawn.
        batch: rows of quantiles.
    """
    shape = batch, QUANTILES
    return Inputs({}, (2 * normal(rng, *shape), 2 * normal(rng, *shape), uniform(rng, *shape)))


def forward_inputs(rng: np.random.Generator, agents: int, batch: int) -> Inputs:
    """States, quantiles and noise of every agent.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        batch: states of each agent.
    """
    states = frames(rng, agents, batch, FRAMES).reshape(agents, batch, STATE)
    return Inputs(spec(rng, agents), (states, uniform(rng, agents, batch, QUANTILES), normal(rng, agents, NOISE)))


def act_inputs(rng: np.random.Generator, agents: int, worlds: int) -> Inputs:
    """A state of every agent; one in ten explores.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    states = frames(rng, agents, worlds, FRAMES).reshape(agents, worlds, STATE)
    return Inputs(spec(rng, agents), (states, *choices(rng, agents, worlds)))


def choices(rng: np.random.Generator, *shape: int) -> tuple[Any, ...]:
    """What choosing an action needs of randomness: quantiles, whether to explore, and by what.

    Args:
        rng: the generator of all that is drawn.
        shape: of the array, but for its last axis.
    """
    explore = rng.random(shape) < 0.1
    return uniform(rng, *shape, QUANTILES), explore, rng.integers(ACTIONS, size=shape).astype(np.int32)


def train_draws(rng: np.random.Generator, agents: int) -> tuple[Any, ...]:
    """What an update needs of randomness: quantiles three times, noise twice.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
    """
    return uniform(rng, agents, 3, BATCH, QUANTILES), normal(rng, agents, 2, NOISE)


def train_inputs(rng: np.random.Generator, agents: int) -> Inputs:
    """A batch of every agent.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
    """
    states, next_states = (frames(rng, agents, BATCH, FRAMES).reshape(agents, BATCH, STATE) for _ in range(2))
    actions = rng.integers(ACTIONS, size=(agents, BATCH)).astype(np.int32)
    returns = rng.choice(np.array([-10, -1, 0, 5, 10], np.float32), (agents, BATCH))
    discounts = np.float32(0.99) ** rng.integers(1, 4, (agents, BATCH)).astype(np.float32)
    draws = train_draws(rng, agents)
    return Inputs(spec(rng, agents), (states, actions, returns, next_states, discounts, *draws))


def played(rng: np.random.Generator, turns: int, agents: int, worlds: int) -> tuple[Any, ...]:
    """Every draw of T turns: of the worlds i32[T, K, C], and of the agents.

    Args:
        rng: the generator of all that is drawn.
        turns: how many, T.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    draws = rng.integers(2**31 - 1, size=(turns, worlds, SIDE * SIDE)).astype(np.int32)
    return draws, *choices(rng, turns, agents, worlds)


def loop_start(rng: np.random.Generator, agents: int, worlds: int) -> dict[str, Any]:
    """Everything a loop starts from.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    start = {"world_state": world_state(rng, agents, worlds), "stored": stored(rng, agents, worlds)}
    return spec(rng, agents) | start


def turn_inputs(rng: np.random.Generator, agents: int, worlds: int) -> Inputs:
    """Ten turns of agents whose best action depends on what they see: on who has moved before them, too.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    start = loop_start(rng, agents, worlds)
    params = start["params"]
    params["w_state"] *= 3
    params["w_hidden"] *= 3
    params["w_heads"] -= params["w_heads"].mean(axis=1, keepdims=True)
    params["b_heads"][:] = 0
    return Inputs(start, played(rng, TURNS, agents, worlds))


def epoch_inputs(rng: np.random.Generator, agents: int, worlds: int) -> Inputs:
    """An episode of fifty turns and an update of every agent.

    Args:
        rng: the generator of all that is drawn.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    start = loop_start(rng, agents, worlds)
    reset = rng.integers(2**31 - 1, size=(worlds, SIDE * SIDE)).astype(np.int32)
    rows = rows_of(rng, agents, worlds, int(start["stored"]["pushed"]) + EPISODE + 1)
    return Inputs(start, (reset, *played(rng, EPISODE, agents, worlds), rows, *train_draws(rng, agents)))


def multiplications(rows: int, passes: Mapping[str, float]) -> float:
    """Multiplications of ``rows`` states, each layer as many times as ``passes`` says.

    Args:
        rows: states.
        passes: by the layer's name, how often each of them multiplies by its weights.
    """
    return float(
        sum(
            count * rows * LAYERS[layer][0] * LAYERS[layer][1] * (1 if layer == "state" else QUANTILES)
            for layer, count in passes.items()
        )
    )


FORWARD = dict.fromkeys(LAYERS, 1)
LOOKED_UP = FORWARD | {"state": 1 / KINDS}  # one cell is of one kind, so a sixth of the first layer's rows is enough
# three passes forward, one back: to the weights, and to the inputs of all layers but the first two
UPDATE = {"state": 4, "cos": 4, "hidden": 5, "heads": 5}


def observe_bytes(agents: int, worlds: int) -> float:
    """Bytes of a frame of every agent, written.

    Args:
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return 4.0 * agents * worlds * FRAME


def stack_bytes(agents: int, worlds: int) -> float:
    """Bytes of a state of every agent, its frames read and the state written.

    Args:
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return 2 * 4.0 * agents * worlds * STATE


def sample_bytes(agents: int) -> float:
    """Bytes of both states of each transition, read and written.

    Args:
        agents: how many, each with nets of its own.
    """
    return 2 * stack_bytes(agents, BATCH)


def forward_flops(agents: int, batch: int) -> float:
    """FLOPs of a batch of every agent.

    Args:
        agents: how many, each with nets of its own.
        batch: states of each agent.
    """
    return 2 * agents * multiplications(batch, FORWARD)


def forward_bytes(agents: int, batch: int) -> float:
    """Bytes of states, taus and noise read, and of quantiles written.

    Args:
        agents: how many, each with nets of its own.
        batch: states of each agent.
    """
    return 4.0 * agents * (batch * (STATE + QUANTILES + QUANTILES * ACTIONS) + NOISE)


def act_flops(agents: int, worlds: int) -> float:
    """FLOPs of a state of every agent.

    Args:
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return forward_flops(agents, worlds)


def train_flops(agents: int) -> float:
    """FLOPs of an update of every agent.

    Args:
        agents: how many, each with nets of its own.
    """
    return 2 * agents * multiplications(BATCH, UPDATE)


def play_flops(turns: int, agents: int, worlds: int) -> float:
    """FLOPs of the nets that act.

    The rows of the first layer that one state needs can be looked up; the states of many worlds need them all.

    Args:
        turns: how many, T.
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return 2 * turns * agents * multiplications(worlds, LOOKED_UP if worlds == 1 else FORWARD)


def turn_flops(agents: int, worlds: int) -> float:
    """FLOPs of ten turns.

    Args:
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return play_flops(TURNS, agents, worlds)


def epoch_flops(agents: int, worlds: int) -> float:
    """FLOPs of an episode and an update of every agent.

    Args:
        agents: how many, each with nets of its own.
        worlds: how many are played at once.
    """
    return play_flops(EPISODE, agents, worlds) + train_flops(agents)


OURS = ("jax", "jax-cuda")
ONE_BY_ONE: list[Pattern] = [  # where the nets of several agents are not called, or differently
    dict(form="naive", backend=("torch-compile", *OURS)),
    dict(form="one_by_one", backend=("torch-compile", "torch-cuda", "jax-cuda")),
    dict(form="one_by_one", agents=1),
]
REFERENCE: Pattern = dict(form=("naive", "one_by_one"), backend="numpy")
SHOWN: list[Pattern] = [dict(agents=5), dict(agents=1, backend=("torch", "torch-cuda", *OURS))]
SLOWER = ("naive", "one_by_one", "bfloat16", "interleaved")
LOOPS = ("naive", "one_by_one", "full", "bfloat16", "interleaved", "compiled")
NO_LOOP: list[Pattern] = [
    dict(form=SLOWER, backend=("torch-compile", "torch-cuda", "jax-cuda")),
    dict(form="compiled", backend=("torch", "torch-compile", "torch-cuda")),
]
SHOWN_LOOPS: list[Pattern] = [
    dict(agents=5, worlds=1, form=("naive", "one_by_one", "interleaved")),
    dict(agents=5, form=("full", "compiled")),
]

CASES = (
    Case(
        "treasurehunt", "observe", observe_inputs, ("numpy", "jax", "jax-cuda"), "observations",
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: agents * worlds,
        bytes=observe_bytes,
        exclude=[dict(form="naive", backend=OURS)],
        gate=[dict(form="full", backend="numpy", agents=5, worlds=1)], bench=[{}],
    ),
    Case(
        "treasurehunt", "stack", stack_inputs, ("numpy", "jax", "jax-cuda"), "states", version=2,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: agents * worlds,
        bytes=stack_bytes,
        exclude=[dict(form="naive", backend=OURS)], bench=[dict(agents=5)],
    ),
    Case(
        "treasurehunt", "sample", sample_inputs, ("numpy", "jax", "jax-cuda"), "transitions",
        axes={"agents": AGENTS}, items=lambda agents: agents * BATCH,
        bytes=sample_bytes,
        exclude=[dict(form="naive", backend=OURS)],
        gate=[dict(form="full", backend="numpy", agents=5)], bench=[{}],
    ),
    Case(
        "treasurehunt", "quantile_huber", huber_inputs, ("numpy", *LEARNING), "losses", forms=("full",),
        axes={"batch": (64,)}, items=lambda batch: 1, bench=[{}],
    ),
    Case(
        "treasurehunt", "forward", forward_inputs, ("numpy", *LEARNING), "states", version=3,
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS, "batch": (64,)},
        items=lambda agents, batch: agents * batch,
        flops=forward_flops, bytes=forward_bytes,
        exclude=[*ONE_BY_ONE, REFERENCE], bench=[*SHOWN, dict(agents=1, backend="numpy")],
    ),
    Case(
        "treasurehunt", "act", act_inputs, ("numpy", *LEARNING), "actions", version=3,
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS, "worlds": WORLDS},
        items=lambda agents, worlds: agents * worlds,
        flops=act_flops,
        exclude=[*ONE_BY_ONE, REFERENCE], bench=[*SHOWN, dict(agents=1, backend="numpy")],
        gate=[dict(form="full", backend=("torch", "jax"), agents=5, worlds=1)],
    ),
    Case(
        "treasurehunt", "train_step", train_inputs, LEARNING, "updates", reference="torch", tolerance=1e-4,
        forms=("naive", "one_by_one", "full"), axes={"agents": AGENTS}, items=lambda agents: agents,
        flops=train_flops, version=3,
        exclude=ONE_BY_ONE, gate=[dict(form="full", backend=("torch", "jax"), agents=5)], bench=SHOWN,
    ),
    Case(
        "treasurehunt", "train_step", train_inputs, ("torch", "jax"), "updates", reference=None,
        forms=("bfloat16",), axes={"agents": AGENTS}, items=lambda agents: agents,
        flops=train_flops, bench=[dict(agents=5)],
    ),
    Case(
        "treasurehunt", "first_call", forward_inputs, ("torch", "torch-compile", "jax"), "first calls",
        forms=("full",), axes={"agents": (5,), "batch": (64,)}, items=lambda agents, batch: 1,
        bench=[dict(backend=("torch", "jax"))],
    ),
    Case(
        "treasurehunt", "turn", turn_inputs, LEARNING, "turns", forms=LOOPS, io="own", reference=None,
        most_calls=EPISODE // TURNS,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: TURNS * worlds,
        flops=turn_flops, version=3,
        gate=[
            dict(form="full", backend="torch", agents=5, worlds=1),
            dict(form="compiled", backend="jax", agents=5, worlds=1),
        ],
        exclude=NO_LOOP, bench=SHOWN_LOOPS,
    ),
    Case(
        "treasurehunt", "epoch", epoch_inputs, LEARNING, "turns", forms=LOOPS, io="own", reference=None, most_calls=1,
        cores="all", version=2,
        axes={"agents": AGENTS, "worlds": WORLDS}, items=lambda agents, worlds: EPISODE * worlds,
        flops=epoch_flops,
        # torch's epoch is its turns and its update, which are gated
        gate=[dict(form="compiled", backend="jax", agents=5, worlds=1)], exclude=NO_LOOP, bench=SHOWN_LOOPS,
    ),
    Case(
        "treasurehunt", "epoch", epoch_inputs, ("torch", "jax"), "turns", io="own", reference=None, most_calls=1,
        cores="own", forms=("processes",), axes={"agents": AGENTS, "worlds": WORLDS},
        items=lambda agents, worlds: EPISODE * worlds,
        flops=epoch_flops,
        bench=[dict(backend="torch", agents=5, worlds=1)],
    ),
)  # fmt: skip

FRONT = Front(
    "**treasurehunt**, five agents that each learn alone, a call of each op in torch and in JAX. What NumPy does of "
    "the torch program is marked; the last column is the best of torch over the best of JAX:",
    [
        ByColumn(
            dict(agents=5), "five agents, float32",
            {
                "torch: agent by agent": dict(form="naive", backend=("torch", "numpy")),
                "torch: at once": dict(form="full", backend=("torch", "numpy")),
                "torch-compile": dict(form="full", backend="torch-compile"),
                "jax: agent by agent": dict(form="one_by_one", backend="jax"),
                "jax: vmap": dict(form="full", backend="jax"), "jax: one program": dict(form="compiled", backend="jax"),
            },
        ),
        ByColumn(
            dict(agents=5), "five agents, bfloat16",
            {"torch": dict(form="bfloat16", backend="torch"), "jax": dict(form="bfloat16", backend="jax")},
        ),
    ],
)  # fmt: skip
