"""The interface of the transports that carry experiences from collectors to the learner.

An experience is a frame u8[*shape], an action i32, a reward f32, whether the step terminated the episode, and ``time``
i32, the step's index in its episode, from 0. Each environment of each collector has a sender, and one process takes
the experiences of all. Every loss is counted; for each sender

    produced = delivered + lost + waiting

A transport may be used by one thread of the learner, and a sender by one thread of its collector.
"""

import multiprocessing
from abc import ABC, abstractmethod
from multiprocessing.context import assert_spawning
from time import perf_counter, sleep

import numpy as np

from ..common.shared_arrays import SharedArrays
from ..common.workers import WorkersEnded

FIELDS = {"actions": np.int32, "rewards": np.float32, "terminated": np.bool_, "times": np.int32}  # besides the frame
LINE = 8  # 8-byte numbers per cache line; no two processes write to the same line
FULL, LOCK, PUT = 0, 1, 2  # indices into a sender's line of ``seconds``
SHORT, LONG = 2e-5, 1e-3  # seconds of the first sleep while waiting, and of the longest


class TransportBroken(WorkersEnded):
    """Experiences cannot be delivered, because a collector died or the learner is gone."""


def check_learner():
    """Raise TransportBroken in a collector whose learner has ended."""
    learner = multiprocessing.parent_process()
    if learner is not None and not learner.is_alive():
        raise TransportBroken("the learner has ended")


class Sender(ABC):
    """A collector's end of a transport, for one environment. It can be passed only to a process that is starting.

    ``shared`` has the counters of all senders, and other arrays of the transport, in shared memory.
    """

    def __init__(self, index, shared):
        self.index, self.shared = index, shared
        self.produced, self.seconds = shared["produced"][index].data, shared["seconds"][index].data

    def __reduce__(self):
        assert_spawning(self)
        return type(self), (self.index, self.shared)

    @abstractmethod
    def put(self, frame, action, reward, terminated, time):
        """Put an experience, and wait until there is room for it; the frame may be overwritten afterwards.

        Raises TransportBroken if the learner is gone.
        """

    def so_far(self):
        """Return how many experiences were produced, including those of earlier senders of the same environment."""
        return self.produced[0]


class Transport(ABC):
    """Carries the experiences of several environments to the learner.

    ``streams`` is the number of environments, ``shape`` that of a frame, and ``capacity`` the number of experiences
    that may wait, over all environments. ``arrays`` gives shape and dtype of further arrays in shared memory, by name.
    """

    def __init__(self, streams, shape, capacity, arrays=None):
        self.streams, self.shape, self.capacity = streams, shape, capacity
        layout = {"produced": ((streams, LINE), np.int64), "seconds": ((streams, LINE), np.float64)}
        self.shared = SharedArrays(layout | (arrays or {}))
        self.delivered, self.lost = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
        self.batches, self.empty = 0, 0.0
        self.broken, self.last = "", None

    @abstractmethod
    def sender(self, index):
        """Return the sender of an environment, or of the collector that replaces a dead one."""

    @abstractmethod
    def deliver(self, into):
        """Deliver what has arrived, without waiting; return how many experiences, see :meth:`take`."""

    @abstractmethod
    def ended(self, index):
        """Account for what the dead collector of an environment left behind.

        Raises TransportBroken if the transport cannot continue; then only :meth:`close` is possible.
        """

    @abstractmethod
    def end(self):
        """Release the resources of a subclass, for :meth:`close`."""

    def take(self, into, seconds=0.0):
        """Deliver waiting experiences; return how many.

        Args:
            into: called with ``index, frames, actions, rewards, terminated, times`` of one environment, arrays of one
                length in the order in which they were put, valid only during the call.
            seconds: time to wait for the first experience.

        Raises:
            TransportBroken: a collector died, and the transport can only be closed.
        """
        if self.broken:
            raise TransportBroken(self.broken)
        taken, before, nap = self.deliver(into), perf_counter(), SHORT
        end = before + seconds
        while not taken and before < end:
            sleep(min(nap, end - before))
            nap = min(2 * nap, LONG)
            now = perf_counter()
            self.empty += now - before
            before, taken = now, self.deliver(into)
        return taken

    def close(self):
        """Release all resources; what waits is lost. The collectors must have ended."""
        if self.last is None:
            self.end()
            last = self.counters()
            last["lost"] += last["waiting"]
            last["waiting"][:] = 0
            self.last, self.shared = last, None

    def counters(self):
        """Return the counters by name.

        Returns:
            ``produced``, ``delivered``, ``lost`` and ``waiting``, i64[streams] each; ``batches``, the number of calls
            of ``into``; and seconds: ``full`` f64[streams], senders waiting for room; ``lock`` f64[streams], senders
            waiting for each other; ``empty``, the learner waiting for a first experience; ``putting`` f64[streams],
            collectors calling ``put``, waiting for room included.
        """
        if self.last is not None:
            return self.last
        produced, seconds = self.shared["produced"][:, 0].copy(), self.shared["seconds"].copy()
        return {
            "produced": produced,
            "delivered": self.delivered.copy(),
            "lost": self.lost.copy(),
            "waiting": produced - self.delivered - self.lost,
            "batches": self.batches,
            "lock": seconds[:, LOCK],
            "full": seconds[:, FULL],
            "empty": self.empty,
            "putting": seconds[:, PUT],
        }
