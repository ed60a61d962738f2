"""Mario's alone: what carries experience from the processes that collect it to the learner, as all kinds of it do.

An experience is a frame u8[*shape], an action i32, a reward f32, whether the episode ended with this step, and the time
i32, which is the step within the episode, 0 at its start. C collectors put experiences, one process takes them. Nothing
that crosses is lost without being counted:

    produced = delivered + dropped + lost + waiting, for each collector

The learner's side is for one thread; so is each sender.
"""

from __future__ import annotations

import importlib
import os
import select
import weakref
from multiprocessing.context import assert_spawning
from multiprocessing.reduction import DupFd

import numpy as np

from ..common.checks import check_integer, check_number, choose
from ..common.shared_arrays import SharedArrays, starts_of
from ..common.workers import WorkersEnded

KINDS = {
    "locked_queue": ("queues", "LockedQueue"),
    "local_queues": ("queues", "LocalQueues"),
    "shared_ring": ("ring", "SharedRing"),
}
FIELDS = {"actions": np.int32, "rewards": np.float32, "ends": np.bool_, "times": np.int32}
U8 = np.dtype(np.uint8)
LINE = 8  # numbers of 8 bytes in a line of a cache, which no two processes write to
PRODUCED, DROPPED = 0, 1  # in a line of counts
PUTTING, FEEDING, LOCKING = 0, 1, 2  # in a line of seconds
SLICE = 0.1  # seconds after which one that waits looks whether the other side is still there


class TransportBroken(WorkersEnded):
    """What was put cannot all be handed over, as a process died or the learner has gone; it says what is lost."""


def make_transport(kind, collectors, shape, **options):
    """Return a transport.

    Args:
        kind: of it, one of ``KINDS``.
        collectors: processes that put experiences, C.
        shape: of a frame.
        options: what else :class:`Transport` takes.

    Raises:
        ValueError: no such kind, or another argument that is not right.
    """
    module, name = KINDS[choose("kind of transport", kind, KINDS)]
    return getattr(importlib.import_module(f".{module}", __package__), name)(collectors, shape, **options)


def check_shape(shape):
    """Return the shape of a frame as a tuple of Python integers.

    Args:
        shape: of a frame.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(shape, (tuple, list)) or not shape:
        raise ValueError(f"shape: got {shape!r}, wanted a tuple of one integer or more")
    return tuple(check_integer("shape", size, 1) for size in shape)


def wrong_frame(frame, shape):
    """Return the error of a frame that is not right.

    Args:
        frame: what was given.
        shape: that it is to have.
    """
    found = f"{frame.dtype}{list(frame.shape)}" if isinstance(frame, np.ndarray) else type(frame).__name__
    return ValueError(f"frame: got {found}, wanted uint8{list(shape)}")


def wrong_field(action, reward, end, time):
    """Return the error of fields of which one is not right.

    Args:
        action: i32.
        reward: f32.
        end: whether the episode ended.
        time: i32.
    """
    integer, number, truth = ("i", 4, "a 32-bit integer"), ("f", 4, "a number"), ("?", 1, "True or False")
    fields = {"action": (action, integer), "reward": (reward, number), "end": (end, truth), "time": (time, integer)}
    for name, (value, (kind, size, wanted)) in fields.items():
        try:
            memoryview(bytearray(size)).cast(kind)[0] = value
        except (TypeError, ValueError):
            return ValueError(f"{name}: got {value!r}, wanted {wanted}")
    raise AssertionError("all fields are right")


class Outlet:
    """The end of a pipe that is written to, which a process can be handed when it starts.

    Args:
        descriptor: of it, which is closed with this.
    """

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.poll = select.poll()
        self.poll.register(descriptor, select.POLLOUT)

    def __reduce__(self):
        assert_spawning(self)
        return received, (DupFd(self.descriptor),)

    def copy(self):
        """Return another of the same pipe."""
        return Outlet(os.dup(self.descriptor))

    def gone(self, seconds=0):
        """Tell whether nobody can read any longer, at the latest when there is room to write.

        Args:
            seconds: to wait for either.
        """
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in self.poll.poll(seconds * 1000))


def received(handle):
    """Return the outlet that a process was handed.

    Args:
        handle: of its descriptor.
    """
    return Outlet(handle.detach())


class Sender:
    """What a collector puts its experiences into; a process can be handed it when it starts, and only then.

    Args:
        index: of the collector.
        shape: of a frame.
        patience: seconds that a full transport is waited for before an experience is dropped; None: for ever.
        shared: counts of all collectors, and what else the kind shares.
        outlet: of a pipe that the learner reads from, as long as it is there.
    """

    def __init__(self, index, shape, patience, shared, outlet):
        self.index, self.shape, self.patience, self.shared, self.outlet = index, shape, patience, shared, outlet
        self.counts, self.seconds = shared["counts"][index].data, shared["seconds"][index].data
        self.closed = False

    def __reduce__(self):
        assert_spawning(self)
        return type(self), (self.index, self.shape, self.patience, self.shared, self.outlet)

    def put(self, frame, action, reward, end, time):
        """Put an experience; return False where the transport was full for too long and it was dropped.

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
        raise NotImplementedError

    def so_far(self):
        """Return how many experiences this collector has produced, those of the senders before included."""
        return self.counts[PRODUCED]

    def close(self):
        """Return once everything that was put is handed over; nothing can be put afterwards.

        Raises:
            TransportBroken: the learner has gone before that.
        """
        raise NotImplementedError

    def abandon(self):
        """Give back what this holds; what is not handed over yet is lost."""
        self.closed = True
        self.outlet.close()
        self.counts = self.seconds = self.shared = None


