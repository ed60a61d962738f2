"""Time limits of what a test starts: threads, processes, sockets."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import signal
import subprocess
import time
from pathlib import Path

import pytest

SECONDS = 180  # others may have the cores


@contextlib.contextmanager
def at_most(seconds, what):
    """Fail where the inside takes longer; what waits outside of Python ends with its process, after as long again."""

    def over(number, frame):
        pytest.fail(f"waited {seconds} s for {what}")

    before = signal.signal(signal.SIGALRM, over)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def limit(what, seconds=SECONDS):
    """Return a fixture that gives each test of a module that long."""

    @pytest.fixture(autouse=True)
    def limited():
        with at_most(seconds, what):
            yield

    return limited


def until(condition, what, seconds=SECONDS / 2):
    """Wait until a condition is met."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def state_of(pid):
    """The state of a process, a letter as ``ps`` has it, or None where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid):
    """Whether a process runs still; one that waits only to be collected does not."""
    return state_of(pid) not in (None, "Z")


def children():
    """The processes that this one has started with multiprocessing and that are still there."""
    return [child.pid for child in multiprocessing.active_children()]


@contextlib.contextmanager
def started(command, **options):
    """Yield a process, which is killed where the inside ends before it does."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()
