"""Draw an epoch's random numbers inside the JAX program, so that the host neither draws nor copies them."""

import math

import jax
import jax.numpy as jnp

from ._numpy import QUANTILES
from .memory import can_start
from .vector_env import ACTIONS, DRAWS


def uniform(key, *shape):
    """Return uniform numbers f32[*shape] in [0, 1); XLA takes seconds to compile a draw with four axes for CPUs."""
    return jax.random.uniform(key, (math.prod(shape),)).reshape(shape)


def draw_epoch(key, epsilon, settings, num_worlds, batch_size, noise_size):
    """Return the arguments of :meth:`.loop.Epoch.__call__`, with a key for :func:`draw_rows` in place of ``rows``.

    `key` u32[2] is the data of a ``threefry2x32`` key, `epsilon` f32[] the probability of a random action, and
    `noise_size` is M.
    """
    turns, num_agents = settings.turns, settings.num_agents
    keys = jax.random.split(jax.random.wrap_key_data(key, impl="threefry2x32"), 5)
    cells = jax.random.randint(keys[0], (1 + turns, num_worlds, settings.cells), 0, DRAWS)
    acting = uniform(keys[1], turns, num_agents, num_worlds, QUANTILES + 2)
    taus, explore = acting[..., 2:], acting[..., 0] < epsilon
    random_actions = (ACTIONS * acting[..., 1]).astype(jnp.int32)
    train_taus = uniform(keys[2], num_agents, 3, batch_size, QUANTILES)
    noise = jax.random.normal(keys[3], (num_agents, 2, noise_size))
    return cells[0], cells[1:], taus, explore, random_actions, keys[4], train_taus, noise


def draw_rows(key, fields, pushed, batch_size):
    """Return distinct memory rows where transitions start, all equally likely and separate for each agent, i32[N, B].

    `fields` and `pushed` are those of a :class:`.memory.Memory` with at least B such rows.
    """
    num_agents, capacity = fields.actions.shape
    starts = jnp.tile(can_start(fields, pushed, jnp), capacity // len(fields.time))

    def draw(key):
        return jax.random.choice(key, capacity, (batch_size,), replace=False, p=starts / starts.sum())

    return jax.vmap(draw)(jax.random.split(key, num_agents))
