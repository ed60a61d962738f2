"""Configuration, weights, state and arguments of each treasurehunt op, with shapes; checked when an op is built.

N agents, K worlds of C = height * width cells inside walls and G cells including walls, B transitions, R memory rows,
L rows per lane, F frame size, S = 5 F, Q quantiles, A = 4 moves, M noise numbers, H hidden units, T turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np

from ..common.checks import check_choice, check_fields
from ..common.shapes import sizes

EMPTY, WALL, GEM, FOOD, BONE, AGENT = range(6)
KINDS = 6
ITEMS = (GEM, FOOD, BONE)
VALUES = np.array([0, -1, 10, 5, -10, 0], np.float32)  # reward for moving towards a cell of each kind
BLOCKING = (WALL, AGENT)
COLOURS = np.array(
    [[200, 200, 200], [70, 70, 70], [40, 90, 220], [60, 170, 60], [240, 240, 220], [220, 60, 60]], np.uint8
)
ACTIONS = 4
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])  # row, column: up, down, left, right
DRAWS = 2**31 - 1  # random draws are integers from 0 to DRAWS - 1
OBSERVATIONS = {"onehot": KINDS, "rgb": 3}  # channels
FRAMES = 5  # stacked frames per state


@dataclass(frozen=True)
class Settings:
    """World settings; hashable, so that they can be a static argument.

    A world has ``height`` x ``width`` cells inside walls. Its grid is padded by ``radius`` walls on every side, so that
    no view reaches past the edge.

    Attributes:
        agents: number of agents in a world.
        height: height of a world in cells, without its walls.
        width: width of a world in cells, without its walls.
        radius: number of cells that an agent sees in each direction.
        spawn: probability per turn that an item appears in an empty cell.
        turns: turns per episode.
        observation: encoding of a cell that an agent sees, its kind one-hot or its colour.
    """

    agents: int = 5
    height: int = 21
    width: int = 21
    radius: int = 2
    spawn: float = 0.005
    turns: int = 50
    observation: str = "onehot"

    def __post_init__(self):
        check_fields(self, height=(1, 1024), width=(1, 1024), turns=(1,), spawn=(0, 1))
        check_fields(self, agents=(1, self.height * self.width, ", the cells there are"))
        check_fields(self, radius=(1, max(self.height, self.width), ", the size of the world"))
        check_choice("observation", self.observation, OBSERVATIONS)

    @property
    def rows(self):
        """Rows of the padded grid."""
        return self.height + 2 * self.radius

    @property
    def columns(self):
        """Columns of the padded grid."""
        return self.width + 2 * self.radius

    @property
    def side(self):
        """Side length of a view, in cells."""
        return 2 * self.radius + 1

    @property
    def frame(self):
        """Size of one observation, F."""
        return OBSERVATIONS[self.observation] * self.side**2

    @property
    def threshold(self):
        """Draws below this number spawn an item."""
        return int(self.spawn * DRAWS)

    @property
    def steps(self):
        """Change of the flat cell index by each action, i32[4]."""
        return (MOVES @ [self.columns, 1]).astype(np.int32)


def settings_of(spec):
    """Return the :class:`Settings` of an op, with defaults for whatever `spec` leaves out."""
    return Settings(**spec.get("settings", {}))


class Spec(TypedDict, total=False):
    """Configuration of an op; ``NEEDED`` lists the entries that each op needs.

    Attributes:
        params: weights of the online nets, see ``NETS``.
        target: weights of the target nets, of the same shapes.
        learning_rate: learning rate of Adam.
        gamma: discount per turn.
        gradient_norm: maximum norm of each agent's gradient.
        soft_update: fraction by which the target net moves to the online net after an update.
        settings: arguments of :class:`Settings`, optional.
        world_state: initial state of the worlds, see ``WORLD_STATE``.
        stored: initial contents of the replay memory, see ``MEMORY``.
        capacity: frames per agent in the replay memory, over all worlds.
        worker_timeout: seconds to wait for an agent's worker process; 120 by default.
    """

    params: Mapping[str, Any]
    target: Mapping[str, Any]
    learning_rate: float
    gamma: float
    gradient_norm: float
    soft_update: float
    settings: Mapping[str, Any]
    world_state: Mapping[str, Any]
    stored: Mapping[str, Any]
    capacity: int
    worker_timeout: float


NETS = MappingProxyType(
    {
        "w_state": "f32[N, S, H]", "b_state": "f32[N, H]", "w_cos": "f32[N, 64, H]", "b_cos": "f32[N, H]",
        "w_hidden": "f32[N, H, H]", "b_hidden": "f32[N, H]", "sw_hidden": "f32[N, H, H]", "sb_hidden": "f32[N, H]",
        "w_heads": "f32[N, H, D]", "b_heads": "f32[N, D]", "sw_heads": "f32[N, H, D]", "sb_heads": "f32[N, D]",
    }
)  # fmt: skip
WORLD_STATE = MappingProxyType(
    {
        "grid": "i8[K, G]",  # kind of each cell, without the agents
        "where": "i32[N, K]",  # cell index of each agent
        "turn": "i32",  # turns played
    }
)
MEMORY = MappingProxyType(
    {
        "frames": "f32[N, R, F]",
        "actions": "i32[N, R]",
        "rewards": "f32[N, R]",
        "time": "i32[L]",  # turns since the episode began
        "last": "i8[L]",  # 0, or at the final row of an episode, 1 truncated or 2 terminated
        "pushed": "i64",  # rows ever stored in each lane
    }
)
TRAINED = ("params", "target", "learning_rate", "gradient_norm", "soft_update")
LOOP = (*TRAINED, "gamma", "world_state", "stored", "capacity")
NEEDED = MappingProxyType(
    {
        "observe": ("world_state",),
        "stack": (),
        "sample": ("stored", "gamma"),
        "quantile_huber": (),
        "forward": ("params",),
        "act": ("params",),
        "train_step": TRAINED,
        "turn": LOOP,
        "epoch": LOOP,
        "first_call": ("params",),
    }
)
FORWARD = {"states": "f32[N, B, S]", "taus": "f32[N, B, Q]", "noise": "f32[N, M]"}
TURN = {
    "draws": "i32[T, K, C]", "taus": "f32[T, N, K, Q]", "explore": "bool[T, N, K]", "random_actions": "i32[T, N, K]",
}  # fmt: skip
UPDATE = {"train_taus": "f32[N, 3, B, Q]", "noise": "f32[N, 2, M]"}
ARGUMENTS = MappingProxyType(
    {
        "observe": {},
        "stack": {"recent": "f32[N, K, 4, F]", "frame": "f32[N, K, F]"},
        "sample": {"rows": "i64[N, B]"},
        "quantile_huber": {"online": "f32[B, Q]", "targets": "f32[B, P]", "taus": "f32[B, Q]"},
        "forward": FORWARD,
        "act": {
            "states": "f32[N, K, S]", "taus": "f32[N, K, Q]", "explore": "bool[N, K]", "random_actions": "i32[N, K]",
        },
        "train_step": {
            "states": "f32[N, B, S]", "actions": "i32[N, B]", "returns": "f32[N, B]", "next_states": "f32[N, B, S]",
            "discounts": "f32[N, B]", **UPDATE,
        },
        "turn": TURN,
        "epoch": {"reset_draws": "i32[K, C]", **TURN, "rows": "i64[N, B]", **UPDATE},
        "first_call": FORWARD,
    }
)  # fmt: skip


def axes(op, spec):
    """Return the axis sizes that `spec` determines, such as ``{"N": 5}``; raise ValueError if they conflict."""
    known, settings = {}, settings_of(spec)
    if "params" in NEEDED[op]:
        net = spec["params"]
        if net.keys() != NETS.keys():
            raise ValueError(f"params: got {', '.join(net)}, wanted {', '.join(NETS)}")
        known = sizes(NETS, [net[name] for name in NETS])
        known["M"] = 3 * known["H"] + known["D"]  # one for each input and output of the noisy layers
    if op in ("turn", "epoch"):
        wanted = settings.agents, FRAMES * settings.frame
        if (known["N"], known["S"]) != wanted:
            raise ValueError(f"params: got {known['N']} nets of {known['S']} inputs, wanted {wanted[0]} of {wanted[1]}")
    return known
