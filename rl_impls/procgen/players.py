"""The player in each actor process, with some of the environments and a net of its own.

Axes: T steps, N environments of all A actors, N / A of each; an image is u8[64, 64, 3].
"""

from __future__ import annotations

import numpy as np

from ..common.phases import untimed
from ..common.procgen_env import ProcgenVectorEnv
from .rollouts import InPlace, play, uniforms_of
from .spec import PICTURE


def part_of_spec(spec, life=0):
    """Return the spec of one actor's environments; ``life`` offsets the seed, so a replacement gets other levels."""
    env = spec["env"]
    share = {"num_envs": env["num_envs"] // spec["actors"], "seed": (env["seed"] + life) % 2**31}
    return {**spec, "env": {**env, **share}}


def share_of(spec, index):
    """Return the slice of an actor's environments."""
    count = spec["env"]["num_envs"] // spec["actors"]
    return slice(index * count, (index + 1) * count)


def share_of_state(state, share):
    """Return the state of a slice of the environments, from the state of all."""
    return {name: values[share] for name, values in state.items()}


def joined_states(states):
    """Concatenate the states of the actors' environments, in the order of the actors."""
    games = [game for state in states for game in state["games"]]
    return {"games": games} | {name: np.concatenate([s[name] for s in states]) for name in ("returns", "lengths")}


class Player:
    """Plays rollouts of its share of the environments with the weights of its own update.

    ``spec`` is that of all actors; ``life`` counts the earlier actors in this place; ``threads`` step the environments.
    """

    clock = staticmethod(untimed)

    def __init__(self, spec, index, life, threads, options, backend):
        self.index, self.share, self.spec = index, share_of(spec, index), part_of_spec(spec, life)
        self.everyone = spec["env"]["num_envs"]
        self.envs = ProcgenVectorEnv(**self.spec["env"], threads=threads)
        frames = self.envs.observe()
        self.train = self.make_update(options, backend)
        self.actor = self.train.actor(frames)

    def make_update(self, options, backend):
        """Return an update op, only for its weights and its actor."""
        column = np.zeros(1, np.float32)
        example = np.zeros((1, *PICTURE), np.uint8), np.zeros(1, np.int32), column, column
        args = tuple(map(backend.to_device, example))
        return backend.build("procgen", "a2c_update", self.spec, args, options, backend.new_compiler())

    def get_state(self):
        """Return the state of the share."""
        return self.envs.get_state()

    def set_state(self, state):
        """Restore the share to a state that :meth:`get_state` returned."""
        self.envs.set_state(state)

    def play_into(self, number, rollout):
        """Play the T steps of rollout ``number`` into ``rollout``, which has the environments of this actor."""
        steps = len(rollout.actions)
        uniforms = uniforms_of(self.spec["seed"], number, steps, self.everyone)[:, self.share]
        play(self.envs, self.actor, InPlace(steps, self.envs.num_envs, rollout), uniforms, self.clock)
