"""Defer Ctrl-C while a pair of workers exists, except where the gate waits for them.

Elsewhere an interrupt could leave a file open or a process running.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupts:
    """Signal handler that records an interrupt, and raises it only where that is safe."""

    def __init__(self) -> None:
        self.came = self.waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Record a signal."""
        self.came = True
        if self.waiting:
            raise KeyboardInterrupt


OURS = Interrupts()  # a single instance, since signal handlers are global to the process


def but_nohup(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the given signals, without SIGHUP if it is ignored, as under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in numbers if not (ignored and number == signal.SIGHUP)]


@contextmanager
def by_sigterm() -> Iterator[None]:
    """Make SIGTERM, and SIGHUP from a closed terminal, interrupt like Ctrl-C, so that cleanup runs."""
    ending = but_nohup(signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Defer interrupts, except within :func:`heard`; raise KeyboardInterrupt at the end if one is still pending."""
    before = {number: signal.signal(number, OURS) for number in but_nohup(*SIGNALS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        came, OURS.came = OURS.came, False
    if came:
        raise KeyboardInterrupt


@contextmanager
def heard() -> Iterator[None]:
    """Allow deferred interrupts; raise KeyboardInterrupt for one that came before, too."""
    OURS.waiting = True
    try:
        if OURS.came:
            raise KeyboardInterrupt
        yield
    finally:
        OURS.waiting = False
