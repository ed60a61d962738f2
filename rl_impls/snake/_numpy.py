"""The reference of the DQN, in equation order; as precise as the arrays it is given."""

from __future__ import annotations

import numpy as np

from ..common.op import Op
from ..params import layers
from .knobs import check_supported
from .memory import DTYPES, make_memory
from .spec import geometry_of
from .vector_env import ENVIRONMENTS


def q_values(params, obs):
    """Value of each move.  f[B, O] -> f[B, A]"""
    h = obs
    last = layers(params) - 1
    for k in range(last):
        h = np.maximum(h @ params[f"w{k}"] + params[f"b{k}"], 0)
    return h @ params[f"w{last}"] + params[f"b{last}"]


def td_target(target_params, rewards, next_obs, terminated, gamma):
    """``r + gamma max_a Q'(s', a)``, and ``r`` alone where the episode ended in s'.  -> f[B]"""
    return rewards + gamma * (1 - terminated) * q_values(target_params, next_obs).max(axis=1)


def huber(errors):
    """``e^2 / 2`` where |e| <= 1, else ``|e| - 1/2``.  f[B] -> f[B]"""
    size = np.abs(errors)
    return np.where(size <= 1, errors**2 / 2, size - 0.5)


def loss(params, target_params, batch, gamma):
    """Mean Huber loss of the TD errors of the actions that were taken.  -> f"""
    obs, actions, rewards, next_obs, terminated = batch
    taken = q_values(params, obs)[np.arange(len(obs)), actions]
    return huber(taken - td_target(target_params, rewards, next_obs, terminated, gamma)).mean()


def forward(spec, example, *, knobs, target):
    """Q-values of a batch of boards.  f32[N, O] -> f32[N, A]"""
    check_supported("quantised", knobs, target)
    params = spec["params"]
    return lambda obs: q_values(params, obs)


def act(spec, example, *, knobs, target):
    """The greedy move, or the drawn one where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    check_supported("quantised", knobs, target)
    params = spec["params"]
    return lambda obs, explore, random_actions: np.where(
        explore, random_actions, q_values(params, obs).argmax(axis=1).astype(np.int32)
    )


class EnvStep(Op):
    """T steps of N environments from the same start."""

    def __init__(self, spec, knobs):
        self.start = spec["env_state"]
        self.envs = ENVIRONMENTS[knobs.environment](len(self.start["head"]), geometry_of(spec))
        self.reset()

    def reset(self):
        """Put the environments back to the start."""
        self.envs.set_state(self.start)

    def __call__(self, actions, draws):
        """Step T times; return the last boards, all rewards and where episodes ended."""
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t in range(len(actions)):
            obs, rewards[t], terminated, truncated, _ = self.envs.advance(actions[t], draws[t])
            ended[t] = terminated | truncated
        return obs, rewards, ended


def env_step(spec, example, *, knobs, target):
    """T steps of N environments.  i32[T, N], i32[T, N, 3] -> f32[N, O], f32[T, N], bool[T, N]"""
    return EnvStep(spec, knobs)


class Remember(Op):
    """Stores transitions in a memory that is full."""

    def __init__(self, spec, knobs):
        self.stored = spec["stored"]
        self.memory = make_memory(knobs.memory, len(self.stored[0]), self.stored[0].shape[1])
        self.memory.restore(*self.stored)
        self.mark = self.memory.mark()

    def reset(self):
        """Put back what was stored at the start."""
        self.memory.rewind(self.mark)

    def __call__(self, *columns):
        """Store K transitions one after the other; return the number stored and the newest board."""
        push = self.memory.push
        for item in zip(*columns):
            push(*item)
        return len(self.memory), np.asarray(self.memory.columns(np.array([len(self.memory) - 1]))[0][0], np.float32)


def remember(spec, example, *, knobs, target):
    """Store K transitions one after the other.  -> the number stored, the newest board f32[O]"""
    return Remember(spec, knobs)


def assemble(spec, example, *, knobs, target):
    """Make a batch of arrays from the columns of a memory."""
    return lambda columns: [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]


def sample(spec, example, *, knobs, target):
    """Take rows out of the memory as a batch.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    memory = Remember(spec, knobs).memory
    batch_of = assemble(spec, example, knobs=knobs, target=target)
    return lambda rows: batch_of(memory.columns(rows))
