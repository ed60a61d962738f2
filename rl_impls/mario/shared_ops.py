"""Ops that are the same on every backend: replay, transport, publication of weights, and the whole pipeline.

Builders take the arguments of those in :mod:`._numpy`, with a ``backend`` in place of the compiler; only ``pipeline``
uses it.
"""

import numpy as np

from ..common.op import Op
from ..common.workers import Workers, cause_of_death, hung_up
from .loop import TRANSPORTS, Pipeline, gathering, pushing
from .memory import FrameReplay, PrioritisedReplay
from .senders import EPISODE, Sending
from .weights import SharedWeights

SHORT = 0.05  # seconds to wait for experiences


def steps(rng, count, side, first=0):
    """Return ``count`` random steps, in episodes of 100, as a replay stores them; ``first`` is the time of the first.

    Returns:
        frames u8[count, S, S], actions i32[count], rewards f32[count], terminated bool[count], times i32[count].
    """
    frames = np.frombuffer(rng.bytes(count * side * side), np.uint8).reshape(count, side, side)
    times = (first + np.arange(count, dtype=np.int32)) % EPISODE
    actions, rewards = rng.integers(15, size=count).astype(np.int32), rng.standard_normal(count).astype(np.float32)
    return frames, actions, rewards, times == EPISODE - 1, times


def stored(config):
    """Yield random steps to fill a replay with, 50 whole episodes at once."""
    rng, at_once = np.random.default_rng(config["seed"]), 50 * EPISODE
    for begun in range(0, config["stored"], at_once):
        yield steps(rng, min(at_once, config["stored"] - begun), config["side"])


def fill(replay, config):
    """Fill an empty replay of one lane with random steps; return it."""
    for columns in stored(config):
        replay.push_batch(0, *columns)
    return replay


class Push(Op):
    """Store B experiences of one environment.  -> frames u8[4, S, S], rewards f32[4], valid bool[4] of the last rows

    frames u8[B, S, S], actions i32[B], rewards f32[B], terminated bool[B], times i32[B]
    """

    def __init__(self, config, example, *, options, backend):
        self.replay = FrameReplay(config["capacity"], 1, config["side"])
        self.push = pushing(self.replay, options)

    def reset(self):
        self.replay.clear()

    def __call__(self, *columns):
        self.push(0, *columns)
        rows = np.arange(self.replay.rings[0].pushed - 4, self.replay.rings[0].pushed) % self.replay.capacity
        fields = self.replay.fields
        return fields["frames"][rows], fields["rewards"][rows], self.replay.valid[rows]


push = Push


def store(config, example, *, options, backend):
    """Concatenate many copies of frames, as bytes or as float32.  u8[100, S, S] -> [10000, S, S]"""
    dtype = {"float": np.float32, "uint8": np.uint8}[options.images]
    return lambda frames: np.concatenate([frames.astype(dtype)] * config["copies"])


def sample(config, example, *, options, backend):
    """Sample B experiences uniformly with a seed.

    seed i64 -> obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B]
    """
    replay = fill(FrameReplay(config["capacity"], 1, config["side"]), config)
    gather = gathering(replay, options)
    return lambda seed: tuple(gather(replay.draw(np.random.default_rng(int(seed)), config["batch_size"])))


def prioritised(config, options):
    """Return a full prioritised replay with random priorities."""
    constants = {"alpha": config["alpha"], "beta": config["beta"], "beta_increment": 0.0}
    replay = PrioritisedReplay(config["capacity"], 1, config["side"], literal=options.tree == "literal", **constants)
    fill(replay, config)
    rows = np.arange(config["stored"])
    replay.update(rows, np.random.default_rng(config["seed"]).standard_normal(len(rows)))
    return replay


def per_sample(config, example, *, options, backend):
    """Sample B experiences by priority (Schaul et al. 2016); also return their rows and weights.

    uniforms f32[B] -> obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B],
    rows i64[B], weights f32[B]
    """
    replay = prioritised(config, options)
    gather = gathering(replay, options)

    def call(uniforms):
        rows, weights = replay.draw(uniforms)
        return *gather(rows), rows, weights

    return call


