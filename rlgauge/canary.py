"""Cases whose outcome is known, in NumPy so that they cost little: the same on both sides, and slower on one."""

from __future__ import annotations

import os
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .process import cores
from .rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL
from .workers import SIDE

UNITS, SLOWDOWN = 40, 0.05


class Canary:
    """Sorts the same numbers a fixed number of times for each of its cores, which share the work.

    It offers what the gate uses of a prepared case.

    Args:
        units: how often each core sorts.
    """

    calls = 1  # for the gate: what it sorts in a sample is not cut

    def __init__(self, units: int) -> None:
        self.numbers = np.random.default_rng(0).random(20_000)
        self.work = [self.numbers] * (units * cores())
        self.threads = ThreadPoolExecutor(cores()) if cores() > 1 else None

    def call(self) -> Any:
        """Sort once."""
        return np.sort(self.numbers)

    def run(self) -> Any:
        """Sort as often as this canary does."""
        sorting = (self.threads.map if self.threads else map)(np.sort, self.work)
        return deque(sorting, maxlen=1).pop()

    def reset(self) -> None:
        """Nothing is changed."""

    def sample(self) -> float:
        """Return the seconds of one run."""
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start

    def measure_calls(self) -> int:
        """Return the calls of a sample, which are fixed."""
        return self.calls

    def settle(self) -> Any:
        """Return the answer."""
        return [self.run()]

    def close(self) -> None:
        """End its threads."""
        if self.threads:
            self.threads.shutdown()


def same() -> Canary:
    """Return the canary that does the same on both sides."""
    return Canary(UNITS)


def slowed() -> Canary:
    """Return the canary that does 5 % more on head's side."""
    return Canary(UNITS + round(UNITS * SLOWDOWN) * (os.environ[SIDE] == "head"))


CANARIES = {SAME: same, SLOWED: slowed, SAME_ON_ALL: same, SLOWED_ON_ALL: slowed}
