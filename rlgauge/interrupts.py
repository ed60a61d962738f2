"""Defer Ctrl-C while a pair of workers exists, except where the gate waits for them.

Elsewhere an interrupt could leave a file open or a process running.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = [
    number
    for number in signal.Signals
    if number.name in ("SIGTERM", "SIGINT", "SIGHUP")  # Windows lacks the last
]


class DeferringHandler:
    """Signal handler that records an interrupt, and raises it only while interrupts are allowed."""

    def __init__(self) -> None:
        self.pending = self.allowed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Record a signal."""
        self.pending = True
        if self.allowed:
            raise KeyboardInterrupt


HANDLER = DeferringHandler()  # a single instance, since signal handlers are global to the process


def without_nohup(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the given signals, without SIGHUP if it is ignored, as under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in numbers if not (ignored and number == signal.SIGHUP)]


@contextmanager
def by_sigterm() -> Iterator[None]:
    """Make SIGTERM, and SIGHUP from a closed terminal, interrupt like Ctrl-C, so that cleanup runs."""
    numbers = without_nohup(signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts, except within :func:`allow_interrupts`; raise a pending one as KeyboardInterrupt at the end.

    After an error within the context, that error is raised and the interrupt stays pending, because the command may go
    on to measure other tests.
    """
    before = {number: signal.signal(number, HANDLER) for number in without_nohup(*SIGNALS)}
    try:
        yield
    except KeyboardInterrupt:
        HANDLER.pending = False
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if HANDLER.pending:
        HANDLER.pending = False
        raise KeyboardInterrupt


@contextmanager
def allow_interrupts() -> Iterator[None]:
    """Allow deferred interrupts; raise KeyboardInterrupt for one that is already pending, too."""
    HANDLER.allowed = True
    try:
        if HANDLER.pending:
            raise KeyboardInterrupt
        yield
    finally:
        HANDLER.allowed = False
