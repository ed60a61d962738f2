"""PPO and IMPALA with rollouts by actor processes, which may play ahead of the learner."""

import functools
from abc import abstractmethod
from collections import Counter

import numpy as np

from ..common.parts import join_parts, part_of
from ..common.phases import Phases, TimedLoop
from ..common.procgen_env import ProcgenVectorEnv, check_installed
from ..common.procgen_state import pack, unpack
from .actor_pool import ActorPool
from .actors import env_slice
from .cluster import check_reachable
from .learners import LEARNERS

PHASES = ("waiting", "inference", "advantages", "gathering", "learning", "publishing")


def first_state(config):
    """Return the initial state of all environments: ``env_state``, or that of new environments."""
    if config.get("env_state"):
        return config["env_state"]
    envs = ProcgenVectorEnv(**config["env"], threads=1)
    try:
        return envs.get_state()
    finally:
        envs.close()


def pool_maker(config, backend):
    """Return the maker of actor pools: :class:`.ray_actor_pool.RayActorPool` if a cluster is named, else a local one.

    Raises a ValueError if the cluster cannot be reached, and BackendUnavailable if Ray is not installed.
    """
    if not config.get("cluster"):
        return functools.partial(ActorPool, versions=config["lag"] + 2)
    check_installed(backend.name, ["ray"])
    check_reachable(config["cluster"])
    from .ray_actor_pool import RayActorPool

    return RayActorPool


class PoolLoop(TimedLoop):
    """Base of loops that learn from the rollouts of an :class:`.actor_pool.ActorPool`.

    ``config`` is that of :class:`.loop.Loop`. With the optional ``keep_acting``, actors also play ahead of the last
    rollout of a call. Benchmarks leave it out: no work may be left running after the timed call. ``start`` is the
    initial state of all environments; ``trained`` has ``params``, ``reset``, ``state`` and ``load_state``.

    Attributes:
        ahead: maximum number of rollouts that actors play before the learner has finished the current one.
        parts: parts of the losses of the last call, f32[I, U, 3], see :data:`.learners.PARTS`.
    """

    def __init__(self, config, pool, start, trained, clock):
        self.config, self.pool, self.start, self.trained, self.clock = config, pool, start, trained, clock
        self.ahead, self.keep_acting = pool.depth - 1, config.get("keep_acting", False)
        self.reset()

    def __call__(self, numbers):
        """Learn from I rollouts.  -> rewards f32[I, T, N], ended bool[I, T, N], losses f32[I, U]

        ``numbers`` i64[I] are the rollouts' numbers, see :meth:`.loop.Loop.__call__`.
        """
        results, last = [], int(numbers[-1]) + self.ahead * self.keep_acting
        self.clock.start()
        for number in map(int, numbers):
            rollout = self.take(number, last)
            losses = np.array(self.learn(rollout, number), np.float32)
            results.append((rollout.rewards.copy(), rollout.ended.copy(), losses[:, 0], losses[:, 1:]))
            if self.ahead:
                self.request_until(min(number + self.ahead + 1, last))
        *found, self.parts = map(np.stack, zip(*results))
        return tuple(found)

    @abstractmethod
    def learn(self, rollout, number):
        """Learn from a :class:`.rollouts.Rollout`; return loss and parts of each update, [U, 4]."""

    def take(self, number, last):
        """Wait for rollout ``number``, and let the actors play ahead up to rollout ``last``.

        If ``number`` does not follow the previous one, rollouts played ahead are dropped.
        """
        if self.requested is None or number != self.taken + 1:
            self.pool.discard_answers()
            self.requested = number - 1
        self.taken = number
        self.request_until(min(number + self.ahead, last))
        rollout = self.pool.take(number)
        self.clock("waiting")
        return rollout

    def request_until(self, number):
        """Request the rollouts up to ``number`` that were not requested yet."""
        while self.requested < number:
            self.requested += 1
            self.pool.request(self.requested)

    def reset(self):
        self.pool.discard_answers()  # otherwise A3C's workers would apply late gradients to the initial weights
        self.trained.reset()
        self.restart_from(self.start)
        self.clock.reset()
        self.lags = Counter()

    def restart_from(self, state):
        """Restore the environments to a state and drop requested rollouts."""
        self.pool.restore(state)
        self.pool.restarted.clear()
        self.requested = None

    def restarted_envs(self):
        """Return the environments whose episodes were cut off by an actor's death since the last call, i64[n].

        Their new episodes start in the rollout that was learned from last, or in the next one.
        """
        indices = np.arange(self.config["env"]["num_envs"])
        found = [indices[env_slice(self.config, actor)] for actor in sorted(self.pool.restarted)]
        self.pool.restarted.clear()
        return np.concatenate([indices[:0], *found])

    def close(self):
        self.pool.close()

    def stats(self):
        """Return mean and largest policy lag since the last reset, and the number of actors that died.

        The lag counts the rollouts learned from meanwhile, in PPO several updates each; in A3C it counts gradients.
        """
        lags = self.lags or {0: 1}
        mean = sum(lag * times for lag, times in lags.items()) / sum(lags.values())
        return {
            "policy_lag": mean, "most_policy_lag": float(max(lags)), "replaced_actors": float(self.pool.replaced)
        }  # fmt: skip

    def state(self):
        """Return the state as :meth:`.loop.Loop.state` does; rollouts played ahead are dropped."""
        self.requested, env_state = None, self.pool.state()
        return join_parts(learner=self.trained.state(), env=pack(env_state))

    def load_state(self, state):
        self.pool.discard_answers()
        self.trained.load_state(part_of(state, "learner"))
        self.restart_from(unpack(part_of(state, "env")))


class ParallelLoop(PoolLoop):
    """PPO or IMPALA with one learner in this process and rollouts from actors.

    With lag 0 the result equals that of :class:`.loop.Loop`. With more, actors play up to ``lag`` rollouts ahead, with
    weights up to ``lag`` rollouts old: the newest when an actor begins the rollout (on a Ray cluster: when it is asked
    for it).

    ``algorithm`` is ppo or impala. ``config`` is that of :class:`.loop.Loop`, with the number of ``actors``, ``lag``,
    and optionally ``cluster``, the address of the Ray cluster that runs the actors.

    Raises:
        BackendUnavailable, ValueError: see :func:`pool_maker`.
    """

    def __init__(self, algorithm, config, options, backend):
        make_pool, clock = pool_maker(config, backend), Phases(*PHASES)
        self.learner = LEARNERS[algorithm](config, options, backend, clock)
        start = first_state(config)
        pool = make_pool(config, start, config["lag"] + 1, options, backend)
        super().__init__(config, pool, start, self.learner.update, clock)

    def learn(self, rollout, number):
        """Learn from a rollout and publish the new weights."""
        self.lags[int((self.version - self.pool.behind(number)).max())] += 1
        losses = self.learner.learn(rollout, number)
        self.version += 1
        self.pool.publish(self.version, self.trained.params)
        self.clock("publishing")
        return losses

    def restart_from(self, state):
        """Restore the environments, and publish the current weights as version 0."""
        super().restart_from(state)
        self.version = 0
        self.pool.publish(0, self.trained.params)
