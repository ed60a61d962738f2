"""PPO, A2C and IMPALA in one process: play T steps of N environments, learn from them, and again; phases are timed."""

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
    """Return the state of a loop as one flat dict of arrays: ``train.*`` and ``env.*``.

    Args:
        train: the update, with ``state()``.
        env_state: of all environments, as :meth:`ProcgenVectorEnv.get_state` returned it.
    """
    parts = {"train": train.state(), "env": pack(env_state)}
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def part_of(state, part):
    """Return one part of what :func:`state_of` joined.

    Args:
        state: arrays by name, ``part.name``.
        part: ``train`` or ``env``.
    """
    return {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(f"{part}.")}


class Loop(Op):
    """Plays rollouts and learns from them in turns, always from the same start.

    Args:
        algorithm: ppo, a2c or impala.
        spec: what it is built from, see :class:`.spec.Spec`.
        knobs: of the loop and its update.
        backend: that computes.
    """

    def __init__(self, algorithm, spec, knobs, backend):
        self.clock, self.spec = Phases(*PHASES), spec
        self.learner = LEARNERS[algorithm](spec, knobs, backend, self.clock)
        self.train, self.shape = self.learner.train, self.learner.shape
        self.envs = ProcgenVectorEnv(**spec["env"])
        self.kept = KEPT[knobs.frames](*self.shape)
        self.actor = self.train.actor(self.envs.observe())
        self.start = spec.get("env_state") or self.envs.get_state()
        self.reset()

    def reset(self):
        """Put the environments and the weights back to the start."""
        self.train.reset()
        self.envs.set_state(self.start)
        self.clock.reset()

    def begun_anew(self):
        """Return which environments' episodes were cut off and others begun: none, i64[0]."""
        return np.zeros(0, np.int64)

    def close(self):
        """End the environments and their threads."""
        self.envs.close()

    @property
    def params(self):
        """The weights as NumPy, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset, by name."""
        return dict(self.clock.seconds)

    def state(self):
        """Return all that the next rollout depends on, but for its number, as NumPy: ``train.*`` and ``env.*``."""
        return state_of(self.train, self.envs.get_state())

    def load_state(self, state):
        """Go on from a state, of this backend and form or another, of this loop or a parallel one.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        self.train.load_state(part_of(state, "train"))
        self.envs.set_state(unpack(part_of(state, "env")))

    def uniforms(self, number):
        """Return the numbers by which the actions of a rollout are drawn, f32[T, N].

        Args:
            number: of the rollout.
        """
        return uniforms_of(self.spec["seed"], number, *self.shape)

    def __call__(self, numbers):
        """Play and learn from I rollouts.  -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]

        Args:
            numbers: i64[I], of the rollouts: what is random in one comes from the spec's seed and its number.
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
