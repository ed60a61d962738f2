"""Ops that are the same on every backend, because they compose other ops or need none.

Each builder takes ``config`` (hyperparameters, see :class:`.loop.Loop`), ``example`` (arguments of the first call),
``options`` (:class:`.options.Options`) and ``backend``, and returns the op.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ..common.op import Op
from ..common.procgen_env import ProcgenVectorEnv, check_installed
from .loop import Loop
from .parallel import ParallelLoop


def copied(envs, actions, row):
    """Step into new frames, and copy them to ``row`` u8[N, 64, 64, 3].  i32[N] -> rewards f32[N], ended bool[N]"""
    row[:], rewards, ended = envs.advance(actions)
    return rewards, ended


def in_place(envs, actions, row):
    """Step with the frames written directly to ``row`` u8[N, 64, 64, 3].  i32[N] -> rewards f32[N], ended bool[N]"""
    return envs.advance(actions, row)[1:]


STEPS = MappingProxyType({"copied": copied, "in_place": in_place})  # by the option ``frames``


class EnvStep(Op):
    """T steps of N environments into a rollout of T rows, from the same state after each reset.

    ``env`` are the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`; there is one thread per core of
    this process.
    """

    def __init__(self, env, num_steps, options):
        self.step = STEPS[options.frames]
        self.envs = ProcgenVectorEnv(**env)
        self.rows = np.empty((num_steps, *self.envs.observation_space.shape), np.uint8)
        self.start = self.envs.get_state()

    def __call__(self, actions):
        """Return the last frames u8[N, 64, 64, 3], rewards f32[T, N] and ended bool[T, N]; ``actions`` is i32[T, N]."""
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t, row in enumerate(self.rows):
            rewards[t], ended[t] = self.step(self.envs, actions[t], row)
        return self.rows[-1].copy(), rewards, ended

    def reset(self):
        """Restore the games' initial state."""
        self.envs.set_state(self.start)

    def close(self):
        """Stop the games and their threads."""
        self.envs.close()


def env_step(config, example, *, options, backend):
    """Build T steps.  actions i32[T, N] from 0 to 14 -> frames u8[N, 64, 64, 3], rewards f32[T, N], ended bool[T, N]"""
    check_installed(backend.name)
    return EnvStep(config["env"], len(example[0]), options)


def sequential(algorithm, config, options, backend):
    """Return the loop of PPO or A2C in one process, or this process's part of it under torchrun."""
    check_installed(backend.name)
    if config.get("processes", 1) == 1:
        return Loop(algorithm, config, options, backend)
    from .group_loop import GroupLoop

    return GroupLoop(algorithm, config, options, backend)


def ppo(config, example, *, options, backend):
    """Build PPO's loop over I rollouts, see :class:`.loop.Loop`.

    numbers i64[I] -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]
    """
    return sequential("ppo", config, options, backend)


def a2c(config, example, *, options, backend):
    """Build A2C's loop; arguments and results as in :func:`ppo`."""
    return sequential("a2c", config, options, backend)


def impala(config, example, *, options, backend):
    """Build the sequential loop of IMPALA's update; arguments and results as in :func:`ppo`."""
    check_installed(backend.name)
    return Loop("impala", config, options, backend)


def parallel_ppo(config, example, *, options, backend):
    """Build PPO's loop with actor processes, see :class:`.parallel.ParallelLoop`."""
    check_installed(backend.name)
    return ParallelLoop("ppo", config, options, backend)


def parallel_impala(config, example, *, options, backend):
    """Build IMPALA's loop with actor processes, see :class:`.parallel.ParallelLoop`."""
    check_installed(backend.name)
    return ParallelLoop("impala", config, options, backend)


def a3c(config, example, *, options, backend):
    """Build A3C's loop with worker processes, see :class:`.a3c.A3c`; only for torch on the CPU."""
    check_installed(backend.name)
    if backend.library != "torch" or backend.device != "cpu":
        raise ValueError(f"backend={backend.name!r} should be torch or torch-compile for a3c")
    from .a3c import A3c

    return A3c(config, options, backend)
