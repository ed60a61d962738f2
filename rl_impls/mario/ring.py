"""Transport through ring buffers in shared memory, without locks and pickling."""

import os
from time import perf_counter, sleep

import numpy as np

from ..common.shared_arrays import starts_of
from .transport import FIELDS, FULL, LINE, LONG, SHORT, Sender, Transport, check_learner


class RingSender(Sender):
    """Producer of one environment's ring.

    It writes the frame, then the other fields, then the head. On x86 other processes see stores in this order (total
    store order), and the learner reads a slot only after the head, so neither lock nor fence is needed. Processors that
    reorder stores would need them. If a collector is killed, its last experience is either complete or, with the old
    head, absent.
    """

    def __init__(self, index, shared):
        super().__init__(index, shared)
        self.frames = shared["frames"][index]
        self.actions, self.rewards, self.terminated, self.times = (shared[name][index].data for name in FIELDS)
        self.head_cell, self.tail_cell = shared["heads"][index].data, shared["tails"][index].data
        self.room, self.head, self.tail = len(self.frames), self.head_cell[0], self.tail_cell[0]
        self.count = self.produced[0]

    def put(self, frame, action, reward, terminated, time):
        """Write an experience into the ring, see :meth:`.transport.Sender.put`."""
        head = self.head
        self.count = self.produced[0] = self.count + 1
        if head - self.tail >= self.room:
            self.wait_for_room()
        slot = head % self.room
        self.frames[slot] = frame
        self.actions[slot] = action
        self.rewards[slot] = reward
        self.terminated[slot] = terminated
        self.times[slot] = time
        self.head = self.head_cell[0] = head + 1

    def wait_for_room(self):
        """Wait for a free slot."""
        self.tail = self.tail_cell[0]
        before, nap = perf_counter(), SHORT
        while self.head - self.tail >= self.room:
            check_learner()
            sleep(nap)
            nap = min(2 * nap, LONG)
            now = perf_counter()
            self.seconds[FULL] += now - before
            before, self.tail = now, self.tail_cell[0]


class SharedRing(Transport):
    """One ring per environment in shared memory, with a single producer and a single consumer.

    :meth:`take` delivers views of that memory, at most two per environment as the ring wraps around. Nothing is copied,
    and there is no work per experience. Each call starts with another environment. The arguments are those of
    :class:`.transport.Transport`; ``batch_size`` is ignored.

    Raises:
        ValueError: the rings are larger than this machine's memory.
    """

    def __init__(self, streams, shape, capacity, batch_size=None):
        self.share = capacity // streams  # experiences per ring
        layout = {name: ((streams, LINE), np.int64) for name in ("heads", "tails")}
        layout |= {name: ((streams, self.share), dtype) for name, dtype in FIELDS.items()}
        layout |= {"frames": ((streams, self.share, *shape), np.uint8)}
        size, there = starts_of(layout)[-1], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > there:  # it would fail only when written to
            raise ValueError(
                f"queue={capacity} should be smaller: the rings take {size:,} bytes of shared memory, and this machine "
                f"has {there:,}"
            )
        super().__init__(streams, shape, capacity, layout)
        self.heads, self.tails = ([row.data for row in self.shared[name]] for name in ("heads", "tails"))
        self.arrays = [list(read_only(self.shared[name])) for name in ("frames", *FIELDS)]
        self.first = 0

    def sender(self, index):
        """Return a sender that continues at the head of the ring."""
        return RingSender(index, self.shared)

    def deliver(self, into):
        """Deliver the experiences in the rings."""
        taken, share = 0, self.share
        self.first = (self.first + 1) % self.streams
        for index in (*range(self.first, self.streams), *range(self.first)):
            tail, head = self.tails[index][0], self.heads[index][0]
            while tail < head:
                start = tail % share
                count = min(head - tail, share - start)
                into(index, *(arrays[index][start : start + count] for arrays in self.arrays))
                tail += count
                taken += count
                self.tails[index][0] = tail
                self.delivered[index] += count
                self.batches += 1
        return taken

    def ended(self, index):
        """Count as lost an experience that the dead collector had begun to write."""
        self.lost[index] = self.shared["produced"][index, 0] - self.heads[index][0]

    def end(self):
        """Drop the views of shared memory."""
        self.heads = self.tails = self.arrays = None


def read_only(array):
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
