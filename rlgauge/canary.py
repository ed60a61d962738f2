"""Cheap standard-library cases with a known outcome: one identical on both sides, one slowed on head."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from .process import cores
from .rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL

UNITS = 40
SLOWDOWNS = {SAME: 0.0, SLOWED: 0.05, SAME_ON_ALL: 0.0, SLOWED_ON_ALL: 0.05}  # of head
DATA = bytes(range(256)) * 4096  # 1 MiB: hashed in 0.6 ms, or 2 ms on a processor without SHA instructions


class Canary:
    """Hashes the same bytes a fixed number of times per core, in parallel on all cores of the process.

    It implements :class:`.worker.Prepared`. Hashing releases the GIL, so the threads run concurrently.

    Args:
        units: number of hashes per core.
    """

    calls = 1  # a sample is always one run

    def __init__(self, units: int) -> None:
        self.work = [DATA] * (units * cores())
        self.clock = time.perf_counter
        self.threads = ThreadPoolExecutor(cores()) if cores() > 1 else None

    def call(self) -> bytes:
        """Hash once."""
        return sha256(DATA)

    def run(self) -> bytes:
        """Do all of this canary's hashing."""
        hashes = (self.threads.map if self.threads else map)(sha256, self.work)
        return deque(hashes, maxlen=1).pop()

    def reset(self) -> None:
        """Do nothing: a run has no state."""

    def sample(self) -> float:
        """Return the seconds of one run."""
        start = self.clock()
        self.run()
        return self.clock() - start

    def calibrate(self) -> int:
        """Return the fixed number of calls in a sample."""
        return self.calls

    def first_output(self) -> list[bytes]:
        """Run once; return the output."""
        return [self.run()]

    def close(self) -> None:
        """Shut down the threads."""
        if self.threads:
            self.threads.shutdown()


def sha256(data: bytes) -> bytes:
    """Hash some bytes, which is the unit of work."""
    return hashlib.sha256(data).digest()


def create(name: str, is_head: bool) -> Canary:
    """Return a canary by name; on head, a slowed one does 5% more work."""
    return Canary(UNITS + round(UNITS * SLOWDOWNS[name]) * is_head)
