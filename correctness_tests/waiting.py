"""Time limits for the threads, processes and sockets of a test."""

import contextlib
import faulthandler
import multiprocessing
import signal
import subprocess
import time
from pathlib import Path

import pytest

SECONDS = 180  # other processes may use the cores


@contextlib.contextmanager
def at_most(seconds, what):
    """Fail if the block takes longer; end this process after twice as long, in case it waits outside Python."""

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


def until(condition, what, seconds=SECONDS / 2):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def state_of(pid):
    """Return the state of a process, a letter as shown by ``ps``; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid):
    """Return whether a process is still running; a zombie is not."""
    return state_of(pid) not in (None, "Z")


def children():
    """Return the ids of this process's live children that multiprocessing started."""
    return [child.pid for child in multiprocessing.active_children()]


@contextlib.contextmanager
def started(command, **options):
    """Start a process, and kill it at the end of the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()
