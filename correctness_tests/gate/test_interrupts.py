"""Interrupts while workers are there: none is lost, and none comes where a file or a process is being taken over."""

# ruff: noqa: PT012 - what comes after an interrupt is what is tested

from __future__ import annotations

import os
import select
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from rlgauge import answer_files, answers, workers
from rlgauge.command import ended
from rlgauge.interrupts import SIGNALS, by_sigterm, heard, held


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def interrupt(request):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests too may be run by nohup
    yield lambda: os.kill(os.getpid(), request.param)
    signal.signal(signal.SIGHUP, before)


def test_an_interrupt_that_nobody_waits_for_is_raised_at_the_end(interrupt):
    done = []
    with pytest.raises(KeyboardInterrupt):
        with held():
            interrupt()
            done.append("all of it")
        done.append("more")
    assert done == ["all of it"]


@pytest.mark.parametrize("context", [held, by_sigterm])
def test_what_nohup_started_goes_on_when_its_terminal_is_closed(context):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with context():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_that_came_before_is_heard(interrupt):
    with pytest.raises(KeyboardInterrupt), held():
        interrupt()
        with heard():
            pytest.fail("it was not heard")


def test_an_interrupt_ends_waiting(interrupt):
    reading, writing = os.pipe()
    timer = threading.Timer(0.05, interrupt)
    with pytest.raises(KeyboardInterrupt), held():
        timer.start()
        with heard():
            select.select([reading], [], [], 60)
        pytest.fail("it was not heard")
    timer.join()
    os.close(reading)
    os.close(writing)


def test_a_second_interrupt_does_not_disturb_what_the_first_one_ends(interrupt):
    done = []
    with pytest.raises(KeyboardInterrupt), held():
        try:
            interrupt()
            with heard():
                pass
        finally:
            interrupt()
            done.append("tidied up")
    assert done == ["tidied up"]


def test_an_error_is_not_hidden_by_an_interrupt(interrupt):
    with pytest.raises(ZeroDivisionError), held():
        interrupt()
        raise ZeroDivisionError
    with held(), heard():  # which that interrupt does not reach any more
        pass


def test_handlers_are_as_before_and_nothing_is_left_of_an_interrupt(interrupt):
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt), held():
        interrupt()
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with held(), heard():
        pass


def test_an_interrupt_after_the_waiting_is_held_back_again(interrupt):
    done = []
    with pytest.raises(KeyboardInterrupt), held():
        with heard():
            done.append("waited")
        interrupt()
        done.append("all of it")
    assert done == ["waited", "all of it"]


def test_a_command_that_is_told_to_end_does_so_with_code_130_and_hears_signals_as_before(interrupt):
    before = [signal.getsignal(number) for number in SIGNALS]
    assert ended(interrupt) == 130
    assert [signal.getsignal(number) for number in SIGNALS] == before
    with pytest.raises(ZeroDivisionError), by_sigterm():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_sigterm_is_heard_at_once_for_as_long_as_it_is_asked_for():
    done = []

    def handle(number, frame):
        done.append("as before")

    before = signal.signal(signal.SIGTERM, handle)  # of pytest, which hears it so itself
    try:
        with pytest.raises(KeyboardInterrupt), by_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("not heard")
        with by_sigterm():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["as before"]


def test_an_interrupt_is_heard_while_a_worker_is_waited_for(monkeypatch, interrupt):
    done, worker = [], object.__new__(workers.Worker)
    worker.buffer, worker.limit = b"", 60.0
    worker.process = SimpleNamespace(stdout=SimpleNamespace(fileno=lambda: -1))

    def select(*how):
        interrupt()
        done.append("not heard")
        return [True], [], []

    monkeypatch.setattr(workers, "select", SimpleNamespace(select=select))
    monkeypatch.setattr(workers, "os", SimpleNamespace(read=lambda *how: b'{"a": 1}\n'))
    with pytest.raises(KeyboardInterrupt), held():
        worker.reply()
    assert done == []


def test_an_interrupt_between_a_file_and_its_reader_waits_for_both(tmp_path, monkeypatch, interrupt):
    answer_files.save(tmp_path / "a.answer", np.zeros(3))
    opened, found = open, []

    def interrupted(*args, **kwargs):
        file = opened(*args, **kwargs)
        interrupt()
        return file

    with pytest.raises(KeyboardInterrupt), held(), monkeypatch.context() as patched:
        patched.setattr("io.open", interrupted)
        found.append(answers.same(tmp_path / "a.answer", tmp_path / "a.answer", 0))
    assert found == [True]
