"""N games of Snake as pure functions in JAX, so that whole episodes can be compiled or scanned with the agent.

``geometry`` is a :class:`.env.Geometry`, static everywhere; the rules are those of :class:`.env.SnakeEnv`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .env import ACTIONS, DEATH_REWARD, FOOD, FOOD_REWARD, STEP_REWARD

NO_FOOD = -1


class State(NamedTuple):
    """Boards of N games, with cells counted row by row; foods eaten are ``length - geometry.starting_blocks``."""

    lifetimes: jax.Array  # f32[N, dim * dim]: the length at the head, 1 at the tail, 0 where the snake is not
    head: jax.Array  # i32[N], as all below
    heading: jax.Array
    length: jax.Array
    food: jax.Array  # NO_FOOD on a full board
    steps: jax.Array


def direction(heading):
    """Return how many rows down and columns right a step with this heading goes.  i32[N] -> i32[N], i32[N]"""
    return jnp.where(heading % 2 == 0, heading - 1, 0), jnp.where(heading % 2 == 1, 2 - heading, 0)


def observe(geometry, state):
    """Return the boards as observations, f32[N, dim, dim]."""
    # XLA would turn division by one length per row into multiplication by its rounded reciprocal.
    length = jnp.where(state.lifetimes > 0, state.length[:, None], 1)
    snake = state.lifetimes / length.astype(jnp.float32)
    obs = jnp.where(jnp.arange(geometry.cells) == state.food[:, None], FOOD, snake)
    return obs.reshape(-1, geometry.dim, geometry.dim)


def free_cell(geometry, lifetimes, length, draw):
    """Return the index of free cell number ``draw % free cells``, i32[N].

    The row is found from the number of free cells per row, then the column. `lifetimes` f32[N, dim * dim] is 0 for free
    cells, `length` i32[N] counts the others, and `draw` i32[N] is not negative.
    """
    places = jnp.arange(geometry.dim)
    free = (lifetimes == 0).reshape(-1, geometry.dim, geometry.dim)
    k = jax.lax.rem(draw, jnp.maximum(geometry.cells - length, 1))

    def find(counts, k):
        through = jnp.where(places[:, None] <= places, counts[:, :, None], 0).sum(1)
        past = through <= k[:, None]
        return past.sum(1, dtype=jnp.int32), k - jnp.where(past, counts, 0).sum(1)

    row, k = find(free.sum(2, dtype=jnp.int32), k)
    in_row = (free & (places == row[:, None])[:, :, None]).any(1).astype(jnp.int32)
    column, _ = find(in_row, k)
    return row * geometry.dim + column


def reset(geometry, draws):
    """Start N games from `draws` i32[N, 3]: food, start, heading.  -> State, boards f32[N, dim, dim]"""
    dim, side, blocks = geometry.dim, geometry.side, geometry.starting_blocks
    draw, start, heading = draws[:, 0], draws[:, 1] % side**2, draws[:, 2] % ACTIONS
    head = (geometry.dist_to_border + start // side) * dim + geometry.dist_to_border + start % side
    down, right = direction(heading)
    stride = down * dim + right

    cells = jnp.arange(geometry.cells)
    lifetimes = jnp.zeros((len(draws), geometry.cells), jnp.float32)
    for i in range(blocks):
        lifetimes = jnp.where(cells == (head - i * stride)[:, None], blocks - i, lifetimes)

    food = draw % (geometry.cells - blocks)
    first = jnp.minimum(head, head - (blocks - 1) * stride)
    for i in range(blocks):  # shift the food past each cell of the snake, in order of cell index
        food += food >= first + i * abs(stride)

    state = State(lifetimes, head, heading, jnp.full_like(head, blocks), food, jnp.zeros_like(head))
    return state, observe(geometry, state)


def step(geometry, state, actions, draws):
    """Move by one cell; a game that ends restarts in the same step.

    `actions` are int[N] from 0 to 3, and `draws` i32[N, 3] food, start and heading for games that need them.

    Returns:
        State, obs f32[N, dim, dim], reward f32[N], terminated bool[N], truncated bool[N], final_obs f32[N, dim, dim].
        Where a game ended, ``obs`` is the first of the new game and ``final_obs`` the last of the old one.
    """
    dim, cells = geometry.dim, jnp.arange(geometry.cells)
    heading = jnp.where(actions == (state.heading + 2) % ACTIONS, state.heading, actions.astype(jnp.int32))
    down, right = direction(heading)
    row, column = state.head // dim + down, state.head % dim + right
    outside = (row < 0) | (row >= dim) | (column < 0) | (column >= dim)
    ahead = row * dim + column
    in_body = ((cells == ahead[:, None]) & (state.lifetimes > 1)).any(1)
    dead = outside | in_body
    head = jnp.where(dead, state.head, ahead)
    ate = head == state.food
    length = state.length + ate
    aged = jnp.maximum(state.lifetimes - ~(dead | ate)[:, None], 0)
    lifetimes = jnp.where(cells == head[:, None], length[:, None], aged)
    full = length == geometry.cells
    new_food = jnp.where(full, NO_FOOD, free_cell(geometry, lifetimes, length, draws[:, 0]))
    moved = State(lifetimes, head, heading, length, jnp.where(ate, new_food, state.food), state.steps + 1)

    terminated = dead | full
    truncated = (moved.steps == geometry.max_steps) & ~terminated
    reward = jnp.where(ate, FOOD_REWARD, jnp.where(dead, DEATH_REWARD, STEP_REWARD))

    ended, final_obs = terminated | truncated, observe(geometry, moved)
    fresh, first_obs = reset(geometry, draws)
    lifetimes = jnp.where(ended[:, None], fresh.lifetimes, moved.lifetimes)
    state = State(lifetimes, *(jnp.where(ended, new, old) for new, old in zip(fresh[1:], moved[1:])))
    obs = jnp.where(ended[:, None, None], first_obs, final_obs)
    return state, obs, reward, terminated, truncated, final_obs
