"""How a side takes its turns: the cores of a worker, and the number of calls, samples and blocks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .process import CPU_LIMIT, available_cores, cpu_limit

PAIR_SECONDS, MIN_BLOCKS = 6.0, 2  # maximum seconds of a case's blocks in a pair; minimum number of blocks
QUICK_PAIR_SECONDS = 3.0  # the same maximum in a quick comparison: its time is better spent on more pairs
NOISY_SECONDS = 0.5  # maximum seconds of a noisy case's blocks unless thorough
MAX_UNTIMED_TURN = 0.1  # maximum seconds of a turn that is mostly untimed
MIN_COLD_CALL = 0.015  # seconds from which a call needs no warm-up: refilling the caches takes little of its time
MIN_COLD_CALL_ON_ALL = 0.25  # the same on all cores, where it also wakes the library's threads


@dataclass(frozen=True)
class SamplePlan:
    """How a side takes its turn: a number of equal samples, after an optional warm-up.

    Attributes:
        calls: calls per sample.
        samples: samples per turn.
        warm: whether an uncounted warm-up call comes first.
        max_blocks: largest number of blocks in a pair; lower for long calls.
        max_noisy_blocks: the same for a noisy pair that is not thorough.
        turns: turns of each side in a block.
        once: each sample is the only call of a run of the test.
        iterations: number of runs of the function to which the time of a call is scaled; by default each side's own.
    """

    calls: int
    samples: int
    warm: bool
    max_blocks: int = 1 << 30
    max_noisy_blocks: int = 1 << 30
    turns: int = 2
    once: bool = False
    iterations: int | None = None


@dataclass(frozen=True)
class Cores:
    """The cores of a worker: either one, to which all its threads are pinned, or all of them.

    Attributes:
        all: ids of the cores that this process may use.
        one: id of the core to which workers are pinned; None if they use all.
    """

    all: tuple[int, ...]
    one: int | None

    @property
    def min_turn(self) -> float:
        """Least duration of a side's turn, in seconds; longer on all cores, where waiting threads add noise."""
        return 0.005 if self.one is not None else 0.04

    def plan(self, call: float, calls: int, wall: float | None = None, quick: bool = False) -> SamplePlan:
        """Return the sample plan of a case, which both sides use.

        On a slow machine a sample has fewer calls, so that it takes at most twice the least duration of a turn. If most
        of a call is untimed, for example its set-up, a turn may be shorter than that least duration.

        Args:
            call: timed seconds of a call.
            calls: calls of a sample that is long enough.
            wall: seconds of a call including its untimed parts; `call` by default.
            quick: whether long calls may get one block in a pair, and very long ones half of one.
        """
        wall = max(call, wall or 0.0)
        calls = min(calls, max(1, math.floor(2 * self.min_turn / call)))
        most = max(1, math.floor(MAX_UNTIMED_TURN / (calls * wall))) if wall > 2 * call else math.inf
        samples = int(min(most, math.ceil(self.min_turn / (calls * call))))
        warm = call < (MIN_COLD_CALL if self.one is not None else MIN_COLD_CALL_ON_ALL)
        block = 4 * wall * (samples * calls + warm)
        longest = QUICK_PAIR_SECONDS if quick else PAIR_SECONDS
        most = max(1 if quick else MIN_BLOCKS, math.floor(longest / block))
        turns = 1 if quick and block > longest else 2
        return SamplePlan(calls, samples, warm, most, math.floor(NOISY_SECONDS / block), turns)

    @property
    def threads(self) -> int:
        """Number of threads of a worker."""
        return len(self.all) if self.one is None else 1

    @contextmanager
    def share_core(self) -> Iterator[None]:
        """Pin this thread to the workers' core too: a context switch is faster than waking an idle core."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, before if self.one is None else {self.one})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def at_start(self, position: int) -> tuple[int, ...]:
        """Return the cores on which a worker starts: if they will be pinned, each side starts on its own core.

        `position` is 0 for the first worker of a pair to start, 1 for the second.
        """
        return self.all if self.one is None else (self.all[position % len(self.all)],)


def cores(all_cores: bool, limit: Path = CPU_LIMIT) -> Cores:
    """Return the cores of this process, or the last of them for cases that run on one core.

    A container may see more cores than it may keep busy; the file `limit` has that number.
    """
    here = available_cores()
    return Cores(here[: cpu_limit(limit)], None) if all_cores else Cores(here, here[-1])
