"""Configuration fields and arguments of snake's ops, with shapes and units; both are checked at build time.

N environments, B transitions of a batch, M stored transitions, O = dim * dim cells per board, A = 4 actions, T steps,
U updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypedDict

from ..common.checks import check_fields
from ..common.shapes import check_mlp, sizes


class Spec(TypedDict, total=False):
    """Configuration of an op; ``NEEDED`` lists the fields that each op requires.

    Attributes:
        params: weights of the online network, ``w{k}`` f32[I, O], ``b{k}`` f32[O].
        target: weights of the target network, of the same shapes.
        learning_rate: learning rate of Adam.
        gamma: discount factor.
        gradient_norm: maximum norm of the gradient, which is clipped to it.
        target_every: environment steps between copies of the online weights to the target network; 0: no target net.
        geometry: arguments of :class:`Geometry`; missing ones have its defaults.
        env_state: initial state of the games, see ``ENV_STATE``.
        stored: initial contents of the replay buffer, oldest first, in the columns of ``STORED``.
        capacity: capacity of the replay buffer in transitions.
        step: environment steps made before the start.
        worker_timeout: seconds that each of two processes waits for the other; 60 by default.
    """

    params: Mapping[str, Any]
    target: Mapping[str, Any]
    learning_rate: float
    gamma: float
    gradient_norm: float
    target_every: int
    geometry: Mapping[str, int]
    env_state: Mapping[str, Any]
    stored: Sequence[Any]
    capacity: int
    step: int
    worker_timeout: float


ENV_STATE = MappingProxyType(
    {
        "lifetimes": "f32[N, O]",  # steps that a cell remains part of the snake
        "head": "i64[N]",  # cell, counted row by row; food likewise
        "heading": "i64[N]",  # 0 up, 1 right, 2 down, 3 left
        "length": "i64[N]",
        "food": "i64[N]",
        "steps": "i64[N]",  # since the game began
    }
)
STORED = MappingProxyType(
    {"obs": "f32[M, O]", "action": "i32[M]", "reward": "f32[M]", "next_obs": "f32[M, O]", "terminated": "f32[M]"}
)
TRAINED = ("params", "target", "learning_rate", "gamma", "gradient_norm")
NEEDED = MappingProxyType(
    {
        "forward": ("params",),
        "act": ("params",),
        "env_step": ("env_state",),
        "remember": ("stored",),
        "sample": ("stored",),
        "train_step": TRAINED,
        "collect_and_learn": (*TRAINED, "env_state", "stored", "capacity", "target_every", "step"),
    }
)
ARGUMENTS = MappingProxyType(
    {
        "forward": {"obs": "f32[N, O]"},
        "act": {"obs": "f32[N, O]", "explore": "bool[N]", "random_actions": "i32[N]"},
        "env_step": {"actions": "i32[T, N]", "draws": "i32[T, N, 3]"},
        "remember": {name: shape.replace("M", "K") for name, shape in STORED.items()},
        "sample": {"rows": "i64[B]"},
        "train_step": {name: shape.replace("M", "B") for name, shape in STORED.items()},
        "collect_and_learn": {
            "explore": "bool[T, N]", "random_actions": "i32[T, N]", "draws": "i32[T, N, 3]", "rows": "i64[U, B]",
        },
    }
)  # fmt: skip


@dataclass(frozen=True)
class Geometry:
    """Board and start of a snake; hashable, so that it can be a static argument of ``jax.jit``.

    The head starts on one of ``side**2`` cells, at least ``dist_to_border`` cells from every border, with the body
    straight behind it. A valid geometry always leaves a free cell for the first food; others raise a ValueError.

    Attributes:
        starting_blocks: initial length of a snake, in cells.
        dim: number of rows and of columns.
        dist_to_border: minimum number of cells between the initial head and the border.
        max_steps: environment steps after which an episode is truncated.
    """

    starting_blocks: int = 3
    dim: int = 10
    dist_to_border: int = 3
    max_steps: int = 500

    def __post_init__(self):
        check_fields(self, dim=(2, 1024), max_steps=(1,))
        check_fields(self, dist_to_border=(0, (self.dim - 1) // 2, ", to leave a cell to start on"))
        check_fields(self, starting_blocks=(1, self.dist_to_border + 1, ", to lie on the board for every heading"))

    @property
    def cells(self):
        """Number of cells of the board."""
        return self.dim**2

    @property
    def side(self):
        """Side length of the square of cells where a head may start."""
        return self.dim - 2 * self.dist_to_border


def geometry_of(spec):
    """Return the :class:`Geometry` of a spec."""
    return Geometry(**spec.get("geometry", {}))


def has_target_net(spec):
    """Return whether the TD target uses a target network, not the online one: ``target_every`` is not 0."""
    return spec.get("target_every") != 0


def axes(op, spec):
    """Return the axis sizes implied by an op's spec, ``{"O": 100, "A": 4, "N": 64}``; its shapes must agree."""
    known = {}
    if "params" in NEEDED[op]:
        known["O"], known["A"] = check_mlp("params", spec["params"])
    if "env_state" in NEEDED[op]:
        known = sizes(ENV_STATE, [spec["env_state"][name] for name in ENV_STATE], **known)
    if "stored" in NEEDED[op]:
        known = sizes(STORED, spec["stored"], **known)
    return known
