"""Ops that are the same on every backend, because they compose other ops or need none.

Each builder takes ``config`` (hyperparameters, see :class:`.loop.Loop`), ``example`` (arguments of the first call),
``options`` (:class:`.options.Options`) and ``backend``, and returns the op.
"""

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


STEPS = {"copied": copied, "in_place": in_place}  # by the option ``frames``


class EnvStep(Op):
    """T steps of N environments into a rollout of T rows, from the same state after each reset.

    actions i32[T, N] from 0 to 14 -> frames u8[N, 64, 64, 3], the last ones, rewards f32[T, N], ended bool[T, N]

    ``config["env"]`` are the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`; there is one thread
    per core of this process.
    """

    def __init__(self, config, example, *, options, backend):
        check_installed(backend.name)
        self.step = STEPS[options.frames]
        self.envs = ProcgenVectorEnv(**config["env"])
        self.rows = np.empty((len(example[0]), *self.envs.observation_space.shape), np.uint8)
        self.start = self.envs.get_state()

    def __call__(self, actions):
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t, row in enumerate(self.rows):
            rewards[t], ended[t] = self.step(self.envs, actions[t], row)
        return self.rows[-1].copy(), rewards, ended

    def reset(self):
        self.envs.set_state(self.start)

    def close(self):
        self.envs.close()


env_step = EnvStep


def sequential(algorithm, config, options, backend):
    """Return the loop of PPO or A2C in one process, or this process's part of it under torchrun."""
    if config.get("processes", 1) == 1:
        return Loop(algorithm, config, options, backend)
    from .group_loop import GroupLoop

    return GroupLoop(algorithm, config, options, backend)


def loop_of(make, algorithm):
    """Return the builder of an algorithm's loop over I rollouts, made by ``make(algorithm, config, options, backend)``.

    numbers i64[I] -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]
    """

    def build(config, example, *, options, backend):
        check_installed(backend.name)
        return make(algorithm, config, options, backend)

    return build


ppo, a2c, impala = loop_of(sequential, "ppo"), loop_of(sequential, "a2c"), loop_of(Loop, "impala")
parallel_ppo, parallel_impala = loop_of(ParallelLoop, "ppo"), loop_of(ParallelLoop, "impala")


def a3c(config, example, *, options, backend):
    """Build A3C's loop with worker processes, see :class:`.a3c.A3c`; only for torch on the CPU."""
    check_installed(backend.name)
    if backend.library != "torch" or backend.device != "cpu":
        raise ValueError(f"backend={backend.name!r} should be torch or torch-compile for a3c")
    from .a3c import A3c

    return A3c(config, options, backend)
