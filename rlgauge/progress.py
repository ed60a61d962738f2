"""How far a command is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

QUIET = 5.0  # seconds between two plain lines that say no more than how far it is
Thing = TypeVar("Thing")


def about(seconds: float) -> str:
    """Return a time in words, as in ``about 3 min``.

    Args:
        seconds: the time.
    """
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def left(seconds: float) -> str:
    """Return how much time is left in words, as in ``about 3 min left``.

    Args:
        seconds: the time.
    """
    return f"{about(seconds)} left"


class Progress(AbstractContextManager["Progress"]):
    """Shows done of total and the time left, on standard error.

    On a terminal it is a bar, with the lines above it; it is drawn at each step only, as a thread that draws would take
    time from what is measured. Elsewhere, and where ``log`` is given, it is plain lines as in
    ``[12/368, about 3 min left] line``.

    Args:
        total: how many things are to be done.
        what: what they are, as in ``pairs of processes``.
        log: where lines go instead, as pytest's ``terminalreporter.write_line``.

    Raises:
        ValueError: nothing is to be done.
    """

    def __init__(self, total: int, what: str, log: Callable[[str], Any] | None = None) -> None:
        if total < 1:
            raise ValueError(f"total: got {total} {what}, wanted 1 or more")
        self.total, self.what, self.done = total, what, 0
        self.bar = bar() if log is None and sys.stderr.isatty() else None
        self.log = log or (lambda line: print(line, file=sys.stderr, flush=True))

    def __enter__(self) -> Progress:
        self.start = self.told = time.monotonic()
        if self.bar:
            self.task = self.bar.add_task(self.what, total=self.total)
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()

    def say(self, line: str) -> None:
        """Print a line that is no step.

        Args:
            line: to print.
        """
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self.log(line)

    def step(self, line: str = "") -> None:
        """Count one thing as done; print its line, or, every few seconds, how far it is.

        Args:
            line: to print, if any.
        """
        self.done += 1
        now = time.monotonic()
        if self.bar:
            if line:
                self.say(line)
            self.bar.update(self.task, completed=self.done, total=self.total, refresh=True)
        elif line or now - self.told >= QUIET:
            self.told = now
            self.log(f"[{self.done}/{self.total}{self.remaining(now)}] {line or self.what}")

    def skip(self, count: int) -> None:
        """Take so many things off those to be done.

        Args:
            count: how many.
        """
        self.total -= count

    def remaining(self, now: float) -> str:
        """Return the time left by the mean of the steps so far, nothing after the last.

        Args:
            now: seconds by the monotonic clock.
        """
        todo = self.total - self.done
        return f", {left((now - self.start) / self.done * todo)}" if todo > 0 else ""


def bar() -> Any:
    """Return a bar that is drawn when it is told to."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    return Bar(*columns, console=console, auto_refresh=False, redirect_stdout=False, speed_estimate_period=1e9)


def tracked(things: Iterable[Thing], total: int, what: str, log: Callable[[str], Any] | None = None) -> Iterator[Thing]:
    """Return the things one by one, showing how many there were so far.

    Args:
        things: what is done one after the other.
        total: how many they are.
        what: what they are called, in the plural.
        log: prints a line, instead of standard error.
    """
    with Progress(total, what, log) as progress:
        for thing in things:
            progress.step()
            yield thing
