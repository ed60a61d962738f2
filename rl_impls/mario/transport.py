"""The interface of the transports that carry experiences from collectors to the learner.

An experience is a frame u8[*shape], an action i32, a reward f32, whether the episode ended with this step (``end``),
and ``time`` i32, the step's index in its episode, from 0. C collectors put experiences and one process takes them.
Every loss is counted; for each collector

    produced = delivered + dropped + lost + waiting

A transport may be used by one thread of the learner, and a sender by one thread of its collector.
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
LINE = 8  # 8-byte numbers per cache line; no two processes write to the same line
PRODUCED, DROPPED = 0, 1  # places in a line of ``counts``
PUTTING, FEEDING, LOCKING = 0, 1, 2  # places in a line of ``seconds``
SLICE = 0.1  # seconds between checks that the other side is still there


class TransportBroken(WorkersEnded):
    """Experiences cannot be delivered, because a collector died or the learner is gone."""


def make_transport(kind, collectors, shape, **options):
    """Return a transport of a kind: ``locked_queue``, ``local_queues`` or ``shared_ring``.

    The other arguments, and ``options``, are those of its class, see :class:`Transport`.
    """
    module, name = KINDS[choose("kind of transport", kind, KINDS)]
    return getattr(importlib.import_module(f".{module}", __package__), name)(collectors, shape, **options)


def check_shape(shape):
    """Return the shape of a frame as a tuple of Python integers; raise a ValueError if it is not valid."""
    if not isinstance(shape, (tuple, list)) or not shape:
        raise ValueError(f"shape: got {shape!r}, wanted a tuple of one integer or more")
    return tuple(check_integer("shape", size, 1) for size in shape)


def wrong_frame(frame, shape):
    """Return the error for a frame of the wrong type, dtype or shape."""
    found = f"{frame.dtype}{list(frame.shape)}" if isinstance(frame, np.ndarray) else type(frame).__name__
    return ValueError(f"frame: got {found}, wanted uint8{list(shape)}")


def wrong_field(action, reward, end, time):
    """Return the error for the first field that does not fit its dtype."""
    integer, number, truth = ("i", 4, "a 32-bit integer"), ("f", 4, "a number"), ("?", 1, "True or False")
    fields = {"action": (action, integer), "reward": (reward, number), "end": (end, truth), "time": (time, integer)}
    for name, (value, (kind, size, wanted)) in fields.items():
        try:
            memoryview(bytearray(size)).cast(kind)[0] = value
        except (TypeError, ValueError):
            return ValueError(f"{name}: got {value!r}, wanted {wanted}")
    raise AssertionError("all fields are right")


class Outlet:
    """Writing end of a pipe, which owns its descriptor and can be passed to a process when that starts."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.poll = select.poll()
        self.poll.register(descriptor, select.POLLOUT)

    def __reduce__(self):
        assert_spawning(self)
        return received, (DupFd(self.descriptor),)

    def copy(self):
        """Return another outlet of the same pipe."""
        return Outlet(os.dup(self.descriptor))

    def gone(self, seconds=0):
        """Return whether the reading end is closed; wait up to ``seconds`` for that or for room to write."""
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in self.poll.poll(seconds * 1000))


def received(handle):
    """Rebuild the :class:`Outlet` in a new process."""
    return Outlet(handle.detach())


class Sender:
    """A collector's end of a transport. It can be passed to a process only when that starts.

    Args:
        index: index of the collector.
        shape: shape of a frame.
        patience: seconds to wait for room before an experience is dropped; None: for ever.
        shared: counters of all collectors, and other arrays of the transport, in shared memory.
        outlet: end of a pipe whose other end is open as long as the learner lives.
    """

    def __init__(self, index, shape, patience, shared, outlet):
        self.index, self.shape, self.patience, self.shared, self.outlet = index, shape, patience, shared, outlet
        self.counts, self.seconds = shared["counts"][index].data, shared["seconds"][index].data
        self.closed = False

    def __reduce__(self):
        assert_spawning(self)
        return type(self), (self.index, self.shape, self.patience, self.shared, self.outlet)

    def put(self, frame, action, reward, end, time):
        """Put an experience; return False if there was no room for too long and it was dropped.

        Args:
            frame: u8[*shape]; it may be overwritten afterwards.
            action: i32.
            reward: f32.
            end: whether the episode ended with this step.
            time: i32, index of the step in its episode.

        Raises:
            ValueError: invalid argument; nothing was put.
            TransportBroken: the learner is gone.
        """
        raise NotImplementedError

    def so_far(self):
        """Return how many experiences this collector has produced, including those of its earlier senders."""
        return self.counts[PRODUCED]

    def close(self):
        """Hand over everything that was put, then close; raise TransportBroken if the learner is gone first."""
        raise NotImplementedError

    def abandon(self):
        """Close without handing over what still waits in this process."""
        self.closed = True
        self.outlet.close()
        self.counts = self.seconds = self.shared = None


