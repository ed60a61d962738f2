"""Mario's alone: collectors, processes that play and hand over each experience.

Axes: C collectors of E environments each; a stream is one environment of a collector, C E of them in all; S pixels
along a side of a frame.
"""

from __future__ import annotations

import numpy as np

from ..common.starting import GAMES
from ..common.workers import GIVES_WAY, SECONDS, Workers
from ..lowering import Target, eager
from ._numpy import RESIZE
from .games import make_game
from .spec import ACTIONS, STACK
from .weights import SharedWeights

NICENESS = {"equal": 0, "learner": GIVES_WAY}  # by the knob ``priority``
ACTING = Target("torch", eager, "cpu", "torch")  # collectors act by torch on the CPU, whatever the learner computes on


class Collector:
    """Plays its environments, and hands over what it sees, does and gets.

    Args:
        spec: of the pipeline, see :class:`.spec.Spec`.
        index: of the collector.
        life: how many were in its place before: what is random is another thing for each.
        senders: of its streams, see :mod:`.transport`.
        weights: a :class:`.weights.SharedWeights`, or None where new ones come as messages.
        newest: version of the weights at the start, and the weights, arrays by name.
        knobs: those of acting are read.
    """

    def __init__(self, spec, index, life, senders, weights, newest, knobs):
        from ._torch import Actor

        self.spec, self.senders, self.weights, envs = spec, senders, weights, spec["envs"]
        self.streams = range(index * envs, (index + 1) * envs)
        seeds = np.random.default_rng([spec["seed"], life, *self.streams]).integers(2**31 - 1, size=envs)
        self.games = [make_game(spec, int(seed)) for seed in seeds]
        self.resize = RESIZE[knobs.resize](*self.games[0].shape, spec["side"])
        self.states = np.zeros((envs, STACK, spec["side"], spec["side"]), np.uint8)
        self.times, (self.version, params) = np.zeros(envs, np.int64), newest
        for k in range(envs):
            self.begin(k)
        self.actor = Actor(params, self.states, knobs, ACTING)

    def begin(self, k):
        """See the first frame of an episode.

        Args:
            k: which of the environments.
        """
        self.states[k], self.times[k] = 0, 0
        self.states[k, -1] = self.resize(self.games[k].observe()[None])[0]

    def load(self, version, params):
        """Take new weights.

        Args:
            version: of them.
            params: arrays by name.
        """
        self.version = version
        self.actor.load(params)

    def actions(self, drawn, epsilon):
        """Return an action of each environment, i64[E]: the best one, or a drawn one.

        Args:
            drawn: f64[E, 2] from 0 to 1: whether an action is drawn, and which.
            epsilon: share of drawn actions.
        """
        best, chosen = drawn[:, 0] >= epsilon, (drawn[:, 1] * ACTIONS).astype(np.int64)
        if best.any():
            chosen[best] = self.actor(self.states[best])
        return chosen

    def play(self, number, until, epsilon):
        """Play on until each stream has handed over so many experiences since the transport was made.

        Args:
            number: of the chunk, which fixes what is drawn.
            until: experiences.
            epsilon: share of drawn actions.

        Returns:
            The version of the weights that acted, and the episodes that ended, a list of
            :class:`.games.Episode`.
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
        """Make one step of an environment, and hand it over.

        Args:
            k: which of the environments.
            action: from 0 to 14.
            episodes: to which one that ends is added.
        """
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
        """Return all that the next chunk depends on but weights: the games' states, the stacks and the times."""
        return {"games": [game.get_state() for game in self.games], "states": self.states, "times": self.times}

    def set_state(self, state):
        """Go on from a state.

        Args:
            state: as :meth:`get_state` returned it.
        """
        for game, of_game in zip(self.games, state["games"]):
            game.set_state(of_game)
        self.states[:], self.times[:] = state["states"], state["times"]
        for k in range(len(self.games)):
            if not state["games"][k]:  # it begins another episode
                self.begin(k)

    def close(self):
        """End the games."""
        for game in self.games:
            game.close()


class Collectors(Workers):
    """C collectors in processes; one that dies is replaced, and the new one begins other episodes.

    Args:
        spec: of the pipeline, see :class:`.spec.Spec`; ``params`` are the first weights.
        transport: to which they hand over.
        knobs: those of acting and of publication are read, and ``priority``.
        version: of the first weights.

    Attributes:
        newest: version of the weights that collectors were given last, and these, arrays by name.

    Raises:
        WorkersEnded: here and later: a collector failed, did not answer in time, or died and could not be replaced; all
            are ended.
        TransportBroken: later: one died and took with it what others had handed over, or could.
    """

    KIND = "collector"

    def __init__(self, spec, transport, knobs, version=0):
        envs, self.transport = spec["envs"], transport
        self.streams = [range(index * envs, (index + 1) * envs) for index in range(spec["collectors"])]
        self.weights = SharedWeights(spec["params"]) if knobs.publication == "shared" else None
        self.newest = newest = [version, spec["params"]]
        if self.weights is not None:
            self.weights.publish(*newest)
        streams, weights = self.streams, self.weights

        def args_of(index, life):
            senders = [transport.sender(stream) for stream in streams[index]]
            return spec, index, life, senders, weights, tuple(newest), knobs

        niceness = NICENESS[knobs.priority]
        timeout = spec.get("worker_timeout", SECONDS)
        super().__init__(spec["collectors"], Collector, args_of, 1, niceness, ("torch", GAMES), timeout)

    def publish(self, version, params):
        """Give collectors new weights: what they are asked to play from now on is played by them.

        Args:
            version: of them.
            params: arrays by name.
        """
        self.newest[:] = version, params
        if self.weights is not None:
            self.weights.publish(version, params)
        else:
            self.tell([("load", version, params)] * self.actors)
            self.answers()

    def after_death(self, index):
        """Have the transport count what a dead collector had handed over."""
        for stream in self.streams[index]:
            self.transport.ended(stream)
