"""What the ops of treasurehunt are built from and called with: every name, with shapes and units, checked at build.

N agents, K worlds of C = height * width cells inside walls and G cells with them, B transitions, R rows of a memory,
L of a lane of it, F numbers a frame, S = 5 F, Q quantiles, A = 4 moves, M numbers of noise, H hidden units, T turns.
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
VALUES = np.array([0, -1, 10, 5, -10, 0], np.float32)  # the reward of moving towards a cell of each kind
BLOCKING = (WALL, AGENT)
COLOURS = np.array(
    [[200, 200, 200], [70, 70, 70], [40, 90, 220], [60, 170, 60], [240, 240, 220], [220, 60, 60]], np.uint8
)
ACTIONS = 4
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])  # row, column: up, down, left, right
DRAWS = 2**31 - 1  # a draw is an integer from 0 to DRAWS - 1
OBSERVATIONS = {"onehot": KINDS, "rgb": 3}  # channels
FRAMES = 5  # in a stack, which is what a net sees


@dataclass(frozen=True)
class Settings:
    """The size of a world and what happens in it; hashable, so that it can be a static argument.

    A world is ``height`` x ``width`` cells inside walls, kept as a grid padded by ``radius`` walls on every side, so
    that no view reaches past its edge.

    Attributes:
        agents: in a world.
        height: of a world, in cells, without its walls.
        width: of a world, in cells, without its walls.
        radius: cells that an agent sees in each direction.
        spawn: chance that an item appears in an empty cell in a turn.
        turns: length of an episode.
        observation: what an agent sees of a cell, its kind one-hot or its colour.

    Raises:
        ValueError: no agents, more agents than cells, a vision radius larger than the world, a kind of observation
            that is not known, a chance that is none.
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
        """Cells along an edge of what an agent sees."""
        return 2 * self.radius + 1

    @property
    def frame(self):
        """Numbers in one observation."""
        return OBSERVATIONS[self.observation] * self.side**2

    @property
    def threshold(self):
        """An item appears in a cell where its draw is below this number."""
        return int(self.spawn * DRAWS)

    @property
    def steps(self):
        """By how much each action changes the index of a cell in the flat padded grid, i32[4]."""
        return (MOVES @ [self.columns, 1]).astype(np.int32)


def settings_of(spec):
    """Return the :class:`Settings` that an op is built for, the usual ones where the spec names none.

    Args:
        spec: what the op is built from.
    """
    return Settings(**spec.get("settings", {}))


class Spec(TypedDict, total=False):
    """What an op is built from; which of it an op needs is said in ``NEEDED``.

    Attributes:
        params: weights of the online nets, see ``NETS``.
        target: weights of the target nets, of the same shapes.
        learning_rate: of Adam.
        gamma: discount of one turn.
        gradient_norm: to which the gradient of each agent is clipped.
        soft_update: by how much the target net moves to the online net after an update.
        settings: of the worlds, the arguments of :class:`Settings`; the usual ones where they are left out.
        world_state: the worlds at the start, see ``WORLD_STATE``.
        stored: what the memory holds at the start, see ``MEMORY``.
        capacity: frames that the memory of an agent keeps, over all worlds.
        worker_timeout: seconds to wait for an agent that has a process of its own; 120 by default.
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
        "grid": "i8[K, G]",  # what lies in the cells, without the agents
        "where": "i32[N, K]",  # the cell that each agent stands on
        "turn": "i32",  # turns played
    }
)
MEMORY = MappingProxyType(
    {
        "frames": "f32[N, R, F]",
        "actions": "i32[N, R]",
        "rewards": "f32[N, R]",
        "time": "i32[L]",  # turns since the episode began
        "last": "i8[L]",  # 0, or how the episode ended that this row is the final one of: 1 truncated, 2 terminated
        "pushed": "i64",  # rows that each lane was ever given
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
    """Return the sizes that the spec of an op gives: ``{"N": 5, "S": 750, ...}``.

    Args:
        op: its name.
        spec: what it is built from, see :class:`Spec`.

    Raises:
        ValueError: shapes that do not fit each other.
    """
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
