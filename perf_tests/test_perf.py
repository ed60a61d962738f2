"""The pytest-benchmark entry: every selected case x form x backend x axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from rl_impls.backends import BackendUnavailable

from .passes import Run
from .rows import row
from .suite.case import Variant


class Replay:
    """A clock for pytest-benchmark that goes by what was measured in the passes, asked before and after each sample."""

    __name__ = "Replay"

    def __init__(self) -> None:
        self.times: Iterator[float] = iter(())

    def load(self, seconds: list[float]) -> None:
        """Take samples.

        Args:
            seconds: of each sample.
        """
        self.times = (time for length in seconds for time in (0.0, length))

    def __call__(self) -> float:
        """Return the time."""
        return next(self.times)


CLOCK = Replay()


def report(benchmark: Any, seconds: list[float], calls: int) -> None:
    """Give pytest-benchmark samples of so many calls each; its own figures are seconds per call.

    Args:
        benchmark: pytest-benchmark's fixture.
        seconds: of each sample.
        calls: of each sample.
    """
    CLOCK.load(seconds)
    benchmark.pedantic(lambda: None, rounds=len(seconds), iterations=calls)


@pytest.mark.benchmark(timer=CLOCK)
def test_perf(
    benchmark: Any, variant: Variant, run: Run, limits: Mapping[str, float], unavailable: Callable[..., None]
) -> None:
    """Report one variant, as it was timed in the passes."""
    timed = run.timed[variant.id]
    if "unavailable" in timed.failure:
        unavailable(BackendUnavailable(*timed.failure["unavailable"]))
    if timed.failure:
        pytest.fail(timed.failure.get("trace", timed.failure["failed"]), pytrace=False)
    benchmark.group = variant.case.name
    report(benchmark, [timed.calls * sample["seconds"] for sample in timed.counted().values()], timed.calls)
    benchmark.extra_info |= row(timed, limits, run.threads)
