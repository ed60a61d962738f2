"""Commands that measure in the same repository run one after the other."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from rlgauge.revisions import measurement_lock

from .made import INI, ROOT, Repository, flat, work

MEASURING = """
import subprocess
import sys
from pathlib import Path

from rlgauge.revisions import measurement_lock

with measurement_lock(Path(sys.argv[1])):
    subprocess.Popen(["sleep", "600"])
    print("measuring", flush=True)
    sys.stdin.read()
"""
WAITING = "waiting for another measurement in this clone (pid {})"


def line_of(stream, limit=30):
    assert select.select([stream], [], [], limit)[0], f"no output within {limit} s"
    return stream.readline()


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a process, which takes the lock and starts a child."""
    started = []

    def start():
        command, pipe = [sys.executable, "-c", MEASURING, str(tmp_path)], subprocess.PIPE
        started.append(
            subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
        )
        return started[-1]

    yield start
    for process in started:
        with process, suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_second_process_waits_says_so_and_begins_when_the_first_is_killed(start):
    first = start()
    assert line_of(first.stdout) == b"measuring\n"
    second = start()
    assert line_of(second.stderr).decode() == f"{WAITING.format(first.pid)}\n"
    assert not select.select([second.stdout], [], [], 0.5)[0]
    first.kill()  # its child keeps running
    assert line_of(second.stdout) == b"measuring\n"
    second.stdin.close()
    assert second.wait(30) == 0
    third = start()
    assert line_of(third.stdout) == b"measuring\n"


def test_a_command_that_measures_waits_for_the_lock(tmp_path):
    toy = Repository(tmp_path / "toy", flat() | INI)
    toy.write({"toy/sorting.py": work(slow=110, kept=100)})
    with measurement_lock(toy.root / ".git" / "rlgauge"):
        command = "pytest", "--gate-against", "HEAD", "-s", "-p", "no:cacheprovider"
        toy.interrupted(WAITING.format(os.getpid()), signal.SIGKILL, *command)