class Transport:
    """Carries experiences of C collectors to the learner.

    Args:
        collectors: processes that put experiences, C.
        shape: of a frame.
        capacity: experiences that may wait; each collector has an equal share of it.
        batch: the most experiences that are gathered at once, where a kind gathers them.
        patience: seconds that a full transport is waited for before an experience is dropped and counted; 0: it is
            dropped at once; None: it never is.
        more: shapes and dtypes of what else collectors and learner share, by name, a function of C and of a share.

    Attributes:
        share: experiences of one collector that may wait.

    Raises:
        ValueError: an argument is not right.
    """

    def __init__(self, collectors, shape, capacity=10_000, batch=1_000, patience=None, more=None):
        self.collectors, self.shape = check_integer("collectors", collectors, 1), check_shape(shape)
        self.capacity = check_integer("capacity", capacity, self.collectors)
        self.batch = check_integer("batch", batch, 1)
        self.patience = None if patience is None else check_number("patience", patience, 0)
        self.share = self.capacity // self.collectors
        lines = self.collectors, LINE
        layout = {"counts": (lines, np.int64), "seconds": (lines, np.float64)}
        layout |= more(self.collectors, self.share) if more else {}
        self.check_memory(starts_of(layout)[-1])
        self.shared = SharedArrays(layout)
        self.delivered, self.lost = (np.zeros(self.collectors, np.int64) for _ in range(2))
        self.batches, self.empty = 0, 0.0
        self.broken, self.last = None, None
        self.senders, self.out = weakref.WeakSet(), set()

    def check_memory(self, size):
        """Raise a ValueError where more memory would be shared than there is; it would be noticed when it is written.

        Args:
            size: bytes to be shared.
        """
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > there:
            why = f"they take {size:,} bytes of shared memory, and this machine has {there:,}"
            raise ValueError(f"capacity: got {self.capacity}, wanted fewer experiences of {list(self.shape)}: {why}")

    def sender(self, index):
        """Return what a collector puts its experiences into, or what the one does that takes the place of an ended one.

        Args:
            index: of the collector.

        Raises:
            ValueError: no such collector, or one that has its sender and has not ended.
        """
        self.check()
        index = check_integer("index", index, 0, self.collectors - 1)
        if index in self.out:
            raise ValueError(f"index: got {index}, whose sender is out, wanted that of a collector that has none")
        made = self.make_sender(index)
        self.out.add(index)
        self.senders.add(made)
        return made

    def take(self, into, most=None, seconds=0.0):
        """Hand over experiences that wait; return how many.

        They count as delivered whatever comes of the call that they are handed to.

        Args:
            into: called with ``index, frames, actions, rewards, ends, times`` of one collector, each of the same number
                of experiences in their order, valid during the call alone.
            most: of them; None: what waits.
            seconds: to wait for the first of them.

        Raises:
            TransportBroken: the transport is broken and can only be closed.
        """
        self.check()
        most = self.capacity if most is None else check_integer("most", most, 1)
        return self.hand_over(into, most, check_number("seconds", seconds, 0))

    def ended(self, index):
        """Note that the process of a collector has ended; what it had handed over can be taken still.

        Args:
            index: of the collector.

        Raises:
            TransportBroken: it died, and took with it what cannot be done without; all that is left is to close.
        """
        self.check()
        index = check_integer("index", index, 0, self.collectors - 1)
        self.settle(index)
        self.out.discard(index)

    def close(self):
        """Give back all that is held; what waits is lost. Senders in other processes find that the learner has gone."""
        if self.last is not None:
            return
        self.end()
        for sender in list(self.senders):
            sender.abandon()
        last = self.counters()
        last["lost"] += last["waiting"]
        last["waiting"][:] = 0
        self.last, self.shared = last, None

    def counters(self):
        """Return what was counted, by name.

        Returns:
            ``produced``, ``delivered``, ``dropped``, ``lost`` and ``waiting``, i64[C] each; ``batches``, calls by which
            experiences were handed over; and seconds: ``full`` f64[C], that senders waited for room, in all of their
            threads, ``lock`` f64[C], that they waited for each other, and ``empty``, that the learner waited for the
            first experience.
        """
        if self.last is not None:
            return {name: np.copy(value) if np.ndim(value) else value for name, value in self.last.items()}
        delivered, lost = self.delivered.copy(), self.lost.copy()
        dropped = self.shared["counts"][:, DROPPED].copy()  # before those produced, which are never fewer
        produced, seconds = self.shared["counts"][:, PRODUCED].copy(), self.shared["seconds"].copy()
        return {
            "produced": produced,
            "delivered": delivered,
            "dropped": dropped,
            "lost": lost,
            "waiting": produced - delivered - dropped - lost,
            "batches": self.batches,
            "lock": seconds[:, LOCKING],
            "full": seconds[:, PUTTING] + seconds[:, FEEDING],
            "empty": self.empty,
        }

    def check(self):
        """Raise an error where nothing can be taken or put any longer."""
        if self.last is not None:
            raise RuntimeError("the transport is closed")
        if self.broken:
            raise TransportBroken(self.broken)

    def kept(self, index):
        """Return how many experiences a collector produced and did not drop, as an integer.

        Args:
            index: of the collector, which has ended.
        """
        return int(self.shared["counts"][index, PRODUCED] - self.shared["counts"][index, DROPPED])

    def give_up(self, index, arrived, why):
        """Count what a collector lost, and have nothing be taken or put any longer.

        Args:
            index: of the collector.
            arrived: experiences of it that did arrive, delivered or not.
            why: what happened.

        Raises:
            TransportBroken: always.
        """
        missing = self.kept(index) - arrived - int(self.lost[index])
        self.lost[index] += missing
        self.broken = f"collector {index} died and {why}: {missing} of its experiences are lost"
        raise TransportBroken(self.broken)

    def make_sender(self, index):
        """Return a sender, where one may be had.

        Args:
            index: of the collector.
        """
        raise NotImplementedError

    def hand_over(self, into, most, seconds):
        """Do as :meth:`take` does, with arguments that are right.

        Args:
            into: what is called.
            most: of the experiences.
            seconds: to wait for the first of them.
        """
        raise NotImplementedError

    def settle(self, index):
        """See what a collector that has ended leaves.

        Args:
            index: of the collector.
        """
        raise NotImplementedError

    def end(self):
        """Give back what the kind holds; it is closed."""
        raise NotImplementedError
