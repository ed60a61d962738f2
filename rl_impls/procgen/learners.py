"""Procgen's alone: what its three algorithms do with a rollout; who played it, and where, is no matter.

Axes: T steps, N environments, B pictures of a batch, U updates; a picture is u8[64, 64, 3].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType

import numpy as np

from .rollouts import minibatches
from .spec import PICTURE


class Learner(ABC):
    """Learns from rollouts by one algorithm. Procgen's ends are terminations: nothing is truncated.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        knobs: of the update.
        backend: that computes.
        clock: ``clock(name)``, told the end of each phase.

    Attributes:
        train: the update, with the weights.
    """

    def __init__(self, spec, knobs, backend, clock):
        self.spec, self.backend, self.clock = spec, backend, clock
        self.shape = spec["unroll"], spec["env"].get("num_envs", 1)
        self.never = np.zeros(self.shape, bool)
        self.knobs, self.target = knobs, backend.lowering_here()
        self.train = self.make()

    def build(self, op, *example):
        """Return one op of procgen.

        Args:
            op: its name.
            example: arrays of NumPy like those to come.
        """
        args = tuple(map(self.backend.to_device, example))
        return self.backend.build("procgen", op, self.spec, args, self.knobs, self.target)

    @abstractmethod
    def make(self):
        """Return the update, and build what else is needed."""

    @abstractmethod
    def learn(self, rollout, number):
        """Learn from a rollout; return the losses of all updates, a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of the rollout, from 0.
        """

    def update(self, *batch):
        """Make one update; return its loss.

        Args:
            batch: arrays of NumPy, pictures first.
        """
        batch = self.train.put(*batch)
        self.clock("gathering")
        loss = float(self.backend.to_host(self.train(*batch)))
        self.clock("learning")
        return loss


class ActorCritic(Learner):
    """A learner whose update takes advantages that were estimated before (Schulman et al. 2016)."""

    def make_gae(self):
        """Build what estimates advantages."""
        steps = np.zeros(self.shape, np.float32)
        self.gae = self.build("gae", steps, steps, steps, self.never, self.never)

    def estimates(self, rollout):
        """Return advantages f32[T N] and returns f32[T N] of a rollout.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
        """
        last = self.train.values(rollout.frames[-1])
        self.clock("inference")
        following = np.concatenate([rollout.values[1:], last[None]])
        steps = rollout.rewards, rollout.values, following, rollout.ended, self.never
        found = self.gae(*map(self.backend.from_host, steps))
        found = [self.backend.to_host(each).reshape(-1) for each in found]
        self.clock("advantages")
        return found


def flat(frames):
    """Return the pictures that were acted on, in one row.  u8[T + 1, N, 64, 64, 3] -> u8[T N, 64, 64, 3], a view

    Args:
        frames: of a rollout.
    """
    return frames[:-1].reshape(-1, *PICTURE)


class Ppo(ActorCritic):
    """Proximal policy optimisation (Schulman et al. 2017): several passes over a rollout, in minibatches."""

    def make(self):
        """Return the update, and build what estimates advantages."""
        self.make_gae()
        batch = self.spec["batch"]
        column = np.zeros(batch, np.float32)
        pictures, actions = np.zeros((batch, *PICTURE), np.uint8), np.zeros(batch, np.int32)
        return self.build("ppo_update", pictures, actions, column, column, column)

    def learn(self, rollout, number):
        """Make U updates; return their losses, a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        return self.updates(rollout, number, *self.estimates(rollout))

    def updates(self, rollout, number, advantages, returns):
        """Make the updates that :meth:`learn` makes once advantages are estimated.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
            advantages: f32[T N].
            returns: f32[T N].
        """
        columns = flat(rollout.frames), rollout.actions.ravel(), rollout.log_probs.ravel(), advantages, returns
        spec = self.spec
        chosen = minibatches(spec["seed"], number, len(advantages), spec["batch"], spec["epochs"])
        return [self.update(*(column[rows] for column in columns)) for rows in chosen]


class A2c(ActorCritic):
    """Advantage actor-critic (Mnih et al. 2016): one update on all of a rollout."""

    def make(self):
        """Return the update, and build what estimates advantages."""
        self.make_gae()
        count = self.never.size
        column = np.zeros(count, np.float32)
        return self.build(
            "a2c_update", np.zeros((count, *PICTURE), np.uint8), np.zeros(count, np.int32), column, column
        )

    def learn(self, rollout, number):
        """Make one update; return its loss in a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        return self.updates(rollout, number, *self.estimates(rollout))

    def updates(self, rollout, number, advantages, returns):
        """Make the update that :meth:`learn` makes once advantages are estimated.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
            advantages: f32[T N].
            returns: f32[T N].
        """
        return [self.update(flat(rollout.frames), rollout.actions.ravel(), advantages, returns)]


class Impala(Learner):
    """The learner of IMPALA (Espeholt et al. 2018): one update on all of a rollout, corrected by V-trace."""

    def make(self):
        """Return the update."""
        steps, envs = self.shape
        frames, column = np.zeros((steps + 1, envs, *PICTURE), np.uint8), np.zeros(self.shape, np.float32)
        actions = np.zeros(self.shape, np.int32)
        return self.build("impala_update", frames, actions, column, column, self.never, self.never)

    def learn(self, rollout, number):
        """Make one update; return its loss in a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        return self.updates(rollout, number)

    def updates(self, rollout, number):
        """Make the update that :meth:`learn` makes.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        frames, actions, log_probs, _, rewards, ended = rollout
        return [self.update(frames, actions, log_probs, rewards, ended, self.never)]


LEARNERS = MappingProxyType({"ppo": Ppo, "a2c": A2c, "impala": Impala})
