"""Transports through pipes, with each experience pickled, as multiprocessing's queues do.

Each collector has a bounded queue and a thread that feeds its items to a pipe, as in :class:`multiprocessing.Queue`.
Unlike that class, these notice if a collector dies in the middle of a write.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import queue
import select
import struct
import threading
import weakref
from collections import deque
from multiprocessing.reduction import ForkingPickler
from time import monotonic, perf_counter

import numpy as np

from ..common.checks import check_integer
from .transport import (
    DROPPED,
    FEEDING,
    FIELDS,
    LOCKING,
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

SIZE = struct.Struct("!i")  # length of an item, before it in a pipe
SECONDS = 0.4  # to wait for a lock that a dead process may hold


def pipe():
    """Return the reading and the writing descriptor of a new pipe, both non-blocking."""
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


class Inlet:
    """Non-blocking reader of items from a pipe; it owns the descriptor of the reading end."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.pieces, self.left, self.sized = [], SIZE.size, False

    def item(self):
        """Return the next item, or None if it has not arrived completely."""
        while True:
            try:
                piece = os.read(self.descriptor, self.left)
            except BlockingIOError:
                return None
            if not piece:
                return None
            self.left -= len(piece)
            self.pieces.append(piece)
            if self.left:
                continue
            data = piece if len(self.pieces) == 1 else b"".join(self.pieces)
            self.pieces = []
            self.sized = not self.sized
            if not self.sized:
                self.left = SIZE.size
                return ForkingPickler.loads(data)
            (self.left,) = SIZE.unpack(data)

    def partial(self):
        """Return whether an item was read only in part."""
        return self.sized or bool(self.pieces)


class QueueSender(Sender):
    """Sender with a queue of ``share`` experiences in its process, and a thread that feeds them to a pipe.

    ``lock`` serialises the writers of the pipe; None if there is only one.
    """

    def __init__(self, *args, share, lock):
        super().__init__(*args)
        self.share, self.lock, self.thread, self.over, self.why = share, lock, None, False, None
        kinds = {np.int32: "i", np.float32: "f", np.bool_: "?"}
        self.cells = [memoryview(bytearray(np.dtype(one).itemsize)).cast(kinds[one]) for one in FIELDS.values()]

    def __reduce__(self):
        make, args = super().__reduce__()
        return made, (make, args, self.share, self.lock)

    def start(self):
        """Start the feeder thread."""
        self.produced, self.dropped = self.counts[PRODUCED], self.counts[DROPPED]
        self.queue, self.room = queue.SimpleQueue(), queue.SimpleQueue()
        for _ in range(self.share):
            self.room.put(None)  # a free slot in the queue
        self.thread = threading.Thread(target=self.feed, name="feeder", daemon=True)
        self.thread.start()

    def put(self, frame, action, reward, end, time):
        """Queue a copy of an experience; return False if it was dropped, see :meth:`.transport.Sender.put`."""
        try:
            if frame.shape != self.shape or frame.dtype != U8:
                raise wrong_frame(frame, self.shape)
        except AttributeError:
            raise wrong_frame(frame, self.shape) from None
        actions, rewards, ends, times = self.cells
        try:
            actions[0], rewards[0], ends[0], times[0] = action, reward, end, time
        except (TypeError, ValueError):
            raise wrong_field(action, reward, end, time) from None
        self.check()
        if self.thread is None:
            self.start()
        self.produced = self.counts[PRODUCED] = self.produced + 1
        item = self.index, frame.copy(), actions[0], rewards[0], ends[0], times[0]
        try:
            self.room.get_nowait()
            self.queue.put(item)
        except queue.Empty:
            if not self.put_later(item):
                self.dropped = self.counts[DROPPED] = self.dropped + 1
                return False
        return True

    def check(self):
        """Raise an error if the feeder has failed or the sender is closed."""
        if self.over:
            raise TransportBroken(self.why)
        if self.closed:
            raise RuntimeError("the sender is closed")

    def put_later(self, item):
        """Wait for room, up to ``patience`` seconds, and queue the item; return whether there was room."""
        before = perf_counter()
        end = math.inf if self.patience is None else before + self.patience
        seconds = self.seconds
        while before < end:
            try:
                self.room.get(timeout=min(SLICE, end - before))
                self.queue.put(item)
                return True
            except queue.Empty:
                if self.over:
                    raise TransportBroken(self.why) from None
            finally:
                now = perf_counter()
                seconds[PUTTING] += now - before
                before = now
        return False

    def feed(self):
        """Feeder thread: write queued items to the pipe until it finds None or the learner is gone."""
        take, dumps, pack, lock, why = self.queue.get, ForkingPickler.dumps, SIZE.pack, self.lock, None
        seconds, outlet, made_room = self.seconds, self.outlet, self.room.put
        try:
            while (item := take()) is not None:
                made_room(None)
                data = dumps(item)
                message = b"".join((pack(len(data)), data))
                if lock is None:
                    write(outlet, message, seconds)
                    continue
                if not lock.acquire(False):
                    acquire(lock, outlet, seconds)
                try:
                    write(outlet, message, seconds)
                finally:
                    lock.release()
        except (TransportBroken, OSError):
            why = "the learner has gone"
        except Exception as error:
            why = f"feeding the pipe failed: {type(error).__name__}: {error}"
        if why:
            self.over, self.why = True, why

    def close(self):
        """Write everything queued to the pipe, then close; raise TransportBroken if the learner is gone first."""
        if self.closed:
            return
        self.closed = True
        try:
            if self.thread is not None:
                self.queue.put(None)
                self.thread.join()
                if self.over:
                    raise TransportBroken(self.why)
        finally:
            self.abandon()

    def abandon(self):
        """End the feeder thread and close the pipe.

        Unless the learner is gone, this waits until everything queued is written, so the pipe's other end must be
        closed first or the thread must have ended.
        """
        if self.thread is not None:
            if self.thread.is_alive():
                self.over, self.why = True, "the learner has gone"
                self.queue.put(None)
            self.thread.join()
        super().abandon()
        self.lock = None


