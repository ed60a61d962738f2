"""Actor processes: each plays a share of the environments with a net of its own.

Axes: N environments of all A actors, N / A of each.
"""

import numpy as np

from ..common.phases import untimed
from ..common.procgen_env import ProcgenVectorEnv
from .rollouts import InPlace, draw_uniforms, play


def actor_config(config, life=0):
    """Return the configuration of one actor; ``life`` offsets the seed, so that a replacement plays other levels."""
    env = config["env"]
    share = {"num_envs": env["num_envs"] // config["actors"], "seed": (env["seed"] + life) % 2**31}
    return {**config, "env": {**env, **share}}


def env_slice(config, index):
    """Return the slice of an actor's environments."""
    count = config["env"]["num_envs"] // config["actors"]
    return slice(index * count, (index + 1) * count)


def slice_state(state, envs):
    """Return the state of a slice of the environments, from the state of all."""
    return {name: values[envs] for name, values in state.items()}


def join_states(states):
    """Concatenate the states of the actors' environments, in the order of the actors."""
    games = [game for state in states for game in state["games"]]
    return {"games": games} | {name: np.concatenate([s[name] for s in states]) for name in ("returns", "lengths")}


class Actor:
    """Plays rollouts of its share of the environments.

    ``config`` covers the environments of all actors, and ``threads`` is the number of threads that step this actor's.
    ``life`` is 0, or for a replacement the number of actors replaced so far.
    """

    clock = staticmethod(untimed)

    def __init__(self, config, index, life, threads, options, backend):
        self.index, self.slice = index, env_slice(config, index)
        self.config, self.num_envs = actor_config(config, life), config["env"]["num_envs"]
        self.envs = ProcgenVectorEnv(**self.config["env"], threads=threads)
        self.get_state, self.set_state = self.envs.get_state, self.envs.set_state
        self.policy = self.make_policy(self.envs.observe(), options, backend)

    def make_policy(self, obs, options, backend):
        """Return a policy with weights of its own for images like ``obs``."""
        config, compiler = {"params": self.config["params"]}, backend.new_compiler()
        return backend.ops("procgen").policy(config, (obs,), options=options, compiler=compiler)

    def play_into(self, number, rollout):
        """Play rollout ``number`` into ``rollout``, which has the T steps and the environments of this actor."""
        num_steps = self.config["num_steps"]
        uniforms = draw_uniforms(self.config["seed"], number, num_steps, self.num_envs)[:, self.slice]
        play(self.envs, self.policy, InPlace(num_steps, self.envs.num_envs, rollout), uniforms, self.clock)
