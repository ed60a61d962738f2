"""K treasure hunts as pure functions in JAX: whole episodes can be compiled, or scanned, with the agents that play.

``settings`` is a :class:`.spec.Settings`, static everywhere; rules, draws and axes are those of :mod:`.vector_env`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .spec import AGENT, EMPTY, GEM, ITEMS, KINDS, VALUES, WALL
from .vector_env import CODES, empty_grid, interior, window


class World(NamedTuple):
    """What lies in the cells of K worlds, where their N agents stand, and how many turns they have played."""

    grid: jax.Array  # i8[K, rows * columns], without the agents
    where: jax.Array  # i32[N, K]
    turn: jax.Array  # i32[]


def reset(settings, draws):
    """Empty the worlds and put agent n on the cell with the n-th smallest draw.  -> World

    Args:
        settings: of the worlds, static.
        draws: i32[K, height * width].
    """
    _, order = jax.lax.top_k(-draws, settings.agents)  # of equal draws the first
    grid = jnp.broadcast_to(empty_grid(settings), (len(draws), settings.rows * settings.columns))
    return World(grid, jnp.asarray(interior(settings), jnp.int32)[order.T], jnp.int32(0))


def put(grid, where, kind):
    """Return the worlds with something put in some cells.  -> i8[K, rows * columns]

    Args:
        grid: cells i8[K, rows * columns].
        where: i32[..., K], the index of a cell in each world.
        kind: what is put there.
    """
    return jnp.asarray(grid).at[jnp.arange(len(grid)), where].set(kind)


def lift(cells):
    """Return the cells with the agents taken off them.  -> i8[K, rows * columns]

    Args:
        cells: i8[K, rows * columns].
    """
    return jnp.where(cells == AGENT, jnp.int8(EMPTY), cells)


def onehot(views):
    """Return the kind of each cell, one-hot.  -> f32[..., KINDS, side * side]

    Args:
        views: i8[..., side * side].
    """
    return (views[..., None, :] == jnp.arange(KINDS, dtype=jnp.int8)[:, None]).astype(jnp.float32)


def rgb(views):
    """Return the colour of each cell, from 0 to 1.  -> f32[..., 3, side * side]

    Args:
        views: i8[..., side * side].
    """
    return jnp.asarray(CODES["rgb"])[views].swapaxes(-1, -2)


ENCODERS = {"onehot": onehot, "rgb": rgb}


def views(settings, cells, where):
    """Return what agents see.  -> f32[..., K, F]

    Args:
        settings: of the worlds, static.
        cells: with the agents, i8[K, rows * columns].
        where: i32[..., K], the cells that they stand on.
    """
    seen = cells[jnp.arange(len(cells))[:, None], where[..., None] + jnp.asarray(window(settings), jnp.int32)]
    return ENCODERS[settings.observation](seen).reshape(*where.shape, settings.frame)


def observe(settings, world):
    """Return what all agents see.  -> f32[N, K, F]

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
    """
    return views(settings, put(world.grid, world.where, AGENT), world.where)


def observe_agent(settings, world, n):
    """Return what one agent of every world sees.  -> f32[K, F]

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        n: index of the agent.
    """
    return views(settings, put(world.grid, world.where, AGENT), world.where[n])


def approach(settings, world, where, actions):
    """Return the cells ahead of agents, i32[..., K], and what lies there, i8[..., K].

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        where: i32[..., K], the cells that the agents stand on.
        actions: int[..., K], 0 up, 1 down, 2 left, 3 right.
    """
    ahead = where + jnp.asarray(settings.steps)[actions]
    return ahead, world.grid[jnp.arange(len(world.grid)), ahead]


def enter(where, n, ahead, kind):
    """Move one agent of every world to the cell ahead where that is free; return where all stand.  -> i32[N, K]

    Args:
        where: i32[N, K], the cells that the agents stand on.
        n: index of the agent.
        ahead: i32[K], the cells ahead of it.
        kind: i8[K], what lies there.
    """
    free = (kind != WALL) & (where != ahead).all(0)
    return where.at[n].set(jnp.where(free, ahead, where[n]))


def reward(where, ahead, kind):
    """Return the values of what agents found ahead.  -> f32[..., K]

    Args:
        where: i32[..., K], the cells that they stand on after the move.
        ahead: i32[..., K], the cells that were ahead of them.
        kind: i8[..., K], what lay there.
    """
    return jnp.asarray(VALUES)[jnp.where((where == ahead) | (kind == WALL), kind, AGENT)]


def walk(settings, world, actions):
    """Move all agents in index order; the grid is not changed.  -> where i32[N, K], rewards f32[N, K]

    The cells ahead of all agents are looked up once, before the first move: an item that another agent
    takes first has that agent on it, which is in the way.

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        actions: int[N, K], 0 up, 1 down, 2 left, 3 right.
    """
    ahead, kinds = approach(settings, world, world.where, actions)
    where = jax.lax.fori_loop(0, settings.agents, lambda n, where: enter(where, n, ahead[n], kinds[n]), world.where)
    return where, reward(where, ahead, kinds)


def spawn(settings, cells, draws):
    """Return the cells after items have appeared in some that are empty, of agents too.  -> i8[K, rows * columns]

    Args:
        settings: of the worlds, static.
        cells: with the agents, i8[K, rows * columns].
        draws: i32[K, height * width].
    """
    edge = settings.radius
    draws = draws.reshape(-1, settings.height, settings.width)
    draws = jnp.pad(draws, ((0, 0), (edge, edge), (edge, edge))).reshape(cells.shape)
    items = (GEM + jax.lax.rem(draws, len(ITEMS))).astype(jnp.int8)
    return jnp.where((cells == EMPTY) & (draws < settings.threshold), items, cells)


def move(settings, world, actions):
    """Move all agents in index order.  -> World, rewards f32[N, K]

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        actions: int[N, K], 0 up, 1 down, 2 left, 3 right.
    """
    where, rewards = walk(settings, world, actions)
    return world._replace(grid=put(world.grid, where, EMPTY), where=where), rewards


def move_agent(settings, world, n, actions):
    """Move one agent of every world.  -> World, rewards f32[K]

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        n: index of the agent.
        actions: int[K], 0 up, 1 down, 2 left, 3 right.
    """
    ahead, kind = approach(settings, world, world.where[n], actions)
    where = enter(world.where, n, ahead, kind)
    grid = put(world.grid, where[n], EMPTY)
    return world._replace(grid=grid, where=where), reward(where[n], ahead, kind)


def end_turn(settings, world, draws):
    """Let items appear and count the turn.  -> World, truncated bool[]

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        draws: i32[K, height * width].
    """
    cells = spawn(settings, put(world.grid, world.where, AGENT), draws)
    turn = world.turn + 1
    return World(lift(cells), world.where, turn), turn == settings.turns


def advance(settings, world, actions, draws):
    """Play a turn.  -> World, obs f32[N, K, F], rewards f32[N, K], truncated bool[]

    Equal to :func:`move`, :func:`end_turn` and :func:`observe`, with the agents put in the cells only once.

    Args:
        settings: of the worlds, static.
        world: a :class:`World`.
        actions: int[N, K], 0 up, 1 down, 2 left, 3 right.
        draws: i32[K, height * width].
    """
    where, rewards = walk(settings, world, actions)
    cells = spawn(settings, put(world.grid, where, AGENT), draws)
    turn = world.turn + 1
    return World(lift(cells), where, turn), views(settings, cells, where), rewards, turn == settings.turns
