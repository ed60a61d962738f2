"""PPO, A2C and IMPALA in one process: alternate between playing a rollout and learning from it."""

from __future__ import annotations

import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from ..common.procgen_env import ProcgenVectorEnv
from ..common.procgen_state import pack, unpack
from .learners import LEARNERS
from .rollouts import KEPT, play, uniforms_of

PHASES = ("environment", "inference", "advantages", "gathering", "learning")


def state_of(train, env_state):
    """Merge the state of ``train`` and of the environments into one dict of arrays, ``train.*`` and ``env.*``."""
    parts = {"train": train.state(), "env": pack(env_state)}
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def part_of(state, part):
    """Return one part, ``train`` or ``env``, of a dict made by :func:`state_of`."""
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


class Loop(Op):
    """Loop that plays rollouts and learns from them; every reset restores the same start.

    Args:
        algorithm: ppo, a2c or impala.
        spec: configuration of the loop, see :class:`.spec.Spec`.
        options: optimisations of the loop and its update.
        backend: backend of actor and learner.
    """

    def __init__(self, algorithm, spec, options, backend):
        self.clock, self.spec = Phases(*PHASES), spec
        self.learner = LEARNERS[algorithm](spec, options, backend, self.clock)
        self.train, self.shape = self.learner.train, self.learner.shape
        self.envs = ProcgenVectorEnv(**spec["env"])
        self.kept = KEPT[options.frames](*self.shape)
        self.actor = self.train.actor(self.envs.observe())
        self.start = spec.get("env_state") or self.envs.get_state()
        self.reset()

    def reset(self):
        """Restore the initial weights and environments."""
        self.train.reset()
        self.envs.set_state(self.start)
        self.clock.reset()

    def begun_anew(self):
        """Return no environments, i64[0]; in :class:`.parallel.CrewLoop`, those whose actor died."""
        return np.zeros(0, np.int64)

    def close(self):
        """Stop the environments and their threads."""
        self.envs.close()

    @property
    def params(self):
        """Trained weights as NumPy arrays, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset, by name."""
        return dict(self.clock.seconds)

    def state(self):
        """Return all that the next rollout depends on except its number, NumPy arrays ``train.*`` and ``env.*``."""
        return state_of(self.train, self.envs.get_state())

    def load_state(self, state):
        """Restore a state that :meth:`state` returned, in any backend, form or loop, sequential or parallel."""
        self.train.load_state(part_of(state, "train"))
        self.envs.set_state(unpack(part_of(state, "env")))

    def uniforms(self, number):
        """Return the random numbers for a rollout's actions, f32[T, N]."""
        return uniforms_of(self.spec["seed"], number, *self.shape)

    def __call__(self, numbers):
        """Play and learn from I rollouts.  -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]

        The rollouts' ``numbers``, i64[I], and the spec's seed determine their random numbers.
        """
        results = []
        self.clock.start()
        for number in map(int, numbers):
            play(self.envs, self.actor, self.kept, self.uniforms(number), self.clock)
            rollout = self.kept.read()
            self.clock("gathering")
            losses = np.array(self.learner.learn(rollout, number), np.float32)
            results.append((rollout.rewards.copy(), rollout.ended.copy(), losses))
        return tuple(map(np.stack, zip(*results)))
