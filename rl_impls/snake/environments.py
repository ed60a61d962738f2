"""N environments behind one interface: as N Python objects, or as one set of arrays.

``advance(actions, draws) -> obs, rewards f32[N], terminated bool[N], truncated bool[N], final_obs``, boards f32[N, O]:
``obs`` is the first of the new episode where one ended, ``final_obs`` the last of the old. The state is, for both,
that of :class:`.vector_env.SnakeVectorEnv`.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from .env import SnakeEnv
from .vector_env import SnakeVectorEnv


class Draws:
    """A generator that hands out what it was given: the first number for food, all three for a reset."""

    def __init__(self):
        self.given = None

    def integers(self, high, size=None):
        """Return the draw for food, or all."""
        return self.given[0] if size is None else self.given


class PlainEnvs:
    """A list of environments, stepped one after the other; one that ends is reset in the same step."""

    def __init__(self, count, geometry):
        self.envs, self.draws, self.geometry = [SnakeEnv(**vars(geometry)) for _ in range(count)], Draws(), geometry
        for env in self.envs:
            env.np_random = self.draws

    def advance(self, actions, draws):
        """Step every environment."""
        count = len(self.envs)
        obs, final_obs = np.empty((2, count, self.geometry.cells), np.float32)
        rewards, (terminated, truncated) = np.empty(count, np.float32), np.empty((2, count), bool)
        for i, (env, action, given) in enumerate(zip(self.envs, actions, draws)):
            self.draws.given = given
            board, rewards[i], terminated[i], truncated[i], _ = env.step(action)
            obs[i] = final_obs[i] = board.reshape(-1)
            if not env.running:
                obs[i] = env.reset()[0].reshape(-1)
        return obs, rewards, terminated, truncated, final_obs

    def observe(self):
        """Return the boards.  -> f32[N, O]"""
        return np.array([env.observation().reshape(-1) for env in self.envs])

    def get_state(self):
        """Return the games as arrays."""
        dim, cells = self.geometry.dim, self.geometry.cells
        columns = {name: [] for name in ("lifetimes", "head", "heading", "length", "food", "steps")}
        for env in self.envs:
            snake, lifetimes = [row * dim + column for row, column in env.snake], np.zeros(cells, np.float32)
            lifetimes[snake] = np.arange(len(snake), 0, -1)
            food = env.food[0] * dim + env.food[1]
            values = lifetimes, snake[0], env.heading, len(snake), food, env.steps
            for column, value in zip(columns.values(), values):
                column.append(value)
        return {name: np.array(column) for name, column in columns.items()}

    def set_state(self, state):
        """Go on from what ``get_state`` returned."""
        dim = self.geometry.dim
        for i, env in enumerate(self.envs):
            oldest_last = np.argsort(-state["lifetimes"][i], kind="stable")[: state["length"][i]]
            env.set_state(
                {
                    "snake": np.stack(np.divmod(oldest_last, dim), axis=1),
                    "food": np.array([divmod(int(state["food"][i]), dim)]),
                    "heading": state["heading"][i],
                    "steps": state["steps"][i],
                    "running": 1,
                }
            )


class VectorisedEnvs:
    """One vector environment."""

    def __init__(self, count, geometry):
        self.env = SnakeVectorEnv(count, **vars(geometry))
        self.get_state, self.set_state = self.env.get_state, self.env.set_state

    def advance(self, actions, draws):
        """Step every environment."""
        obs, rewards, terminated, truncated, final_obs = self.env.advance(actions, draws)
        count = len(obs)
        return obs.reshape(count, -1), rewards, terminated, truncated, final_obs.reshape(count, -1)

    def observe(self):
        """Return the boards.  -> f32[N, O]"""
        return self.env.observe(self.env.envs).reshape(self.env.num_envs, -1)


ENVIRONMENTS = MappingProxyType({"plain": PlainEnvs, "vectorised": VectorisedEnvs})
