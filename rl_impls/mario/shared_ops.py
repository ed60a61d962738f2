"""Ops that are the same on every backend: replay, transport, publication of weights, and the whole pipeline.

Builders are those of :mod:`._numpy`, with ``backend`` instead of ``target``; only ``pipeline`` uses it.
"""

from __future__ import annotations

import numpy as np

from .. import backends
from ..common.op import Op
from ..common.workers import Workers, cause_of_death, hung_up
from .games import check_game
from .loop import Pipeline, gathering, pushing
from .memory import FrameReplay, PrioritisedReplay
from .senders import Sending
from .transport import make_transport
from .weights import SharedWeights

EPISODE = 100  # steps per episode of the random data
SHORT = 0.05  # seconds to wait for experiences


def steps(rng, count, side, first=0):
    """Return random steps of episodes of 100 steps, as a replay stores them; ``first`` is the time of the first one.

    Returns:
        frames u8[count, S, S], actions i32[count], rewards f32[count], ends bool[count], times i32[count].
    """
    frames = np.frombuffer(rng.bytes(count * side * side), np.uint8).reshape(count, side, side)
    times = (first + np.arange(count, dtype=np.int32)) % EPISODE
    actions, rewards = rng.integers(15, size=count).astype(np.int32), rng.standard_normal(count).astype(np.float32)
    return frames, actions, rewards, times == EPISODE - 1, times


def stored(spec):
    """Yield random steps to fill a replay with, 50 whole episodes at once."""
    rng, at_once = np.random.default_rng(spec["seed"]), 50 * EPISODE
    for begun in range(0, spec["stored"], at_once):
        yield steps(rng, min(at_once, spec["stored"] - begun), spec["side"])


def fill(replay, spec):
    """Fill an empty replay of one lane with random steps; return it."""
    for columns in stored(spec):
        replay.push_batch(0, *columns)
    return replay


class Push(Op):
    """The op ``push``; :meth:`reset` empties its replay."""

    def __init__(self, spec, options):
        self.replay = FrameReplay(spec["capacity"], 1, spec["side"])
        self.push = pushing(self.replay, options)

    def reset(self):
        """Empty the replay."""
        self.replay.clear()

    def __call__(self, frames, actions, rewards, ends, times):
        """Store B experiences; return frames, rewards and validity of the last four rows."""
        self.push(0, frames, actions, np.asarray(rewards, np.float32), ends, times)
        rows = np.arange(self.replay.rings[0].pushed - 4, self.replay.rings[0].pushed) % self.replay.capacity
        stored = self.replay.fields
        return stored["frames"][rows], stored["rewards"][rows], self.replay.valid[rows]


def store(spec, example, *, options, backend):
    """Concatenate many copies of frames, as bytes or as float32.  u8[100, S, S] -> [10000, S, S]"""
    dtype = {"float": np.float32, "uint8": np.uint8}[options.images]
    return lambda frames: np.concatenate([frames.astype(dtype)] * spec["copies"])


def push(spec, example, *, options, backend):
    """Store B experiences of one collector in order.  -> u8[4, S, S], f32[4], bool[4] of the last four rows

    frames u8[B, S, S], actions i32[B], rewards f32[B], ends bool[B], times i32[B]
    """
    return Push(spec, options)


def sample(spec, example, *, options, backend):
    """Sample B experiences uniformly with a seed.

    seed i64 -> states u8[B, 4, S, S], actions i32[B], rewards f32[B], next_states u8[B, 4, S, S], ends f32[B]
    """
    replay, batch = fill(FrameReplay(spec["capacity"], 1, spec["side"]), spec), spec["batch"]
    gather = gathering(replay, options)
    return lambda seed: tuple(gather(replay.draw(np.random.default_rng(int(seed)), batch)))


def prioritised(spec, options):
    """Return a full prioritised replay with random priorities."""
    constants = {"alpha": spec["alpha"], "beta": spec["beta"], "beta_increment": 0.0}
    replay = PrioritisedReplay(spec["capacity"], 1, spec["side"], literal=options.tree == "literal", **constants)
    fill(replay, spec)
    rows = np.arange(spec["stored"])
    replay.update(rows, np.random.default_rng(spec["seed"]).standard_normal(len(rows)))
    return replay


def per_sample(spec, example, *, options, backend):
    """Sample B experiences by priority (Schaul et al. 2016); also return their rows and weights.

    uniforms f32[B] -> states u8[B, 4, S, S], actions i32[B], rewards f32[B], next_states u8[B, 4, S, S], ends f32[B],
    rows i64[B], weights f32[B]
    """
    replay = prioritised(spec, options)
    gather = gathering(replay, options)

    def call(uniforms):
        rows, weights = replay.draw(uniforms)
        return *gather(rows), rows, weights

    return call


class PerUpdate(Op):
    """The op ``per_update`` on a full prioritised replay."""

    def __init__(self, spec, options):
        self.replay = prioritised(spec, options)
        self.start, self.greatest = self.replay.tree.get(np.arange(spec["stored"])), self.replay.greatest

    def reset(self):
        """Restore the initial priorities."""
        self.replay.tree.set(np.arange(len(self.start)), self.start)
        self.replay.greatest = self.greatest

    def __call__(self, rows, errors):
        """Set priorities from TD errors; return those of the rows, then the sum over the whole replay."""
        self.replay.update(rows, errors)
        tree = self.replay.tree
        return np.append(tree.get(rows), tree.total).astype(np.float32)


