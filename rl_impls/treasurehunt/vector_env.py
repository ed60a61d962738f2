"""K treasure hunts with N agents each, as Python objects or as one set of arrays; both give identical results.

Random draws are arguments: integers i32[K, height * width] from 0 to ``DRAWS`` - 1. The state, also in
:mod:`.jax_env`, is ``grid`` i8[K, rows * columns], the kind of each cell without the agents; ``where`` i32[N, K],
the cell index of each agent; and ``turn`` i32[], the number of turns played, the same in all worlds.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..common.checks import check_integer
from ..common.config import Field, config

EMPTY, WALL, GEM, FOOD, BONE, AGENT = range(6)
KINDS = 6
ITEMS = (GEM, FOOD, BONE)
VALUES = np.array([0, -1, 10, 5, -10, 0], np.float32)  # reward for moving towards a cell of each kind
BLOCKING = (WALL, AGENT)
FREE = ~np.isin(np.arange(KINDS), BLOCKING)
COLOURS = np.array(
    [[200, 200, 200], [70, 70, 70], [40, 90, 220], [60, 170, 60], [240, 240, 220], [220, 60, 60]], np.uint8
)
CODES = {"onehot": np.eye(KINDS, dtype=np.float32), "rgb": COLOURS / np.float32(255)}  # [KINDS, C]
ACTIONS = 4
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])  # row, column: up, down, left, right
DRAWS = 2**31 - 1  # random draws are integers from 0 to DRAWS - 1


@config
class Settings:
    """Settings of the worlds; hashable, so that they can be a static argument.

    A world has ``height`` x ``width`` cells inside walls. Its grid is padded by ``radius`` walls on every side, so that
    no view reaches past the edge.
    """

    num_agents: int = Field(5, ge=1, description="number of agents in a world")
    height: int = Field(21, ge=1, le=1024, description="height of a world in cells, without its walls")
    width: int = Field(21, ge=1, le=1024, description="width of a world in cells, without its walls")
    radius: int = Field(2, ge=1, description="number of cells that an agent sees in each direction")
    spawn: float = Field(0.005, ge=0, le=1, description="probability per turn that an item appears in an empty cell")
    turns: int = Field(50, ge=1, description="turns per episode")
    observation: Literal["onehot", "rgb"] = Field(
        "onehot", description="encoding of each cell that an agent sees: its kind (onehot) or its colour (rgb)"
    )

    def __post_init__(self):
        size = max(self.height, self.width)
        if self.num_agents > self.cells:
            raise ValueError(f"num_agents={self.num_agents} should be at most {self.cells}, the cells of a world")
        if self.radius > size:
            raise ValueError(f"radius={self.radius} should be at most {size}, the size of the world")

    @property
    def cells(self):
        """Number of cells inside the walls."""
        return self.height * self.width

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
        return CODES[self.observation].shape[1] * self.side**2

    @property
    def threshold(self):
        """Draws below this number spawn an item."""
        return int(self.spawn * DRAWS)

    @property
    def steps(self):
        """Change of the flat cell index by each action, i32[4]."""
        return (MOVES @ [self.columns, 1]).astype(np.int32)


def interior(settings):
    """Return the indices of the cells inside the walls, row by row, i64[height * width]."""
    cells = np.arange(settings.rows * settings.columns).reshape(settings.rows, settings.columns)
    edge = settings.radius
    return cells[edge:-edge, edge:-edge].reshape(-1)


def window(settings):
    """Return the offset of each cell of a view from its centre in the flat grid, i64[side * side]."""
    reach = np.arange(-settings.radius, settings.radius + 1)
    return (reach[:, None] * settings.columns + reach).reshape(-1)


def empty_grid(settings):
    """Return a world without items, i8[rows * columns]."""
    grid = np.full(settings.rows * settings.columns, WALL, np.int8)
    grid[interior(settings)] = EMPTY
    return grid


def check_integers(name, values, shape, high):
    """Return `values` as an array, or raise ValueError unless they are integers of `shape` in [0, `high`].

    `high=None` skips the range check.
    """
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "iu":
        raise ValueError(f"{name} should be integers {list(shape)}, not {values.dtype}{list(values.shape)}")
    if high is not None and (values.min() < 0 or values.max() > high):
        raise ValueError(f"{name} should be from 0 to {high}, not {values.min()} to {values.max()}")
    return values


class Worlds:
    """K worlds of N agents; subclasses differ in how they store, update and observe the cells.

    In a turn, agents move in index order, each to the adjacent cell above, below, left or right; then items spawn in
    empty cells. The reward is the value of the cell ahead. A wall (-1) or another agent (0) blocks the move; an item is
    collected by entering its cell.

    Raises:
        ValueError: an invalid number of worlds, actions, draws, agent or state. The worlds are left unchanged.
    """

    def __init__(self, settings, num_worlds):
        self.settings, self.num_worlds = settings, check_integer("num_worlds", num_worlds, 1)
        self.build()
        self.reset(np.zeros((num_worlds, settings.cells), np.int32))

    def build(self):
        """Allocate and precompute what all episodes share."""

    def reset(self, draws):
        """Empty the worlds and place agent n on the cell with the n-th smallest draw; return obs f32[N, K, F]."""
        order = np.argsort(self.check_draws(draws), axis=1, kind="stable")[:, : self.settings.num_agents]
        grid = empty_grid(self.settings)[None].repeat(self.num_worlds, axis=0)
        self.load(grid, interior(self.settings)[order.T])
        self.turn = 0
        return self.observe()

    def advance(self, actions, draws):
        """Play a turn; return obs f32[N, K, F], rewards f32[N, K] and truncated, a bool.

        `actions` are int[N, K], 0 up, 1 down, 2 left, 3 right; `draws` i32[K, height * width].
        """
        actions = check_integers("actions", actions, (self.settings.num_agents, self.num_worlds), ACTIONS - 1)
        draws = self.check_draws(draws)
        rewards = self.move(0, actions)
        truncated = self.finish_turn(draws)
        return self.observe(), rewards, truncated

    def move_agent(self, agent, actions):
        """Move one agent in every world by `actions`, int[K]; return its rewards, f32[K]."""
        self.check_agent(agent)
        return self.move(agent, check_integers("actions", actions, (self.num_worlds,), ACTIONS - 1)[None])[0]

    def end_turn(self, draws):
        """Spawn items and count the turn; return whether this truncates the episode."""
        return self.finish_turn(self.check_draws(draws))

    def finish_turn(self, draws):
        """End the turn without checking `draws`."""
        self.spawn(draws)
        self.turn += 1
        return self.turn == self.settings.turns

    def get_state(self):
        """Return copies by name: ``grid`` i8[K, rows * columns], ``where`` i32[N, K], ``turn`` i32[]."""
        cells, where = self.dump()
        grid = np.where(cells == AGENT, np.int8(EMPTY), cells)
        return {"grid": grid, "where": where.astype(np.int32), "turn": np.array(self.turn, np.int32)}

    def set_state(self, state):
        if set(state) != {"grid", "where", "turn"}:
            raise ValueError(f"state should have grid, where and turn, not {', '.join(sorted(state))}")
        settings, cells = self.settings, self.settings.rows * self.settings.columns
        grid = check_integers("grid", state["grid"], (self.num_worlds, cells), AGENT - 1)
        where = check_integers("where", state["where"], (settings.num_agents, self.num_worlds), cells - 1)
        turn = check_integers("turn", state["turn"], (), 2**31 - 1)
        if (np.delete(grid, interior(settings), axis=1) != WALL).any():
            raise ValueError("grid should have walls all around")
        empty = (grid[np.arange(self.num_worlds), where] == EMPTY).all()
        if not empty or not np.diff(np.sort(where, axis=0), axis=0).all():
            raise ValueError(f"where={where.tolist()} should be empty cells, a different one for each agent of a world")
        self.load(grid, where)
        self.turn = int(turn)

    def check_draws(self, draws):
        """Return `draws` as an array int[K, height * width], or raise ValueError."""
        return check_integers("draws", draws, (self.num_worlds, self.settings.cells), None)

    def check_agent(self, agent):
        """Raise ValueError unless `agent` is a valid index."""
        check_integer("agent", agent, 0, self.settings.num_agents - 1)


class CellWorld:
    """One world as nested lists of cells, agents included; each view is cropped from a picture of the whole world.

    `grid` i8[rows * columns] has no agents in it; `where` int[N] are their cell indices.
    """

    def __init__(self, settings, grid, where):
        self.settings = settings
        self.cells = grid.reshape(settings.rows, settings.columns).tolist()
        self.places = [divmod(cell, settings.columns) for cell in where.tolist()]
        self.codes = dict(enumerate(CODES[settings.observation]))
        for row, column in self.places:
            self.cells[row][column] = AGENT

    def observe(self, agent):
        """Paint the whole world and crop the view of one agent, f32[F]."""
        rows, columns, radius = self.settings.rows, self.settings.columns, self.settings.radius
        picture = np.zeros((len(self.codes[EMPTY]), rows, columns), np.float32)
        for row in range(rows):
            for column in range(columns):
                picture[:, row, column] = self.codes[self.cells[row][column]]
        row, column = self.places[agent]
        return picture[:, row - radius : row + radius + 1, column - radius : column + radius + 1].reshape(-1)

    def move(self, agent, action):
        """Move one agent and return its reward."""
        row, column = self.places[agent]
        down, right = MOVES[action].tolist()
        kind = self.cells[row + down][column + right]
        if kind not in BLOCKING:
            self.cells[row][column] = EMPTY
            self.cells[row + down][column + right] = AGENT
            self.places[agent] = row + down, column + right
        return VALUES[kind]

    def spawn(self, draws):
        """Spawn items in empty cells according to `draws`, int[height * width]."""
        radius, width = self.settings.radius, self.settings.width
        for cell, draw in enumerate(draws.tolist()):
            row, column = radius + cell // width, radius + cell % width
            if draw < self.settings.threshold and self.cells[row][column] == EMPTY:
                self.cells[row][column] = GEM + draw % len(ITEMS)


class CellWorlds(Worlds):
    """Worlds as a list of Python objects, processed cell by cell."""

    def load(self, grid, where):
        """Replace all worlds: `grid` i8[K, rows * columns] without the agents, `where` int[N, K]."""
        self.objects = [CellWorld(self.settings, *world) for world in zip(grid, where.T)]

    def dump(self):
        """Return the cells including agents, i8[K, rows * columns], and each agent's cell index, int[N, K]."""
        cells = np.array([world.cells for world in self.objects], np.int8).reshape(self.num_worlds, -1)
        places = np.array([world.places for world in self.objects])
        return cells, (places @ [self.settings.columns, 1]).T

    def observe(self):
        """Return all observations, f32[N, K, F]."""
        return np.array([self.observe_agent(agent) for agent in range(self.settings.num_agents)])

    def observe_agent(self, agent):
        """Return one agent's observation of every world, f32[K, F]."""
        self.check_agent(agent)
        return np.array([world.observe(agent) for world in self.objects])

    def move(self, first, actions):
        """Move the agents from index `first` on by `actions`, int[n, K], unchecked; return rewards f32[n, K]."""
        columns = [
            [world.move(first + n, action) for n, action in enumerate(column)]
            for world, column in zip(self.objects, actions.T.tolist())
        ]
        return np.array(columns, np.float32).T

    def spawn(self, draws):
        """Spawn items in every world."""
        for world, row in zip(self.objects, draws):
            world.spawn(row)


