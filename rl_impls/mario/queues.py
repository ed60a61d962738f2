"""Transports through queues of :mod:`multiprocessing`, which a thread of the learner empties."""

import contextlib
import multiprocessing
import queue
import selectors
import threading
import weakref
from collections import deque
from time import perf_counter

import numpy as np

from .transport import FIELDS, FULL, LOCK, LONG, Sender, Transport, TransportBroken, check_learner

SLICE = 0.1  # seconds between checks that the other side is still there


class TimedLock:
    """A queue's lock that adds the time spent waiting for it to ``seconds``."""

    def __init__(self, lock, seconds):
        self.lock, self.seconds, self.release = lock, seconds, lock.release

    def acquire(self):
        """Acquire the lock."""
        if not self.lock.acquire(False):
            before = perf_counter()
            self.lock.acquire()
            self.seconds[LOCK] += perf_counter() - before


class QueueSender(Sender):
    """Puts experiences into a queue; a thread of the collector pickles them and writes them to the queue's pipe."""

    def __init__(self, index, shared, experiences):
        super().__init__(index, shared)
        self.queue = experiences

    def __reduce__(self):
        _, args = super().__reduce__()
        return in_collector, (*args, self.queue)

    def put(self, frame, action, reward, terminated, time):
        """Put a copy of an experience into the queue, see :meth:`.transport.Sender.put`."""
        item = self.index, frame.copy(), action, reward, terminated, time
        self.produced[0] += 1
        try:
            self.queue.put_nowait(item)
        except queue.Full:
            self.wait_for_room(item)

    def wait_for_room(self, item):
        """Put an item as soon as the queue has room for it."""
        before, waiting = perf_counter(), True
        while waiting:
            with contextlib.suppress(queue.Full):
                self.queue.put(item, timeout=SLICE)
                waiting = False
            now = perf_counter()
            self.seconds[FULL] += now - before
            before = now
            if waiting:
                check_learner()


def in_collector(index, shared, experiences):
    """Rebuild a :class:`QueueSender` in its collector's process."""
    sender = QueueSender(index, shared, experiences)
    if not isinstance(experiences._wlock, TimedLock):  # environments of one collector may share the queue
        experiences._wlock = TimedLock(experiences._wlock, sender.seconds)
    experiences.cancel_join_thread()  # without a learner, nobody empties the pipe
    return sender


class Queues(Transport):
    """Base class of transports through bounded queues, which a thread of the learner empties.

    Besides those in the queues, up to ``capacity`` experiences may wait in the learner's process, and a few in the
    pipes. A collector that is killed may hold a queue's lock, or leave a part of an experience in its pipe, so the
    transport is broken.

    Args:
        count: number of queues, one for all environments or one for each.
        batch_size: largest number of experiences that are delivered at once.
    """

    def __init__(self, streams, shape, capacity, count, batch_size):
        super().__init__(streams, shape, capacity)
        context = multiprocessing.get_context("spawn")
        self.queues = [context.Queue(capacity // count) for _ in range(count)]
        self.batch_size, self.items, closing = batch_size, deque(), threading.Event()
        self.stop = weakref.finalize(self, closing.set)
        args = self.queues, self.items, capacity, closing
        self.thread = threading.Thread(target=read, args=args, name="reader", daemon=True)
        self.thread.start()

    def sender(self, index):
        """Return a sender to the queue of all environments, or to the environment's own."""
        return QueueSender(index, self.shared, self.queues[index % len(self.queues)])

    def deliver(self, into):
        """Deliver what the thread has taken, in batches, with one call per environment in a batch."""
        waiting = len(self.items)
        for start in range(0, waiting, self.batch_size):
            by_index = {}
            for _ in range(min(self.batch_size, waiting - start)):
                index, *item = self.items.popleft()
                by_index.setdefault(index, []).append(item)
            for index, items in by_index.items():
                frames, *fields = zip(*items)
                self.delivered[index] += len(items)
                self.batches += 1
                into(index, np.stack(frames), *map(np.array, fields, FIELDS.values()))
        return waiting

    def ended(self, index):
        """Raise TransportBroken: what the dead collector left in the queue cannot be trusted."""
        missing = self.counters()["waiting"][index]
        self.lost[index] += missing
        self.broken = f"environment {index}: its collector died, and {missing} of its experiences are lost"
        raise TransportBroken(self.broken)

    def end(self):
        """Stop the thread and drop the queues."""
        self.stop()
        for each in self.queues:
            each._writer.close()  # the last writer: a thread that waits for the rest of an experience reads the end
        self.thread.join()
        self.queues = None
        self.items.clear()


def read(queues, items, room, closing):
    """Thread of the learner: move experiences from the queues to ``items``, as long as there is room for them."""
    with contextlib.suppress(EOFError, OSError), selectors.DefaultSelector() as selector:  # until the pipes are closed
        for each in queues:
            selector.register(each._reader, selectors.EVENT_READ, each)
        while not closing.is_set():
            if len(items) >= room:
                closing.wait(LONG)
                continue
            for key, _ in selector.select(SLICE):
                items.append(key.data.get())


class LockedQueue(Queues):
    """One queue for all environments, to which collectors write in turn under its lock; delivers one by one."""

    def __init__(self, streams, shape, capacity, batch_size=None):
        super().__init__(streams, shape, capacity, 1, 1)


class LocalQueues(Queues):
    """A queue for each environment, so that no collector waits for another; delivers in batches."""

    def __init__(self, streams, shape, capacity, batch_size=1_000):
        super().__init__(streams, shape, capacity, streams, batch_size)