class PerUpdate(Op):
    """Set the priorities of B rows of a full replay from their TD errors.  -> f32[B + 1], these and the sum of all

    rows i64[B], errors f32[B]
    """

    def __init__(self, config, example, *, options, backend):
        self.replay = prioritised(config, options)
        self.start, self.greatest = self.replay.tree.get(np.arange(config["stored"])), self.replay.greatest

    def reset(self):
        self.replay.tree.set(np.arange(len(self.start)), self.start)
        self.replay.greatest = self.greatest

    def __call__(self, rows, errors):
        self.replay.update(rows, errors)
        tree = self.replay.tree
        return np.append(tree.get(rows), tree.total).astype(np.float32)


per_update = PerUpdate


class Handover(Op):
    """Send experiences from C processes through a transport to a replay.  number i64 -> i64[C, 3]

    Raises:
        ValueError: the collectors do not divide ``items``.
    """

    def __init__(self, config, example, *, options, backend):
        count, shape = config["collectors"], tuple(config["shape"])
        if config["items"] % count:
            raise ValueError(f"items={config['items']} should be a multiple of {count} collectors")
        self.each, self.counts = config["items"] // count, np.zeros(count, np.int64)
        *planes, side, _ = shape
        sizes = (side, 1, *planes) if planes else (side,)
        self.replay = FrameReplay(config["items"], count, *sizes)
        self.push = pushing(self.replay, options)
        sizes = {"capacity": config["queue"], "batch_size": config["chunk"]}
        self.transport = transport = TRANSPORTS[options.transport](count, shape, **sizes)
        try:
            self.workers = Workers(
                count, Sending, lambda index, life: (transport.sender(index), shape, index), threads=1
            )
        except BaseException:
            self.transport.close()
            raise

    def store(self, index, *columns):
        """Store a collector's experiences [n, ...] and count them."""
        self.push(index, *columns)
        self.counts[index] += len(columns[0])

    def close(self):
        self.workers.close()
        self.transport.close()

    def stats(self):
        """Return the seconds for which senders and reader were blocked since the start."""
        counters = self.transport.counters()
        return {f"blocked_{name}": float(np.sum(counters[name])) for name in ("lock", "full", "empty")}

    def __call__(self, number):
        """Let each process send its share, and wait until everything is stored.

        Returns:
            i64[C, 3]: the number of experiences stored, the sum of the first bytes of their frames, and the same sum
            over the frames sent.
        """
        self.counts[:] = 0
        self.workers.tell([("send", self.each, int(number))] * self.workers.actors)
        total = self.each * self.workers.actors
        while self.counts.sum() < total:
            if self.transport.take(self.store, SHORT):
                self.workers.heard()
            else:
                self.check_alive()
                self.workers.waited(SHORT, np.flatnonzero(self.counts < self.each).tolist())
        firsts = self.replay.fields["frames"][:total].reshape(self.workers.actors, self.each, -1)[..., 0]
        return np.stack([self.counts, firsts.sum(1, dtype=np.int64), self.workers.answers()], axis=1).astype(np.int64)

    def check_alive(self):
        """Raise :class:`~rl_impls.common.workers.WorkersEnded` if a sending process has died."""
        for index, (pipe, process) in enumerate(self.workers.members):
            if hung_up(pipe):
                self.workers.fail(index, cause_of_death(process))


transport = Handover


class Reader:
    """Worker that gets a learner's newest weights from a :class:`.weights.SharedWeights` or, if None, as messages."""

    def __init__(self, weights):
        self.weights, self.version, self.params = weights, 0, {}

    def load(self, version, params):
        """Keep a version of the weights; return one number of each array, f32[arrays]."""
        self.version, self.params = version, params
        return np.array([array.flat[version % array.size] for array in params.values()])

    def read(self):
        """Read the shared weights, and :meth:`load` them."""
        return self.load(*self.weights.read())


class Publish(Op):
    """Publish the net's weights to C processes.  number i64, the version -> f32[C, arrays], one number of each"""

    def __init__(self, config, example, *, options, backend):
        self.params = {}  # it trains nothing
        self.weights = dict(config["params"])
        self.shared = shared = SharedWeights(self.weights) if options.publication == "shared" else None
        self.readers = Workers(config["collectors"], Reader, lambda index, life: (shared,), threads=1)

    def close(self):
        self.readers.close()

    def __call__(self, number):
        """Publish the weights as version ``number``, and wait until all processes have read it."""
        version = int(number)
        message = ("load", version, self.weights)
        if self.shared is not None:
            self.shared.publish(version, self.weights)
            message = ("read",)
        self.readers.tell([message] * self.readers.actors)
        return np.stack(self.readers.answers())


publish = Publish
pipeline = Pipeline
