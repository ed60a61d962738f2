"""Procgen's alone: PPO and IMPALA whose rollouts a crew of actors plays, up to some ahead; phases are timed."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import Counter

import numpy as np

from ..common.op import Op
from ..common.phases import Phases
from ..common.procgen_env import ProcgenVectorEnv
from ..common.procgen_state import unpack
from .cluster import check_installed, check_reachable
from .crew import Crew
from .learners import LEARNERS
from .loop import part_of, state_of
from .players import share_of

PHASES = ("waiting", "inference", "advantages", "gathering", "learning", "publishing")


def first_state(spec):
    """Return the state of all environments that is played from.

    Args:
        spec: of a loop, see :class:`.spec.Spec`.
    """
    if spec.get("env_state"):
        return spec["env_state"]
    envs = ProcgenVectorEnv(**spec["env"], threads=1)
    try:
        return envs.get_state()
    finally:
        envs.close()


def crew_of(spec, backend):
    """Return what makes a crew: :class:`.ray_crew.RayCrew` where a cluster is named, else :class:`.crew.Crew`.

    Args:
        spec: of a loop, see :class:`.spec.Spec`.
        backend: that computes.

    Raises:
        BackendUnavailable: Ray is wanted and not installed.
        ValueError: no cluster is reached at its address.
    """
    if not spec.get("cluster"):
        return functools.partial(Crew, versions=spec["lag"] + 2)
    check_installed(backend.name)
    check_reachable(spec["cluster"])
    from .ray_crew import RayCrew

    return RayCrew


class CrewLoop(Op):
    """A loop whose rollouts a crew of actors plays, up to some ahead.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        ahead: rollouts that actors may play before the one that is waited for is done with.
        make_crew: ``make_crew(spec, state, depth)``, see :class:`.crew.Crew`.
        clock: of the loop's phases.

    Attributes:
        train: what is trained, with ``params``, ``reset``, ``state`` and ``load_state``; a subclass sets it.
        goes_on: whether actors play ahead of a call's last rollout too. Where calls are timed they do not, as nothing
            is to be at work after the end of one.
    """

    goes_on = False

    def __init__(self, spec, ahead, make_crew, clock):
        self.spec, self.clock, self.ahead, self.start = spec, clock, ahead, first_state(spec)
        self.crew = make_crew(spec, self.start, ahead + 1)
        self.reset()

    def reset(self):
        """Put the environments and the weights back to the start."""
        self.crew.settle()  # workers of A3C would apply their gradients to the weights of the start
        self.train.reset()
        self.go_on_from(self.start)
        self.clock.reset()
        self.lags = Counter()

    def go_on_from(self, state):
        """Forget what was played ahead, and play on from a state.

        Args:
            state: of all environments.
        """
        self.crew.restore(state)
        self.crew.anew.clear()
        self.asked = None

    def begun_anew(self):
        """Return which environments' episodes were cut off since the last time, as their actor died, i64[n].

        The actor in its place began other ones with the rollout that was learned from last, or will with the next one.
        """
        everyone = np.arange(self.spec["env"]["num_envs"])
        found = [everyone[share_of(self.spec, index)] for index in sorted(self.crew.anew)]
        self.crew.anew.clear()
        return np.concatenate([everyone[:0], *found])

    def close(self):
        """End the actors."""
        self.crew.close()

    @property
    def params(self):
        """The weights as NumPy, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds spent in each phase since the last reset, by name."""
        return dict(self.clock.seconds)

    def stats(self):
        """Return the lag of the policy in updates, mean and most since the last reset, and how many actors died."""
        lags = self.lags or {0: 1}
        mean = sum(lag * times for lag, times in lags.items()) / sum(lags.values())
        return {
            "policy_lag": mean, "most_policy_lag": float(max(lags)), "replaced_actors": float(self.crew.replaced)
        }  # fmt: skip

    def state(self):
        """Return all that the next rollout depends on, as NumPy; what was played ahead is forgotten.

        See :meth:`.loop.Loop.state`.
        """
        self.asked, env_state = None, self.crew.state()
        return state_of(self.train, env_state)

    def load_state(self, state):
        """Go on from a state, of this backend and form or another, of this loop or a sequential one.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        self.crew.settle()
        self.train.load_state(part_of(state, "train"))
        self.go_on_from(unpack(part_of(state, "env")))

    def ask_until(self, number):
        """Have the actors play ahead.

        Args:
            number: of the last rollout that they are to play.
        """
        while self.asked < number:
            self.asked += 1
            self.crew.ask(self.asked)

    def take(self, number, last):
        """Wait for a rollout; return it.

        Args:
            number: of it; where it does not follow the last one, what was played ahead is forgotten.
            last: number of the last rollout that is to be played.
        """
        if self.asked is None or number != self.taken + 1:
            self.crew.settle()
            self.asked = number - 1
        self.taken = number
        self.ask_until(min(number + self.ahead, last))
        rollout = self.crew.take(number)
        self.clock("waiting")
        return rollout

    def __call__(self, numbers):
        """Learn from I rollouts.  -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]

        Args:
            numbers: i64[I], of the rollouts, see :class:`.loop.Loop`.
        """
        results, last = [], int(numbers[-1]) + self.ahead * self.goes_on
        self.clock.start()
        for number in map(int, numbers):
            rollout = self.take(number, last)
            losses = np.array(self.learn(rollout, number), np.float32)
            results.append((rollout.rewards.copy(), rollout.ended.copy(), losses))
            if self.ahead:
                self.ask_until(min(number + self.ahead + 1, last))
        return tuple(map(np.stack, zip(*results)))

    @abstractmethod
    def learn(self, rollout, number):
        """Learn from a rollout; return the losses of all updates, a list.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it.
        """


class ParallelLoop(CrewLoop):
    """What actors play is learned from here; with lag 0 it is :class:`.loop.Loop`, of which they play the shares.

    With more lag they play up to that many rollouts ahead of the learner, by weights that many updates old. The weights
    of a rollout are the newest there are when an actor begins it.

    Args:
        algorithm: ppo or impala.
        spec: what it is built from, see :class:`.spec.Spec`.
        knobs: of the loop and its update.
        backend: that computes.

    Raises:
        BackendUnavailable, ValueError: see :func:`crew_of`.
    """

    def __init__(self, algorithm, spec, knobs, backend):
        make_crew = functools.partial(crew_of(spec, backend), knobs=knobs, backend=backend)
        clock = Phases(*PHASES)
        self.learner = LEARNERS[algorithm](spec, knobs, backend, clock)
        self.train = self.learner.train
        super().__init__(spec, spec["lag"], make_crew, clock)

    def go_on_from(self, state):
        """Forget what was played ahead, and play on from a state.

        Args:
            state: of all environments.
        """
        super().go_on_from(state)
        self.version = 0
        self.crew.publish(0, self.train.params)

    def learn(self, rollout, number):
        """Learn from a rollout and give the actors the new weights.

        Args:
            rollout: a :class:`.rollouts.Rollout`.
            number: of it, from 0.
        """
        self.lags[int((self.version - self.crew.behind(number)).max())] += 1
        losses = self.learner.learn(rollout, number)
        self.version += 1
        self.crew.publish(self.version, self.train.params)
        self.clock("publishing")
        return losses
