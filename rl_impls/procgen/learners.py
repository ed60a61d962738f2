"""PPO, A2C and IMPALA: how each learns from a rollout."""

import math
from abc import ABC, abstractmethod
from time import perf_counter

import numpy as np

from ..common.procgen_env import FRAME
from .rollouts import minibatches

PARTS = ("policy_loss", "value_loss", "entropy")  # of a loss: means over the steps; the entropy is in nats


class Learner(ABC):
    """Base class of the learners. Every end of a Procgen episode counts as a termination, none as a truncation.

    ``config`` is that of :class:`.loop.Loop`; ``clock(name)`` is called at the end of each phase.

    Attributes:
        update: the update op, which holds the weights; set by a subclass.
        deadline: time of ``perf_counter()`` after which PPO begins no further minibatch.
    """

    deadline = math.inf

    def __init__(self, config, options, backend, clock):
        self.config, self.options, self.backend, self.clock = config, options, backend, clock
        self.ops, self.compiler = backend.ops("procgen"), backend.new_compiler()
        self.shape = config["num_steps"], config["env"]["num_envs"]
        self.truncated = np.zeros(self.shape, bool)

    def make(self, op, *example):
        """Return an op of ``self.ops``; ``example`` are NumPy arrays with the shapes and dtypes of its arguments."""
        args = tuple(map(self.backend.to_device, example))
        return op(self.config, args, options=self.options, compiler=self.compiler)

    @abstractmethod
    def learn(self, rollout, number):
        """Learn from rollout ``number``, counted from 0; return the results of :meth:`step`, one per update."""

    def step(self, *batch):
        """Make one update on a batch of NumPy arrays, images first; return its loss and ``PARTS``, four floats."""
        batch = self.update.to_device(*batch)
        self.clock("gathering")
        loss = float(self.backend.to_host(self.update(*batch)))
        losses = [loss, *self.backend.to_host(self.update.parts).tolist()]
        self.clock("learning")
        return losses


class ActorCritic(Learner):
    """Base class of the learners with generalised advantages (Schulman et al. 2016)."""

    def __init__(self, *args):
        super().__init__(*args)
        column = np.zeros(self.shape, np.float32)
        self.gae = self.make(self.ops.gae, column, column, column, self.truncated, self.truncated)

    def advantages_and_returns(self, rollout):
        """Return advantages f32[T N] and returns f32[T N] of a rollout."""
        last_values = self.update.values(rollout.obs[-1])
        self.clock("inference")
        next_values = np.concatenate([rollout.values[1:], last_values[None]])
        columns = rollout.rewards, rollout.values, next_values, rollout.ended, self.truncated
        advantages, returns = map(self.backend.to_host, self.gae(*map(self.backend.from_host, columns)))
        self.clock("advantages")
        return advantages.reshape(-1), returns.reshape(-1)


def acted_on(obs):
    """Return the images that were acted on, as a view.  u8[T + 1, N, 64, 64, 3] -> u8[T N, 64, 64, 3]"""
    return obs[:-1].reshape(-1, *FRAME)


class Ppo(ActorCritic):
    """Proximal policy optimisation (Schulman et al. 2017): several epochs of minibatches per rollout."""

    def __init__(self, *args):
        super().__init__(*args)
        batch_size = self.config["batch_size"]
        column = np.zeros(batch_size, np.float32)
        obs, actions = np.zeros((batch_size, *FRAME), np.uint8), np.zeros(batch_size, np.int32)
        self.update = self.make(self.ops.ppo_update, obs, actions, column, column, column)

    def learn(self, rollout, number):
        """Make one update on each minibatch of each epoch; after the deadline, leave out those that remain."""
        advantages, returns = self.advantages_and_returns(rollout)
        columns = acted_on(rollout.obs), rollout.actions.ravel(), rollout.log_probs.ravel(), advantages, returns
        seed, batch_size, epochs = (self.config[name] for name in ("seed", "batch_size", "epochs"))
        losses = []
        for rows in minibatches(seed, number, len(advantages), batch_size, epochs):
            losses.append(self.step(*(column[rows] for column in columns)))
            if self.out_of_time():
                break
        return losses

    def out_of_time(self):
        """Return whether the deadline has passed, in any of torchrun's processes."""
        passed = perf_counter() >= self.deadline
        if self.deadline == math.inf or self.config.get("processes", 1) == 1:
            return passed
        from .group import agree

        return agree(passed)


class A2c(ActorCritic):
    """Advantage actor-critic (Mnih et al. 2016): one update per rollout."""

    def __init__(self, *args):
        super().__init__(*args)
        count = self.truncated.size
        column = np.zeros(count, np.float32)
        obs, actions = np.zeros((count, *FRAME), np.uint8), np.zeros(count, np.int32)
        self.update = self.make(self.ops.a2c_update, obs, actions, column, column)

    def learn(self, rollout, number):
        """Make one update on the whole rollout."""
        advantages, returns = self.advantages_and_returns(rollout)
        return [self.step(acted_on(rollout.obs), rollout.actions.ravel(), advantages, returns)]


class Impala(Learner):
    """IMPALA's learner (Espeholt et al. 2018): one update per rollout, with V-trace's off-policy correction."""

    def __init__(self, *args):
        super().__init__(*args)
        num_steps, num_envs = self.shape
        column, actions = np.zeros(self.shape, np.float32), np.zeros(self.shape, np.int32)
        obs = np.zeros((num_steps + 1, num_envs, *FRAME), np.uint8)
        self.update = self.make(self.ops.impala_update, obs, actions, column, column, self.truncated, self.truncated)

    def learn(self, rollout, number):
        """Make one update on the whole rollout."""
        obs, actions, log_probs, _, rewards, ended = rollout
        return [self.step(obs, actions, log_probs, rewards, ended, self.truncated)]


LEARNERS = {"ppo": Ppo, "a2c": A2c, "impala": Impala}
