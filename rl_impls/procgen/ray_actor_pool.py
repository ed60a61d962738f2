"""Actors on a Ray cluster, with the interface of the local processes in :mod:`.actor_pool`.

Each version of the weights is put into the object store once, and messages refer to it. An actor returns each rollout
as one object, which is copied once, to where the learner reads it. Objects that are not needed any more are released.

The learner's machine must be a node of the cluster (``ray start --address=...``). Every machine must be able to import
the same version of rl_impls, its backend and Procgen. Ray's own settings, such as its nodes' shared secret, apply.

Axes: A actors, D rollouts being played or waiting for the learner.
"""

import contextlib
import functools
import weakref

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from .. import backends
from ..common.starting import THREAD_VARIABLES
from ..common.workers import LIVES, SECONDS
from .actor_pool import ActorPool
from .actors import Actor, env_slice
from .cluster import join, leave
from .rollouts import empty_rollout


class RayActor:
    """Actor process on the cluster. The first call creates its actor, so that the caller gets any error.

    ``shared_args`` are the configuration, the options and the name of the backend; ``life`` is that of
    :class:`.actors.Actor`.
    """

    def __init__(self, shared_args, index, life):
        self.shared_args, self.index, self.life = shared_args, index, life

    @functools.cached_property
    def actor(self):
        """The :class:`.actors.Actor`, with one thread for its environments, as it has one core."""
        config, options, backend = self.shared_args
        return Actor(config, self.index, self.life, 1, options, backends.get(backend))

    def play(self, number, version, weights):
        """Play rollout ``number`` with the weights, arrays by name; return their version and the actor's rollout."""
        actor = self.actor
        actor.policy.load({name: np.array(value) for name, value in weights.items()})  # the store is read-only
        rollout = empty_rollout(actor.config["num_steps"], actor.envs.num_envs)
        actor.play_into(number, rollout)
        return version, rollout

    def get_state(self):
        return self.actor.get_state()

    def set_state(self, state):
        self.actor.set_state(state)


def end(members, owed, newest):
    """Kill the actors, release the objects in ``owed`` and ``newest``, and leave the cluster."""
    if ray.is_initialized():
        for member in members:
            with contextlib.suppress(RayError):
                ray.kill(member)
    for references in (members, owed, newest):
        references.clear()
    leave()


class RayActorPool(ActorPool):
    """Pool of A actors on a Ray cluster, each of which plays its share of the environments on one core.

    If an actor's process or machine dies, a new actor takes its place. It starts other episodes, and plays the
    rollouts that are still owed. The weights of a rollout are the newest at the time of the request. Arguments are
    those of :class:`.actor_pool.ActorPool`; ``cluster`` in the configuration is the address.

    Raises:
        ValueError: this process cannot join the cluster.
        WorkersEnded: here or in a method: an actor failed or did not answer in time, for example because the cluster
            has no free core for it. All actors are killed.
    """

    def __init__(self, config, state, depth, options, backend):
        self.config, self.depth, self.actors, self.replaced = config, depth, config["actors"], 0
        self.timeout = config.get("worker_timeout", SECONDS)
        self.rollout = empty_rollout(config["num_steps"], config["env"]["num_envs"])
        self.versions = np.zeros(self.actors, np.int64)
        self.members, self.lives, self.newest, self.restarted = [], [0] * self.actors, [], set()
        self.owed = [[] for _ in range(self.actors)]  # unanswered messages, with the references of their answers
        join(config["cluster"], self.actors)
        self.close = weakref.finalize(self, end, self.members, self.owed, self.newest)
        try:
            needed = {name: value for name, value in config.items() if name != "env_state"}
            self.shared_args = ray.put((needed, options, backend.name))
            one_thread = {"env_vars": dict.fromkeys(THREAD_VARIABLES, "1")}  # otherwise as many as the learner
            self.actor_class = ray.remote(
                num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD", runtime_env=one_thread
            )(RayActor)
            self.members.extend(self.start(index, 0) for index in range(self.actors))
            self.restore(state)
        except BaseException:
            self.close()
            raise

    def start(self, index, life):
        """Start actor ``index``, with ``life`` of :class:`.actors.Actor`; return its handle."""
        return self.actor_class.remote(self.shared_args, index, life)

    def send(self, index, message):
        """Send an actor a message, a method's name and arguments; return the reference of its answer."""
        name, *args = message
        return getattr(self.members[index], name).remote(*args)

    def tell(self, messages):
        """Send each actor its message; :meth:`answers` collects the results."""
        self.check_open()
        for index, message in enumerate(messages):
            self.owed[index].append((message, self.send(index, message)))

    def replace(self, index, why="its process ended"):
        """Replace a dead actor and resend the messages that it has not answered; ``why`` goes into an error."""
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"died {self.lives[index]} times before it had played a rollout; the last time: {why}")
        with contextlib.suppress(RayError):
            ray.kill(self.members[index])
        self.members[index] = self.start(index, self.replaced)
        self.restarted.add(index)
        self.owed[index][:] = [(message, self.send(index, message)) for message, _ in self.owed[index]]

    def answers(self):
        """Wait for every actor's answer to its oldest pending message; return them in order."""
        self.check_open()
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

    def request(self, number):
        """Request a rollout from all actors, with the newest weights."""
        self.tell([("play", number, *self.newest)] * self.actors)

    def take(self, number):
        """Wait for the oldest requested rollout and return it; the next call overwrites it."""
        for index, (version, rollout) in enumerate(self.answers()):
            self.versions[index] = version
            for whole, part in zip(self.rollout, rollout):
                whole[:, env_slice(self.config, index)] = part
        return self.rollout

    def behind(self, number):
        """Return the version of the weights that each actor played the last rollout with, i64[A]."""
        return self.versions

    def publish(self, version, params):
        """Put new weights, arrays by name, into the object store for the requests from now on."""
        self.newest[:] = version, ray.put(dict(params))