def made(make, args, share, lock):
    """Rebuild a :class:`QueueSender` in a new process."""
    return make(*args, share=share, lock=lock)


def acquire(lock, outlet, seconds):
    """Acquire the lock, and add the time to the collector's ``seconds``.

    A dead process may hold the lock for ever, so this raises TransportBroken once the learner is gone.
    """
    before, right = perf_counter(), False
    while not right:
        right = lock.acquire(True, SLICE)
        now = perf_counter()
        seconds[LOCKING] += now - before
        before = now
        if not right and outlet.gone():
            raise TransportBroken("the learner has gone")


def write(outlet, message, seconds):
    """Write a whole message, and add the time for which the pipe was full to the collector's ``seconds``."""
    descriptor = outlet.descriptor
    try:
        sent = os.write(descriptor, message)
        if sent == len(message):
            return
    except BlockingIOError:
        sent = 0
    before = perf_counter()
    os.set_blocking(descriptor, True)  # affects all writers of this pipe, but only this one writes now
    try:
        while sent < len(message):  # a signal may interrupt it
            sent += os.write(descriptor, memoryview(message)[sent:])
    finally:
        os.set_blocking(descriptor, False)
        seconds[FEEDING] += perf_counter() - before


def make_lock():
    """Return a lock that processes can share; an OSError points to /dev/shm, which may be full."""
    try:
        return multiprocessing.get_context("spawn").Lock()
    except OSError as error:
        what = "the lock of a locked_queue could not be made in /dev/shm"
        raise OSError(error.errno, f"{what}: {error.strerror}") from error


