"""K treasure hunts side by side, of N agents each, as Python objects or as one set of arrays: the same to the last bit.

Random draws are arguments, integers i32[K, height * width] from 0 to ``DRAWS`` - 1. The state is, for both forms and
that of :mod:`.jax_env`, ``grid`` i8[K, rows * columns], what lies in the cells without the agents; ``where``
i32[N, K], the cell that each agent stands on; ``turn`` i32[], the turns played, in all worlds alike.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ..common.checks import check_integer
from .spec import ACTIONS, AGENT, BLOCKING, COLOURS, EMPTY, GEM, ITEMS, KINDS, MOVES, VALUES, WALL

CODES = MappingProxyType({"onehot": np.eye(KINDS, dtype=np.float32), "rgb": COLOURS / np.float32(255)})  # [KINDS, C]
FREE = ~np.isin(np.arange(KINDS), BLOCKING)


def interior(settings):
    """Return the cells inside the walls, row by row.  -> i64[height * width]

    Args:
        settings: of the world.
    """
    cells = np.arange(settings.rows * settings.columns).reshape(settings.rows, settings.columns)
    edge = settings.radius
    return cells[edge:-edge, edge:-edge].reshape(-1)


def window(settings):
    """Return how far each cell of a view lies from its centre in the flat grid.  -> i64[side * side]

    Args:
        settings: of the world.
    """
    reach = np.arange(-settings.radius, settings.radius + 1)
    return (reach[:, None] * settings.columns + reach).reshape(-1)


def empty_grid(settings):
    """Return a world without items.  -> i8[rows * columns]

    Args:
        settings: of the world.
    """
    grid = np.full(settings.rows * settings.columns, WALL, np.int8)
    grid[interior(settings)] = EMPTY
    return grid


def check_integers(name, values, shape, high):
    """Return values as an array, or raise a ValueError where they are not integers of this shape and range.

    Args:
        name: of the argument, for the error.
        values: what was given.
        shape: that is wanted.
        high: the largest that is right, 0 being the smallest; None where any integer is.
    """
    values = np.asarray(values)
    right = values.shape == shape and values.dtype.kind in "iu"
    if not right or (high is not None and (values.min() < 0 or values.max() > high)):
        got = f"{values.min()} to {values.max()}" if right else f"{values.dtype}{list(values.shape)}"
        span = "" if high is None else f" from 0 to {high}"
        raise ValueError(f"{name}: got {got}, wanted integers {list(shape)}{span}")
    return values


class Worlds:
    """K worlds of N agents; the two forms differ in how they keep, change and see the cells.

    A turn: agents move in index order, each to the next cell up, down, left or right; then items spawn in cells that
    are empty. The reward is that of the kind of the cell ahead; a wall (-1) or another agent (0) is not entered, and an
    item is taken by whoever enters its cell.

    Args:
        settings: of the worlds, a :class:`.spec.Settings`.
        worlds: their number, K.

    Raises:
        ValueError: a number of worlds, actions, draws, an agent or a state that make no sense; nothing is changed.
    """

    def __init__(self, settings, worlds):
        check_integer("worlds", worlds, 1, 2**31 - 1)
        self.settings, self.worlds = settings, worlds
        self.build()
        self.reset(np.zeros((worlds, settings.height * settings.width), np.int32))

    def reset(self, draws):
        """Empty the worlds and put agent n on the cell with the n-th smallest draw.  -> obs f32[N, K, F]

        Args:
            draws: i32[K, height * width].
        """
        order = np.argsort(self.check_draws(draws), axis=1, kind="stable")[:, : self.settings.agents]
        grid = empty_grid(self.settings)[None].repeat(self.worlds, axis=0)
        self.load(grid, interior(self.settings)[order.T])
        self.turn = 0
        return self.observe()

    def advance(self, actions, draws):
        """Play a turn.  -> obs f32[N, K, F], rewards f32[N, K], truncated bool

        Args:
            actions: int[N, K], 0 up, 1 down, 2 left, 3 right.
            draws: i32[K, height * width].
        """
        actions = check_integers("actions", actions, (self.settings.agents, self.worlds), ACTIONS - 1)
        draws = self.check_draws(draws)
        rewards = self.move(0, actions)
        truncated = self.finish_turn(draws)
        return self.observe(), rewards, truncated

    def move_agent(self, agent, actions):
        """Move one agent of every world; return its rewards, f32[K].

        Args:
            agent: its index.
            actions: int[K], 0 up, 1 down, 2 left, 3 right.
        """
        self.check_agent(agent)
        return self.move(agent, check_integers("actions", actions, (self.worlds,), ACTIONS - 1)[None])[0]

    def end_turn(self, draws):
        """Let items appear and count the turn; return whether the episode is truncated by it, a bool.

        Args:
            draws: i32[K, height * width].
        """
        return self.finish_turn(self.check_draws(draws))

    def finish_turn(self, draws):
        """Do what :meth:`end_turn` does, without checks.

        Args:
            draws: i32[K, height * width].
        """
        self.spawn(draws)
        self.turn += 1
        return self.turn == self.settings.turns

    def get_state(self):
        """Return copies by name: ``grid`` i8[K, rows * columns], ``where`` i32[N, K], ``turn`` i32[]."""
        cells, where = self.dump()
        grid = np.where(cells == AGENT, np.int8(EMPTY), cells)
        return {"grid": grid, "where": where.astype(np.int32), "turn": np.array(self.turn, np.int32)}

    def set_state(self, state):
        """Go on from a copy of a state.

        Args:
            state: arrays by name, as :meth:`get_state` returned them.
        """
        wanted = {"grid", "where", "turn"}
        if set(state) != wanted:
            raise ValueError(f"state: got {sorted(state)}, wanted {sorted(wanted)}")
        settings, cells = self.settings, self.settings.rows * self.settings.columns
        grid = check_integers("grid", state["grid"], (self.worlds, cells), AGENT - 1)
        where = check_integers("where", state["where"], (settings.agents, self.worlds), cells - 1)
        turn = check_integers("turn", state["turn"], (), 2**31 - 1)
        if (np.delete(grid, interior(settings), axis=1) != WALL).any():
            raise ValueError("grid: got a world that is open at its edge, wanted walls all around")
        if (grid[np.arange(self.worlds), where] != EMPTY).any() or not np.diff(np.sort(where, axis=0), axis=0).all():
            raise ValueError(f"where: got {where.tolist()}, wanted empty cells, another for each agent of a world")
        self.load(grid, where)
        self.turn = int(turn)

    def check_draws(self, draws):
        """Return draws as an array, int[K, height * width], or raise a ValueError.

        Args:
            draws: what was given.
        """
        return check_integers("draws", draws, (self.worlds, self.settings.height * self.settings.width), None)

    def check_agent(self, agent):
        """Check that there is an agent of this index; a ValueError where there is none.

        Args:
            agent: what was given.
        """
        check_integer("agent", agent, 0, self.settings.agents - 1)


class CellWorld:
    """One world of rows of cells, the agents among them: every view is cut out of a picture of the whole.

    Args:
        settings: of the world.
        grid: cells without the agents, i8[rows * columns].
        where: int[N], the cells that the agents stand on.
    """

    def __init__(self, settings, grid, where):
        self.settings = settings
        self.cells = grid.reshape(settings.rows, settings.columns).tolist()
        self.places = [divmod(cell, settings.columns) for cell in where.tolist()]
        self.codes = dict(enumerate(CODES[settings.observation]))
        for row, column in self.places:
            self.cells[row][column] = AGENT

    def observe(self, agent):
        """Return what one agent sees: every cell of the world is painted, then the view is cut out.  -> f32[F]

        Args:
            agent: its index.
        """
        rows, columns, radius = self.settings.rows, self.settings.columns, self.settings.radius
        picture = np.zeros((len(self.codes[EMPTY]), rows, columns), np.float32)
        for row in range(rows):
            for column in range(columns):
                picture[:, row, column] = self.codes[self.cells[row][column]]
        row, column = self.places[agent]
        return picture[:, row - radius : row + radius + 1, column - radius : column + radius + 1].reshape(-1)

    def move(self, agent, action):
        """Move one agent; return its reward, f32[].

        Args:
            agent: its index.
            action: 0 up, 1 down, 2 left, 3 right.
        """
        row, column = self.places[agent]
        down, right = MOVES[action].tolist()
        kind = self.cells[row + down][column + right]
        if kind not in BLOCKING:
            self.cells[row][column] = EMPTY
            self.cells[row + down][column + right] = AGENT
            self.places[agent] = row + down, column + right
        return VALUES[kind]

    def spawn(self, draws):
        """Let items appear in empty cells.

        Args:
            draws: int[height * width].
        """
        radius, width = self.settings.radius, self.settings.width
        for cell, draw in enumerate(draws.tolist()):
            row, column = radius + cell // width, radius + cell % width
            if draw < self.settings.threshold and self.cells[row][column] == EMPTY:
                self.cells[row][column] = GEM + draw % len(ITEMS)


class CellWorlds(Worlds):
    """Worlds as Python objects, dealt with one after the other, cell by cell."""

    def build(self):
        """Do nothing: there is nothing to prepare."""

    def load(self, grid, where):
        """Take over cells and agents.

        Args:
            grid: cells without the agents, i8[K, rows * columns].
            where: int[N, K], the cells that the agents stand on.
        """
        self.objects = [CellWorld(self.settings, *world) for world in zip(grid, where.T)]

    def dump(self):
        """Return the cells, the agents among them, i8[K, rows * columns], and where the agents stand, int[N, K]."""
        cells = np.array([world.cells for world in self.objects], np.int8).reshape(self.worlds, -1)
        places = np.array([world.places for world in self.objects])
        return cells, (places @ [self.settings.columns, 1]).T

    def observe(self):
        """Return what all agents see.  -> f32[N, K, F]"""
        return np.array([self.observe_agent(agent) for agent in range(self.settings.agents)])

    def observe_agent(self, agent):
        """Return what one agent of every world sees.  -> f32[K, F]

        Args:
            agent: its index.
        """
        self.check_agent(agent)
        return np.array([world.observe(agent) for world in self.objects])

    def move(self, first, actions):
        """Move agents one after the other, without checks; return their rewards, f32[n, K].

        Args:
            first: index of the first of them.
            actions: int[n, K] of the n agents from there on.
        """
        columns = [
            [world.move(first + n, action) for n, action in enumerate(column)]
            for world, column in zip(self.objects, actions.T.tolist())
        ]
        return np.array(columns, np.float32).T

    def spawn(self, draws):
        """Let items appear in empty cells.

        Args:
            draws: int[K, height * width].
        """
        for world, row in zip(self.objects, draws):
            world.spawn(row)


def onehot(views):
    """Return the kind of each cell, one-hot.  -> f32[..., KINDS * side * side]

    Args:
        views: i8[..., side * side].
    """
    planes = views[..., None, :] == np.arange(KINDS, dtype=np.int8)[:, None]
    return planes.astype(np.float32).reshape(*views.shape[:-1], -1)


def rgb(views):
    """Return the colour of each cell, from 0 to 1.  -> f32[..., 3 * side * side]

    Args:
        views: i8[..., side * side].
    """
    palette = CODES["rgb"].T  # one row for each channel
    entries = views[..., None, :] + np.arange(0, palette.size, KINDS, dtype=np.int8)[:, None]
    return palette.reshape(-1).take(entries).reshape(*views.shape[:-1], -1)


ENCODERS = MappingProxyType({"onehot": onehot, "rgb": rgb})


class ArrayWorlds(Worlds):
    """Worlds as one array of all cells, the agents among them: only the order of the agents is a loop."""

    def build(self):
        """Prepare indices into the cells of all worlds."""
        settings, size = self.settings, self.settings.rows * self.settings.columns
        self.cells = np.zeros(self.worlds * size, np.int8)
        self.first = np.arange(0, self.cells.size, size)
        self.inside = (self.first[:, None] + interior(settings)).reshape(-1)
        self.window, self.steps = window(settings), settings.steps.astype(np.intp)
        self.encode = ENCODERS[settings.observation]

    def load(self, grid, where):
        """Take over cells and agents.

        Args:
            grid: cells without the agents, i8[K, rows * columns].
            where: int[N, K], the cells that the agents stand on.
        """
        self.places = where + self.first
        self.cells[:] = grid.reshape(-1)
        self.cells[self.places] = AGENT

    def dump(self):
        """Return the cells, the agents among them, i8[K, rows * columns], and where the agents stand, int[N, K]."""
        return self.cells.reshape(self.worlds, -1), self.places - self.first

    def observe(self):
        """Return what all agents see.  -> f32[N, K, F]"""
        return self.encode(self.cells[self.places[..., None] + self.window])

    def observe_agent(self, agent):
        """Return what one agent of every world sees.  -> f32[K, F]

        Args:
            agent: its index.
        """
        self.check_agent(agent)
        return self.encode(self.cells[self.places[agent][:, None] + self.window])

    def move(self, first, actions):
        """Move agents one after the other, without checks; return their rewards, f32[n, K].

        Args:
            first: index of the first of them.
            actions: int[n, K] of the n agents from there on.
        """
        places = self.places[first : first + len(actions)]
        targets = places + self.steps[actions]
        kinds = np.empty(targets.shape, np.int8)
        for place, target, kind in zip(places, targets, kinds):  # rows of the arrays, written to
            kind[:] = self.cells[target]
            self.cells[place] = EMPTY
            np.copyto(place, target, where=FREE[kind])
            self.cells[place] = AGENT
        return VALUES[kinds]

    def spawn(self, draws):
        """Let items appear in empty cells.

        Args:
            draws: int[K, height * width].
        """
        draws = draws.reshape(-1)
        low = np.flatnonzero(draws < self.settings.threshold)
        low = low[self.cells[self.inside[low]] == EMPTY]
        self.cells[self.inside[low]] = GEM + draws[low] % len(ITEMS)


WORLDS = MappingProxyType({"cells": CellWorlds, "arrays": ArrayWorlds})
