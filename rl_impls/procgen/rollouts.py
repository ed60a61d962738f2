"""Procgen's alone: rollouts, T steps of N environments: how they are kept and played, and what is drawn for them.

Axes: T steps, N environments, B pictures of a batch, U updates; a picture is u8[64, 64, 3].
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from .spec import PICTURE


class Rollout(NamedTuple):
    """What was played, arrays of NumPy.

    Attributes:
        frames: before each step and after the last one, u8[T + 1, N, 64, 64, 3].
        actions: i32[T, N].
        log_probs: logarithms of the actions' probabilities, f32[T, N].
        values: of the states, by the weights that acted, f32[T, N].
        rewards: f32[T, N].
        ended: where a step ended an episode, bool[T, N].
    """

    frames: np.ndarray
    actions: np.ndarray
    log_probs: np.ndarray
    values: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray


DTYPES = {"actions": np.int32, "log_probs": np.float32, "values": np.float32, "rewards": np.float32, "ended": np.bool_}


def layout(steps, envs):
    """Return the shape and dtype of each array of a rollout, by name.

    Args:
        steps: T.
        envs: N.
    """
    columns = {name: ((steps, envs), np.dtype(dtype)) for name, dtype in DTYPES.items()}
    return {"frames": ((steps + 1, envs, *PICTURE), np.dtype(np.uint8)), **columns}


class Copied:
    """Keeps the arrays of each step in lists, and copies them to a rollout when all are there.

    Args:
        steps: T.
        envs: N.
    """

    def __init__(self, steps, envs):
        self.frames, self.columns = [], []

    def start(self, envs):
        """Begin a rollout; return the frames that the environments show, u8[N, 64, 64, 3].

        Args:
            envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        """
        self.frames, self.columns = [envs.observe()], []
        return self.frames[0]

    def row(self):
        """Return where the next frames are to be written: nowhere, they come as a new array."""
        return None

    def push(self, frames, *columns):
        """Keep a step.

        Args:
            frames: after it, u8[N, 64, 64, 3].
            columns: actions, log_probs, values, rewards and ended of it, [N] each.
        """
        self.frames.append(frames)
        self.columns.append(columns)

    def read(self):
        """Return the :class:`Rollout`."""
        return Rollout(np.stack(self.frames), *map(np.stack, zip(*self.columns)))


class InPlace:
    """Keeps each step where the rollout has it; the next rollout takes the same place.

    Args:
        steps: T.
        envs: N.
        rollout: the place, a :class:`Rollout`; a new one by default.
    """

    def __init__(self, steps, envs, rollout=None):
        if rollout is None:
            rollout = Rollout(*(np.empty(shape, dtype) for shape, dtype in layout(steps, envs).values()))
        self.rollout, self.columns, self.step = rollout, rollout[1:], 0

    def start(self, envs):
        """Begin a rollout; return the frames that the environments show, u8[N, 64, 64, 3].

        Args:
            envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        """
        self.step = 0
        return envs.observe(self.rollout.frames[0])

    def row(self):
        """Return where the next frames are to be written, u8[N, 64, 64, 3]."""
        return self.rollout.frames[self.step + 1]

    def push(self, frames, *columns):
        """Keep a step.

        Args:
            frames: after it, which are where :meth:`row` said.
            columns: actions, log_probs, values, rewards and ended of it, [N] each.
        """
        for kept, column in zip(self.columns, columns):
            kept[self.step] = column
        self.step += 1

    def read(self):
        """Return the :class:`Rollout`, which the next one overwrites."""
        return self.rollout


KEPT = MappingProxyType({"copied": Copied, "in_place": InPlace})  # by the knob ``frames``


def play(envs, actor, kept, uniforms, clock):
    """Play T steps of N environments into a rollout.

    Args:
        envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        actor: ``actor(frames, uniforms) -> actions, log_probs, values``, by its weights at ``actor.begin()``.
        kept: a :class:`Copied` or :class:`InPlace`.
        uniforms: f32[T, N], by which actions are drawn.
        clock: ``clock(name)``, told the end of each phase.
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


ACTED, PICKED = 0, 1  # streams of random numbers of a rollout


def uniforms_of(seed, number, steps, envs):
    """Return the numbers by which all actions of a rollout are drawn, f32[T, N].

    Args:
        seed: of all that is random.
        number: of the rollout, from 0.
        steps: T.
        envs: N.
    """
    return np.random.default_rng((seed, number, ACTED)).random((steps, envs), np.float32)


def minibatches(seed, number, frames, batch, epochs):
    """Return which of the T N pictures of a rollout each update takes, i64[U, B]: every epoch takes each one once.

    Args:
        seed: of all that is random.
        number: of the rollout, from 0.
        frames: T N.
        batch: B, a divisor of it.
        epochs: passes over all.
    """
    rng = np.random.default_rng((seed, number, PICKED))
    return np.concatenate([rng.permutation(frames).reshape(-1, batch) for _ in range(epochs)])
