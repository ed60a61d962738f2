"""Progress as a user sees it, on a terminal and without one."""

import os
import pty
import select
import subprocess
import sys

import pytest

from rlgauge import progress
from rlgauge.progress import Progress

from .commands import environment, python


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_line_shows_done_total_and_time_left(clock, capsys):
    with Progress(4, "rows") as shown:
        for seconds, line in ((100, "first"), (40, "second"), (1, "third"), (1, "last")):
            clock[0] += seconds
            shown.step(line)
    assert capsys.readouterr().err.splitlines() == [
        "[1/4, about 5 min left] first",
        "[2/4, about 2 min left] second",
        "[3/4, about 47 s left] third",
        "[4/4] last",
    ]


def test_steps_without_a_line_are_shown_every_few_seconds(clock, capsys):
    with Progress(100, "pairs") as shown:
        for _ in range(100):
            clock[0] += 1
            shown.step()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 20
    assert lines[0] == "[5/100, about 2 min left] pairs"


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


def on_terminal(code):
    """Run code whose standard error is a terminal; return what it prints there, and its standard output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, env=environment(TERM="xterm"))
    os.close(theirs)
    seen = b""
    try:
        while part := read(ours):
            seen += part
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return seen.decode(), out


def test_without_rich_a_terminal_shows_lines():
    text, _ = on_terminal(f"import sys\nsys.modules['rich'] = None{SHOWN}")
    assert text.splitlines() == ["[before]", "[1/2, about 0 s left] [first]"]


def test_terminal_shows_a_bar_below_the_lines():
    text, out = on_terminal(SHOWN)
    assert out == b"1\n"
    assert "[before]" in text
    assert text.index("[first]") < text.index("1/2") < text.rindex("2/2")


def read(terminal):
    """Return the next output within a minute, or nothing once the other end is closed."""
    assert select.select([terminal], [], [], 60)[0], "waited 60 s for a line on the terminal"
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
