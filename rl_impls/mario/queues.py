"""Mario's alone: experiences through pipes, pickled one by one, as multiprocessing's queues carry them.

Each collector has a bounded queue of its own and a thread that feeds what is in it to a pipe, as
:class:`multiprocessing.Queue` has; here it is open, so that the death of a collector in the midst of that is noticed.
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

SIZE = struct.Struct("!i")  # of an item in a pipe, before it
SECONDS = 0.4  # to wait for a lock that a dead process may hold


def pipe():
    """Return the descriptors of a new pipe: to read from, and to write to, neither of which ever blocks."""
    return os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


class Inlet:
    """Reads items from a pipe, as far as they have come.

    Args:
        descriptor: of the end that is read from, which is closed with this.
    """

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.pieces, self.left, self.sized = [], SIZE.size, False

    def item(self):
        """Return the next item, or None where it has not come, or not all of it."""
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
        """Tell whether the beginning of an item was read, and not its end."""
        return self.sized or bool(self.pieces)


class QueueSender(Sender):
    """Puts experiences into a queue of this process, from which a thread feeds them to a pipe.

    Args:
        args: as of :class:`.transport.Sender`.
        share: experiences that the queue holds.
        lock: of those who write to the pipe, where there are several.
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
        """Start the thread that feeds."""
        self.produced, self.dropped = self.counts[PRODUCED], self.counts[DROPPED]
        self.queue, self.room = queue.SimpleQueue(), queue.SimpleQueue()
        for _ in range(self.share):
            self.room.put(None)  # a place in the queue
        self.thread = threading.Thread(target=self.feed, name="feeder", daemon=True)
        self.thread.start()

    def put(self, frame, action, reward, end, time):
        """Put an experience; return False where the queue was full for too long and it was dropped.

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
        """Raise an error where nothing can be put."""
        if self.over:
            raise TransportBroken(self.why)
        if self.closed:
            raise RuntimeError("the sender is closed")

    def put_later(self, item):
        """Wait until the queue has room, as long as patience lasts; return whether it had.

        Args:
            item: to be put into it.

        Raises:
            TransportBroken: the learner has gone.
        """
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
        """Be the thread that feeds the pipe, until it takes None from the queue or the learner has gone."""
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
        """Return once everything that was put is handed over; nothing can be put afterwards.

        Raises:
            TransportBroken: the learner has gone before that.
        """
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
        """Give back what this holds; what is not handed over yet is lost. It is waited for unless the learner is gone.

        The one who calls this has closed the pipe at the other end, or the thread has ended.
        """
        if self.thread is not None:
            if self.thread.is_alive():
                self.over, self.why = True, "the learner has gone"
                self.queue.put(None)
            self.thread.join()
        super().abandon()
        self.lock = None


def made(make, args, share, lock):
    """Return the sender that a process was handed.

    Args:
        make: of it.
        args: of it.
        share: experiences that its queue holds.
        lock: of those who write to the pipe.
    """
    return make(*args, share=share, lock=lock)


def acquire(lock, outlet, seconds):
    """Wait for the lock, which a dead process may hold for ever, and count the time.

    Args:
        lock: of those who write to the pipe.
        outlet: of the pipe.
        seconds: line of the collector.

    Raises:
        TransportBroken: the learner has gone.
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
    """Write all of a message, and count the time for which the pipe was full.

    Args:
        outlet: of the pipe.
        message: bytes.
        seconds: line of the collector.

    Raises:
        BrokenPipeError: nobody reads.
    """
    descriptor = outlet.descriptor
    try:
        sent = os.write(descriptor, message)
        if sent == len(message):
            return
    except BlockingIOError:
        sent = 0
    before = perf_counter()
    os.set_blocking(descriptor, True)  # for whoever writes to this pipe, which nobody else does now
    try:
        while sent < len(message):  # a signal may interrupt it
            sent += os.write(descriptor, memoryview(message)[sent:])
    finally:
        os.set_blocking(descriptor, False)
        seconds[FEEDING] += perf_counter() - before


def make_lock():
    """Return a lock that processes share.

    Raises:
        OSError: it could not be made, as where /dev/shm is full.
    """
    try:
        return multiprocessing.get_context("spawn").Lock()
    except OSError as error:
        what = "the lock of a locked_queue could not be made in /dev/shm"
        raise OSError(error.errno, f"{what}: {error.strerror}") from error