class LockedQueue(Transport):
    """One pipe that all collectors write to in turn under a lock, as :class:`multiprocessing.Queue` does.

    Items are pickled, written, read and delivered one by one. Beyond the queue of a collector, its feeder holds one
    more item and the pipe a few. The arguments are those of :class:`.transport.Transport`; ``batch`` is ignored.

    If a collector dies while it holds the lock, the others would wait for ever and the rest of its item never arrives,
    so the transport is broken. It is also broken if the dead collector's queue was not empty.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None):
        super().__init__(collectors, shape, capacity, batch, patience)
        self.lock = make_lock()
        reading, writing = pipe()
        self.inlet, self.outlet = Inlet(reading), Outlet(writing)
        self.poll = select.poll()
        self.poll.register(reading, select.POLLIN)
        self.drained, self.arrived = deque(), [0] * self.collectors
        self.one = [np.zeros(1, dtype) for dtype in FIELDS.values()]

    def make_sender(self, index):
        """Return a sender that writes to the common pipe."""
        args = index, self.shape, self.patience, self.shared, self.outlet.copy()
        return QueueSender(*args, share=self.share, lock=self.lock)

    def next_item(self):
        """Return the next item from ``drained`` or the pipe, or None."""
        if self.drained:
            return self.drained.popleft()
        item = self.inlet.item()
        if item is not None:
            self.arrived[item[0]] += 1
        return item

    def hand_over(self, into, most, seconds):
        """Deliver items one by one, as they are read."""
        taken, end = 0, monotonic() + seconds if seconds else 0.0
        actions, rewards, ends, times = self.one
        while taken < most:
            item = self.next_item()
            if item is None:
                left = end - monotonic() if seconds and not taken else 0.0
                if left <= 0:
                    break
                before = perf_counter()
                self.poll.poll(1000 * left)
                self.empty += perf_counter() - before
                continue
            index, frame, actions[0], rewards[0], ends[0], times[0] = item
            taken += 1
            self.delivered[index] += 1
            self.batches += 1
            into(index, frame[None], actions, rewards, ends, times)
        return taken

    def drain(self, most):
        """Read up to ``most`` items now, for later delivery."""
        while most and (item := self.inlet.item()) is not None:
            self.arrived[item[0]] += 1
            self.drained.append(item)
            most -= 1

    def settle(self, index):
        """Raise TransportBroken unless an ended collector left the lock, the pipe and its queue in order."""
        end = monotonic() + SECONDS
        while not self.lock.acquire(True, 1e-3):
            self.drain(100)  # a live collector may hold the lock while it waits for room in the pipe
            if monotonic() > end:
                self.drain(1_000)
                self.give_up(index, self.arrived[index], "holds the lock of all")
        try:
            self.drain(math.inf)  # this process has the lock, so no collector is writing
        finally:
            self.lock.release()
        if self.inlet.partial():
            self.give_up(index, self.arrived[index], "left a part of an item in the pipe")
        if self.kept(index) - self.lost[index] != self.arrived[index]:
            self.give_up(index, self.arrived[index], "had not handed over what was in its queue")

    def end(self):
        """Close the pipe, which senders notice, and release the lock."""
        self.inlet.close()
        self.outlet.close()
        self.lock = None
        self.drained.clear()


class Gatherer:
    """Thread of the learner that reads the pipes of all collectors and gathers the items into batches.

    Args:
        descriptors: reading ends of the pipes, by collector.
        batch: size of a full batch; smaller ones are passed on only after :meth:`ask`.
        room: items that may wait in batches.
    """

    def __init__(self, descriptors, batch, room):
        self.inlets = [Inlet(descriptor) for descriptor in descriptors]
        self.batch, self.room = min(batch, room), room
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.poll, self.indices = select.poll(), {one: index for index, one in enumerate(descriptors)}
        for descriptor in (self.wake, *descriptors):
            self.poll.register(descriptor, select.POLLIN)
        self.reading, self.changed = threading.Lock(), threading.Condition()
        self.gathered, self.arrived, self.asked = [], [0] * len(descriptors), False
        self.ready, self.waiting = deque(), 0  # batches not taken yet, and how many items they have
        self.closing, self.error = False, None
        self.thread = threading.Thread(target=self.run, name="gatherer", daemon=True)
        self.thread.start()

    def run(self):
        """Thread main loop; it records an exception in ``error``."""
        try:
            while not self.closing:
                self.step()
        except Exception as error:
            self.error = f"gathering failed: {type(error).__name__}: {error}"
        with self.changed:
            self.changed.notify_all()

    def step(self):
        """Read what has arrived; pass on a batch if it is full or the learner has asked."""
        found = self.poll.poll(0 if len(self.gathered) >= self.batch else None)
        with self.reading:
            for descriptor, _ in found:
                if descriptor == self.wake:
                    os.eventfd_read(self.wake)
                else:
                    self.read(self.indices[descriptor], max(1, self.batch // len(self.inlets)))
            batch = self.gathered[: self.batch] if self.asked or len(self.gathered) >= self.batch else []
            del self.gathered[: len(batch)]
        if batch:
            self.asked = False
            self.hand_on(batch)

    def ask(self):
        """Let the thread pass on what it has gathered, or else whatever arrives next."""
        self.asked = True
        os.eventfd_write(self.wake, 1)

    def read(self, index, most):
        """Read up to ``most`` items that have arrived from a collector; None: all of them."""
        inlet, count = self.inlets[index], 0
        while count != most and (item := inlet.item()) is not None:
            self.gathered.append(item)
            count += 1
        self.arrived[index] += count

    def hand_on(self, batch):
        """Wait for room, then make a batch available to the learner, as arrays of each collector."""
        runs = {}
        for item in batch:
            runs.setdefault(item[0], []).append(item)
        ready = [stacked(index, items) for index, items in runs.items()]
        with self.changed:
            while self.waiting + len(batch) > self.room and not self.closing:
                self.changed.wait()
            self.ready.extend(ready)
            self.waiting += len(batch)
            self.changed.notify_all()

    def settle(self, index):
        """Read the last items of a collector that has ended."""
        with self.reading:
            self.read(index, None)
        os.eventfd_write(self.wake, 1)

    def close(self):
        """Stop the thread, and close the reading ends of its pipes."""
        if self.wake is None:
            return
        self.closing = True
        os.eventfd_write(self.wake, 1)
        with self.changed:
            self.changed.notify_all()
        self.thread.join()
        for inlet in self.inlets:
            inlet.close()
        os.close(self.wake)
        self.wake = None
        self.ready.clear()
        self.gathered.clear()


def stacked(index, items):
    """Return a collector's index and its items, in order, as arrays."""
    _, frames, *fields = zip(*items)
    return index, np.stack(frames), *(np.array(one, dtype) for one, dtype in zip(fields, FIELDS.values()))


