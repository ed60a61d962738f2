"""What a treasure hunt is made of: the kinds of cells, their values, and the settings of a world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..common.checks import check_choice, check_fields

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


@dataclass(frozen=True)
class Settings:
    """The size of a world and what happens in it; hashable, so that it can be a static argument.

    A world is ``height`` x ``width`` cells inside walls, kept as a grid padded by ``radius`` walls on every side, so
    that no view reaches past its edge. ``turns`` is the length of an episode.

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
        """A cell spawns where its draw is below this."""
        return int(self.spawn * DRAWS)

    @property
    def steps(self):
        """How far each action goes in the flat padded grid."""
        return (MOVES @ [self.columns, 1]).astype(np.int32)


def settings_of(spec):
    """Return the settings that a builder is given, the usual ones where none are named."""
    return Settings(**spec.get("settings", {}))
