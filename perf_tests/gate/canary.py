"""Cases whose outcome is known, in NumPy so that they cost little: the same on both sides, and slower on one."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from .rule import SAME, SLOWED

SIDE = "RLGAUGE_GATE_SIDE"  # set to base or head by the parent
UNITS, SLOWDOWN = 40, 0.05


class Canary:
    """Sorts the same numbers a fixed number of times; offers what the gate uses of a prepared case."""

    calls = 1  # for the gate: what it sorts in a sample is not cut

    def __init__(self, units: int) -> None:
        self.units, self.numbers = units, np.random.default_rng(0).random(20_000)

    def call(self) -> Any:
        """Sort once."""
        return np.sort(self.numbers)

    def run(self) -> Any:
        """Sort as often as this canary does."""
        for _ in range(self.units):
            out = self.call()
        return out

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
        """Nothing is held."""


def slowed() -> Canary:
    """Return the canary that does 5 % more on head's side."""
    return Canary(UNITS + round(UNITS * SLOWDOWN) * (os.environ[SIDE] == "head"))


CANARIES = {SAME: lambda: Canary(UNITS), SLOWED: slowed}