def per_update(spec, example, *, options, backend):
    """Set the priorities of B rows from their TD errors.  -> f32[B + 1], these and the sum of all

    rows i64[B], errors f32[B]
    """
    return PerUpdate(spec, options)


class Handover(Op):
    """The op ``transport``: C processes send experiences through a transport to a replay.

    Raises:
        ValueError: the collectors do not divide ``items``.
    """

    def __init__(self, spec, options):
        count, shape = spec["collectors"], tuple(spec["shape"])
        if spec["items"] % count:
            raise ValueError(f"items: got {spec['items']}, wanted a multiple of {count} collectors")
        self.each, self.counts = spec["items"] // count, np.zeros(count, np.int64)
        *planes, side, _ = shape
        sizes = (side, 1, *planes) if planes else (side,)
        self.replay = FrameReplay(spec["items"], count, *sizes)
        self.push = pushing(self.replay, options)
        self.transport = make_transport(options.transport, count, shape, capacity=spec["queue"], batch=spec["chunk"])
        senders = [self.transport.sender(index) for index in range(count)]
        try:
            self.crew = Workers(count, Sending, lambda index, life: (senders[index], shape, index), threads=1)
        except BaseException:
            self.transport.close()
            raise

    def store(self, index, *columns):
        """Store a collector's experiences [n, ...] and count them."""
        self.push(index, *columns)
        self.counts[index] += len(columns[0])

    def close(self):
        """End the sending processes, and close the transport."""
        self.crew.close()
        self.transport.close()

    def stats(self):
        """Return the seconds for which senders and reader were blocked since the start, and the number dropped."""
        counters = self.transport.counters()
        blocked = {f"blocked_{name}": float(np.sum(counters[name])) for name in ("lock", "full", "empty")}
        return blocked | {"dropped": float(np.sum(counters["dropped"]))}

    def __call__(self, number):
        """Let each process send its share, and wait until everything is stored.

        Returns:
            i64[C, 3]: the number of experiences stored, the sum of the first bytes of their frames, and the same sum
            over the frames sent.
        """
        self.counts[:] = 0
        self.crew.tell([("send", self.each, int(number))] * self.crew.actors)
        total = self.each * self.crew.actors
        while self.counts.sum() < total:
            if self.transport.take(self.store, seconds=SHORT):
                self.crew.heard()
            else:
                self.check_alive()
                self.crew.waited(SHORT, np.flatnonzero(self.counts < self.each).tolist())
        firsts = self.replay.fields["frames"][:total].reshape(self.crew.actors, self.each, -1)[..., 0]
        return np.stack([self.counts, firsts.sum(1, dtype=np.int64), self.crew.answers()], axis=1).astype(np.int64)

    def check_alive(self):
        """Raise :class:`~rl_impls.common.workers.WorkersEnded` if a sending process has died."""
        for index, (pipe, process) in enumerate(self.crew.members):
            if hung_up(pipe):
                self.crew.fail(index, cause_of_death(process))


def transport(spec, example, *, options, backend):
    """Send experiences from C processes to a replay.  number i64 -> i64[C, 3], see :class:`Handover`"""
    return Handover(spec, options)


class Reader:
    """Worker that receives the newest weights of a learner.

    Args:
        weights: a :class:`.weights.SharedWeights`, or None if they come as messages.
    """

    def __init__(self, weights):
        self.weights, self.version, self.params = weights, 0, {}

    def load(self, version, params):
        """Keep a version of the weights; return one number of each array, f32[arrays]."""
        self.version, self.params = version, params
        return np.array([array.flat[version % array.size] for array in params.values()])

    def look(self):
        """Read the shared weights, and :meth:`load` them."""
        return self.load(*self.weights.read())


class Publish(Op):
    """The op ``publish``: the learner's weights go to C processes."""

    def __init__(self, spec, options):
        self.params = {}  # it trains nothing
        self.weights = dict(spec["params"])
        self.shared = SharedWeights(self.weights) if options.publication == "shared" else None
        args = (self.shared,)
        self.readers = Workers(spec["collectors"], Reader, lambda index, life: args, threads=1)

    def close(self):
        """End the reading processes."""
        self.readers.close()

    def __call__(self, number):
        """Publish the weights as version ``number``, and wait until all processes have read it."""
        version = int(number)
        message = ("load", version, self.weights)
        if self.shared is not None:
            self.shared.publish(version, self.weights)
            message = ("look",)
        self.readers.tell([message] * self.readers.actors)
        return np.stack(self.readers.answers())


def publish(spec, example, *, options, backend):
    """Publish the net's weights to C processes.  number i64, the version -> f32[C, arrays], one number of each"""
    return Publish(spec, options)


def pipeline(spec, example, *, options, backend):
    """Collect and learn, see :class:`.loop.Pipeline`.  -> losses f32[I, U], mean absolute TD errors f32[I, U]

    numbers i64[I] of the epochs

    Raises:
        BackendUnavailable: the game is not installed, or torch, with which collectors act.
    """
    check_game(spec["game"], backend.name)
    backends.get("torch").require()
    return Pipeline(spec, options, backend)
