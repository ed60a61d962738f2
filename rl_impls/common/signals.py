"""Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a command; SIGHUP is not among them where nohup ignores it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt with the number of the signal."""
    raise KeyboardInterrupt(number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let each of these signals raise KeyboardInterrupt, so that processes are ended and files removed."""
    before = {number: signal.signal(number, interrupt) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code of a command that a signal ended: 128 and its number."""
    return 128 + int(error.args[0] if error.args else signal.SIGINT)
