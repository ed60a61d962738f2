"""Progress as a user sees it, on a terminal and without one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from types import SimpleNamespace

import pytest

from rlgauge import progress
from rlgauge.progress import Progress, about, left, tracked

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


def test_one_thing_is_something_to_do(clock):
    said = []
    with Progress(1, "rows", said.append) as shown:
        shown.step("all")
    assert said == ["[1/1] all"]


def test_nothing_to_do_is_refused():
    with pytest.raises(ValueError, match=r"^total: got 0 rows, wanted 1 or more"):
        Progress(0, "rows")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "about 5 s left"), (89, "about 89 s left"), (90, "about 2 min left"), (180, "about 3 min left")],
)
def test_time_left_in_words(seconds, words):
    assert left(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "about 0 s"), (1.6, "about 2 s"), (89.9, "about 90 s"), (90, "about 2 min"), (3600, "about 60 min")],
)
def test_a_time_in_words(seconds, words):
    assert about(seconds) == words


class Bar:
    """Takes note of what is asked of a bar."""

    def __init__(self):
        self.asked = []
        self.console = SimpleNamespace(print=lambda line, **how: self.asked.append(("print", line, how)))

    def add_task(self, what, total):
        self.asked.append(("task", what, total))
        return "the task"

    def start(self):
        self.asked.append("start")

    def stop(self):
        self.asked.append("stop")

    def update(self, task, **how):
        self.asked.append((task, how))


@pytest.fixture
def bar(monkeypatch):
    """A terminal, with a bar that takes note of what is asked of it."""
    made = Bar()
    monkeypatch.setattr(progress, "bar", lambda: made)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    return made


def test_a_bar_is_drawn_at_each_step_and_stopped_also_where_something_fails(bar):
    def failing():
        with Progress(3, "rows") as shown:
            shown.step("[a line]")
            shown.skip(1)
            shown.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    plainly = {"markup": False, "highlight": False, "soft_wrap": True}
    assert bar.asked == [
        ("task", "rows", 3),
        "start",
        ("print", "[a line]", plainly),
        ("the task", {"completed": 1, "total": 3, "refresh": True}),
        ("the task", {"completed": 2, "total": 2, "refresh": True}),
        "stop",
    ]


def test_lines_that_go_elsewhere_are_plain_on_a_terminal_too(bar):
    said = []
    with Progress(2, "rows", said.append) as shown:
        shown.say("before")
        shown.step("first")
    assert said == ["before", "[1/2, about 0 s left] first"]
    assert bar.asked == []


def test_what_is_tracked_is_counted_of_its_total_when_it_is_there(clock):
    said = []
    things = tracked("abc", 9, "letters", said.append)
    for letter in things:
        clock[0] += 10 if letter == "a" else 0
    assert said == ["[2/9, about 35 s left] letters"]


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
