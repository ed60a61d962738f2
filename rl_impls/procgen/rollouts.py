"""Rollouts of T steps of N environments: their storage, playing them, and their random numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..common.procgen_env import FRAME


class Rollout(NamedTuple):
    """Arrays of one rollout.

    Attributes:
        obs: observations before each step and after the last one, u8[T + 1, N, 64, 64, 3].
        actions: i32[T, N].
        log_probs: of the actions under the policy that acted, f32[T, N].
        values: V(s_t) by the weights that acted, f32[T, N].
        rewards: f32[T, N].
        ended: whether the step ended an episode, bool[T, N].
    """

    obs: np.ndarray
    actions: np.ndarray
    log_probs: np.ndarray
    values: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


DTYPES = {"actions": np.int32, "log_probs": np.float32, "values": np.float32, "rewards": np.float32, "ended": np.bool_}


def rollout_layout(num_steps, num_envs):
    """Return the shape and dtype of each array of a rollout, by name."""
    columns = {name: ((num_steps, num_envs), np.dtype(dtype)) for name, dtype in DTYPES.items()}
    return {"obs": ((num_steps + 1, num_envs, *FRAME), np.dtype(np.uint8)), **columns}


def empty_rollout(num_steps, num_envs):
    """Allocate a rollout."""
    return Rollout(*(np.empty(shape, dtype) for shape, dtype in rollout_layout(num_steps, num_envs).values()))


class Copied:
    """Collects the arrays of each step in lists, and stacks them at the end of a rollout."""

    def __init__(self, num_steps, num_envs):
        self.obs, self.columns = [], []

    def start(self, envs):
        """Begin a rollout; return the current observations, u8[N, 64, 64, 3]."""
        self.obs, self.columns = [envs.observe()], []
        return self.obs[0]

    def row(self):
        """Return None: the environment allocates its observations."""
        return None

    def push(self, obs, *columns):
        """Append a step: the observations after it, and its actions, log_probs, values, rewards and ended, [N] each."""
        self.obs.append(obs)
        self.columns.append(columns)

    def read(self):
        """Stack the steps into a :class:`Rollout`."""
        return Rollout(np.stack(self.obs), *map(np.stack, zip(*self.columns)))


class InPlace:
    """Writes each step into a preallocated :class:`Rollout`, by default a new one; every rollout reuses it."""

    def __init__(self, num_steps, num_envs, rollout=None):
        self.rollout = empty_rollout(num_steps, num_envs) if rollout is None else rollout
        self.columns, self.step = self.rollout[1:], 0

    def start(self, envs):
        """Begin a rollout; return its first row, filled with the current observations."""
        self.step = 0
        return envs.observe(self.rollout.obs[0])

    def row(self):
        """Return the row that the environment writes its next observations to, u8[N, 64, 64, 3]."""
        return self.rollout.obs[self.step + 1]

    def push(self, obs, *columns):
        """Write a step's actions, log_probs, values, rewards and ended; ``obs`` are already in :meth:`row`."""
        for stored, column in zip(self.columns, columns):
            stored[self.step] = column
        self.step += 1

    def read(self):
        """Return the rollout; the next one overwrites it."""
        return self.rollout


STORAGES = {"copied": Copied, "in_place": InPlace}  # by the option ``frames``


def play(envs, policy, storage, uniforms, clock):
    """Play T steps of N environments into a rollout.

    Args:
        envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        policy: ``policy(obs, uniforms) -> actions, log_probs, values``, with its weights as of ``policy.refresh()``.
        storage: a :class:`Copied` or :class:`InPlace`.
        uniforms: f32[T, N], random numbers to sample the actions with.
        clock: ``clock(name)``, called when a phase ends.
    """
    policy.refresh()
    clock("inference")
    obs = storage.start(envs)
    clock("environment")
    for uniforms_of_step in uniforms:
        actions, log_probs, values = policy(obs, uniforms_of_step)
        clock("inference")
        obs, rewards, ended = envs.advance(actions, storage.row())
        clock("environment")
        storage.push(obs, actions, log_probs, values, rewards, ended)
        clock("gathering")


ACTING, LEARNING = 0, 1  # random streams of a rollout: actions, minibatches


def draw_uniforms(seed, number, num_steps, num_envs):
    """Return the random numbers, f32[T, N] in [0, 1), that the actions of a rollout are sampled with."""
    return np.random.default_rng((seed, number, ACTING)).random((num_steps, num_envs), np.float32)


def minibatches(seed, number, num_images, batch_size, epochs):
    """Return the image indices of each update, i64[U, B]; each epoch is a permutation of all T N images.

    ``num_images`` is T N; ``batch_size``, B, divides it.
    """
    rng = np.random.default_rng((seed, number, LEARNING))
    return np.concatenate([rng.permutation(num_images).reshape(-1, batch_size) for _ in range(epochs)])
