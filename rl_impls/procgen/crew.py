"""Procgen's alone: actors in processes of this machine, as only its rollouts are played by several at once.

They write rollouts to shared memory, where they are learned from in place. Messages between processes are numbers of
rollouts; pictures and weights are never sent.

Axes: T steps, N environments, A actors, D rollouts that are played or wait to be learned from.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from .. import backends
from ..common.procgen_env import default_threads
from ..common.shared_arrays import SharedArrays
from ..common.starting import GAMES
from ..common.workers import GIVES_WAY, SECONDS, Workers
from .players import Player, joined_states, share_of, share_of_state
from .rollouts import Rollout, layout


def memory(spec, depth, versions, more):
    """Return what actors and learner share.

    Args:
        spec: of all actors, see :class:`.spec.Spec`.
        depth: rollouts that are played or wait to be learned from, D.
        versions: of the weights that are kept.
        more: shapes and dtypes of other arrays, by name.

    Returns:
        The arrays of D rollouts; ``behind`` i64[D, A], which weights each was played with, or how many updates passed
        until its gradient was applied; ``newest`` i64, the version of the newest weights; and the weights, [versions,
        ...] each.
    """
    rollouts = layout(spec["unroll"], spec["env"]["num_envs"])
    arrays = {name: ((depth, *shape), dtype) for name, (shape, dtype) in rollouts.items()}
    arrays |= {"behind": ((depth, spec["actors"]), np.int64), "newest": ((1,), np.int64)}
    weights = {name: ((versions, *np.shape(value)), np.float32) for name, value in spec["params"].items()}
    return SharedArrays(arrays | weights | more)


def rollout_of(shared, slot, share=slice(None)):
    """Return a rollout, or a part of it, in place.

    Args:
        shared: what :func:`memory` returned.
        slot: which of the D rollouts.
        share: its environments, a slice.
    """
    return Rollout(*(shared[name][slot][:, share] for name in Rollout._fields))


def publish(shared, version, params):
    """Give actors new weights.

    Weights that an actor may still read are not overwritten, as the learner is fewer versions ahead than are kept.

    Args:
        shared: what :func:`memory` returned.
        version: of the weights.
        params: arrays by name.
    """
    for name, value in params.items():
        kept = shared[name]
        kept[version % len(kept)] = value
    shared["newest"][0] = version


class Acting(Player):
    """An actor of PPO or IMPALA: it plays by the newest weights there are when it begins a rollout.

    Args:
        shared: what :func:`memory` returned.
        args: those of :class:`.players.Player`.
    """

    def __init__(self, shared, *args):
        super().__init__(*args)
        self.shared = shared

    def play(self, number):
        """Play a rollout.

        Args:
            number: of it.
        """
        shared = self.shared
        slot, version = number % len(shared["behind"]), int(shared["newest"][0])
        weights = self.spec["params"]
        self.train.load({name: shared[name][version % len(shared[name])] for name in weights})
        self.play_into(number, rollout_of(shared, slot, self.share))
        shared["behind"][slot, self.index] = version


def make_actor(make, shared, spec, index, life, threads, knobs, backend):
    """Return an actor; in its process.

    Args:
        make: of the actor, as :class:`Acting`.
        shared: what :func:`memory` returned.
        spec: of all actors.
        index: of this one.
        life: how many actors were in its place before.
        threads: that step its environments.
        knobs: of acting.
        backend: that computes, by its name.
    """
    return make(shared, spec, index, life, threads, knobs, backends.get(backend))


class Crew(Workers):
    """A actors in processes, each of which plays its share of the environments.

    An actor that dies is replaced: the new one begins other episodes, and plays the rollouts that the dead one owed.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`.
        state: of all environments, at the start.
        depth: rollouts that are played or wait to be learned from, D.
        knobs: of acting.
        backend: that computes.
        versions: of the weights that are kept.
        make: of an actor, as :class:`Acting`.
        more: shapes and dtypes of other arrays that are shared, by name.

    Attributes:
        shared: what :func:`memory` returned.
        replaced: actors that died.
        anew: numbers of those in whose place others began other episodes, until it is cleared.

    Raises:
        WorkersEnded: here and later: an actor failed, did not answer in time, or died and could not be replaced; all
            are ended. Later: they were ended before.
    """

    def __init__(self, spec, state, depth, knobs, backend, versions, make=Acting, more=MappingProxyType({})):
        self.spec, self.depth, self.anew = spec, depth, set()
        self.shared = shared = memory(spec, depth, versions, dict(more))
        threads = max(1, default_threads() // spec["actors"])
        niceness = GIVES_WAY if depth > 1 and make is Acting else 0  # what is played ahead is not waited for
        needs = ("torch", GAMES) if backend.source == "torch" else (GAMES,)

        def args_of(index, life):
            return make, shared, spec, index, life, threads, knobs, backend.name

        timeout = spec.get("worker_timeout", SECONDS)
        super().__init__(spec["actors"], make_actor, args_of, threads, niceness, needs, timeout)
        self.restore(state)

    def replace(self, index):
        """Put a new actor in the place of a dead one, which plays other episodes, and does what that one owed.

        Args:
            index: of the actor.
        """
        super().replace(index)
        self.anew.add(index)

    def ask(self, number):
        """Have all actors play a rollout after those that they were asked for before.

        Args:
            number: of it.
        """
        self.tell([("play", number)] * self.actors)

    def take(self, number):
        """Wait for the oldest rollout that was asked for, and return it in place; asking for D more overwrites it.

        Args:
            number: of it.
        """
        self.answers()
        return rollout_of(self.shared, number % self.depth)

    def behind(self, number):
        """Return what each actor noted of a rollout, see :func:`memory`, i64[A].

        Args:
            number: of it.
        """
        return self.shared["behind"][number % self.depth]

    def publish(self, version, params):
        """Give actors new weights, see :func:`publish`.

        Args:
            version: of them.
            params: arrays by name.
        """
        publish(self.shared, version, params)

    def state(self):
        """Return the state of all environments, once all that was asked for is played, and forget that."""
        self.settle()
        self.tell([("get_state",)] * self.actors)
        return joined_states(self.answers())

    def restore(self, state):
        """Have all environments go on from a state, and forget what was asked for.

        Args:
            state: of all, as :meth:`state` returned it.
        """
        self.settle()
        shares = [share_of(self.spec, index) for index in range(self.actors)]
        self.tell([("set_state", share_of_state(state, share)) for share in shares])
        self.answers()
