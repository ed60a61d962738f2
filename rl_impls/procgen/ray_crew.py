"""Procgen's alone: the actors over Ray, on this machine and others; the address of a cluster is all that changes.

Weights are put into the cluster's store once for each version, and messages name them. An actor answers with an object
for each rollout, which is copied once, to where it is learned from. What nobody needs any more is dropped from the
store.

The learner's machine has to be a node of the cluster (``ray start --address=...``). On all machines the package
rl_impls has to be importable, in the same version, with what its backend and Procgen need; Ray's own settings, as the
secret that its nodes share, are those of any program.

Axes: T steps, N environments, A actors, D rollouts that are played or wait to be learned from.
"""

from __future__ import annotations

import contextlib
import functools
import weakref

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from .. import backends
from ..common.starting import THREAD_VARIABLES
from ..common.workers import LIVES, SECONDS
from .cluster import join, leave
from .crew import Crew
from .players import Player, share_of
from .rollouts import Rollout, layout


def empty_rollout(spec, envs):
    """Return a place for a rollout, a :class:`.rollouts.Rollout`.

    Args:
        spec: of a loop, see :class:`.spec.Spec`.
        envs: environments that are played.
    """
    return Rollout(*(np.empty(shape, dtype) for shape, dtype in layout(spec["unroll"], envs).values()))


class RayActor:
    """What a process of the cluster does; its player is made by the first call, whose caller learns what went wrong.

    Args:
        made_of: spec of all actors, see :class:`.spec.Spec`, knobs of acting, and the backend's name.
        index: of this one.
        life: how many actors were in its place before.
    """

    def __init__(self, made_of, index, life):
        self.made_of, self.index, self.life = made_of, index, life

    @functools.cached_property
    def player(self):
        """The :class:`.players.Player`; one thread steps its environments, as the actor has one core."""
        spec, knobs, backend = self.made_of
        return Player(spec, self.index, self.life, 1, knobs, backends.get(backend))

    def play(self, number, version, weights):
        """Play a rollout; return the version of the weights, and a :class:`.rollouts.Rollout` of the share.

        Args:
            number: of it.
            version: of the weights.
            weights: arrays by name.
        """
        player = self.player
        player.train.load({name: np.array(value) for name, value in weights.items()})  # the store's are read-only
        rollout = empty_rollout(player.spec, player.envs.num_envs)
        player.play_into(number, rollout)
        return version, rollout

    def get_state(self):
        """Return the state of the share of the environments."""
        return self.player.envs.get_state()

    def set_state(self, state):
        """Have the share of the environments go on from a state.

        Args:
            state: as :meth:`get_state` returned it.
        """
        self.player.envs.set_state(state)


def end(members, owed, newest):
    """End the actors, drop what is theirs from the store, and leave the cluster.

    Args:
        members: handles of the actors.
        owed: messages and their answers, a list for each actor.
        newest: version and weights.
    """
    if ray.is_initialized():
        for member in members:
            with contextlib.suppress(RayError):
                ray.kill(member)
    for held in (members, owed, newest):
        held.clear()
    leave()


