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
    """Return the cells inside the walls, row by row.  -> i64[height * width]"""
    cells = np.arange(settings.rows * settings.columns).reshape(settings.rows, settings.columns)
    edge = settings.radius
    return cells[edge:-edge, edge:-edge].reshape(-1)


def window(settings):
    """Return how far each cell of a view lies from its centre in the flat grid.  -> i64[side * side]"""
    reach = np.arange(-settings.radius, settings.radius + 1)
    return (reach[:, None] * settings.columns + reach).reshape(-1)


def empty_grid(settings):
    """Return a world without items.  -> i8[rows * columns]"""
    grid = np.full(settings.rows * settings.columns, WALL, np.int8)
    grid[interior(settings)] = EMPTY
    return grid


def check_integers(name, values, shape, high):
    """Return ``values`` as an array, or raise a ValueError: integers of a shape, from 0 to ``high`` unless None."""
    values = np.asarray(values)
    right = values.shape == shape and values.dtype.kind in "iu"
    if not right or (high is not None and (values.min() < 0 or values.max() > high)):
        got = f"{values.min()} to {values.max()}" if right else f"{values.dtype}{list(values.shape)}"
        span = "" if high is None else f" from 0 to {high}"
        raise ValueError(f"{name}: got {got}, wanted integers {list(shape)}{span}")
    return values


class Worlds:
    """What both forms do alike; they differ in how they keep, change and see the cells.

    A turn: agents move in index order, each to the next cell up, down, left or right; then items spawn in cells that
    are empty. The reward is that of the kind of the cell ahead; a wall (-1) or another agent (0) is not entered, and an
    item is taken by whoever enters its cell.

    Raises:
        ValueError: a number of worlds, actions, draws, an agent or a state that make no sense; nothing is changed.
    """

    def __init__(self, settings, worlds):
        check_integer("worlds", worlds, 1, 2**31 - 1)
        self.settings, self.worlds = settings, worlds
        self.build()
        self.reset(np.zeros((worlds, settings.height * settings.width), np.int32))

    def reset(self, draws):
        """Empty the worlds and put agent n on the cell with the n-th smallest draw.  -> f32[N, K, F]"""
        order = np.argsort(self.check_draws(draws), axis=1, kind="stable")[:, : self.settings.agents]
        grid = empty_grid(self.settings)[None].repeat(self.worlds, axis=0)
        self.load(grid, interior(self.settings)[order.T])
        self.turn = 0
        return self.observe()

    def advance(self, actions, draws):
        """Play a turn with actions int[N, K] from 0 to 3.  -> obs f32[N, K, F], rewards f32[N, K], truncated bool"""
        actions = check_integers("actions", actions, (self.settings.agents, self.worlds), ACTIONS - 1)
        draws = self.check_draws(draws)
        rewards = self.move(0, actions)
        truncated = self.finish_turn(draws)
        return self.observe(), rewards, truncated

    def move_agent(self, agent, actions):
        """Move one agent of every world, actions int[K] from 0 to 3.  -> f32[K], rewards"""
        self.check_agent(agent)
        return self.move(agent, check_integers("actions", actions, (self.worlds,), ACTIONS - 1)[None])[0]

    def end_turn(self, draws):
        """Let items spawn and count the turn.  -> bool, whether the episode is over"""
        return self.finish_turn(self.check_draws(draws))

    def finish_turn(self, draws):
        """Do what :meth:`end_turn` does, with draws that are checked."""
        self.spawn(draws)
        self.turn += 1
        return self.turn == self.settings.turns

    def get_state(self):
        """Return copies: ``grid`` i8[K, rows * columns], ``where`` i32[N, K], ``turn`` i32[]."""
        cells, where = self.dump()
        grid = np.where(cells == AGENT, np.int8(EMPTY), cells)
        return {"grid": grid, "where": where.astype(np.int32), "turn": np.array(self.turn, np.int32)}

    def set_state(self, state):
        """Go on from what :meth:`get_state` returned, from a copy of it."""
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
        """Return ``draws`` as an array, or raise a ValueError: integers [K, height * width]."""
        return check_integers("draws", draws, (self.worlds, self.settings.height * self.settings.width), None)

    def check_agent(self, agent):
        """Raise a ValueError unless ``agent`` is an index of one."""
        check_integer("agent", agent, 0, self.settings.agents - 1)


