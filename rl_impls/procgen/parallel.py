"""PPO and IMPALA with rollouts by actor processes, which may play ahead of the learner."""

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
    """Return the initial state of all environments: the spec's ``env_state``, or that of new environments."""
    if spec.get("env_state"):
        return spec["env_state"]
    envs = ProcgenVectorEnv(**spec["env"], threads=1)
    try:
        return envs.get_state()
    finally:
        envs.close()


def crew_of(spec, backend):
    """Return the actors' factory: :class:`.ray_crew.RayCrew` if a cluster is named, else :class:`.crew.Crew`.

    Raises a ValueError if the cluster cannot be reached, and BackendUnavailable if Ray is not installed.
    """
    if not spec.get("cluster"):
        return functools.partial(Crew, versions=spec["lag"] + 2)
    check_installed(backend.name)
    check_reachable(spec["cluster"])
    from .ray_crew import RayCrew

    return RayCrew


class CrewLoop(Op):
    """Base of loops that learn from the rollouts of a :class:`.crew.Crew`.

    Args:
        spec: configuration of the loop, see :class:`.spec.Spec`.
        ahead: most rollouts that actors play before the learner has finished the current one.
        make_crew: ``make_crew(spec, state, depth)`` starts the actors.
        clock: a :class:`~rl_impls.common.phases.Phases`.

    Attributes:
        train: trained weights with ``params``, ``reset``, ``state`` and ``load_state``; set by a subclass.
        goes_on: whether actors also play ahead of a call's last rollout. False in benchmarks, where no work may be left
            running after the timed call.
    """

    goes_on = False

    def __init__(self, spec, ahead, make_crew, clock):
        self.spec, self.clock, self.ahead, self.start = spec, clock, ahead, first_state(spec)
        self.crew = make_crew(spec, self.start, ahead + 1)
        self.reset()

    def reset(self):
        """Restore the initial environments and weights."""
        self.crew.settle()  # otherwise A3C's workers would apply late gradients to the initial weights
        self.train.reset()
        self.go_on_from(self.start)
        self.clock.reset()
        self.lags = Counter()

    def go_on_from(self, state):
        """Restore the environments to a state and discard requested rollouts."""
        self.crew.restore(state)
        self.crew.anew.clear()
        self.asked = None

    def begun_anew(self):
        """Return the environments whose episodes were cut off by an actor's death since the last call, i64[n].

        Their new episodes start in the rollout that was learned from last, or in the next one.
        """
        everyone = np.arange(self.spec["env"]["num_envs"])
        found = [everyone[share_of(self.spec, index)] for index in sorted(self.crew.anew)]
        self.crew.anew.clear()
        return np.concatenate([everyone[:0], *found])

    def close(self):
        """Stop the actors."""
        self.crew.close()

    @property
    def params(self):
        """Current weights as NumPy arrays, by name."""
        return self.train.params

    def phases(self):
        """Return the seconds per phase since the last reset."""
        return dict(self.clock.seconds)

    def stats(self):
        """Return mean and largest policy lag, in updates since the last reset, and the number of actors that died."""
        lags = self.lags or {0: 1}
        mean = sum(lag * times for lag, times in lags.items()) / sum(lags.values())
        return {
            "policy_lag": mean, "most_policy_lag": float(max(lags)), "replaced_actors": float(self.crew.replaced)
        }  # fmt: skip

    def state(self):
        """Return the state as :meth:`.loop.Loop.state` does; rollouts played ahead are dropped."""
        self.asked, env_state = None, self.crew.state()
        return state_of(self.train, env_state)

    def load_state(self, state):
        """Restore a state from any backend, form, or loop, sequential or parallel."""
        self.crew.settle()
        self.train.load_state(part_of(state, "train"))
        self.go_on_from(unpack(part_of(state, "env")))

    def ask_until(self, number):
        """Request the rollouts up to ``number`` that were not requested yet."""
        while self.asked < number:
            self.asked += 1
            self.crew.ask(self.asked)

    def take(self, number, last):
        """Wait for rollout ``number``, and let the actors play ahead up to rollout ``last``.

        If ``number`` does not follow the previous one, rollouts played ahead are dropped.
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

        ``numbers`` i64[I] are those of the rollouts, see :class:`.loop.Loop`.
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
        """Learn from a :class:`.rollouts.Rollout`; return a list of the losses of all updates."""


class ParallelLoop(CrewLoop):
    """PPO or IMPALA with one learner in this process and rollouts from actors.

    With lag 0 the result equals that of :class:`.loop.Loop`. With more, actors play up to ``lag`` rollouts ahead, with
    weights up to ``lag`` updates old: the newest at the time an actor begins the rollout.

    Args:
        algorithm: ppo or impala.
        spec: configuration, see :class:`.spec.Spec`.
        options: optimisations of acting and of the update.
        backend: backend of actors and learner.

    Raises:
        BackendUnavailable, ValueError: see :func:`crew_of`.
    """

    def __init__(self, algorithm, spec, options, backend):
        make_crew = functools.partial(crew_of(spec, backend), options=options, backend=backend)
        clock = Phases(*PHASES)
        self.learner = LEARNERS[algorithm](spec, options, backend, clock)
        self.train = self.learner.train
        super().__init__(spec, spec["lag"], make_crew, clock)

    def go_on_from(self, state):
        """Restore the environments, and publish the current weights as version 0."""
        super().go_on_from(state)
        self.version = 0
        self.crew.publish(0, self.train.params)

    def learn(self, rollout, number):
        """Learn from a rollout and publish the new weights."""
        self.lags[int((self.version - self.crew.behind(number)).max())] += 1
        losses = self.learner.learn(rollout, number)
        self.version += 1
        self.crew.publish(self.version, self.train.params)
        self.clock("publishing")
        return losses
