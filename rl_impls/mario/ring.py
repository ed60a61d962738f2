"""Transport through ring buffers in shared memory, without locks and pickling."""

from __future__ import annotations

import math
import os
from time import perf_counter, sleep

import numpy as np

from .transport import (
    DROPPED,
    FIELDS,
    LINE,
    PRODUCED,
    PUTTING,
    SLICE,
    U8,
    Outlet,
    Sender,
    Transport,
    TransportBroken,
    wrong_field,
    wrong_frame,
)

SHORT, LONG = 2e-5, 1e-3  # seconds of the first sleep while waiting, and of the longest


class RingSender(Sender):
    """Producer of one collector's ring.

    It writes the frame, then the other fields, then the head. On x86 other processes see stores in this order (total
    store order), and the learner reads a slot only after the head, so neither lock nor fence is needed. Processors that
    reorder stores would need them. If a collector is killed, its last experience is either complete or, with the old
    head, absent.

    Args:
        args: those of :class:`.transport.Sender`.
    """

    def __init__(self, *args):
        super().__init__(*args)
        index, shared = self.index, self.shared
        self.frames = shared["frames"][index]
        self.actions, self.rewards, self.ends, self.times = (shared[name][index].data for name in FIELDS)
        self.head_cell, self.tail_cell = shared["heads"][index].data, shared["tails"][index].data
        self.room, self.head, self.tail = len(self.frames), self.head_cell[0], self.tail_cell[0]
        self.produced, self.dropped = self.counts[PRODUCED], self.counts[DROPPED]

    def put(self, frame, action, reward, end, time):
        """Write an experience into the ring; return False if it was dropped, see :meth:`.transport.Sender.put`."""
        try:
            if frame.shape != self.shape or frame.dtype != U8:
                raise wrong_frame(frame, self.shape)
        except AttributeError:
            raise wrong_frame(frame, self.shape) from None
        if self.closed:
            raise RuntimeError("the sender is closed")
        head = self.head
        self.produced = self.counts[PRODUCED] = self.produced + 1
        if head - self.tail >= self.room and not self.has_room():
            self.dropped = self.counts[DROPPED] = self.dropped + 1
            return False
        slot = head % self.room
        self.frames[slot] = frame
        try:
            self.actions[slot] = action
            self.rewards[slot] = reward
            self.ends[slot] = end
            self.times[slot] = time
        except (TypeError, ValueError):
            self.produced = self.counts[PRODUCED] = self.produced - 1
            raise wrong_field(action, reward, end, time) from None
        self.head = self.head_cell[0] = head + 1
        return True

    def has_room(self):
        """Wait for a free slot, up to ``patience`` seconds; return whether there is one.

        Raises:
            TransportBroken: the learner is gone, or the sender was closed meanwhile.
        """
        self.tail = self.tail_cell[0]
        if self.head - self.tail < self.room:
            return True
        if self.outlet.gone():
            raise TransportBroken("the learner has gone")
        start = before = look = perf_counter()
        end = math.inf if self.patience is None else start + self.patience
        tail_cell, seconds, nap = self.tail_cell, self.seconds, SHORT
        while before < end:
            sleep(min(nap, end - before))
            nap = min(2 * nap, LONG)
            now = perf_counter()
            seconds[PUTTING] += now - before
            before = now
            self.tail = tail_cell[0]
            if self.head - self.tail < self.room:
                return True
            if now - look > SLICE:
                look = now
                if self.closed or self.outlet.gone():
                    raise TransportBroken("the learner has gone")
        return False

    def close(self):
        """Close without waiting: everything that was put is in shared memory already."""
        self.abandon()

    def abandon(self):
        """Close and drop the views of shared memory."""
        super().abandon()
        self.frames = self.actions = self.rewards = self.ends = self.times = self.head_cell = self.tail_cell = None


class SharedRing(Transport):
    """One ring per collector in shared memory, with a single producer and a single consumer.

    :meth:`take` delivers views of that memory, at most two per collector as the ring wraps around. Nothing is copied,
    and there is no work per experience. Each call starts with another collector. The arguments are those of
    :class:`.transport.Transport`; ``batch`` is ignored.

    Raises:
        ValueError: invalid argument, or the rings are larger than this machine's memory.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None):
        def more(collectors, share):
            ends = {name: ((collectors, LINE), np.int64) for name in ("heads", "tails")}
            fields = {name: ((collectors, share), dtype) for name, dtype in FIELDS.items()}
            return ends | fields | {"frames": ((collectors, share, *self.shape), U8)}

        super().__init__(collectors, shape, capacity, batch, patience, more)
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.inlet, self.outlet = Outlet(reading), Outlet(writing)  # never written to: they show who is still there
        self.heads, self.tails = ([row.data for row in self.shared[name]] for name in ("heads", "tails"))
        self.arrays = [[row for row in self.read_only(name)] for name in ("frames", *FIELDS)]
        self.first = 0

    def read_only(self, name):
        """Return a view of a shared array that cannot be written to."""
        arrays = self.shared[name].view()
        arrays.flags.writeable = False
        return arrays

    def make_sender(self, index):
        """Return a sender that continues at the head of the ring."""
        return RingSender(index, self.shape, self.patience, self.shared, self.outlet.copy())

    def hand_over(self, into, most, seconds):
        """Deliver what is in the rings, polling them with growing sleeps until ``seconds`` are over."""
        taken = self.hand_over_now(into, most)
        if taken or not seconds:
            return taken
        before, nap = perf_counter(), SHORT
        end = before + seconds
        while not taken and before < end:
            sleep(min(nap, end - before))
            nap = min(2 * nap, LONG)
            now = perf_counter()
            self.empty += now - before
            before = now
            taken = self.hand_over_now(into, most)
        return taken

    def hand_over_now(self, into, most):
        """Deliver up to ``most`` experiences without waiting."""
        left, share = most, self.share
        self.first = (self.first + 1) % self.collectors
        for index in (*range(self.first, self.collectors), *range(self.first)):
            tail = self.tails[index][0]
            until = min(self.heads[index][0], tail + left)
            while tail < until:
                start = tail % share
                count = min(until - tail, share - start)
                try:
                    into(index, *(arrays[index][start : start + count] for arrays in self.arrays))
                finally:
                    tail += count
                    left -= count
                    self.tails[index][0] = tail
                    self.delivered[index] += count
                    self.batches += 1
        return most - left

    def settle(self, index):
        """Count as lost an experience that the ended collector had begun to write."""
        self.lost[index] = self.kept(index) - self.heads[index][0]

    def end(self):
        """Close the pipe, which senders notice, and drop the views of shared memory."""
        self.inlet.close()
        self.outlet.close()
        self.heads = self.tails = self.arrays = None