class CellWorld:
    """One world of rows of cells, the agents among them: every view is cut out of a picture of the whole."""

    def __init__(self, settings, grid, where):
        self.settings = settings
        self.cells = grid.reshape(settings.rows, settings.columns).tolist()
        self.places = [divmod(cell, settings.columns) for cell in where.tolist()]
        self.codes = dict(enumerate(CODES[settings.observation]))
        for row, column in self.places:
            self.cells[row][column] = AGENT

    def observe(self, agent):
        """Paint every cell of the world, then cut out what one agent sees.  -> f32[F]"""
        rows, columns, radius = self.settings.rows, self.settings.columns, self.settings.radius
        picture = np.zeros((len(self.codes[EMPTY]), rows, columns), np.float32)
        for row in range(rows):
            for column in range(columns):
                picture[:, row, column] = self.codes[self.cells[row][column]]
        row, column = self.places[agent]
        return picture[:, row - radius : row + radius + 1, column - radius : column + radius + 1].reshape(-1)

    def move(self, agent, action):
        """Move one agent.  -> float, its reward"""
        row, column = self.places[agent]
        down, right = MOVES[action].tolist()
        kind = self.cells[row + down][column + right]
        if kind not in BLOCKING:
            self.cells[row][column] = EMPTY
            self.cells[row + down][column + right] = AGENT
            self.places[agent] = row + down, column + right
        return VALUES[kind]

    def spawn(self, draws):
        """Let items spawn in empty cells, draws int[height * width]."""
        radius, width = self.settings.radius, self.settings.width
        for cell, draw in enumerate(draws.tolist()):
            row, column = radius + cell // width, radius + cell % width
            if draw < self.settings.threshold and self.cells[row][column] == EMPTY:
                self.cells[row][column] = GEM + draw % len(ITEMS)


class CellWorlds(Worlds):
    """Worlds as Python objects, dealt with one after the other, cell by cell."""

    def build(self):
        """Prepare nothing."""

    def load(self, grid, where):
        """Take over the cells i8[K, rows * columns] and the agents int[N, K]."""
        self.objects = [CellWorld(self.settings, *world) for world in zip(grid, where.T)]

    def dump(self):
        """Return the cells, with agents or without, and the agents.  -> i8[K, rows * columns], int[N, K]"""
        cells = np.array([world.cells for world in self.objects], np.int8).reshape(self.worlds, -1)
        places = np.array([world.places for world in self.objects])
        return cells, (places @ [self.settings.columns, 1]).T

    def observe(self):
        """Return what all agents see.  -> f32[N, K, F]"""
        return np.array([self.observe_agent(agent) for agent in range(self.settings.agents)])

    def observe_agent(self, agent):
        """Return what one agent of every world sees.  -> f32[K, F]"""
        self.check_agent(agent)
        return np.array([world.observe(agent) for world in self.objects])

    def move(self, first, actions):
        """Move agents ``first``, ``first + 1``, ... by actions int[n, K] that are checked.  -> f32[n, K], rewards"""
        columns = [
            [world.move(first + n, action) for n, action in enumerate(column)]
            for world, column in zip(self.objects, actions.T.tolist())
        ]
        return np.array(columns, np.float32).T

    def spawn(self, draws):
        """Let items spawn in empty cells."""
        for world, row in zip(self.objects, draws):
            world.spawn(row)


def onehot(views):
    """Tell which kind each cell is of, int8[..., side * side].  -> f32[..., KINDS * side * side]"""
    planes = views[..., None, :] == np.arange(KINDS, dtype=np.int8)[:, None]
    return planes.astype(np.float32).reshape(*views.shape[:-1], -1)


def rgb(views):
    """Colour the cells, int8[..., side * side].  -> f32[..., 3 * side * side]"""
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
        """Take over the cells i8[K, rows * columns] and the agents int[N, K]."""
        self.places = where + self.first
        self.cells[:] = grid.reshape(-1)
        self.cells[self.places] = AGENT

    def dump(self):
        """Return the cells, with agents or without, and the agents.  -> i8[K, rows * columns], int[N, K]"""
        return self.cells.reshape(self.worlds, -1), self.places - self.first

    def observe(self):
        """Return what all agents see.  -> f32[N, K, F]"""
        return self.encode(self.cells[self.places[..., None] + self.window])

    def observe_agent(self, agent):
        """Return what one agent of every world sees.  -> f32[K, F]"""
        self.check_agent(agent)
        return self.encode(self.cells[self.places[agent][:, None] + self.window])

    def move(self, first, actions):
        """Move agents ``first``, ``first + 1``, ... by actions int[n, K] that are checked.  -> f32[n, K], rewards"""
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
        """Let items spawn in empty cells."""
        draws = draws.reshape(-1)
        low = np.flatnonzero(draws < self.settings.threshold)
        low = low[self.cells[self.inside[low]] == EMPTY]
        self.cells[self.inside[low]] = GEM + draws[low] % len(ITEMS)


WORLDS = MappingProxyType({"cells": CellWorlds, "arrays": ArrayWorlds})
