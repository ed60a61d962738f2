"""Procgen's alone: what an actor is: some of the environments, a net of its own, and rollouts that it plays.

Axes: T steps, N environments of all actors, of which each has N / A; a picture is u8[64, 64, 3].
"""

from __future__ import annotations

import numpy as np

from ..common.phases import untimed
from ..common.procgen_env import ProcgenVectorEnv
from .rollouts import InPlace, play, uniforms_of
from .spec import PICTURE


def part_of_spec(spec, life=0):
    """Return the spec of one actor: its share of the environments.

    Args:
        spec: of all.
        life: how many actors were in its place before; each one's levels are others.
    """
    env = spec["env"]
    share = {"num_envs": env["num_envs"] // spec["actors"], "seed": (env["seed"] + life) % 2**31}
    return {**spec, "env": {**env, **share}}


def share_of(spec, index):
    """Return which environments are those of an actor, a slice.

    Args:
        spec: of all.
        index: of the actor.
    """
    count = spec["env"]["num_envs"] // spec["actors"]
    return slice(index * count, (index + 1) * count)


def share_of_state(state, share):
    """Return the state of some of the environments.

    Args:
        state: of all, as :meth:`ProcgenVectorEnv.get_state` returned it.
        share: a slice.
    """
    return {name: values[share] for name, values in state.items()}


def joined_states(states):
    """Return the state of all environments.

    Args:
        states: of those of each actor, in order.
    """
    games = [game for state in states for game in state["games"]]
    return {"games": games} | {name: np.concatenate([s[name] for s in states]) for name in ("returns", "lengths")}


class Player:
    """Plays rollouts of some of the environments, by the weights of an update of its own; a subclass may time phases.

    Args:
        spec: of all actors, see :class:`.spec.Spec`.
        index: of this one.
        life: how many actors were in its place before.
        threads: that step its environments.
        knobs: those of acting are read.
        backend: that computes.
    """

    clock = staticmethod(untimed)

    def __init__(self, spec, index, life, threads, knobs, backend):
        self.index, self.share, self.spec = index, share_of(spec, index), part_of_spec(spec, life)
        self.everyone = spec["env"]["num_envs"]
        self.envs = ProcgenVectorEnv(**self.spec["env"], threads=threads)
        frames = self.envs.observe()
        self.train = self.make_update(knobs, backend)
        self.actor = self.train.actor(frames)

    def make_update(self, knobs, backend):
        """Return an update, whose weights act.

        Args:
            knobs: of the update.
            backend: that computes.
        """
        column = np.zeros(1, np.float32)
        example = np.zeros((1, *PICTURE), np.uint8), np.zeros(1, np.int32), column, column
        args = tuple(map(backend.to_device, example))
        return backend.build("procgen", "a2c_update", self.spec, args, knobs, backend.lowering_here())

    def get_state(self):
        """Return the state of the environments."""
        return self.envs.get_state()

    def set_state(self, state):
        """Have the environments go on from a state.

        Args:
            state: as :meth:`get_state` returned it.
        """
        self.envs.set_state(state)

    def play_into(self, number, rollout):
        """Play T steps.

        Args:
            number: of the rollout.
            rollout: where it is written, a :class:`.rollouts.Rollout` of the environments of this actor.
        """
        steps = len(rollout.actions)
        uniforms = uniforms_of(self.spec["seed"], number, steps, self.everyone)[:, self.share]
        play(self.envs, self.actor, InPlace(steps, self.envs.num_envs, rollout), uniforms, self.clock)
