"""The learners of PPO, A2C and IMPALA, which turn a rollout into updates.

Axes: T steps, N environments, B images of a batch, U updates; an image is u8[64, 64, 3].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType

import numpy as np

from .rollouts import minibatches
from .spec import PICTURE


class Learner(ABC):
    """Base class of the learners. Every end of a Procgen episode counts as a termination, none as a truncation.

    ``clock(name)`` is called at the end of each phase. ``train`` is the update op, which has the weights.
    """

    def __init__(self, spec, options, backend, clock):
        self.spec, self.backend, self.clock = spec, backend, clock
        self.shape = spec["unroll"], spec["env"].get("num_envs", 1)
        self.never = np.zeros(self.shape, bool)
        self.options, self.compiler = options, backend.new_compiler()
        self.train = self.make()

    def build(self, op, *example):
        """Build an op of procgen; ``example`` are NumPy arrays with the shapes and dtypes of its arguments."""
        args = tuple(map(self.backend.to_device, example))
        return self.backend.build("procgen", op, self.spec, args, self.options, self.compiler)

    @abstractmethod
    def make(self):
        """Build and return the update; a subclass also builds its other ops here."""

    @abstractmethod
    def learn(self, rollout, number):
        """Learn from rollout ``number``, counted from 0; return the losses of its U updates, a list."""

    def update(self, *batch):
        """Run one update on a batch of NumPy arrays, images first; return its loss."""
        batch = self.train.put(*batch)
        self.clock("gathering")
        loss = float(self.backend.to_host(self.train(*batch)))
        self.clock("learning")
        return loss


class ActorCritic(Learner):
    """Learner whose update takes advantages by GAE (Schulman et al. 2016)."""

    def make_gae(self):
        """Build the op ``gae``."""
        steps = np.zeros(self.shape, np.float32)
        self.gae = self.build("gae", steps, steps, steps, self.never, self.never)

    def estimates(self, rollout):
        """Return advantages f32[T N] and returns f32[T N] of a rollout."""
        last = self.train.values(rollout.frames[-1])
        self.clock("inference")
        following = np.concatenate([rollout.values[1:], last[None]])
        steps = rollout.rewards, rollout.values, following, rollout.ended, self.never
        found = self.gae(*map(self.backend.from_host, steps))
        found = [self.backend.to_host(each).reshape(-1) for each in found]
        self.clock("advantages")
        return found


def flat(frames):
    """Return the frames that were acted on, as a view.  u8[T + 1, N, 64, 64, 3] -> u8[T N, 64, 64, 3]"""
    return frames[:-1].reshape(-1, *PICTURE)


class Ppo(ActorCritic):
    """Proximal policy optimisation (Schulman et al. 2017): several epochs of minibatches per rollout."""

    def make(self):
        """Build GAE and PPO's update."""
        self.make_gae()
        batch = self.spec["batch"]
        column = np.zeros(batch, np.float32)
        pictures, actions = np.zeros((batch, *PICTURE), np.uint8), np.zeros(batch, np.int32)
        return self.build("ppo_update", pictures, actions, column, column, column)

    def learn(self, rollout, number):
        """Make an update on each of the rollout's U minibatches."""
        return self.updates(rollout, number, *self.estimates(rollout))

    def updates(self, rollout, number, advantages, returns):
        """Make the updates of :meth:`learn` from given advantages f32[T N] and returns f32[T N]."""
        columns = flat(rollout.frames), rollout.actions.ravel(), rollout.log_probs.ravel(), advantages, returns
        spec = self.spec
        chosen = minibatches(spec["seed"], number, len(advantages), spec["batch"], spec["epochs"])
        return [self.update(*(column[rows] for column in columns)) for rows in chosen]


class A2c(ActorCritic):
    """Advantage actor-critic (Mnih et al. 2016): one update per rollout."""

    def make(self):
        """Build GAE and A2C's update."""
        self.make_gae()
        count = self.never.size
        column = np.zeros(count, np.float32)
        return self.build(
            "a2c_update", np.zeros((count, *PICTURE), np.uint8), np.zeros(count, np.int32), column, column
        )

    def learn(self, rollout, number):
        """Make one update on the whole rollout; return its loss in a list."""
        return self.updates(rollout, number, *self.estimates(rollout))

    def updates(self, rollout, number, advantages, returns):
        """Make the one update of :meth:`learn` from given advantages f32[T N] and returns f32[T N]."""
        return [self.update(flat(rollout.frames), rollout.actions.ravel(), advantages, returns)]


class Impala(Learner):
    """IMPALA's learner (Espeholt et al. 2018): one update per rollout, with V-trace's off-policy correction."""

    def make(self):
        """Build IMPALA's update."""
        steps, envs = self.shape
        frames, column = np.zeros((steps + 1, envs, *PICTURE), np.uint8), np.zeros(self.shape, np.float32)
        actions = np.zeros(self.shape, np.int32)
        return self.build("impala_update", frames, actions, column, column, self.never, self.never)

    def learn(self, rollout, number):
        """Make one update, with V-trace's targets, on the whole rollout."""
        return self.updates(rollout, number)

    def updates(self, rollout, number):
        """Make the update of :meth:`learn`, which needs no estimates beforehand."""
        frames, actions, log_probs, _, rewards, ended = rollout
        return [self.update(frames, actions, log_probs, rewards, ended, self.never)]


LEARNERS = MappingProxyType({"ppo": Ppo, "a2c": A2c, "impala": Impala})
