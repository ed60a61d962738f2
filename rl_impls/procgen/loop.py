"""PPO, A2C and IMPALA in one process: alternate between playing a rollout and learning from it."""

import numpy as np

from ..common.parts import join_parts, part_of
from ..common.phases import Phases, TimedLoop
from ..common.procgen_env import ProcgenVectorEnv
from ..common.procgen_state import pack, unpack
from .learners import LEARNERS
from .rollouts import STORAGES, draw_uniforms, play

PHASES = ("environment", "inference", "advantages", "gathering", "learning")


class Loop(TimedLoop):
    """Loop that plays rollouts and learns from them; every reset restores the same start.

    ``algorithm`` is ppo, a2c or impala. ``config`` has hyperparameters by name, as in :class:`.agent.Config`;
    ``params``, the initial weights; ``env``, the arguments of
    :class:`~rl_impls.common.procgen_env.ProcgenVectorEnv`; ``seed`` of actions and minibatches; and optionally
    ``env_state``, the state of the environments to start from.

    Attributes:
        parts: parts of the losses of the last call, f32[I, U, 3], see :data:`.learners.PARTS`.
    """

    def __init__(self, algorithm, config, options, backend):
        self.config, self.clock = config, Phases(*PHASES)
        self.learner = LEARNERS[algorithm](config, options, backend, self.clock)
        self.trained, self.shape = self.learner.update, self.learner.shape
        self.envs = ProcgenVectorEnv(**config["env"])
        self.storage = STORAGES[options.frames](*self.shape)
        self.policy = self.trained.policy(self.envs.observe())
        self.start = config.get("env_state") or self.envs.get_state()
        self.reset()

    def __call__(self, numbers):
        """Play and learn from I rollouts.  -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]

        The rollouts' ``numbers``, i64[I], and the configuration's seed determine their random numbers.
        """
        results = []
        self.clock.start()
        for number in map(int, numbers):
            play(self.envs, self.policy, self.storage, self.uniforms(number), self.clock)
            rollout = self.storage.read()
            self.clock("gathering")
            losses = np.array(self.learner.learn(rollout, number), np.float32)
            results.append((rollout.rewards.copy(), rollout.ended.copy(), losses[:, 0], losses[:, 1:]))
        *found, self.parts = map(np.stack, zip(*results))
        return tuple(found)

    def uniforms(self, number):
        """Return the random numbers for a rollout's actions, f32[T, N]."""
        return draw_uniforms(self.config["seed"], number, *self.shape)

    def reset(self):
        self.trained.reset()
        self.envs.set_state(self.start)
        self.clock.reset()

    def restarted_envs(self):
        """Return no environments, i64[0]; in :class:`.parallel.PoolLoop`, those whose actor died."""
        return np.zeros(0, np.int64)

    def close(self):
        self.envs.close()

    def state(self):
        """Return all that the next rollout depends on except its number, arrays ``learner.*`` and ``env.*``."""
        return join_parts(learner=self.trained.state(), env=pack(self.envs.get_state()))

    def load_state(self, state):
        """Restore a state that :meth:`state` returned, in any backend, form or loop, sequential or parallel."""
        self.trained.load_state(part_of(state, "learner"))
        self.envs.set_state(unpack(part_of(state, "env")))
