"""Progress as a user sees it, on a terminal and without one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

import pytest

from rlgauge import progress
from rlgauge.progress import Progress, left, tracked

from .commands import environment, python


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when it is told to."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_line_says_done_of_total_and_the_time_left_by_the_mean_of_the_steps(clock):
    said = []
    with Progress(4, "rows", said.append) as shown:
        for seconds, line in ((100, "first"), (40, "second"), (1, "third"), (1, "last")):
            clock[0] += seconds
            shown.step(line)
    assert said == [
        "[1/4, about 5 min left] first",
        "[2/4, about 2 min left] second",
        "[3/4, about 47 s left] third",
        "[4/4] last",
    ]


def test_what_is_skipped_is_neither_done_nor_left(clock):
    said = []
    with Progress(6, "rows", said.append) as shown:
        for number in range(4):
            clock[0] += 60
            shown.step(f"row {number}")
            if number == 1:
                shown.skip(2)
    assert said[1:] == ["[2/6, about 4 min left] row 1", "[3/4, about 60 s left] row 2", "[4/4] row 3"]


def test_steps_without_a_line_are_told_every_few_seconds_only(clock):
    said = []
    with Progress(100, "pairs", said.append) as shown:
        for _ in range(100):
            clock[0] += 1
            shown.step()
    assert len(said) == 20
    assert said[0] == "[5/100, about 2 min left] pairs"


def test_what_is_tracked_comes_through_as_it_is(clock):
    assert list(tracked(iter("abc"), 3, "letters", lambda line: None)) == ["a", "b", "c"]


def test_a_thing_is_told_when_it_is_there_and_after_a_line_it_is_quiet_again(clock):
    said = []
    for letter in tracked("abcd", 4, "letters", said.append):
        said.append(letter)
        clock[0] += 3
    assert said == ["a", "b", "[3/4, about 2 s left] letters", "c", "d"]
    with Progress(4, "rows", said.append) as shown:
        said.clear()
        for line in ("", "a line", "", ""):
            clock[0] += 3
            shown.step(line)
    assert said == ["[2/4, about 6 s left] a line", "[4/4] rows"]


def test_nothing_to_do_is_refused():
    with pytest.raises(ValueError, match=r"^total: got 0 rows, wanted 1 or more"):
        Progress(0, "rows")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "about 5 s left"), (89, "about 89 s left"), (90, "about 2 min left"), (180, "about 3 min left")],
)
def test_time_left_in_words(seconds, words):
    assert left(seconds) == words


SHOWN = """
from rlgauge.progress import Progress
import threading
with Progress(2, "rows") as shown:
    shown.say("[before]")
    shown.step("[first]")
    shown.step()
    print(threading.active_count())
"""


def test_without_a_terminal_lines_go_to_standard_error():
    done = python("-c", SHOWN)
    assert done.stderr == "[before]\n[1/2, about 0 s left] [first]\n"


def test_a_terminal_gets_a_bar_with_the_lines_above_it_and_no_thread_draws_it():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SHOWN]
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, env=environment(TERM="xterm"))
    os.close(theirs)
    seen = b""
    try:
        while part := read(ours):
            seen += part
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    text = seen.decode()
    assert out == b"1\n"
    assert "[before]" in text
    assert text.index("[first]") < text.index("1/2") < text.rindex("2/2")


def read(terminal):
    """Return what comes next within a minute, nothing once the other end is closed."""
    assert select.select([terminal], [], [], 60)[0], "waited 60 s for a line on the terminal"
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