class LocalQueues(Transport):
    """One pipe per collector, so that none waits for another, and a learner's thread that gathers batches.

    Items are pickled, written and read one by one, and delivered in batches, with one call per collector in a batch.
    Batches are full unless the learner asks while none is ready: it then gets what has been gathered, immediately if it
    waits and in its next call otherwise. Beyond the queue of a collector, its feeder holds one more item, the pipe a
    few, and the thread up to a batch. If a collector dies and its queue was not empty, the transport is broken.

    The other arguments are those of :class:`.transport.Transport`.

    Args:
        batch: size of a full batch.
        consolidated: experiences that may wait in batches, besides ``capacity`` in the queues; None: twice the
            capacity.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None, consolidated=None):
        super().__init__(collectors, shape, capacity, batch, patience)
        consolidated = 2 * self.capacity if consolidated is None else check_integer("consolidated", consolidated, 1)
        pipes = [pipe() for _ in range(self.collectors)]
        self.outlets = [Outlet(writing) for _, writing in pipes]
        self.gatherer = Gatherer([reading for reading, _ in pipes], self.batch, consolidated)
        self.forget = weakref.finalize(self, self.gatherer.close)

    def make_sender(self, index):
        """Return a sender that writes to the collector's own pipe."""
        args = index, self.shape, self.patience, self.shared, self.outlets[index].copy()
        return QueueSender(*args, share=self.share, lock=None)

    def hand_over(self, into, most, seconds):
        """Deliver batches that are ready; ask the thread for one if there is none."""
        gatherer, left = self.gatherer, most
        if not gatherer.ready and (seconds or gatherer.gathered):
            gatherer.ask()
        if seconds and not gatherer.ready:
            before = perf_counter()
            with gatherer.changed:
                gatherer.changed.wait_for(lambda: gatherer.ready or gatherer.error, seconds)
            self.empty += perf_counter() - before
        while left:
            with gatherer.changed:
                if not gatherer.ready:
                    break
                index, *arrays = gatherer.ready.popleft()
                count = min(left, len(arrays[0]))
                if count < len(arrays[0]):
                    gatherer.ready.appendleft((index, *(one[count:] for one in arrays)))
                    arrays = [one[:count] for one in arrays]
                gatherer.waiting -= count
                gatherer.changed.notify_all()
            left -= count
            self.delivered[index] += count
            self.batches += 1
            into(index, *arrays)
        if left == most and gatherer.error:
            self.broken = gatherer.error
            self.check()
        return most - left

    def settle(self, index):
        """Raise TransportBroken unless an ended collector left its pipe and its queue in order."""
        self.gatherer.settle(index)
        arrived = self.gatherer.arrived[index]
        if self.gatherer.inlets[index].partial():
            self.give_up(index, arrived, "left a part of an item in its pipe")
        if self.kept(index) - self.lost[index] != arrived:
            self.give_up(index, arrived, "had not handed over what was in its queue")

    def end(self):
        """Stop the gathering thread and close all pipes, which senders notice."""
        self.forget()
        for outlet in self.outlets:
            outlet.close()
