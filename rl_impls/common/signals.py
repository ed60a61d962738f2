"""Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a command, without SIGHUP if nohup ignores it."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]


def interrupt(number: int, frame: FrameType | None) -> None:
    """Signal handler that raises KeyboardInterrupt with the signal's number."""
    raise KeyboardInterrupt(number)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn each ending signal into KeyboardInterrupt, so that processes are stopped and files removed."""
    before = {number: signal.signal(number, interrupt) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code of a command ended by a signal, 128 plus its number."""
    return 128 + int(error.args[0] if error.args else signal.SIGINT)
