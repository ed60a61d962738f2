"""What a worker answers to a request, whatever its cases are, and how it ends."""

from __future__ import annotations

import gc
import io
import json
import os
import sys

import pytest

from rlgauge import answers, worker


class Clocked:
    """A prepared case by a clock that it turns itself: its samples take so long, one after the other."""

    def __init__(self, clock, *seconds):
        self.clock, self.seconds, self.calls, self.done = clock, list(seconds), 4, []

    def measure_calls(self):
        self.done.append("measured")
        self.clock[0] += 1000
        return self.calls

    def sample(self):
        seconds = self.seconds.pop(0)
        self.clock[0] += seconds + 1  # one is not timed
        self.done.append("sample")
        return seconds

    def reset(self):
        self.done.append("reset")

    def call(self):
        self.clock[0] += 0.25
        self.done.append("call")

    def close(self):
        self.done.append("closed")


class Serving(worker.Requests):
    """A worker that prepares nothing by itself."""

    def prepare(self, identity, answer=None, counted=False):
        return {"identity": identity, "answer": answer, "counted": counted}


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def side():
    return Serving()


def test_a_call_is_its_part_of_the_fastest_sample_and_its_wall_time_that_of_the_mean(side, clock):
    side.prepared = {"a": Clocked(clock, 8.0, 2.0, 14.0), "b": Clocked(clock)}
    assert side.measure("a") == {"calls": 4, "call": 0.5, "wall": (24 + 3) / 12}
    assert side.prepared["a"].done == ["measured", *["sample"] * 3]
    assert side.calls("b") == {"calls": 4}
    assert side.prepared["b"].done == ["measured"]


def test_samples_are_summed_and_come_after_one_call_from_a_reset(side, clock):
    side.prepared = {"a": Clocked(clock, 1.0, 2.0, 4.0)}
    assert side.sample("a", 2) == {"seconds": 3.0}
    made = side.prepared["a"]
    assert (made.done, made.calls) == (["reset", "call", "sample", "sample"], 4)
    made.done.clear()
    assert side.sample("a", 1, calls=9, warm=False) == {"seconds": 4.0}
    assert (made.done, made.calls) == (["sample"], 9)


def test_a_spin_counts(side, clock, monkeypatch):
    def read():
        clock[0] += 0.125
        return clock[0]

    monkeypatch.setattr(worker.time, "perf_counter", read)
    side.prepared = {"a": Clocked(clock, 1.0, 1.0, 1.0)}
    assert side.sample("a", 1, warm=False, spin=0.5) == {"seconds": 1.0 + 0.5 + 0.125}
    assert side.sample("a", 1, warm=False) == {"seconds": 1.0}


def test_what_is_closed_is_forgotten_and_nothing_else(side, clock):
    cases = {name: Clocked(clock) for name in "abc"}
    side.prepared = dict(cases)
    assert side.close("b") == {}
    assert list(side.prepared) == ["a", "c"]
    assert [case.done for case in cases.values()] == [[], ["closed"], []]
    side.close_all()
    assert side.prepared == {}
    assert [case.done for case in cases.values()] == [["closed"]] * 3


def test_a_line_is_a_request_with_its_arguments(side):
    assert side.answered('{"do": "hello"}\n') == {}
    told = {"identity": "a", "answer": "file", "counted": True}
    assert side.answered(json.dumps({"do": "prepare", **told})) == told
    assert side.answered('{"do": "prepare", "identity": "a"}') == {"identity": "a", "answer": None, "counted": False}


def test_all_threads_but_one_that_has_just_ended_are_moved_to_the_core_that_is_named(side, monkeypatch):
    moved = []

    def move(thread, cores):
        moved.append((thread, *cores))
        if thread == 1:
            raise ProcessLookupError

    monkeypatch.setattr(os, "listdir", lambda folder: ["1", "2"] if folder == "/proc/self/task" else [])
    monkeypatch.setattr(os, "sched_setaffinity", move)
    assert side.place(None) == {}
    assert moved == []
    assert side.place(0) == {}
    assert moved == [(1, 0), (2, 0)]


def test_a_failure_is_its_class_its_words_and_its_trace():
    try:
        raise KeyError("weights")
    except KeyError as error:
        found = worker.failure(error)
    assert found.keys() == {"failed", "trace"}
    assert found["failed"] == "KeyError: 'weights'"
    assert found["trace"].startswith("Traceback (most recent call last)")
    assert found["trace"].endswith("KeyError: 'weights'\n")


@pytest.fixture
def served(side, clock, monkeypatch):
    """Serve lines of standard input. -> what is answered, the code of the end, and the case that was left"""

    def run(text):
        ends, replies, left = [], io.StringIO(), Clocked(clock)
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        monkeypatch.setattr(os, "_exit", ends.append)
        side.prepared = {"a": left}
        try:
            worker.serve(side, replies)
        finally:
            served.found = replies.getvalue(), ends, left.done
        return served.found

    served = run
    return run


def test_lines_are_answered_until_there_are_no_more_then_all_is_closed(served):
    assert served('{"do": "hello"}\n{"do": "calls", "identity": "a"}\n') == (
        '{}\n{"calls": 4}\n',
        [0],
        ["measured", "closed"],
    )


def test_cases_are_closed_after_an_error_too_which_ends_the_worker(served):
    with pytest.raises(AttributeError, match="nothing_like_this"):
        served('{"do": "nothing_like_this"}\n{"do": "hello"}\n')
    assert served.found == ("", [], ["closed"])


def test_an_answer_is_written_where_a_file_is_named(tmp_path):
    worker.saved(None, [1])
    worker.saved("", [1])
    assert list(tmp_path.iterdir()) == []
    for name, folder in (("a", "/base"), ("b", "/head")):
        worker.saved(str(tmp_path / f"{name}.answer"), [f"{folder}/x", 1.0], [folder])
    assert answers.same(tmp_path / "a.answer", tmp_path / "b.answer", 0.0)


def test_a_worker_takes_its_cores_and_keeps_standard_output_for_answers(monkeypatch):
    done, kept = [], []
    monkeypatch.setattr(worker, "KEEP", kept)
    monkeypatch.setattr(sys, "argv", ["worker", "0,2", "4", "kept"])
    monkeypatch.setattr(os, "dup", lambda number: done.append(("dup", number)) or 77)
    monkeypatch.setattr(os, "dup2", lambda *numbers: done.append(("dup2", *numbers)))
    monkeypatch.setattr(os, "fdopen", lambda *how, **more: (*how, *more.values()))
    monkeypatch.setattr(os, "sched_setaffinity", lambda which, cores: done.append((which, *cores)))
    monkeypatch.setattr(gc, "disable", lambda: done.append("no collection"))
    assert worker.begin() == (77, "w", 1)
    assert done == [("dup", 1), ("dup2", 2, 1), "no collection", (0, 0, 2)]
    assert [type(what) for what in kept] == [bytearray]