def onehot(views):
    """Encode the kind of each cell one-hot: i8[..., side * side] -> f32[..., KINDS * side * side]."""
    planes = views[..., None, :] == np.arange(KINDS, dtype=np.int8)[:, None]
    return planes.astype(np.float32).reshape(*views.shape[:-1], -1)


def rgb(views):
    """Encode the colour of each cell in [0, 1]: i8[..., side * side] -> f32[..., 3 * side * side]."""
    palette = CODES["rgb"].T  # one row per channel
    entries = views[..., None, :] + np.arange(0, palette.size, KINDS, dtype=np.int8)[:, None]
    return palette.reshape(-1).take(entries).reshape(*views.shape[:-1], -1)


ENCODERS = {"onehot": onehot, "rgb": rgb}


class ArrayWorlds(Worlds):
    """Worlds as one flat array of all cells, agents included; only the agents are moved in a loop."""

    def build(self):
        """Precompute indices into the cells of all worlds."""
        settings, size = self.settings, self.settings.rows * self.settings.columns
        self.cells = np.zeros(self.num_worlds * size, np.int8)
        self.first = np.arange(0, self.cells.size, size)
        self.inside = (self.first[:, None] + interior(settings)).reshape(-1)
        self.window, self.steps = window(settings), settings.steps.astype(np.intp)
        self.encode = ENCODERS[settings.observation]

    def load(self, grid, where):
        """Replace all worlds; arguments as in :meth:`CellWorlds.load`."""
        self.places = where + self.first
        self.cells[:] = grid.reshape(-1)
        self.cells[self.places] = AGENT

    def dump(self):
        """Return cells and agents as :meth:`CellWorlds.dump` does."""
        return self.cells.reshape(self.num_worlds, -1), self.places - self.first

    def observe(self):
        """Gather the views of all agents, f32[N, K, F]."""
        return self.encode(self.cells[self.places[..., None] + self.window])

    def observe_agent(self, agent):
        """Gather the views of one agent, f32[K, F]."""
        self.check_agent(agent)
        return self.encode(self.cells[self.places[agent][:, None] + self.window])

    def move(self, first, actions):
        """Move agents in index order, vectorised over worlds; see :meth:`CellWorlds.move`."""
        places = self.places[first : first + len(actions)]
        targets = places + self.steps[actions]
        kinds = np.empty(targets.shape, np.int8)
        for place, target, kind in zip(places, targets, kinds):  # row views, updated in place
            kind[:] = self.cells[target]
            self.cells[place] = EMPTY
            np.copyto(place, target, where=FREE[kind])
            self.cells[place] = AGENT
        return VALUES[kinds]

    def spawn(self, draws):
        """Spawn items only where a draw is below the threshold and the cell is empty."""
        draws = draws.reshape(-1)
        low = np.flatnonzero(draws < self.settings.threshold)
        low = low[self.cells[self.inside[low]] == EMPTY]
        self.cells[self.inside[low]] = GEM + draws[low] % len(ITEMS)


WORLDS = {"cells": CellWorlds, "arrays": ArrayWorlds}
