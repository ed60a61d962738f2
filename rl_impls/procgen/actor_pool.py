"""Actors in processes of this machine, which write rollouts to shared memory.

The learner reads them there. A message that requests a rollout carries only its number, never images or weights.

Axes: A actors, D rollouts being played or waiting for the learner.
"""

from types import MappingProxyType

import numpy as np

from .. import backends
from ..common.procgen_env import chosen_threads
from ..common.shared_arrays import SharedArrays
from ..common.starting import GAMES
from ..common.workers import GIVES_WAY, SECONDS, Workers
from .actors import Actor, env_slice, join_states, slice_state
from .rollouts import Rollout, rollout_layout


def shared_memory(config, depth, versions, extra):
    """Allocate the arrays that actors and learner share, by name.

    The arrays of D rollouts; ``behind`` i64[D, A], the version of the weights that each rollout was played with (in
    A3C, the number of other updates before its gradient was applied); ``newest`` i64[1], the newest version; the
    weights, [versions, ...] each; and the arrays of ``extra``, given as shape and dtype by name.
    """
    rollout = rollout_layout(config["num_steps"], config["env"]["num_envs"])
    arrays = {name: ((depth, *shape), dtype) for name, (shape, dtype) in rollout.items()}
    arrays |= {"behind": ((depth, config["actors"]), np.int64), "newest": ((1,), np.int64)}
    weights = {name: ((versions, *np.shape(value)), np.float32) for name, value in config["params"].items()}
    return SharedArrays(arrays | weights | extra)


def rollout_of(shared, slot, envs=slice(None)):
    """Return a view of the rollout in ``slot``, or of a slice of its environments."""
    return Rollout(*(shared[name][slot][:, envs] for name in Rollout._fields))


def publish(shared, version, params):
    """Write new weights to shared memory.

    No actor can be reading the slot: the learner is fewer versions ahead than there are slots.
    """
    for name, value in params.items():
        slots = shared[name]
        slots[version % len(slots)] = value
    shared["newest"][0] = version


class SharedMemoryActor(Actor):
    """Actor of PPO or IMPALA; it plays a rollout with the newest weights at its beginning.

    ``shared`` is the result of :func:`shared_memory`; ``args`` are those of :class:`.actors.Actor`.
    """

    def __init__(self, shared, *args):
        super().__init__(*args)
        self.shared = shared

    def play(self, number):
        """Play rollout ``number`` into shared memory."""
        shared = self.shared
        slot, version = number % len(shared["behind"]), int(shared["newest"][0])
        self.policy.load({name: shared[name][version % len(shared[name])] for name in self.config["params"]})
        self.play_into(number, rollout_of(shared, slot, self.slice))
        shared["behind"][slot, self.index] = version


def make_actor(actor_class, shared, config, index, life, threads, options, backend):
    """Construct an actor in its own process; ``backend`` is a name."""
    return actor_class(shared, config, index, life, threads, options, backends.get(backend))


class ActorPool(Workers):
    """Pool of A actor processes, each of which plays its share of the environments.

    An actor that dies is replaced; the new one starts other episodes and plays the rollouts that are still owed.

    ``config`` is that of :class:`.loop.Loop`, with the number of ``actors``; optionally ``worker_timeout``, the seconds
    without a sign of life from any actor before it counts as hung. ``state`` is the initial state of all environments,
    ``depth`` is D, and ``versions`` is the number of versions of the weights to keep. ``extra`` gives shapes and dtypes
    of additional shared arrays, by name.

    Attributes:
        shared: result of :func:`shared_memory`.
        restarted: indices of replaced actors; the loop clears it.
    """

    def __init__(
        self, config, state, depth, options, backend, versions, actor_class=SharedMemoryActor,
        extra=MappingProxyType({}),
    ):  # fmt: skip
        self.config, self.depth, self.restarted = config, depth, set()
        self.shared = shared = shared_memory(config, depth, versions, dict(extra))
        threads = max(1, chosen_threads() // config["actors"])
        ahead = depth > 1 and actor_class is SharedMemoryActor
        niceness = GIVES_WAY if ahead else 0  # nobody waits for rollouts that are played ahead
        needs = ("torch", GAMES) if backend.library == "torch" else (GAMES,)

        def args_of(index, life):
            return actor_class, shared, config, index, life, threads, options, backend.name

        timeout = config.get("worker_timeout", SECONDS)
        super().__init__(config["actors"], make_actor, args_of, threads, niceness, needs, timeout)
        self.restore(state)

    def replace(self, index):
        """Replace a dead actor and note its index in ``restarted``."""
        super().replace(index)
        self.restarted.add(index)

    def request(self, number):
        """Request rollout ``number`` from all actors; they play requests in order."""
        self.tell([("play", number)] * self.actors)

    def take(self, number):
        """Wait for the oldest requested rollout and return a view of it; D more requests overwrite it."""
        self.answers()
        return rollout_of(self.shared, number % self.depth)

    def behind(self, number):
        """Return the actors' entries of ``behind`` for a rollout, i64[A], see :func:`shared_memory`."""
        return self.shared["behind"][number % self.depth]

    def publish(self, version, params):
        """Make the weights ``params`` of a version available to the actors."""
        publish(self.shared, version, params)

    def state(self):
        """Return the state of all environments, after all requested rollouts are played and dropped."""
        self.discard_answers()
        self.tell([("get_state",)] * self.actors)
        return join_states(self.answers())

    def restore(self, state):
        """Drop requested rollouts and restore all environments to a state that :meth:`state` returned."""
        self.discard_answers()
        slices = [env_slice(self.config, index) for index in range(self.actors)]
        self.tell([("set_state", slice_state(state, envs)) for envs in slices])
        self.answers()
