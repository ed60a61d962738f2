"""Reference implementation of the DQN (Mnih et al. 2015) in NumPy; it computes in the precision of its inputs.

Each builder takes the op's configuration ``config``, the ``example`` arguments of its first call, the ``options``
(:class:`.options.Options`) and a ``compiler`` (:class:`~rl_impls.compilers.Compiler`), and returns the op. Its
docstring describes the op's arguments and result. ``config["params"]`` are the weights.
"""

import numpy as np

from ..common.op import Op
from ..params import layers
from .env import Geometry
from .memory import DTYPES, make_buffer
from .options import check_supported
from .vector_env import ENVIRONMENTS


def q_values(params, obs):
    """Return the Q-values of each action.  f[B, O] -> f[B, A]

    ``h_{k+1} = max(h_k w_k + b_k, 0)``, without ``max`` after the last layer.
    """
    h = obs
    last = layers(params) - 1
    for k in range(last):
        h = np.maximum(h @ params[f"w{k}"] + params[f"b{k}"], 0)
    return h @ params[f"w{last}"] + params[f"b{last}"]


def td_target(target_params, rewards, next_obs, terminated, gamma):
    """Return the TD target ``r + gamma max_a Q'(s', a)``, or ``r`` alone if s' is terminal.  -> f[B]

    Q' is the target network (Mnih et al. 2015, Algorithm 1). `rewards` are f[B], `next_obs` f[B, O] and `terminated`
    f[B], 1 if the episode ended with the move, else 0.
    """
    return rewards + gamma * (1 - terminated) * q_values(target_params, next_obs).max(axis=1)


def huber(errors):
    """Return the Huber loss of each error, ``e^2 / 2`` where |e| <= 1, else ``|e| - 1/2``.  f[B] -> f[B]

    Its slope is the error clipped to [-1, 1], as in DQN (Mnih et al. 2015, Methods).
    """
    size = np.abs(errors)
    return np.where(size <= 1, errors**2 / 2, size - 0.5)


def loss(params, target_params, batch, gamma):
    """Return the mean Huber loss of the TD errors of the actions taken, ``mean_B huber(Q(s, a) - td_target)``.  -> f

    No gradient flows through the TD target. The batch is obs f[B, O], actions i[B], rewards f[B], next_obs f[B, O],
    terminated f[B].
    """
    obs, actions, rewards, next_obs, terminated = batch
    taken = q_values(params, obs)[np.arange(len(obs)), actions]
    return huber(taken - td_target(target_params, rewards, next_obs, terminated, gamma)).mean()


def forward(config, example, *, options, compiler):
    """Return the Q-values of boards.  f32[N, O] -> f32[N, A]"""
    check_supported("quantised", options, compiler)
    params = config["params"]
    return lambda obs: q_values(params, obs)


def act(config, example, *, options, compiler):
    """Return greedy actions, and random ones where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    check_supported("quantised", options, compiler)
    params = config["params"]
    return lambda obs, explore, random_actions: np.where(
        explore, random_actions, q_values(params, obs).argmax(axis=1).astype(np.int32)
    )


class EnvStep(Op):
    """T steps.  actions i32[T, N], draws i32[T, N, 3] -> last boards f32[N, O], rewards f32[T, N], ended bool[T, N]

    `draws` are food, start and heading. ``config`` has ``env_state``, the games after each reset as
    :meth:`.vector_env.SnakeVectorEnv.get_state` returns them, and optionally ``geometry``.
    """

    def __init__(self, config, example, *, options, compiler):
        self.start = config["env_state"]
        self.envs = ENVIRONMENTS[options.environment](len(self.start["head"]), config.get("geometry", Geometry()))
        self.reset()

    def reset(self):
        self.envs.set_state(self.start)

    def __call__(self, actions, draws):
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t in range(len(actions)):
            obs, rewards[t], terminated, truncated, _ = self.envs.advance(actions[t], draws[t])
            ended[t] = terminated | truncated
        return obs, rewards, ended


env_step = EnvStep


class Remember(Op):
    """Store K transitions [K, ...] one by one; return the number stored and the newest board, f32[O].

    The replay buffer starts full with ``config["stored"]``, columns [M, ...] of :data:`.memory.FIELDS`, oldest first.
    """

    def __init__(self, config, example, *, options, compiler):
        stored = config["stored"]
        self.replay_buffer = make_buffer(options.memory, len(stored[0]), stored[0].shape[1])
        self.replay_buffer.restore(*stored)
        self.mark = self.replay_buffer.mark()

    def reset(self):
        self.replay_buffer.rewind(self.mark)

    def __call__(self, *columns):
        push = self.replay_buffer.push
        for item in zip(*columns):
            push(*item)
        stored = len(self.replay_buffer)
        return stored, np.asarray(self.replay_buffer.sample(np.array([stored - 1]))[0][0], np.float32)


remember = Remember


def assemble(config, example, *, options, compiler):
    """Turn a replay buffer's columns into a batch of arrays.  -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    return lambda columns: [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]


def sample(config, example, *, options, compiler):
    """Return stored rows as a batch, row 0 the oldest.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]

    The replay buffer is filled as in :class:`Remember`.
    """
    replay_buffer = Remember(config, example, options=options, compiler=compiler).replay_buffer
    batch_of = assemble(config, example, options=options, compiler=compiler)
    return lambda rows: batch_of(replay_buffer.sample(rows))
