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


def put(grid, where, kind):
    """Set the cells `where`, i32[..., K], to `kind` in each world: i8[K, rows * columns]."""
    return jnp.asarray(grid).at[jnp.arange(len(grid)), where].set(kind)


def lift(cells):
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
    """Return the views around `where`, i32[..., K], as f32[..., K, F]; `cells` include the agents."""
    seen = cells[jnp.arange(len(cells))[:, None], where[..., None] + jnp.asarray(window(settings), jnp.int32)]
    return ENCODERS[settings.observation](seen).reshape(*where.shape, settings.frame)


def observe(settings, world):
    """Return all agents' observations, f32[N, K, F]."""
    return views(settings, put(world.grid, world.where, AGENT), world.where)


def observe_agent(settings, world, n):
    """Return the observation of agent `n` in every world, f32[K, F]."""
    return views(settings, put(world.grid, world.where, AGENT), world.where[n])


def approach(settings, world, where, actions):
    """Return the cells ahead of agents, i32[..., K], and their kinds, i8[..., K].

    `where` i32[..., K] are the agents' cells, `actions` int[..., K] their moves: 0 up, 1 down, 2 left, 3 right.
    """
    ahead = where + jnp.asarray(settings.steps)[actions]
    return ahead, world.grid[jnp.arange(len(world.grid)), ahead]


def enter(where, n, ahead, kind):
    """Move agent `n` of every world to its cell `ahead`, i32[K], if free; return all positions, i32[N, K]."""
    free = (kind != WALL) & (where != ahead).all(0)
    return where.at[n].set(jnp.where(free, ahead, where[n]))


def reward(where, ahead, kind):
    """Return rewards f32[..., K] from the positions after the move and the cells and kinds that were ahead."""
    return jnp.asarray(VALUES)[jnp.where((where == ahead) | (kind == WALL), kind, AGENT)]


def walk(settings, world, actions):
    """Move all agents in index order by `actions`, int[N, K]; return positions i32[N, K] and rewards f32[N, K].

    The grid is not changed. The cells ahead of all agents are looked up once, before the first move: if another agent
    takes an item first, that agent stands on the cell and blocks it.
    """
    ahead, kinds = approach(settings, world, world.where, actions)
    where = jax.lax.fori_loop(0, settings.num_agents, lambda n, where: enter(where, n, ahead[n], kinds[n]), world.where)
    return where, reward(where, ahead, kinds)


def spawn(settings, cells, draws):
    """Spawn items in empty cells; `cells` include the agents, `draws` are i32[K, height * width]."""
    edge = settings.radius
    draws = draws.reshape(-1, settings.height, settings.width)
    draws = jnp.pad(draws, ((0, 0), (edge, edge), (edge, edge))).reshape(cells.shape)
    items = (GEM + jax.lax.rem(draws, len(ITEMS))).astype(jnp.int8)
    return jnp.where((cells == EMPTY) & (draws < settings.threshold), items, cells)


def move(settings, world, actions):
    """Move all agents in index order and collect items; return the World and rewards f32[N, K]."""
    where, rewards = walk(settings, world, actions)
    return world._replace(grid=put(world.grid, where, EMPTY), where=where), rewards


def move_agent(settings, world, n, actions):
    """Move agent `n` of every world by `actions`, int[K]; return the World and rewards f32[K]."""
    ahead, kind = approach(settings, world, world.where[n], actions)
    where = enter(world.where, n, ahead, kind)
    grid = put(world.grid, where[n], EMPTY)
    return world._replace(grid=grid, where=where), reward(where[n], ahead, kind)


def end_turn(settings, world, draws):
    """Spawn items and count the turn; return the World and truncated, bool[]."""
    cells = spawn(settings, put(world.grid, world.where, AGENT), draws)
    turn = world.turn + 1
    return World(lift(cells), world.where, turn), turn == settings.turns


def advance(settings, world, actions, draws):
    """Play a turn; return the World, obs f32[N, K, F], rewards f32[N, K] and truncated, bool[].

    Equal to :func:`move`, :func:`end_turn` and :func:`observe`, but puts the agents into the cells only once.
    """
    where, rewards = walk(settings, world, actions)
    cells = spawn(settings, put(world.grid, where, AGENT), draws)
    turn = world.turn + 1
    return World(lift(cells), where, turn), views(settings, cells, where), rewards, turn == settings.turns
