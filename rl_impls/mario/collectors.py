"""Collectors, processes that play and send every experience to the learner.

Axes: C collectors of E environments; a stream is one environment of a collector, C E in all; S pixels along a side of a
frame.
"""

from __future__ import annotations

import numpy as np

from ..common.starting import GAMES
from ..common.workers import GIVES_WAY, SECONDS, Workers
from ..compilers import Compiler, eager
from ._numpy import RESIZE
from .games import make_game
from .spec import ACTIONS, STACK
from .weights import SharedWeights

NICENESS = {"equal": 0, "learner": GIVES_WAY}  # by the option ``priority``
ACTING = Compiler("torch", eager, "cpu", "torch")  # collectors act with torch on the CPU, for any learner


class Collector:
    """Worker that plays E environments and sends what they return.

    Args:
        spec: configuration of the pipeline, see :class:`.spec.Spec`.
        index: index of the collector.
        life: 0 for the first collector of an index, another number for each replacement; part of the seed of the games.
        senders: one :class:`.transport.Sender` per environment.
        weights: a :class:`.weights.SharedWeights`, or None if new weights come as messages.
        newest: initial version and weights, arrays by name.
        options: options of acting.
    """

    def __init__(self, spec, index, life, senders, weights, newest, options):
        from ._torch import Actor

        self.spec, self.senders, self.weights, envs = spec, senders, weights, spec["envs"]
        self.streams = range(index * envs, (index + 1) * envs)
        seeds = np.random.default_rng([spec["seed"], life, *self.streams]).integers(2**31 - 1, size=envs)
        self.games = [make_game(spec, int(seed)) for seed in seeds]
        self.resize = RESIZE[options.resize](*self.games[0].shape, spec["side"])
        self.states = np.zeros((envs, STACK, spec["side"], spec["side"]), np.uint8)
        self.times, (self.version, params) = np.zeros(envs, np.int64), newest
        for k in range(envs):
            self.begin(k)
        self.actor = Actor(params, self.states, options, ACTING)

    def begin(self, k):
        """Start the stack of environment k with the first frame of an episode."""
        self.states[k], self.times[k] = 0, 0
        self.states[k, -1] = self.resize(self.games[k].observe()[None])[0]

    def load(self, version, params):
        """Replace the actor's weights by another version."""
        self.version = version
        self.actor.load(params)

    def actions(self, drawn, epsilon):
        """Choose epsilon-greedy actions, i64[E].

        ``drawn``, f64[E, 2] from 0 to 1, decides whether each action is random, and which one then.
        """
        best, chosen = drawn[:, 0] >= epsilon, (drawn[:, 1] * ACTIONS).astype(np.int64)
        if best.any():
            chosen[best] = self.actor(self.states[best])
        return chosen

    def play(self, number, until, epsilon):
        """Play until each stream has sent ``until`` experiences since the transport was made.

        ``number``, that of the chunk, seeds the random actions.

        Returns:
            the version of the weights that acted, and a list of the episodes that ended, :class:`.games.Episode`.
        """
        if self.weights is not None and self.weights.newest != self.version:
            self.load(*self.weights.read())
        left = [until - sender.so_far() for sender in self.senders]
        rng = np.random.default_rng([self.spec["seed"], number, self.streams[0]])
        episodes = []
        while any(left):
            chosen = self.actions(rng.random((len(self.games), 2)), epsilon)
            for k in np.flatnonzero(left):
                self.step(k, int(chosen[k]), episodes)
                left[k] -= 1
        return self.version, episodes

    def step(self, k, action, episodes):
        """Step environment k and send the experience; append an episode that ends to ``episodes``."""
        state, time = self.states[k], int(self.times[k])
        frame, reward, episode = self.games[k].step(action)
        self.senders[k].put(state[-1], action, reward, episode is not None, time)
        state[:-1] = state[1:]
        if episode is not None:
            state[:] = 0
            episodes.append(episode)
        state[-1] = self.resize(frame[None])[0]
        self.times[k] = 0 if episode is not None else time + 1

    def get_state(self):
        """Return games, stacks and times: all that the next chunk depends on, except weights."""
        return {"games": [game.get_state() for game in self.games], "states": self.states, "times": self.times}

    def set_state(self, state):
        """Continue from the result of :meth:`get_state`."""
        for game, of_game in zip(self.games, state["games"]):
            game.set_state(of_game)
        self.states[:], self.times[:] = state["states"], state["times"]
        for k in range(len(self.games)):
            if not state["games"][k]:  # without a state, the game has begun another episode
                self.begin(k)

    def close(self):
        """Close all games."""
        for game in self.games:
            game.close()


class Collectors(Workers):
    """C collectors in processes; one that dies is replaced by one that begins other episodes.

    Args:
        spec: configuration of the pipeline, with the first weights as ``params``, see :class:`.spec.Spec`.
        transport: transport of the experiences, with a sender per stream.
        options: options of acting and publication, and ``priority``.
        version: version of the first weights.

    Attributes:
        newest: version and weights, arrays by name, of the last publication.

    Raises:
        WorkersEnded: here and later: a collector failed, did not answer in time, or died and could not be replaced; all
            are ended.
        TransportBroken: later: a collector died, and the transport cannot go on without what it left behind.
    """

    KIND = "collector"

    def __init__(self, spec, transport, options, version=0):
        envs, self.transport = spec["envs"], transport
        self.streams = [range(index * envs, (index + 1) * envs) for index in range(spec["collectors"])]
        self.weights = SharedWeights(spec["params"]) if options.publication == "shared" else None
        self.newest = newest = [version, spec["params"]]
        if self.weights is not None:
            self.weights.publish(*newest)
        streams, weights = self.streams, self.weights

        def args_of(index, life):
            senders = [transport.sender(stream) for stream in streams[index]]
            return spec, index, life, senders, weights, tuple(newest), options

        niceness = NICENESS[options.priority]
        timeout = spec.get("worker_timeout", SECONDS)
        super().__init__(spec["collectors"], Collector, args_of, 1, niceness, ("torch", GAMES), timeout)

    def publish(self, version, params):
        """Give the collectors new weights, for everything they are asked to play afterwards."""
        self.newest[:] = version, params
        if self.weights is not None:
            self.weights.publish(version, params)
        else:
            self.tell([("load", version, params)] * self.actors)
            self.answers()

    def after_death(self, index):
        """Tell the transport that the senders of a collector have ended."""
        for stream in self.streams[index]:
            self.transport.ended(stream)
