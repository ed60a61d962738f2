"""Ops that are made of other ops or of none, and so are the same on every backend.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``backend``, that computes. They return the op.
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

EPISODE = 100  # steps, of what a replay is filled with
SHORT = 0.05  # seconds to wait for experiences


def steps(rng, count, side, first=0):
    """Return drawn steps of episodes of a hundred: frames, actions, rewards, ends and times, as a replay stores them.

    Args:
        rng: the generator of all that is drawn.
        count: of the steps.
        side: pixels along a side of a frame.
        first: time of the first one.
    """
    frames = np.frombuffer(rng.bytes(count * side * side), np.uint8).reshape(count, side, side)
    times = (first + np.arange(count, dtype=np.int32)) % EPISODE
    actions, rewards = rng.integers(15, size=count).astype(np.int32), rng.standard_normal(count).astype(np.float32)
    return frames, actions, rewards, times == EPISODE - 1, times


def stored(spec):
    """Yield the drawn steps that a replay is filled with, 50 whole episodes at once.

    Args:
        spec: ``side``, ``stored`` and ``seed`` are taken.
    """
    rng, at_once = np.random.default_rng(spec["seed"]), 50 * EPISODE
    for begun in range(0, spec["stored"], at_once):
        yield steps(rng, min(at_once, spec["stored"] - begun), spec["side"])


def fill(replay, spec):
    """Fill a replay of one lane with drawn steps; return it.

    Args:
        replay: an empty one.
        spec: see :func:`stored`.
    """
    for columns in stored(spec):
        replay.push_batch(0, *columns)
    return replay


class Push(Op):
    """Stores experiences of one collector.

    Args:
        spec: ``capacity`` and ``side`` are taken.
        knobs: ``push`` is read.
    """

    def __init__(self, spec, knobs):
        self.replay = FrameReplay(spec["capacity"], 1, spec["side"])
        self.push = pushing(self.replay, knobs)

    def reset(self):
        """Forget all that is stored."""
        self.replay.clear()

    def __call__(self, frames, actions, rewards, ends, times):
        """Store B experiences; return what is stored of the last four: frames, rewards, and which may be drawn.

        Args:
            frames: u8[B, S, S].
            actions: i32[B].
            rewards: f32[B].
            ends: bool[B].
            times: i32[B].
        """
        self.push(0, frames, actions, np.asarray(rewards, np.float32), ends, times)
        rows = np.arange(self.replay.rings[0].pushed - 4, self.replay.rings[0].pushed) % self.replay.capacity
        stored = self.replay.fields
        return stored["frames"][rows], stored["rewards"][rows], self.replay.valid[rows]


def store(spec, example, *, knobs, backend):
    """Return many copies of frames, as bytes or as float32.  u8[100, S, S] -> [10000, S, S]"""
    dtype = {"float": np.float32, "uint8": np.uint8}[knobs.images]
    return lambda frames: np.concatenate([frames.astype(dtype)] * spec["copies"])


def push(spec, example, *, knobs, backend):
    """Store B experiences of one collector in order.  -> u8[4, S, S], f32[4], bool[4], see :class:`Push`

    frames u8[B, S, S], actions i32[B], rewards f32[B], ends bool[B], times i32[B]
    """
    return Push(spec, knobs)


def sample(spec, example, *, knobs, backend):
    """Return B experiences that are drawn uniformly, by a seed.

    seed i64 -> states u8[B, 4, S, S], actions i32[B], rewards f32[B], next_states u8[B, 4, S, S], ends f32[B]
    """
    replay, batch = fill(FrameReplay(spec["capacity"], 1, spec["side"]), spec), spec["batch"]
    gather = gathering(replay, knobs)
    return lambda seed: tuple(gather(replay.draw(np.random.default_rng(int(seed)), batch)))


def prioritised(spec, knobs):
    """Return a full replay whose priorities are drawn.

    Args:
        spec: ``capacity``, ``side``, ``stored``, ``seed``, ``alpha`` and ``beta`` are taken.
        knobs: ``tree`` is read.
    """
    constants = {"alpha": spec["alpha"], "beta": spec["beta"], "beta_increment": 0.0}
    replay = PrioritisedReplay(spec["capacity"], 1, spec["side"], literal=knobs.tree == "literal", **constants)
    fill(replay, spec)
    rows = np.arange(spec["stored"])
    replay.update(rows, np.random.default_rng(spec["seed"]).standard_normal(len(rows)))
    return replay


def per_sample(spec, example, *, knobs, backend):
    """Return B experiences drawn by their priorities (Schaul et al. 2016), their rows and their weights.

    uniforms f32[B] -> states u8[B, 4, S, S], actions i32[B], rewards f32[B], next_states u8[B, 4, S, S], ends f32[B],
    rows i64[B], weights f32[B]
    """
    replay = prioritised(spec, knobs)
    gather = gathering(replay, knobs)

    def call(uniforms):
        rows, weights = replay.draw(uniforms)
        return *gather(rows), rows, weights

    return call


class PerUpdate(Op):
    """Gives experiences new priorities.

    Args:
        spec: see :func:`prioritised`.
        knobs: ``tree`` is read.
    """

    def __init__(self, spec, knobs):
        self.replay = prioritised(spec, knobs)
        self.start, self.greatest = self.replay.tree.get(np.arange(spec["stored"])), self.replay.greatest

    def reset(self):
        """Put the priorities back."""
        self.replay.tree.set(np.arange(len(self.start)), self.start)
        self.replay.greatest = self.greatest

    def __call__(self, rows, errors):
        """Set priorities; return those of the rows and the sum of all, f32[B + 1].

        Args:
            rows: i64[B].
            errors: f32[B].
        """
        self.replay.update(rows, errors)
        tree = self.replay.tree
        return np.append(tree.get(rows), tree.total).astype(np.float32)


def per_update(spec, example, *, knobs, backend):
    """Give B experiences the priorities of their TD errors.  -> f32[B + 1], these and the sum of all

    rows i64[B], errors f32[B]
    """
    return PerUpdate(spec, knobs)


class Handover(Op):
    """Takes experiences from C processes to a replay.

    Args:
        spec: ``shape``, ``collectors``, ``items``, ``queue`` and ``chunk`` are taken.
        knobs: ``transport`` and ``push`` are read.

    Raises:
        ValueError: items that the collectors do not divide.
    """

    def __init__(self, spec, knobs):
        count, shape = spec["collectors"], tuple(spec["shape"])
        if spec["items"] % count:
            raise ValueError(f"items: got {spec['items']}, wanted a multiple of {count} collectors")
        self.each, self.counts = spec["items"] // count, np.zeros(count, np.int64)
        *planes, side, _ = shape
        sizes = (side, 1, *planes) if planes else (side,)
        self.replay = FrameReplay(spec["items"], count, *sizes)
        self.push = pushing(self.replay, knobs)
        self.transport = make_transport(knobs.transport, count, shape, capacity=spec["queue"], batch=spec["chunk"])
        senders = [self.transport.sender(index) for index in range(count)]
        try:
            self.crew = Workers(count, Sending, lambda index, life: (senders[index], shape, index), threads=1)
        except BaseException:
            self.transport.close()
            raise

    def store(self, index, *columns):
        """Store experiences of a collector, and count them.

        Args:
            index: of the collector.
            columns: frames, actions, rewards, ends and times, [n, ...].
        """
        self.push(index, *columns)
        self.counts[index] += len(columns[0])

    def close(self):
        """End the processes, and give back what they hand over to."""
        self.crew.close()
        self.transport.close()

    def stats(self):
        """Return the seconds, since the start, that senders and reader were blocked, and what was dropped, by name."""
        counters = self.transport.counters()
        blocked = {f"blocked_{name}": float(np.sum(counters[name])) for name in ("lock", "full", "empty")}
        return blocked | {"dropped": float(np.sum(counters["dropped"]))}

    def __call__(self, number):
        """Have all hand over their share; return what was stored of each, and what each says that it has sent.

        Args:
            number: of the call, i64.

        Returns:
            i64[C, 3]: the number of experiences, the sum of the first bytes of the frames that are stored, and the same
            of those that were sent.
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
        """Raise :class:`~rl_impls.common.workers.WorkersEnded` where a process that hands over has died."""
        for index, (pipe, process) in enumerate(self.crew.members):
            if hung_up(pipe):
                self.crew.fail(index, cause_of_death(process))


