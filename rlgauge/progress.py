"""Progress of a command: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from importlib.util import find_spec
from types import TracebackType
from typing import Any

LOG_INTERVAL = 5.0  # seconds between plain lines that only show the progress


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 benchmark`` or ``2 benchmarks``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def to_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def rounded(seconds: float) -> str:
    """Format a duration in seconds or minutes, for example ``3 min``."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def about(seconds: float) -> str:
    """Format an estimated duration, for example ``about 3 min``."""
    return f"about {rounded(seconds)}"


def left(seconds: float) -> str:
    """Format the remaining time, for example ``about 3 min left``."""
    return f"{about(seconds)} left"


class Progress(AbstractContextManager["Progress"]):
    """Shows the steps done and the remaining time on standard error.

    On a terminal this is a bar below the printed lines, if rich is installed. It is redrawn only at steps, since a
    thread that redraws it would take time from the measurement. Elsewhere it prints lines such as
    ``[12/368, about 3 min left] line``.

    Args:
        total: number of steps, at least 1.
        what: plural noun for the steps, such as ``pairs of processes``.
    """

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done = total, what, 0
        self.bar = bar() if sys.stderr.isatty() and find_spec("rich") else None

    def __enter__(self) -> Progress:
        self.start = self.logged = time.monotonic()
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
        """Print a line without counting a step."""
        if self.bar:
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            to_stderr(line)

    def step(self, line: str = "") -> None:
        """Count a step; print its line or, every few seconds, the progress."""
        self.done += 1
        now = time.monotonic()
        if self.bar:
            if line:
                self.say(line)
            self.bar.update(self.task, completed=self.done, total=self.total, refresh=True)
        elif line or now - self.logged >= LOG_INTERVAL:
            self.logged = now
            to_stderr(f"[{self.done}/{self.total}{self.remaining(now)}] {line or self.what}")

    def remaining(self, now: float) -> str:
        """Return the remaining time, extrapolated from the steps so far; empty after the last step."""
        todo = self.total - self.done
        return f", {left((now - self.start) / self.done * todo)}" if todo > 0 else ""


def bar() -> Any:
    """Return a rich progress bar that is only redrawn on request."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    return Bar(*columns, console=console, auto_refresh=False, redirect_stdout=False, speed_estimate_period=1e9)
