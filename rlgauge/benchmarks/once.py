"""Tests that ask for one call: ``benchmark.pedantic(function)`` with one round and no set-up, or the mark alone.

Such a function may use up its input, for example a queue, so that another call fails or finds no work. Each sample is
then the only call of a run of the test, with new fixtures of function scope. If a second call takes about as long as
the first, the test is timed like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from .timed import TimedFunction, is_used_up

LONG_CALL = 1.0  # seconds from which a call is not repeated as a trial, because new fixtures then cost little
SHORT_CALL = 1e-5  # seconds up to which a call is too short to compare its times
MAX_RATIO = 2.0  # largest ratio of the times of two calls that do the same work
LONG_FIRST_CALL, MAX_FIRST_RATIO = 0.001, 10.0  # first calls above both this time (seconds) and ratio are noted


class Trial:
    """Finds out whether a function can be called again: the first run of its test calls it twice, the second once.

    A long call is not repeated in the first run; the second then only shows whether the first call takes longer.

    Args:
        timed: the function, which this run of the test has called once.
        seconds: duration of that call, which is the first in this process.

    Attributes:
        note: a remark for the report, or an empty text.
    """

    def __init__(self, timed: TimedFunction, seconds: float) -> None:
        self.first_run, self.second, self.note = True, math.nan, ""
        alike = timed.timer is timed.clock and not timed.teardown  # `seconds` is wall time and includes the teardown
        self.seconds = seconds if alike else math.nan
        if seconds >= LONG_CALL or any(map(is_used_up, timed.iterators())):
            return
        with suppress(Exception, pytest.fail.Exception, pytest.skip.Exception):
            self.second = timed.time_call(*timed.arguments())

    def end_first_run(self, passed: bool) -> None:
        """Record whether the test passed although its function was called twice."""
        self.first_run = False
        if not passed:
            self.second = math.nan

    def once(self, first: float) -> bool:
        """Return whether the function has to be called once per run of the test; set the note.

        `first` is the time of the only call in the second run, in seconds.
        """
        differs = first > SHORT_CALL and not first / MAX_RATIO <= self.second <= first * MAX_RATIO
        once = differs or math.isnan(self.second)
        later = max(first, 1e-9) if once else max(first, self.second, 1e-9)
        if self.seconds > max(LONG_FIRST_CALL, MAX_FIRST_RATIO * later):
            times = f"{self.seconds / later:.0f} times as long as later calls"
            self.note = f"its first call takes {times}; only the later calls are timed"
        return once


class OnceRuns:
    """The runs of a test that a request needs; each gives one sample.

    Args:
        count: number of runs.
        reply: returns the reply to the request, given the seconds of each run's only call.
        clock: returns the time in seconds.
        limit: seconds after which no further run is started.
    """

    def __init__(
        self,
        count: int,
        reply: Callable[[list[float]], dict[str, Any]],
        clock: Callable[[], float],
        limit: float = math.inf,
    ) -> None:
        self.count, self.make_reply, self.clock = count, reply, clock
        self.end, self.seconds = clock() + limit, list[float]()

    def add(self, seconds: float) -> bool:
        """Add a sample; return whether another run is needed."""
        self.seconds.append(seconds)
        return len(self.seconds) < self.count and self.clock() < self.end

    def reply(self) -> dict[str, Any]:
        """Return the reply to the request."""
        return self.make_reply(self.seconds)