def transport(spec, example, *, knobs, backend):
    """Take experiences from C processes to a replay.  -> i64[C, 3], see :class:`Handover`

    number i64, of the call
    """
    return Handover(spec, knobs)


class Reader:
    """Has the newest weights of a learner, in a process of its own.

    Args:
        weights: a :class:`.weights.SharedWeights`, or None where they come as messages.
    """

    def __init__(self, weights):
        self.weights, self.version, self.params = weights, 0, {}

    def load(self, version, params):
        """Take new weights; return one number of each array, f32[arrays].

        Args:
            version: of them.
            params: arrays by name.
        """
        self.version, self.params = version, params
        return np.array([array.flat[version % array.size] for array in params.values()])

    def look(self):
        """Read the weights; return one number of each array, f32[arrays]."""
        return self.load(*self.weights.read())


class Publish(Op):
    """Gives new weights to C processes.

    Args:
        spec: ``params`` and ``collectors`` are taken.
        knobs: ``publication`` is read.
    """

    def __init__(self, spec, knobs):
        self.params = {}  # nothing is learned
        self.weights = dict(spec["params"])
        self.shared = SharedWeights(self.weights) if knobs.publication == "shared" else None
        args = (self.shared,)
        self.readers = Workers(spec["collectors"], Reader, lambda index, life: args, threads=1)

    def close(self):
        """End the processes."""
        self.readers.close()

    def __call__(self, number):
        """Publish, and wait until all have the weights; return one number of each array of each, f32[C, arrays].

        Args:
            number: of the version, i64.
        """
        version = int(number)
        message = ("load", version, self.weights)
        if self.shared is not None:
            self.shared.publish(version, self.weights)
            message = ("look",)
        self.readers.tell([message] * self.readers.actors)
        return np.stack(self.readers.answers())


def publish(spec, example, *, knobs, backend):
    """Give the weights of the net to C processes.  -> f32[C, arrays], one number of each

    number i64, of the version
    """
    return Publish(spec, knobs)


def pipeline(spec, example, *, knobs, backend):
    """Collect and learn; see :class:`.loop.Pipeline`.  -> losses f32[I, U], TD errors f32[I, U]

    numbers i64[I], of the epochs

    Raises:
        BackendUnavailable: the game, or torch, by which collectors act, is not installed.
    """
    check_game(spec["game"], backend.name)
    backends.get("torch").require()
    return Pipeline(spec, knobs, backend)