class Transport:
    """Base class of what carries experiences of C collectors to the learner.

    Args:
        collectors: number of senders, C.
        shape: shape of a frame.
        capacity: experiences that may wait, divided equally among the collectors.
        batch: largest number of experiences gathered at once, for kinds that gather them.
        patience: seconds to wait for room before an experience is dropped and counted; 0: drop at once; None: never
            drop.
        more: ``more(C, share)`` returns shape and dtype of further arrays in shared memory, by name.

    Attributes:
        share: experiences of one collector that may wait.

    Raises:
        ValueError: invalid argument.
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
        """Raise a ValueError if ``size`` bytes exceed this machine's memory: it would fail only when written to."""
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if size > there:
            why = f"they take {size:,} bytes of shared memory, and this machine has {there:,}"
            raise ValueError(f"capacity: got {self.capacity}, wanted fewer experiences of {list(self.shape)}: {why}")

    def sender(self, index):
        """Return the sender of a collector, or of the one that replaces it after :meth:`ended`."""
        self.check()
        index = check_integer("index", index, 0, self.collectors - 1)
        if index in self.out:
            raise ValueError(f"index: got {index}, whose sender is out, wanted that of a collector that has none")
        made = self.make_sender(index)
        self.out.add(index)
        self.senders.add(made)
        return made

    def take(self, into, most=None, seconds=0.0):
        """Deliver waiting experiences; return how many.

        They count as delivered even if ``into`` raises an error.

        Args:
            into: called with ``index, frames, actions, rewards, ends, times`` of one collector, arrays of one length in
                the order in which they were put, valid only during the call.
            most: largest number of experiences; None: the capacity.
            seconds: time to wait for the first of them.

        Raises:
            TransportBroken: the transport is broken and can only be closed.
        """
        self.check()
        most = self.capacity if most is None else check_integer("most", most, 1)
        return self.hand_over(into, most, check_number("seconds", seconds, 0))

    def ended(self, index):
        """Note that a collector has ended; what it handed over can still be taken.

        Raises:
            TransportBroken: it left experiences behind, or the transport unusable; only :meth:`close` is possible.
        """
        self.check()
        index = check_integer("index", index, 0, self.collectors - 1)
        self.settle(index)
        self.out.discard(index)

    def close(self):
        """Release all resources; what waits is lost. Senders in other processes find that the learner is gone."""
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
        """Return the counters by name.

        Returns:
            ``produced``, ``delivered``, ``dropped``, ``lost`` and ``waiting``, i64[C] each; ``batches``, the number of
            calls of ``into``; and seconds: ``full`` f64[C], senders waiting for room, summed over their threads;
            ``lock`` f64[C], senders waiting for each other; ``empty``, the learner waiting for a first experience.
        """
        if self.last is not None:
            return {name: np.copy(value) if np.ndim(value) else value for name, value in self.last.items()}
        delivered, lost = self.delivered.copy(), self.lost.copy()
        dropped = self.shared["counts"][:, DROPPED].copy()  # read before ``produced``, so that it is never larger
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
        """Raise an error if the transport is closed or broken."""
        if self.last is not None:
            raise RuntimeError("the transport is closed")
        if self.broken:
            raise TransportBroken(self.broken)

    def kept(self, index):
        """Return how many experiences a collector that has ended produced and did not drop."""
        return int(self.shared["counts"][index, PRODUCED] - self.shared["counts"][index, DROPPED])

    def give_up(self, index, arrived, why):
        """Count what a dead collector lost, mark the transport as broken and raise TransportBroken.

        ``arrived`` is the number of its experiences that reached this process, delivered or not.
        """
        missing = self.kept(index) - arrived - int(self.lost[index])
        self.lost[index] += missing
        self.broken = f"collector {index} died and {why}: {missing} of its experiences are lost"
        raise TransportBroken(self.broken)

    def make_sender(self, index):
        """Create the sender of a collector that has none."""
        raise NotImplementedError

    def hand_over(self, into, most, seconds):
        """Implement :meth:`take`, for arguments that are checked."""
        raise NotImplementedError

    def settle(self, index):
        """Account for what a collector that has ended left behind."""
        raise NotImplementedError

    def end(self):
        """Release the resources of a subclass, for :meth:`close`."""
        raise NotImplementedError
