"""What the ops of snake are built from and called with: every name, with shapes and units, checked at build.

N environments, B transitions of a batch, M transitions that are stored, O = dim * dim numbers a board, A = 4 moves, T
steps, U updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypedDict

from ..common.checks import check_fields
from ..common.shapes import check_mlp, sizes


class Spec(TypedDict, total=False):
    """What an op is built from; which of it an op needs is said in ``NEEDED``.

    Attributes:
        params: weights of the online net, ``w{k}`` f32[I, O], ``b{k}`` f32[O].
        target: weights of the target net, of the same shapes.
        learning_rate: of Adam.
        gamma: discount of one step.
        gradient_norm: to which the gradient is clipped.
        target_every: environment steps from one copy of the online net to the target net to the next; 0: no target net.
        geometry: of the board, the arguments of :class:`Geometry`; the usual one where it is left out.
        env_state: the games at the start, see ``ENV_STATE``.
        stored: what the memory holds at the start, oldest first, the columns of ``STORED``.
        capacity: transitions that the memory keeps.
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
        "lifetimes": "f32[N, O]",  # steps that a cell stays part of the snake
        "head": "i64[N]",  # cell, counted row by row, as food
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
    """The board and the start of a snake; hashable, so that it can be a static argument.

    The head starts on one of ``side**2`` cells, ``dist_to_border`` or more away from every border, with the body
    straight behind it. What the checks let through always leaves a free cell for the first food.

    Attributes:
        starting_blocks: length of a snake at the start, in cells.
        dim: rows, and columns, of the board.
        dist_to_border: cells between the head at the start and the border.
        max_steps: after which an episode is truncated.

    Raises:
        ValueError: a board or a snake that cannot be.
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
        """Rows, and columns, of the square of cells where a head may start."""
        return self.dim - 2 * self.dist_to_border


def geometry_of(spec):
    """Return the :class:`Geometry` that an op is built for, the usual one where the spec names none.

    Args:
        spec: what the op is built from.
    """
    return Geometry(**spec.get("geometry", {}))


def has_target_net(spec):
    """Return whether a target net gives the TD target; where ``target_every`` is 0, the online net does.

    Args:
        spec: what the op is built from.
    """
    return spec.get("target_every") != 0


def axes(op, spec):
    """Return the sizes that the spec of an op gives: ``{"O": 100, "A": 4, "N": 64}``.

    Args:
        op: its name.
        spec: what it is built from, see :class:`Spec`.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    known = {}
    if "params" in NEEDED[op]:
        known["O"], known["A"] = check_mlp("params", spec["params"])
    if "env_state" in NEEDED[op]:
        known = sizes(ENV_STATE, [spec["env_state"][name] for name in ENV_STATE], **known)
    if "stored" in NEEDED[op]:
        known = sizes(STORED, spec["stored"], **known)
    return known
