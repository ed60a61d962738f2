"""Collectors, processes that play and send every experience to the learner."""

from time import perf_counter

import numpy as np

from ..common.starting import GAMES
from ..common.workers import GIVES_WAY, Workers
from ..compilers import Compiler, eager
from ._numpy import RESIZE
from .games import make_game
from .memory import STACK
from .net import ACTIONS
from .transport import PUT
from .weights import SharedWeights

NICENESS = {"equal": 0, "learner": GIVES_WAY}  # by the option ``priority``
PLAYED, EXPLORED, BATCHES = 1, 2, 3  # random streams: games, random actions, batches
ACTING = Compiler("torch", eager, "cpu", "torch")  # collectors act with torch on the CPU, for any learner


class Collector:
    """Worker that plays E environments and sends every experience.

    ``config`` is that of :class:`.loop.Pipeline`. ``life`` is 0 for the first collectors and another number for each
    replacement; it is part of the seed of the games. There is one :class:`.transport.Sender` per environment.
    ``weights`` is a :class:`.weights.SharedWeights`, or None if new weights come as messages; ``newest`` is the initial
    version and weights, arrays by name.
    """

    def __init__(self, config, index, life, senders, weights, newest, options):
        from ._torch import Actor

        self.config, self.senders, self.weights, num_envs = config, senders, weights, config["num_envs"]
        self.streams = range(index * num_envs, (index + 1) * num_envs)  # indices over all collectors
        seeds = np.random.default_rng([config["seed"], PLAYED, life, *self.streams]).integers(2**31 - 1, size=num_envs)
        self.games = [make_game(config, int(seed)) for seed in seeds]
        self.resize = RESIZE[options.resize](*self.games[0].shape, config["side"])
        self.obs = np.zeros((num_envs, STACK, config["side"], config["side"]), np.uint8)
        self.times, (self.version, params) = np.zeros(num_envs, np.int64), newest
        for k in range(num_envs):
            self.begin(k)
        self.actor = Actor(params, self.obs, options, ACTING)

    def begin(self, k):
        """Start the stack of environment k with the first frame of an episode."""
        self.obs[k], self.times[k] = 0, 0
        self.obs[k, -1] = self.resize(self.games[k].observe()[None])[0]

    def load(self, version, params):
        self.version = version
        self.actor.load(params)

    def actions(self, drawn, epsilon):
        """Choose epsilon-greedy actions, i64[E].

        ``drawn``, f64[E, 2] from 0 to 1, decides whether each action is random, and which one then.
        """
        greedy, chosen = drawn[:, 0] >= epsilon, (drawn[:, 1] * ACTIONS).astype(np.int64)
        if greedy.any():
            chosen[greedy] = self.actor(self.obs[greedy])
        return chosen

    def play(self, number, until, epsilon):
        """Play until each environment has sent ``until`` experiences since the transport was made.

        ``number``, the chunk's number, seeds the random actions.

        Returns:
            the version of the weights that acted, and a list of the episodes that ended, :class:`.games.Episode`.
        """
        if self.weights is not None and self.weights.newest != self.version:
            self.load(*self.weights.read())
        left = [until - sender.so_far() for sender in self.senders]
        rng = np.random.default_rng([self.config["seed"], EXPLORED, number, self.streams[0]])
        episodes = []
        while any(left):
            chosen = self.actions(rng.random((len(self.games), 2)), epsilon)
            for k in np.flatnonzero(left):
                self.step(k, int(chosen[k]), episodes)
                left[k] -= 1
        return self.version, episodes

    def step(self, k, action, episodes):
        """Step environment k and send the experience; append an episode that ends to ``episodes``."""
        obs, time = self.obs[k], int(self.times[k])
        frame, reward, episode = self.games[k].step(action)
        before = perf_counter()
        self.senders[k].put(obs[-1], action, reward, episode is not None, time)
        self.senders[k].seconds[PUT] += perf_counter() - before
        obs[:-1] = obs[1:]
        if episode is not None:
            obs[:] = 0
            episodes.append(episode)
        obs[-1] = self.resize(frame[None])[0]
        self.times[k] = 0 if episode is not None else time + 1

    def get_state(self):
        """Return games, stacks and times, arrays by name: all that the next chunk depends on, except weights."""
        found = {}
        for stream, game, obs, time in zip(self.streams, self.games, self.obs, self.times):
            state = {"obs": obs.copy(), "time": np.array(time), **game.get_state()}
            found |= {f"{name}.{stream}": value for name, value in state.items()}
        return found

    def set_state(self, state):
        """Continue from the result of :meth:`get_state`, with the newest weights of shared memory."""
        if self.weights is not None:
            self.load(*self.weights.read())  # play() would miss other weights with the same version
        for k, (stream, game) in enumerate(zip(self.streams, self.games)):
            game.set_state({name: state[f"{name}.{stream}"] for name in game.saved})
            self.obs[k], self.times[k] = state[f"obs.{stream}"], state[f"time.{stream}"]
            if not game.saved:  # the game has begun another episode
                self.begin(k)

    def close(self):
        for game in self.games:
            game.close()


class Collectors(Workers):
    """C collectors in processes; one that dies is replaced by one that begins other episodes.

    ``config`` is that of :class:`.loop.Pipeline`; ``params`` are the first weights. ``replaced`` is the number of
    collectors that ended before these were started; it offsets ``life`` of :class:`Collector`.

    Attributes:
        newest: version and weights, arrays by name, of the last publication.

    Raises:
        WorkersEnded: here or in a method: a collector failed, did not answer in time, or died and could not be
            replaced; all are stopped.
        TransportBroken: in a method: a collector died, and the transport cannot continue.
    """

    KIND = "collector"

    def __init__(self, config, transport, options, params, version, replaced=0):
        count, num_envs, self.transport = config["collectors"], config["num_envs"], transport
        self.streams = streams = [range(index * num_envs, (index + 1) * num_envs) for index in range(count)]
        self.newest = newest = [version, params]
        self.weights = weights = SharedWeights(params) if options.publication == "shared" else None
        if weights is not None:
            weights.publish(*newest)

        def args_of(index, life):
            senders = [transport.sender(stream) for stream in streams[index]]
            return config, index, replaced + life, senders, weights, tuple(newest), options

        super().__init__(count, Collector, args_of, 1, NICENESS[options.priority], ("torch", GAMES))

    def publish(self, version, params):
        """Give the collectors new weights, for everything they are asked to play afterwards."""
        self.newest[:] = version, params
        if self.weights is not None:
            self.weights.publish(version, params)
        else:
            self.tell([("load", version, params)] * self.actors)
            self.answers()

    def after_death(self, index):
        """Tell the transport that the collector of some environments has died."""
        for stream in self.streams[index]:
            self.transport.ended(stream)
