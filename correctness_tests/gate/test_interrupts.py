"""Interrupts while workers exist: none is lost, and none can leave a file open or a process running."""

# ruff: noqa: PT012 - the tests check the statements after an interrupt

import errno
import os
import select
import signal
import threading

import pytest

from correctness_tests.repositories.made import eventually
from correctness_tests.waiting import alive
from rlgauge import process
from rlgauge.command import ended
from rlgauge.interrupts import SIGNALS, allow_interrupts, by_sigterm, defer_interrupts
from rlgauge.rule import GateError


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def interrupt(request):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, which ignores it
    yield lambda: os.kill(os.getpid(), request.param)
    signal.signal(signal.SIGHUP, before)


def test_a_deferred_interrupt_is_raised_at_the_end(interrupt):
    done = []
    with pytest.raises(KeyboardInterrupt):
        with defer_interrupts():
            interrupt()
            done.append("all of it")
        done.append("more")
    assert done == ["all of it"]


@pytest.mark.parametrize("context", [defer_interrupts, by_sigterm])
def test_nohup_ignores_a_closed_terminal(context):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with context():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_ends_waiting(interrupt):
    reading, writing = os.pipe()
    timer = threading.Timer(0.05, interrupt)
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        timer.start()
        with allow_interrupts():
            select.select([reading], [], [], 60)
        pytest.fail("the interrupt was not raised")
    timer.join()
    os.close(reading)
    os.close(writing)


def test_a_pending_interrupt_is_raised_where_allowed_and_a_second_does_not_disturb_tidying_up(interrupt):
    done = []
    with pytest.raises(KeyboardInterrupt), defer_interrupts():
        try:
            interrupt()
            with allow_interrupts():
                done.append("not interrupted")
        finally:
            interrupt()
            done.append("tidied up")
    assert done == ["tidied up"]


def test_an_error_is_not_hidden_by_an_interrupt_which_ends_the_next_measurement(interrupt):
    with pytest.raises(ZeroDivisionError), defer_interrupts():
        interrupt()
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), defer_interrupts(), allow_interrupts():
        pytest.fail("the interrupt was lost")
    with defer_interrupts(), allow_interrupts():  # it is no longer pending
        pass


def test_an_interrupted_command_ends_with_code_130_and_restores_handlers(interrupt):
    before = [signal.getsignal(number) for number in SIGNALS]
    assert ended(interrupt) == 130
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(ZeroDivisionError), by_sigterm():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("error", [GateError("no such revision"), OSError(errno.ENOSPC, "No space left on device")])
def test_a_mistake_or_a_full_disk_ends_a_command_with_a_line_and_code_2(capsys, error):
    def run():
        raise error

    assert ended(run) == 2
    assert capsys.readouterr().err == f"{error}\n"


def test_an_interrupted_command_ends_with_the_children_of_its_program(tmp_path):
    child = tmp_path / "child"
    with pytest.raises(KeyboardInterrupt), process.started(["sh", "-c", f"sleep 600 & echo $! > {child}; wait"]):
        assert eventually(lambda: child.exists() and child.read_text().endswith("\n"))
        raise KeyboardInterrupt
    assert eventually(lambda: not alive(child.read_text().strip()))
