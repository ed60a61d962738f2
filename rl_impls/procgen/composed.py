"""Ops that are made of other ops or of none, and so are the same on every backend.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``backend``, that computes. They return the op.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ..common.op import Op
from ..common.procgen_env import ProcgenVectorEnv, check_installed
from .loop import Loop
from .parallel import ParallelLoop


def copied(envs, actions, row):
    """Make one step, which returns frames of its own, and copy those to a row of a rollout.

    -> rewards f32[N], ended bool[N]

    Args:
        envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        actions: i32[N] from 0 to 14.
        row: where the frames are kept, u8[N, 64, 64, 3].
    """
    row[:], rewards, ended = envs.advance(actions)
    return rewards, ended


def in_place(envs, actions, row):
    """Make one step that writes its frames to a row of a rollout.  -> rewards f32[N], ended bool[N]

    Args:
        envs: a :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        actions: i32[N] from 0 to 14.
        row: where the frames are kept, u8[N, 64, 64, 3].
    """
    return envs.advance(actions, row)[1:]


FRAMES = MappingProxyType({"copied": copied, "in_place": in_place})


class EnvStep(Op):
    """T steps of N environments into a rollout of T rows, from the same start after each reset.

    As many threads compute as this process has cores.

    Args:
        spec: ``env`` is taken, the arguments of :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`.
        steps: of a call, T.
        knobs: ``frames`` is read.
    """

    def __init__(self, spec, steps, knobs):
        self.step = FRAMES[knobs.frames]
        self.envs = ProcgenVectorEnv(**spec["env"])
        self.rows = np.empty((steps, *self.envs.observation_space.shape), np.uint8)
        self.start = self.envs.get_state()

    def reset(self):
        """Put the games back to the start."""
        self.envs.set_state(self.start)

    def close(self):
        """End the games and their threads."""
        self.envs.close()

    def __call__(self, actions):
        """Return the last frames u8[N, 64, 64, 3], all rewards f32[T, N] and where episodes ended, bool[T, N].

        Args:
            actions: i32[T, N] from 0 to 14.
        """
        rewards, ended = np.empty(actions.shape, np.float32), np.empty(actions.shape, bool)
        for t, row in enumerate(self.rows):
            rewards[t], ended[t] = self.step(self.envs, actions[t], row)
        return self.rows[-1].copy(), rewards, ended


def env_step(spec, example, *, knobs, backend):
    """Make T steps.  actions i32[T, N] -> frames u8[N, 64, 64, 3], rewards f32[T, N], ended bool[T, N]

    Raises:
        BackendUnavailable: Procgen is not installed.
        ValueError: what :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv` finds wrong with ``env``.
    """
    check_installed(backend.name)
    return EnvStep(spec, len(example[0]), knobs)


def sequential(algorithm, spec, knobs, backend):
    """Return a loop of this process, or, where torchrun started several, of its share.

    Args:
        algorithm: ppo or a2c.
        spec: what it is built from.
        knobs: of the loop.
        backend: that computes.
    """
    if spec.get("processes", 1) == 1:
        return Loop(algorithm, spec, knobs, backend)
    from .group_loop import GroupLoop

    return GroupLoop(algorithm, spec, knobs, backend)


def ppo(spec, example, *, knobs, backend):
    """Play I rollouts, and learn from each by PPO; see :class:`.loop.Loop`.

    numbers i64[I] -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]
    """
    check_installed(backend.name)
    return sequential("ppo", spec, knobs, backend)


def a2c(spec, example, *, knobs, backend):
    """Play I rollouts, and learn from each by A2C; see :func:`ppo`."""
    check_installed(backend.name)
    return sequential("a2c", spec, knobs, backend)


def impala(spec, example, *, knobs, backend):
    """Play I rollouts, and learn from each by IMPALA's update; see :func:`ppo`."""
    check_installed(backend.name)
    return Loop("impala", spec, knobs, backend)


def parallel_ppo(spec, example, *, knobs, backend):
    """Learn by PPO from I rollouts that actors play; see :class:`.parallel.ParallelLoop` and :func:`ppo`."""
    check_installed(backend.name)
    return ParallelLoop("ppo", spec, knobs, backend)


def parallel_impala(spec, example, *, knobs, backend):
    """Learn by IMPALA's update from I rollouts that actors play; see :func:`parallel_ppo`."""
    check_installed(backend.name)
    return ParallelLoop("impala", spec, knobs, backend)


def a3c(spec, example, *, knobs, backend):
    """Have workers play I rollouts and learn from them by A3C; see :class:`.a3c.A3c` and :func:`ppo`.

    Raises:
        ValueError: a backend that is not torch's on the CPU, or a cluster.
    """
    check_installed(backend.name)
    if backend.source != "torch" or backend.device != "cpu":
        raise ValueError(f"backend of a3c: got {backend.name}, wanted torch or torch-compile")
    if spec.get("cluster"):
        raise ValueError(f"cluster: got {spec['cluster']!r} with a3c, whose workers share the memory of one machine")
    from .a3c import A3c

    return A3c(spec, knobs, backend)
