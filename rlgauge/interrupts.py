"""Ctrl-C while a pair of workers is there: it is heard where the gate waits for them, and nowhere else.

Elsewhere it could come between a file or a process and whoever is to close it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupts:
    """Takes note of an interrupt, and raises it where that does no harm."""

    def __init__(self) -> None:
        self.came = self.waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.came = True
        if self.waiting:
            raise KeyboardInterrupt


OURS = Interrupts()  # one, as a process has one set of handlers


def but_nohup(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return these signals, without SIGHUP where nohup has this process go on when its terminal is closed.

    Args:
        numbers: of signals.
    """
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [number for number in numbers if not (ignored and number == signal.SIGHUP)]


@contextmanager
def by_sigterm() -> Iterator[None]:
    """Let SIGTERM, and a terminal that is closed, interrupt as Ctrl-C does: what was started ends, files are gone."""
    ending = but_nohup(signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Hold interrupts back, other than in :func:`heard`, until this ends.

    Raises:
        KeyboardInterrupt: at the end, where one came that was not heard.
    """
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
    """Let interrupts through that are held, one that came before too.

    Raises:
        KeyboardInterrupt: an interrupt.
    """
    OURS.waiting = True
    try:
        if OURS.came:
            raise KeyboardInterrupt
        yield
    finally:
        OURS.waiting = False