class LockedQueue(Transport):
    """One pipe, which all collectors write to in turns, by a lock: what :class:`multiprocessing.Queue` is.

    Items are pickled, written, read and handed over one by one. Besides what a collector's queue holds, its share of
    the capacity, its feeder holds one more, and the pipe a few.

    A collector that dies while it holds the lock has all others wait for ever, and the rest of what it was writing is
    never read: the transport is broken. So it is where the queue of the dead collector was not empty.

    Args:
        collectors: processes that put experiences, C.
        shape: of a frame.
        capacity: experiences that may wait in the queues; each collector has an equal share of it.
        batch: not used, as nothing is gathered.
        patience: seconds that a full queue is waited for before an experience is dropped and counted.

    Raises:
        OSError: the lock could not be made.
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
        """Return a sender to the one pipe.

        Args:
            index: of the collector.
        """
        args = index, self.shape, self.patience, self.shared, self.outlet.copy()
        return QueueSender(*args, share=self.share, lock=self.lock)

    def next_item(self):
        """Return the next item that has come, or None."""
        if self.drained:
            return self.drained.popleft()
        item = self.inlet.item()
        if item is not None:
            self.arrived[item[0]] += 1
        return item

    def hand_over(self, into, most, seconds):
        """Do as :meth:`take` does, with arguments that are right.

        Args:
            into: what is called.
            most: of the experiences.
            seconds: to wait for the first of them.
        """
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
        """Read items that have come, to be handed over later.

        Args:
            most: of them.
        """
        while most and (item := self.inlet.item()) is not None:
            self.arrived[item[0]] += 1
            self.drained.append(item)
            most -= 1

    def settle(self, index):
        """See whether a collector that has ended left the lock, the pipe and its queue in order.

        Args:
            index: of the collector.

        Raises:
            TransportBroken: it did not.
        """
        end = monotonic() + SECONDS
        while not self.lock.acquire(True, 1e-3):
            self.drain(100)  # another one may hold the lock, and wait for room in the pipe
            if monotonic() > end:
                self.drain(1_000)
                self.give_up(index, self.arrived[index], "holds the lock of all")
        try:
            self.drain(math.inf)  # nobody writes now
        finally:
            self.lock.release()
        if self.inlet.partial():
            self.give_up(index, self.arrived[index], "left a part of an item in the pipe")
        if self.kept(index) - self.lost[index] != self.arrived[index]:
            self.give_up(index, self.arrived[index], "had not handed over what was in its queue")

    def end(self):
        """Close the pipe, which senders notice, and give back the lock."""
        self.inlet.close()
        self.outlet.close()
        self.lock = None
        self.drained.clear()


class Gatherer:
    """Reads the pipes of all collectors in a thread, and gathers what comes to batches, full ones unless it is asked.

    Args:
        descriptors: of the ends that are read from, by the index of the collector.
        batch: the most items of a batch.
        room: items that may wait in batches that are not taken.
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
        self.ready, self.waiting = deque(), 0  # batches that are not taken, and how many items they are
        self.closing, self.error = False, None
        self.thread = threading.Thread(target=self.run, name="gatherer", daemon=True)
        self.thread.start()

    def run(self):
        """Be the thread."""
        try:
            while not self.closing:
                self.step()
        except Exception as error:
            self.error = f"gathering failed: {type(error).__name__}: {error}"
        with self.changed:
            self.changed.notify_all()

    def step(self):
        """Read what has come; where a batch is full, or the learner asks for what there is, hand it on."""
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
        """Have the thread hand on what it has gathered, or else what comes next."""
        self.asked = True
        os.eventfd_write(self.wake, 1)

    def read(self, index, most):
        """Read what has come from a collector.

        Args:
            index: of it.
            most: of the items; None: all.
        """
        inlet, count = self.inlets[index], 0
        while count != most and (item := inlet.item()) is not None:
            self.gathered.append(item)
            count += 1
        self.arrived[index] += count

    def hand_on(self, batch):
        """Put a batch where it can be taken, once there is room.

        Args:
            batch: items, of any collectors.
        """
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
        """Read the last of a collector that has ended.

        Args:
            index: of it.
        """
        with self.reading:
            self.read(index, None)
        os.eventfd_write(self.wake, 1)

    def close(self):
        """End the thread, and close all that it read."""
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
    """Return items of one collector as arrays, after its index.

    Args:
        index: of the collector.
        items: of it, in order.
    """
    _, frames, *fields = zip(*items)
    return index, np.stack(frames), *(np.array(one, dtype) for one, dtype in zip(fields, FIELDS.values()))


class LocalQueues(Transport):
    """A pipe for each collector, so that none waits for another, and a thread of the learner that gathers batches.

    Items are pickled, written and read one by one, and handed over in batches, one collector's share of one at a time.
    A batch is full, unless the learner asks when none is: then it is what has been gathered, which one that does not
    wait takes the next time. Besides what a collector's queue holds, its feeder holds one more, the pipe a few, and the
    thread up to a batch.

    A collector that dies takes with it what was in its queue: if there was something, the transport is broken.

    Args:
        collectors: processes that put experiences, C.
        shape: of a frame.
        capacity: experiences that may wait in the queues of collectors; each has an equal share of it.
        batch: the most experiences that are gathered at once.
        patience: seconds that a full queue is waited for before an experience is dropped and counted.
        consolidated: experiences that may wait in batches; None: twice the capacity.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None, consolidated=None):
        super().__init__(collectors, shape, capacity, batch, patience)
        consolidated = 2 * self.capacity if consolidated is None else check_integer("consolidated", consolidated, 1)
        pipes = [pipe() for _ in range(self.collectors)]
        self.outlets = [Outlet(writing) for _, writing in pipes]
        self.gatherer = Gatherer([reading for reading, _ in pipes], self.batch, consolidated)
        self.forget = weakref.finalize(self, self.gatherer.close)

    def make_sender(self, index):
        """Return a sender to the pipe of a collector.

        Args:
            index: of it.
        """
        args = index, self.shape, self.patience, self.shared, self.outlets[index].copy()
        return QueueSender(*args, share=self.share, lock=None)

    def hand_over(self, into, most, seconds):
        """Do as :meth:`take` does, with arguments that are right.

        Args:
            into: what is called.
            most: of the experiences.
            seconds: to wait for the first of them.
        """
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
        """See whether a collector that has ended left the pipe and its queue in order.

        Args:
            index: of the collector.

        Raises:
            TransportBroken: it did not.
        """
        self.gatherer.settle(index)
        arrived = self.gatherer.arrived[index]
        if self.gatherer.inlets[index].partial():
            self.give_up(index, arrived, "left a part of an item in its pipe")
        if self.kept(index) - self.lost[index] != arrived:
            self.give_up(index, arrived, "had not handed over what was in its queue")

    def end(self):
        """End the thread and close the pipes, which senders notice."""
        self.forget()
        for outlet in self.outlets:
            outlet.close()
