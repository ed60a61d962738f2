"""Rollouts of T steps of N environments: their storage, playing them, and their random numbers.

Axes: T steps, N environments, B images of a batch, U updates; an image is u8[64, 64, 3].
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .spec import PICTURE


class Rollout(NamedTuple):
    """Arrays of one rollout.

    Attributes:
        frames: observations before each step and after the last one, u8[T + 1, N, 64, 64, 3].
        actions: i32[T, N].
        log_probs: of the actions under the policy that acted, f32[T, N].
        values: V(s_t) by the weights that acted, f32[T, N].
        rewards: f32[T, N].
        ended: whether the step ended an episode, bool[T, N].
    """

    frames: np.ndarray
    actions: np.ndarray
    log_probs: np.ndarray
    values: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


DTYPES = {"actions": np.int32, "log_probs": np.float32, "values": np.float32, "rewards": np.float32, "ended": np.bool_}


def layout(steps, envs):
    """Return the shape and dtype of each array of a rollout of T ``steps`` and N ``envs``."""
    columns = {name: ((steps, envs), np.dtype(dtype)) for name, dtype in DTYPES.items()}
    return {"frames": ((steps + 1, envs, *PICTURE), np.dtype(np.uint8)), **columns}


class Copied:
    """Collects the arrays of each step in lists, and stacks them at the end of a rollout."""

    def __init__(self, steps, envs):
        self.frames, self.columns = [], []

    def start(self, envs):
        """Begin a rollout; return the environments' current frames, u8[N, 64, 64, 3]."""
        self.frames, self.columns = [envs.observe()], []
        return self.frames[0]

    def row(self):
        """Return None: the environment allocates its frames."""
        return None

    def push(self, frames, *columns):
        """Append a step: the frames after it, and its actions, log_probs, values, rewards and ended, [N] each."""
        self.frames.append(frames)
        self.columns.append(columns)

    def read(self):
        """Stack the steps to a :class:`Rollout`."""
        return Rollout(np.stack(self.frames), *map(np.stack, zip(*self.columns)))


class InPlace:
    """Writes each step into a preallocated :class:`Rollout`, by default a new one; every rollout reuses it."""

    def __init__(self, steps, envs, rollout=None):
        if rollout is None:
            rollout = Rollout(*(np.empty(shape, dtype) for shape, dtype in layout(steps, envs).values()))
        self.rollout, self.columns, self.step = rollout, rollout[1:], 0

    def start(self, envs):
        """Begin a rollout; return its first row, filled with the environments' current frames."""
        self.step = 0
        return envs.observe(self.rollout.frames[0])

    def row(self):
        """Return the row that the environment writes its next frames to, u8[N, 64, 64, 3]."""
        return self.rollout.frames[self.step + 1]

    def push(self, frames, *columns):
        """Write a step's actions, log_probs, values, rewards and ended; ``frames`` are already in :meth:`row`."""
        for kept, column in zip(self.columns, columns):
            kept[self.step] = column
        self.step += 1

    def read(self):
        """Return the rollout; the next one overwrites it."""
        return self.rollout


KEPT = MappingProxyType({"copied": Copied, "in_place": InPlace})  # by the option ``frames``


def play(envs, actor, kept, uniforms, clock):
    """Play T steps of N environments into a rollout.

    Args:
        envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        actor: ``actor(frames, uniforms) -> actions, log_probs, values``, with its weights as of ``actor.begin()``.
        kept: a :class:`Copied` or :class:`InPlace`.
        uniforms: f32[T, N], random numbers to sample the actions with.
        clock: ``clock(name)``, called when a phase ends.
    """
    actor.begin()
    clock("inference")
    frames = kept.start(envs)
    clock("environment")
    for drawn in uniforms:
        acted = actor(frames, drawn)
        clock("inference")
        frames, rewards, ended = envs.advance(acted[0], kept.row())
        clock("environment")
        kept.push(frames, *acted, rewards, ended)
        clock("gathering")


ACTED, PICKED = 0, 1  # random streams of a rollout: actions, minibatches


def uniforms_of(seed, number, steps, envs):
    """Return the random numbers, f32[T, N] in [0, 1), that a rollout's actions are sampled with."""
    return np.random.default_rng((seed, number, ACTED)).random((steps, envs), np.float32)


def minibatches(seed, number, frames, batch, epochs):
    """Return the image indices of each update, i64[U, B]; each epoch is a permutation of all T N images.

    ``frames`` is T N; ``batch``, B, divides it.
    """
    rng = np.random.default_rng((seed, number, PICKED))
    return np.concatenate([rng.permutation(frames).reshape(-1, batch) for _ in range(epochs)])