class RayCrew(Crew):
    """A actors over Ray, each of which plays its share of the environments on a core of the cluster.

    An actor whose process or machine dies is replaced on those that are left: the new one begins other episodes, and
    plays the rollouts that the dead one owed. An actor plays by the newest weights there were when it was asked.

    Args:
        spec: what it is built from, see :class:`.spec.Spec`; ``cluster`` is the address.
        state: of all environments, at the start.
        depth: rollouts that are played or wait to be learned from, D.
        knobs: of acting.
        backend: that computes.

    Attributes:
        replaced: actors that died.

    Raises:
        ValueError: the cluster does not take this process.
        WorkersEnded: here and later: an actor failed, or did not answer in time, as one for which the cluster has no
            room; all are ended.
    """

    def __init__(self, spec, state, depth, knobs, backend):
        self.spec, self.depth, self.actors, self.replaced = spec, depth, spec["actors"], 0
        self.timeout = spec.get("worker_timeout", SECONDS)
        envs = spec["env"]["num_envs"]
        self.rollout, self.versions = empty_rollout(spec, envs), np.zeros(self.actors, np.int64)
        self.members, self.lives, self.newest, self.anew = [], [0] * self.actors, [], set()
        self.owed = [[] for _ in range(self.actors)]  # messages, with their answers, that were not waited for yet
        join(spec["cluster"], self.actors)
        self.close = weakref.finalize(self, end, self.members, self.owed, self.newest)
        try:
            needed = {name: value for name, value in spec.items() if name != "env_state"}
            self.made_of = ray.put((needed, knobs, backend.name))
            one = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}  # otherwise as many threads as the learner has
            self.actor = ray.remote(
                num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD", runtime_env=one
            )(RayActor)
            self.members.extend(self.start(index, 0) for index in range(self.actors))
            self.restore(state)
        except BaseException:
            self.close()
            raise

    def start(self, index, life):
        """Start an actor; return its handle.

        Args:
            index: of the actor.
            life: how many were in its place before.
        """
        return self.actor.remote(self.made_of, index, life)

    def send(self, index, message):
        """Send an actor a message; return its answer, which is to be waited for.

        Args:
            index: of the actor.
            message: a method's name and its arguments.
        """
        name, *args = message
        return getattr(self.members[index], name).remote(*args)

    def tell(self, messages):
        """Send each actor a message.

        Args:
            messages: what each is to do, tuples of a method's name and its arguments.
        """
        self.check_open()
        for index, message in enumerate(messages):
            self.owed[index].append((message, self.send(index, message)))

    def replace(self, index, why="its process ended"):
        """Put a new actor in the place of a dead one, which plays what that one owed.

        Args:
            index: of the actor.
            why: what is known of its death.
        """
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"died {self.lives[index]} times before it had played a rollout; the last time: {why}")
        with contextlib.suppress(RayError):
            ray.kill(self.members[index])
        self.members[index] = self.start(index, self.replaced)
        self.anew.add(index)
        self.owed[index][:] = [(message, self.send(index, message)) for message, _ in self.owed[index]]

    def answers(self):
        """Return the answer of every actor to the oldest message that has none yet, in order."""
        found = {}
        while len(found) < self.actors:
            waited_for = {self.owed[index][0][1]: index for index in range(self.actors) if index not in found}
            ready, _ = ray.wait(list(waited_for), timeout=self.timeout)
            if not ready:
                cores = ray.cluster_resources().get("CPU", 0)
                room = f"the cluster has {cores:g} cores in all, and each of {self.actors} actors needs one"
                self.fail(min(waited_for.values()), f"did not answer for {self.timeout:g} s; {room}")
            index = waited_for[ready[0]]
            try:
                found[index] = ray.get(ready[0], timeout=self.timeout)
            except RayTaskError as error:
                self.fail(index, f"failed: {type(error.cause).__name__}: {error.cause}")
            except RayError as error:
                self.replace(index, str(error).strip().splitlines()[-1])
            else:
                self.lives[index] = 0
                self.owed[index].pop(0)
        return [found[index] for index in range(self.actors)]

    def ask(self, number):
        """Have all actors play a rollout after those that they were asked for before.

        Args:
            number: of it.
        """
        self.tell([("play", number, *self.newest)] * self.actors)

    def take(self, number):
        """Wait for the oldest rollout that was asked for, and return it; the next one takes the same place.

        Args:
            number: of it.
        """
        for index, (version, rollout) in enumerate(self.answers()):
            self.versions[index] = version
            for whole, part in zip(self.rollout, rollout):
                whole[:, share_of(self.spec, index)] = part
        return self.rollout

    def behind(self, number):
        """Return the versions of the weights by which each actor played the rollout that was taken last, i64[A].

        Args:
            number: of it.
        """
        return self.versions

    def publish(self, version, params):
        """Give actors new weights, for what they are asked for from now on.

        Args:
            version: of them.
            params: arrays by name.
        """
        self.newest[:] = version, ray.put(dict(params))
