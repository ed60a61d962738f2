"""Mario's alone: experiences through rings in memory that collectors and learner share, without locks and pickles."""

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

SHORT, LONG = 2e-5, 1e-3  # seconds of the first sleep of one that waits, and of the last ones


class RingSender(Sender):
    """Puts experiences into the ring of one collector.

    The frame is written once, in its place, then the fields, and then the head, in this order. Other processes on x86
    see stores in the order in which they were made (total store order), and reads of what is behind a head are made
    after that of the head: neither lock nor fence is needed. Processors that reorder stores would need one of each.
    A collector that is killed leaves either the head as it was, and the experience does not exist, or all of it.

    Args:
        args: as of :class:`.transport.Sender`.
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
        """Put an experience; return False where the ring was full for too long and it was dropped.

        Args:
            frame: u8[*shape], which may be overwritten afterwards.
            action: i32.
            reward: f32.
            end: whether the episode ended with this step.
            time: i32, the step within the episode.

        Raises:
            ValueError: an argument is not right; nothing was put.
            TransportBroken: the learner has gone.
        """
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
        """Wait for room in the ring, as long as patience lasts; return whether there is some.

        Raises:
            TransportBroken: the learner has gone.
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
        """Put nothing more; everything that was put is handed over already."""
        self.abandon()

    def abandon(self):
        """Give back what this holds."""
        super().abandon()
        self.frames = self.actions = self.rewards = self.ends = self.times = self.head_cell = self.tail_cell = None


class SharedRing(Transport):
    """A ring for each collector, which it alone puts into, in shared memory.

    What is handed over are views of that memory: two runs of one collector at most, as a ring has one end. Nothing is
    copied and nothing is done for each experience. Collectors take turns in being the first.

    Args:
        collectors: processes that put experiences, C.
        shape: of a frame.
        capacity: experiences that may wait; each collector has an equal share of it.
        batch: not used, as nothing is gathered.
        patience: seconds that a full ring is waited for before an experience is dropped and counted.

    Raises:
        ValueError: an argument is not right, or the rings are larger than this machine's memory.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None):
        def more(collectors, share):
            ends = {name: ((collectors, LINE), np.int64) for name in ("heads", "tails")}
            fields = {name: ((collectors, share), dtype) for name, dtype in FIELDS.items()}
            return ends | fields | {"frames": ((collectors, share, *self.shape), U8)}

        super().__init__(collectors, shape, capacity, batch, patience, more)
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.inlet, self.outlet = Outlet(reading), Outlet(writing)  # nothing is written: they tell who is still there
        self.heads, self.tails = ([row.data for row in self.shared[name]] for name in ("heads", "tails"))
        self.arrays = [[row for row in self.read_only(name)] for name in ("frames", *FIELDS)]
        self.first = 0

    def read_only(self, name):
        """Return shared arrays that cannot be written to.

        Args:
            name: of them.
        """
        arrays = self.shared[name].view()
        arrays.flags.writeable = False
        return arrays

    def make_sender(self, index):
        """Return a sender, which goes on at the head of the ring.

        Args:
            index: of the collector.
        """
        return RingSender(index, self.shape, self.patience, self.shared, self.outlet.copy())

    def hand_over(self, into, most, seconds):
        """Do as :meth:`take` does, with arguments that are right.

        Args:
            into: what is called.
            most: of the experiences.
            seconds: to wait for the first of them.
        """
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
        """Hand over what is in the rings.

        Args:
            into: what is called.
            most: of the experiences.
        """
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
        """Count the experience that a collector that has ended had begun.

        Args:
            index: of the collector.
        """
        self.lost[index] = self.kept(index) - self.heads[index][0]

    def end(self):
        """Give back the memory, and have senders see that nobody reads."""
        self.inlet.close()
        self.outlet.close()
        self.heads = self.tails = self.arrays = None
