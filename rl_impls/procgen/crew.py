"""Procgen's alone: actors in processes of this machine, as only its rollouts are played by several at once.

They write rollouts to shared memory, where they are learned from in place. Messages between processes are numbers of
rollouts; pictures and weights are never sent.

Axes: T steps, N environments, A actors, D rollouts that are played or wait to be learned from.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import weakref
from multiprocessing.connection import wait
from types import MappingProxyType

import numpy as np

from .. import backends
from ..common.shared_arrays import SharedArrays
from .players import Player, joined_states, share_of, share_of_state
from .rollouts import Rollout, layout

SECONDS = 120  # to wait for an actor
LIVES = 5  # actors that may die in one place without having played a rollout


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


def serve(pipe, make, shared, spec, index, life, threads, niceness, knobs, backend):
    """Be the process of one actor: do as the pipe says, until it is closed.

    Args:
        pipe: to the first process.
        make: of the actor, as :class:`Acting`.
        shared: what :func:`memory` returned.
        spec: of all actors.
        index: of this one.
        life: how many actors were in its place before.
        threads: of a library in this process.
        niceness: by which this process gives way to that of the learner.
        knobs: of acting.
        backend: that computes, by its name.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(threads)
    os.nice(niceness)
    try:
        actor = make(shared, spec, index, life, threads, knobs, backends.get(backend))
        calls = {"play": actor.play, "get_state": actor.envs.get_state, "set_state": actor.envs.set_state}
        while True:
            name, *args = pipe.recv()
            pipe.send((True, calls[name](*args)))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send((False, f"{type(error).__name__}: {error}"))


def end(members):
    """End the processes, which hold nothing that they must give back.

    Args:
        members: pipe and process of each.
    """
    for _, process in members:
        process.kill()
    for pipe, process in members:
        process.join()
        process.close()
        pipe.close()
    members.clear()


class Crew:
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

    Raises:
        RuntimeError: here and later: an actor failed, or has not answered for two minutes; all are ended.
    """

    def __init__(self, spec, state, depth, knobs, backend, versions, make=Acting, more=MappingProxyType({})):
        self.spec, self.depth, self.actors = spec, depth, spec["actors"]
        self.shared, self.replaced = memory(spec, depth, versions, dict(more)), 0
        threads = max(1, len(os.sched_getaffinity(0)) // self.actors)
        niceness = 5 if depth > 1 and make is Acting else 0  # what is played ahead gives way to learning
        self.args = make, self.shared, spec, threads, niceness, knobs, backend.name
        self.members, self.lives, self.context = [], [0] * self.actors, multiprocessing.get_context("spawn")
        self.close = weakref.finalize(self, end, self.members)
        self.owed = [[] for _ in range(self.actors)]  # messages that each has not answered yet
        for index in range(self.actors):
            self.members.append(self.start(index, 0))
        self.restore(state)

    def start(self, index, life):
        """Start an actor; return its pipe and its process.

        Args:
            index: of the actor.
            life: how many were in its place before.
        """
        make, shared, spec, *rest = self.args
        ours, theirs = self.context.Pipe()
        args = theirs, make, shared, spec, index, life, *rest
        process = self.context.Process(target=serve, args=args, daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def replace(self, index):
        """Put a new actor in the place of a dead one, which plays what that one owed.

        Args:
            index: of the actor.
        """
        self.replaced += 1
        self.lives[index] += 1
        if self.lives[index] > LIVES:
            self.fail(index, f"its process died {self.lives[index]} times before it had played a rollout")
        end([self.members[index]])
        self.members[index] = self.start(index, self.replaced)
        for message in self.owed[index]:
            self.members[index][0].send(message)

    def fail(self, index, why):
        """End all actors.

        Args:
            index: of the one that failed.
            why: what happened.
        """
        self.close()
        raise RuntimeError(f"actor {index} failed: {why}")

    def tell(self, messages):
        """Send each actor a message.

        Args:
            messages: what each is to do, tuples of a method's name and its arguments.
        """
        for index, message in enumerate(messages):
            self.owed[index].append(message)
            with contextlib.suppress(OSError):  # a dead one is found out, and replaced, when its answer is waited for
                self.members[index][0].send(message)

    def answers(self):
        """Return the answer of every actor to the oldest message that has none yet, in order."""
        found = {}
        while len(found) < self.actors:
            pipes = {self.members[index][0]: index for index in range(self.actors) if index not in found}
            ready = wait(list(pipes), SECONDS)
            if not ready:
                self.fail(min(pipes.values()), f"no answer in {SECONDS} s")
            for pipe in ready:
                index = pipes[pipe]
                try:
                    right, answer = pipe.recv()
                except (EOFError, OSError):
                    self.replace(index)
                    continue
                if not right:
                    self.fail(index, answer)
                self.lives[index] = 0
                self.owed[index].pop(0)
                found[index] = answer
        return [found[index] for index in range(self.actors)]

    def settle(self):
        """Wait until the actors have done all that they were asked for, and forget it."""
        while self.owed[0]:
            self.answers()

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
