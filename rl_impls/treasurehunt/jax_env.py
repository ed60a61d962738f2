"""K treasure hunts as pure JAX functions: episodes can be compiled and scanned together with the agents.

``settings`` is a :class:`.vector_env.Settings` and must be static. Rules, random draws and axes are those of
:mod:`.vector_env`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .vector_env import AGENT, CODES, EMPTY, GEM, ITEMS, KINDS, VALUES, WALL, empty_grid, interior, window


class World(NamedTuple):
    """State of K worlds."""

    grid: jax.Array  # i8[K, rows * columns], without the agents
    where: jax.Array  # i32[N, K]
    turn: jax.Array  # i32[]


def reset(settings, draws):
    """Empty the worlds and place agent n on the cell with the n-th smallest of `draws`, i32[K, height * width]."""
    _, order = jax.lax.top_k(-draws, settings.num_agents)  # ties go to the first cell
    grid = jnp.broadcast_to(empty_grid(settings), (len(draws), settings.rows * settings.columns))
    return World(grid, jnp.asarray(interior(settings), jnp.int32)[order.T], jnp.int32(0))


def put_agents(grid, where):
    """Put the agents on their cells `where`, i32[N, K]: i8[K, rows * columns]."""
    return grid.at[jnp.arange(len(grid)), where].set(AGENT)


def lift_agents(cells):
    """Replace agents by empty cells, i8[K, rows * columns]."""
    return jnp.where(cells == AGENT, jnp.int8(EMPTY), cells)


def onehot(views):
    """Encode the kind of each cell one-hot, i8[..., side * side] -> f32[..., KINDS, side * side]."""
    return (views[..., None, :] == jnp.arange(KINDS, dtype=jnp.int8)[:, None]).astype(jnp.float32)


def rgb(views):
    """Look up the colour of each cell in [0, 1], i8[..., side * side] -> f32[..., 3, side * side]."""
    return jnp.asarray(CODES["rgb"])[views].swapaxes(-1, -2)


ENCODERS = {"onehot": onehot, "rgb": rgb}


def views(settings, cells, where):
    """Return the views around `where`, i32[N, K], as f32[N, K, F]; `cells` include the agents."""
    kinds = cells[jnp.arange(len(cells))[:, None], where[..., None] + jnp.asarray(window(settings), jnp.int32)]
    return ENCODERS[settings.observation](kinds).reshape(*where.shape, settings.frame)


def observe(settings, world):
    """Return all agents' observations, f32[N, K, F]."""
    return views(settings, put_agents(world.grid, world.where), world.where)


def move(settings, world, actions):
    """Move all agents in index order by `actions`, int[N, K]; return positions i32[N, K] and rewards f32[N, K].

    The grid is not changed. The cells ahead of all agents are looked up once, before the first move: if another agent
    takes an item first, that agent stands on the cell and blocks it.
    """
    ahead = world.where + jnp.asarray(settings.steps)[actions]
    kinds = world.grid[jnp.arange(len(world.grid)), ahead]

    def enter(n, where):
        free = (kinds[n] != WALL) & (where != ahead[n]).all(0)
        return where.at[n].set(jnp.where(free, ahead[n], where[n]))

    where = jax.lax.fori_loop(0, settings.num_agents, enter, world.where)
    return where, jnp.asarray(VALUES)[jnp.where((where == ahead) | (kinds == WALL), kinds, AGENT)]


def spawn(settings, cells, draws):
    """Spawn items in empty cells; `cells` include the agents, `draws` are i32[K, height * width]."""
    edge = settings.radius
    draws = draws.reshape(-1, settings.height, settings.width)
    draws = jnp.pad(draws, ((0, 0), (edge, edge), (edge, edge))).reshape(cells.shape)
    items = (GEM + jax.lax.rem(draws, len(ITEMS))).astype(jnp.int8)
    return jnp.where((cells == EMPTY) & (draws < settings.threshold), items, cells)


def advance(settings, world, actions, draws):
    """Play a turn; return the World, obs f32[N, K, F], rewards f32[N, K] and truncated, bool[]."""
    where, rewards = move(settings, world, actions)
    cells = spawn(settings, put_agents(world.grid, where), draws)
    turn = world.turn + 1
    return World(lift_agents(cells), where, turn), views(settings, cells, where), rewards, turn == settings.turns
