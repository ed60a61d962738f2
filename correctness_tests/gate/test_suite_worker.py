"""What a worker of this suite answers: what it prepares and keeps, what it says of a case that fails."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.gate import worker
from rl_impls.backends import BackendUnavailable, OpUnavailable
from rlgauge.canary import CANARIES

NAME = "pirl.act[full-numpy]"


class Ready:
    """A prepared case that notes how many threads torch has where it settles and where its calls are measured."""

    calls, first_answer = 1, 0.5

    def __init__(self, torch=None, error=None):
        self.torch, self.error, self.log = torch, error, []

    def note(self, what):
        self.log.append((what, self.torch.threads if self.torch else None))

    def settle(self):
        if self.error:
            raise self.error
        self.note("settle")
        return {"b": np.ones(2), "a": [3.0]}

    def measure_calls(self):
        self.note("calls")
        return 7

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.note("close")


@pytest.fixture
def torch(monkeypatch):
    """Stand in for torch, of four threads."""

    def set_num_threads(threads):
        module.threads = threads

    module = SimpleNamespace(threads=4, get_num_threads=lambda: module.threads, set_num_threads=set_num_threads)
    monkeypatch.setitem(worker.sys.modules, "torch", module)
    return module


@pytest.fixture
def requests(monkeypatch, torch):
    """Requests to a worker that prepares what is set."""
    made = worker.Requests()
    made.ready, made.asked = Ready(torch), []
    monkeypatch.setattr(worker, "prepare", lambda variant, seed: made.asked.append((variant.id, seed)) or made.ready)
    monkeypatch.setattr(worker, "count", lambda prepared: prepared.note("count") or {"graphs": 3})
    return made


def test_an_answer_is_written_where_it_is_asked_for_as_leaves_by_name(requests, monkeypatch):
    saved = []
    monkeypatch.setattr(worker.worker, "saved", lambda file, answer: saved.append((file, answer)))
    assert requests.prepare(NAME) == {"counters": {}, "first_answer": 0.5}
    assert saved == []
    requests.prepare(NAME, answer="some/file")
    ((file, answer),) = saved
    assert (file, [leaf.tolist() for leaf in answer]) == ("some/file", [3.0, [1.0, 1.0]])
    assert requests.prepared == {NAME: requests.ready}


def test_a_case_that_fails_is_not_kept_and_nothing_is_written(requests, monkeypatch):
    monkeypatch.setattr(worker.worker, "saved", lambda *of: pytest.fail("written"))
    requests.ready.error = OpUnavailable("pirl has no op 'act' on numpy")
    said = requests.prepare(NAME, answer="some/file", counted=True)
    assert (said["failed"], said["absent"]) == (
        "OpUnavailable: pirl has no op 'act' on numpy", "pirl has no op 'act' on numpy",
    )  # fmt: skip
    assert requests.prepared == {}
    assert "KeyError" in requests.prepare("pirl.fly[full-numpy]")["failed"]


def test_a_canary_is_made_and_neither_counted_nor_timed_to_its_first_answer(requests, monkeypatch):
    name = next(iter(CANARIES))
    canary = SimpleNamespace(settle=lambda: [np.ones(1)])
    monkeypatch.setitem(worker.CANARIES, name, lambda: canary)
    assert requests.prepare(name, counted=True) == {"counters": {}, "first_answer": None}
    assert requests.prepared == {name: canary}
    assert requests.ready.log == []


def test_a_failure_says_its_kind():
    plain = worker.failure(KeyError("w0"))
    assert plain["failed"] == "KeyError: 'w0'"
    assert not {"absent", "unavailable"} & plain.keys()
    away = worker.failure(BackendUnavailable("onnx", "onnx is not installed", "install it"))
    assert away["unavailable"] == ["onnx", "onnx is not installed", "install it"]
    assert "absent" not in away
    gone = worker.failure(ValueError("unknown form 'fast'; known: naive"))
    assert gone["absent"] == "unknown form 'fast'; known: naive"
    assert "unavailable" not in gone


def test_memory_is_counted_in_a_fork_of_a_case_that_is_settled_and_closed(requests, monkeypatch):
    brought = []
    monkeypatch.setattr(worker.memory, "bring", lambda variant: brought.append(variant.id))
    monkeypatch.setattr(worker.memory, "forked", lambda job: {"in a fork": job()})
    monkeypatch.setattr(worker.memory, "count", lambda prepared: prepared.note("count") or {"page_faults": 1})
    assert requests.memory(NAME) == {"in a fork": {"page_faults": 1}}
    assert [what for what, _ in requests.ready.log] == ["settle", "count", "close"]
    assert (brought, requests.prepared) == ([NAME], {})
    requests.ready = Ready(error=ValueError("no"))
    assert requests.memory(NAME)["in a fork"]["failed"] == "ValueError: no"
    assert requests.ready.log == [("close", None)]


def test_a_case_whose_modules_are_missing_is_not_forked(requests, monkeypatch):
    def bring(variant):
        raise ModuleNotFoundError("No module named 'rl_impls.toy'", name="rl_impls.toy")

    monkeypatch.setattr(worker.memory, "bring", bring)
    monkeypatch.setattr(worker.memory, "forked", lambda job: pytest.fail("forked"))
    assert requests.memory(NAME)["absent"] == "no rl_impls.toy"


def test_inputs_are_those_of_seed_0_unless_another_is_asked_for(requests, monkeypatch):
    monkeypatch.setattr(worker.memory, "bring", lambda variant: None)
    monkeypatch.setattr(worker.memory, "forked", lambda job: job())
    monkeypatch.setattr(worker.memory, "count", lambda prepared: {})
    for ask in (requests.prepare, requests.memory):
        ask(NAME)
        ask(NAME, seed=4)
    assert requests.asked == [(NAME, 0), (NAME, 4)] * 2
