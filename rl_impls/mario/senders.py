"""Mario's alone: experiences that processes hand over as fast as they can, to see what transport costs by itself."""

from __future__ import annotations

import numpy as np

from ..common.op import Op
from ..common.replay import Replay
from ..common.workers import Workers
from .transport import make_transport

DISTINCT = 16  # frames that a sender has
EPISODE = 100  # steps
SHORT = 0.05  # seconds to wait for experiences


class Sending:
    """Hands over experiences that it has had from the start; it needs NumPy alone.

    Args:
        sender: of a transport.
        shape: of a frame.
        index: of the process, which its frames show.
    """

    def __init__(self, sender, shape, index):
        self.sender = sender
        self.frames = np.random.default_rng(index).integers(256, size=(DISTINCT, *shape), dtype=np.uint8)

    def send(self, count, number):
        """Hand over experiences; return the sum of the first bytes of their frames.

        Args:
            count: how many.
            number: of the call, which what is sent depends on.
        """
        put, frames, summed = self.sender.put, list(self.frames), 0
        firsts = self.frames.reshape(DISTINCT, -1)[:, 0].tolist()
        for i in range(number, number + count):
            put(frames[i % DISTINCT], i % 15, 1.0, i % EPISODE == EPISODE - 1, i % EPISODE)
            summed += firsts[i % DISTINCT]
        return summed


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
        example = {"frames": np.zeros(shape, np.uint8), "actions": np.int32(0), "rewards": np.float32(0)}
        self.lanes = [Replay(self.each, **example, ends=False, times=np.int32(0)) for _ in range(count)]
        self.store = {"item": self.store_each, "batch": self.store_batch}[knobs.push]
        self.transport = make_transport(knobs.transport, count, shape, capacity=spec["queue"], batch=spec["chunk"])
        senders = [self.transport.sender(index) for index in range(count)]
        try:
            self.crew = Workers(count, Sending, lambda index, life: (senders[index], shape, index), threads=1)
        except BaseException:
            self.transport.close()
            raise

    def store_batch(self, index, *columns):
        """Store experiences of a collector, all at once.

        Args:
            index: of the collector.
            columns: frames, actions, rewards, ends and times, [n, ...].
        """
        lane = self.lanes[index]
        lane.store(*columns)
        self.counts[index] += len(columns[0])

    def store_each(self, index, *columns):
        """Store experiences of a collector one by one.

        Args:
            index: of the collector.
            columns: frames, actions, rewards, ends and times, [n, ...].
        """
        lane = self.lanes[index]
        for item in zip(*columns):
            lane.push(**dict(zip(lane.fields, item)))
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
            if not self.transport.take(self.store, seconds=SHORT):
                self.check_alive()
        stored = [int(lane.fields["frames"].reshape(self.each, -1)[:, 0].sum(dtype=np.int64)) for lane in self.lanes]
        return np.stack([self.counts, stored, self.crew.answers()], axis=1).astype(np.int64)

    def check_alive(self):
        """Raise a RuntimeError where a process that hands over has died."""
        for index, (_, process) in enumerate(self.crew.members):
            if not process.is_alive():
                self.crew.fail(index, "its process died")
