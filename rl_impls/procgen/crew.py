"""Actors in processes of this machine, which write rollouts to shared memory.

The learner reads them there. A message that requests a rollout carries only its number, never images or weights.

Axes: T steps, N environments, A actors, D rollouts being played or waiting for the learner.
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
    """Allocate the arrays that actors and learner share, by name.

    The arrays of D rollouts; ``behind`` i64[D, A], the version of the weights that each rollout was played with (in
    A3C, the number of other updates before its gradient was applied); ``newest`` i64[1], the newest version; the
    weights, [versions, ...] each; and the arrays of ``more``, given as shape and dtype by name.
    """
    rollouts = layout(spec["unroll"], spec["env"]["num_envs"])
    arrays = {name: ((depth, *shape), dtype) for name, (shape, dtype) in rollouts.items()}
    arrays |= {"behind": ((depth, spec["actors"]), np.int64), "newest": ((1,), np.int64)}
    weights = {name: ((versions, *np.shape(value)), np.float32) for name, value in spec["params"].items()}
    return SharedArrays(arrays | weights | more)


def rollout_of(shared, slot, share=slice(None)):
    """Return a view of a rollout in ``slot``, or of some of its environments, the slice ``share``."""
    return Rollout(*(shared[name][slot][:, share] for name in Rollout._fields))


def publish(shared, version, params):
    """Write new weights to shared memory.

    No actor can be reading the slot: the learner is fewer versions ahead than there are slots.
    """
    for name, value in params.items():
        kept = shared[name]
        kept[version % len(kept)] = value
    shared["newest"][0] = version


class Acting(Player):
    """Actor of PPO or IMPALA; it plays a rollout with the newest weights at its beginning.

    ``shared`` is the result of :func:`memory`; ``args`` are those of :class:`.players.Player`.
    """

    def __init__(self, shared, *args):
        super().__init__(*args)
        self.shared = shared

    def play(self, number):
        """Play rollout ``number`` into shared memory."""
        shared = self.shared
        slot, version = number % len(shared["behind"]), int(shared["newest"][0])
        weights = self.spec["params"]
        self.train.load({name: shared[name][version % len(shared[name])] for name in weights})
        self.play_into(number, rollout_of(shared, slot, self.share))
        shared["behind"][slot, self.index] = version


def make_actor(make, shared, spec, index, life, threads, options, backend):
    """Construct an actor, in its own process, by ``make``; ``backend`` is a name."""
    return make(shared, spec, index, life, threads, options, backends.get(backend))


class Crew(Workers):
    """A actors in processes, each of which plays its share of the environments.

    An actor that dies is replaced; the new one starts other episodes and plays the rollouts that are still owed.

    Args:
        spec: configuration of the loop, see :class:`.spec.Spec`.
        state: initial state of all environments.
        depth: most rollouts being played or waiting for the learner, D.
        options: optimisations of acting.
        backend: backend of the actors.
        versions: number of versions of the weights to keep.
        make: class of the actors, such as :class:`Acting`.
        more: shapes and dtypes of additional shared arrays, by name.

    Attributes:
        shared: result of :func:`memory`.
        replaced: number of actors that died.
        anew: indices of replaced actors; the loop clears it.

    Raises:
        WorkersEnded: also in later calls: an actor failed, timed out, or died and could not be replaced. All actors are
            killed.
    """

    def __init__(self, spec, state, depth, options, backend, versions, make=Acting, more=MappingProxyType({})):
        self.spec, self.depth, self.anew = spec, depth, set()
        self.shared = shared = memory(spec, depth, versions, dict(more))
        threads = max(1, default_threads() // spec["actors"])
        niceness = GIVES_WAY if depth > 1 and make is Acting else 0  # rollouts ahead are not waited for
        needs = ("torch", GAMES) if backend.library == "torch" else (GAMES,)

        def args_of(index, life):
            return make, shared, spec, index, life, threads, options, backend.name

        timeout = spec.get("worker_timeout", SECONDS)
        super().__init__(spec["actors"], make_actor, args_of, threads, niceness, needs, timeout)
        self.restore(state)

    def replace(self, index):
        """Replace a dead actor and note its index in ``anew``."""
        super().replace(index)
        self.anew.add(index)

    def ask(self, number):
        """Request rollout ``number`` from all actors; they play requests in order."""
        self.tell([("play", number)] * self.actors)

    def take(self, number):
        """Wait for the oldest requested rollout and return a view of it; D more requests overwrite it."""
        self.answers()
        return rollout_of(self.shared, number % self.depth)

    def behind(self, number):
        """Return the actors' entries of ``behind`` for a rollout, i64[A], see :func:`memory`."""
        return self.shared["behind"][number % self.depth]

    def publish(self, version, params):
        """Make the weights ``params`` of a version available to the actors."""
        publish(self.shared, version, params)

    def state(self):
        """Return the state of all environments, after all requested rollouts are played and dropped."""
        self.settle()
        self.tell([("get_state",)] * self.actors)
        return joined_states(self.answers())

    def restore(self, state):
        """Drop requested rollouts and restore all environments to a state that :meth:`state` returned."""
        self.settle()
        shares = [share_of(self.spec, index) for index in range(self.actors)]
        self.tell([("set_state", share_of_state(state, share)) for share in shares])
        self.answers()
