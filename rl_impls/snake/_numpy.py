"""The reference of the DQN (Mnih et al. 2015), in equation order; as precise as the arrays it is given.

Axes: B transitions (or N boards), O numbers a board, A = 4 moves, T steps, K transitions to store.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import numpy as np

from ..common.op import Op
from ..params import layers
from .knobs import check_supported
from .memory import DTYPES, make_memory
from .spec import geometry_of
from .vector_env import ENVIRONMENTS


def q_values(params, obs):
    """Return the value of each move.  f[B, O] -> f[B, A]

    ``h_{k+1} = max(h_k w_k + b_k, 0)``, and no ``max`` after the last layer.

    Args:
        params: weights ``w{k}`` f[I, O] and biases ``b{k}`` f[O] of each layer k.
        obs: boards f[B, O].
    """
    h = obs
    last = layers(params) - 1
    for k in range(last):
        h = np.maximum(h @ params[f"w{k}"] + params[f"b{k}"], 0)
    return h @ params[f"w{last}"] + params[f"b{last}"]


def td_target(target_params, rewards, next_obs, terminated, gamma):
    """Return the TD target, ``r + gamma max_a Q'(s', a)``, and ``r`` alone where s' is terminal.  -> f[B]

    Q' is the target net (Mnih et al. 2015, Algorithm 1).

    Args:
        target_params: weights of the target net, see :func:`q_values`.
        rewards: f[B].
        next_obs: boards after the move, f[B, O].
        terminated: f[B], 1 where the episode ended with the move, else 0.
        gamma: discount of one step.
    """
    return rewards + gamma * (1 - terminated) * q_values(target_params, next_obs).max(axis=1)


def huber(errors):
    """Return the Huber loss of each error, ``e^2 / 2`` where |e| <= 1, else ``|e| - 1/2``.  f[B] -> f[B]

    Its slope is the error clipped to [-1, 1], as DQN clips it (Mnih et al. 2015, Methods).

    Args:
        errors: TD errors f[B].
    """
    size = np.abs(errors)
    return np.where(size <= 1, errors**2 / 2, size - 0.5)


def loss(params, target_params, batch, gamma):
    """Return the mean Huber loss of the TD errors of the actions that were taken.  -> f

    ``mean_B huber(Q(s, a) - td_target)``; no gradient goes through the target.

    Args:
        params: weights of the online net, see :func:`q_values`.
        target_params: weights of the target net.
        batch: obs f[B, O], actions i[B], rewards f[B], next_obs f[B, O], terminated f[B].
        gamma: discount of one step.
    """
    obs, actions, rewards, next_obs, terminated = batch
    taken = q_values(params, obs)[np.arange(len(obs)), actions]
    return huber(taken - td_target(target_params, rewards, next_obs, terminated, gamma)).mean()


def forward(spec, example, *, knobs, target):
    """Return the Q-values of boards.  f32[N, O] -> f32[N, A]"""
    check_supported("quantised", knobs, target)
    params = spec["params"]
    return lambda obs: q_values(params, obs)


def act(spec, example, *, knobs, target):
    """Return greedy moves, and drawn ones where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    check_supported("quantised", knobs, target)
    params = spec["params"]
    return lambda obs, explore, random_actions: np.where(
        explore, random_actions, q_values(params, obs).argmax(axis=1).astype(np.int32)
    )


class EnvStep(Op):
    """T steps of N environments, from the same start after each reset.

    Args:
        spec: ``env_state``, the games at the start, and the board's ``geometry`` are taken.
        knobs: ``environment`` is read.
    """

    def __init__(self, spec, knobs):
        self.start = spec["env_state"]
        self.envs = ENVIRONMENTS[knobs.environment](len(self.start["head"]), geometry_of(spec))
        self.reset()

    def reset(self):
        """Put the games back to the start."""
        self.envs.set_state(self.start)

    def __call__(self, actions, draws):
        """Return the last boards f32[N, O], all rewards f32[T, N] and where episodes ended, bool[T, N].

        Args:
            actions: i32[T, N] from 0 to 3.
            draws: i32[T, N, 3], what a step may need of randomness: food, start, heading.
        """
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t in range(len(actions)):
            obs, rewards[t], terminated, truncated, _ = self.envs.advance(actions[t], draws[t])
            ended[t] = terminated | truncated
        return obs, rewards, ended


def env_step(spec, example, *, knobs, target):
    """Make T steps.  actions i32[T, N], draws i32[T, N, 3] -> boards f32[N, O], rewards f32[T, N], ended bool[T, N]"""
    return EnvStep(spec, knobs)


class Remember(Op):
    """Stores transitions in a memory that is full.

    Args:
        spec: ``stored`` is taken: what the memory holds at the start, which is also its capacity.
        knobs: ``memory`` is read.
    """

    def __init__(self, spec, knobs):
        self.stored = spec["stored"]
        self.memory = make_memory(knobs.memory, len(self.stored[0]), self.stored[0].shape[1])
        self.memory.restore(*self.stored)
        self.mark = self.memory.mark()

    def reset(self):
        """Put back what was stored at the start."""
        self.memory.rewind(self.mark)

    def __call__(self, *columns):
        """Store K transitions, one after the other; return the number stored and the newest board, f32[O].

        Args:
            columns: obs f32[K, O], action i32[K], reward f32[K], next_obs f32[K, O], terminated f32[K].
        """
        push = self.memory.push
        for item in zip(*columns):
            push(*item)
        return len(self.memory), np.asarray(self.memory.columns(np.array([len(self.memory) - 1]))[0][0], np.float32)


def remember(spec, example, *, knobs, target):
    """Store K transitions, one after the other.  columns [K, ...] -> the number stored, the newest board f32[O]"""
    return Remember(spec, knobs)


def assemble(spec, example, *, knobs, target):
    """Make a batch of arrays from a memory's columns.  -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    return lambda columns: [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]


def sample(spec, example, *, knobs, target):
    """Return stored rows as a batch, row 0 the oldest.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    memory = Remember(spec, knobs).memory
    batch_of = assemble(spec, example, knobs=knobs, target=target)
    return lambda rows: batch_of(memory.columns(rows))
