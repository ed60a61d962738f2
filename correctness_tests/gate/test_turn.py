"""Gates take turns, and what measures for the gate waits for its own."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from perf_tests.gate.selfcheck import power
from rlgauge import bisect
from rlgauge.revisions import turn
from rlgauge.rule import Rule
from rlgauge.run import opened
from rlgauge.source import Case

from .sources import suite_of
from .toy import FIRST, ROOT, Toy

MEASURING = """
import subprocess
import sys
from pathlib import Path

from rlgauge.revisions import turn

with turn(Path(sys.argv[1])):
    subprocess.Popen(["sleep", "600"])
    print("measuring", flush=True)
    sys.stdin.read()
"""


def line_of(stream, limit=30):
    """Return the next line that a process writes."""
    assert select.select([stream], [], [], limit)[0], f"nothing was said in {limit} s"
    return stream.readline()


@pytest.fixture
def start(tmp_path):
    """Start a process that takes its turn and has a child. -> the process"""
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


def test_a_second_gate_waits_says_so_and_begins_when_the_first_is_killed(start):
    first = start()
    assert line_of(first.stdout) == b"measuring\n"
    second = start()
    assert line_of(second.stderr) == b"something else is measured in this clone (pid %d): waiting for it\n" % first.pid
    assert not select.select([second.stdout], [], [], 0)[0]
    first.kill()  # its child lives on
    assert line_of(second.stdout) == b"measuring\n"
    second.stdin.close()
    assert second.wait(30) == 0
    third = start()
    assert line_of(third.stdout) == b"measuring\n"


def held(cache):
    """Tell whether a turn is taken."""
    with (cache / "turn.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return Toy(tmp_path_factory.mktemp("toy"))


def test_a_turn_ends_with_an_error_too(tmp_path):
    cache = tmp_path / "new" / "cache"
    with pytest.raises(ZeroDivisionError), turn(cache):
        _ = 1 // (not held(cache))
    assert not held(cache)


def test_a_run_takes_its_turn(toy, tmp_path, monkeypatch):
    with opened(suite_of(monkeypatch, tmp_path), toy.root, "HEAD", Rule()):
        assert held(tmp_path)
    assert not held(tmp_path)


def test_a_search_takes_its_turn(toy, tmp_path, monkeypatch):
    with bisect.comparison(suite_of(monkeypatch, tmp_path), toy.root, Case(FIRST), Rule(), 0, 1.0):
        assert held(tmp_path)
    assert not held(tmp_path)


def test_measuring_the_gate_takes_its_turn(toy, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(power, "measured_pair", lambda *rest: seen.append(held(tmp_path)) or {"what": "pair"})
    monkeypatch.setattr(power.time, "monotonic", iter(range(100)).__next__)
    power.measure(suite_of(monkeypatch, tmp_path), toy.root, tmp_path / "power.jsonl", 2 / 60, lambda line: None)
    assert set(seen) == {True}
    assert not held(tmp_path)
