"""Cases whose outcome is known, cheap and of the standard library alone: one the same on both sides, one slowed."""

from __future__ import annotations

import hashlib
import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from .process import cores
from .rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL
from .workers import SIDE

UNITS, SLOWDOWN = 40, 0.05
DATA = bytes(range(256)) * 4096  # a MiB: hashed in 0.6 ms, or 2 ms by a processor without instructions for SHA


class Canary:
    """Hashes the same bytes a fixed number of times for each of its cores, which share the work.

    It has what :class:`.worker.Prepared` asks for. Hashing releases the GIL, so the threads do run at once.

    Args:
        units: how often each core hashes.
    """

    calls = 1  # for the gate: a sample is always one run

    def __init__(self, units: int) -> None:
        self.work = [DATA] * (units * cores())
        self.threads = ThreadPoolExecutor(cores()) if cores() > 1 else None

    def call(self) -> bytes:
        """Hash once."""
        return hashed(DATA)

    def run(self) -> bytes:
        """Hash as often as this canary does."""
        hashing = (self.threads.map if self.threads else map)(hashed, self.work)
        return deque(hashing, maxlen=1).pop()

    def reset(self) -> None:
        """Do nothing: a run changes nothing."""

    def sample(self) -> float:
        """Return the seconds of one run."""
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def measure_calls(self) -> int:
        """Return the calls of a sample, which are fixed."""
        return self.calls

    def settle(self) -> list[bytes]:
        """Run once; return the answer."""
        return [self.run()]

    def close(self) -> None:
        """End its threads."""
        if self.threads:
            self.threads.shutdown()


def hashed(data: bytes) -> bytes:
    """Return the hash of some bytes: the unit of work."""
    return hashlib.sha256(data).digest()


def same() -> Canary:
    """Return the canary that does the same on both sides."""
    return Canary(UNITS)


def slowed() -> Canary:
    """Return the canary that does 5 % more on head's side."""
    return Canary(UNITS + round(UNITS * SLOWDOWN) * (os.environ[SIDE] == "head"))


CANARIES = {SAME: same, SLOWED: slowed, SAME_ON_ALL: same, SLOWED_ON_ALL: slowed}
