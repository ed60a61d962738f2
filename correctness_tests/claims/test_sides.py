"""The sides of claims: how they are made, settled, timed and counted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.claims import measure, sides
from perf_tests.suite.claim import Comparison, Side

from .toy import EVERY, NUMPY, claim


@pytest.mark.parametrize(("workload", "claim"), EVERY, ids=[claim.name for _, claim in EVERY])
def test_what_is_compared_is_measured_together(workload, claim):
    sides = {side.label: side for side in claim.sides}
    groups = measure.grouped([claim], sides)
    assert sorted(side.label for group in groups for side in group) == sorted(sides)
    for pair in claim.contexts.values():
        both = {pair.base.label, pair.change.label}
        assert any(both <= {side.label for side in group} for group in groups)


@pytest.mark.parametrize(
    ("same", "change", "alike"),
    [("bits", 1e-9, False), ("close", 1e-9, True), ("close", 2e-3, False), ("bits", 0.0, True)],
)
def test_answers_are_compared(same, change, alike):
    sides = [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"]
    a, b = [np.ones(3)], [np.ones(3) + change]
    assert measure.alike(a, b, claim(same=same), Comparison(*sides)) is alike


def test_threads_and_cores_are_limited_for_a_while(monkeypatch):
    import torch

    cores, threads = [{3, 1, 2}], [3]
    monkeypatch.setattr(sides.os, "sched_getaffinity", lambda pid: cores[-1])
    monkeypatch.setattr(sides.os, "sched_setaffinity", lambda pid, given: cores.append(set(given)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    with sides.limited(None):
        pass
    with pytest.raises(ZeroDivisionError), sides.limited(2):
        1 / 0  # noqa: B018
    assert (cores, threads) == ([{1, 2, 3}, {1, 2}, {1, 2, 3}], [3, 2, 3])


def test_a_benchmark_as_a_side_says_phases_and_figures_and_is_closed(monkeypatch):
    log = []
    prepared = SimpleNamespace(
        settle=None, answer=None, measure_calls=None, sample=None, close=lambda: log.append("closed"), calls=7,
        phases=lambda: {"learn": 1.0}, stats=lambda: {"blocked": 2.0},
    )  # fmt: skip
    monkeypatch.setattr(sides, "prepare", lambda variant, seed: log.append((variant.id, seed)) or prepared)
    with sides.ready(Side(NUMPY.format("full")), 5) as here:
        assert (here.noted(), here.calls) == ({"learn": 1.0, "blocked": 2.0}, 7)
    assert log == [(NUMPY.format("full"), 5), "closed"]


class Waiting:
    """A backend whose results are waited for."""

    def __init__(self):
        self.waited = []

    def wait(self, out):
        self.waited.append(out)
        return out

    def to_host(self, out):
        return {"copied": out}


def made_side(monkeypatch, seconds=0.0):
    """Return a function that is a side, its backend, and what its generator drew; a call takes so many seconds."""
    backend, drawn, now = Waiting(), [], [0.0]

    def make(rng):
        drawn.append(rng.integers(1000))

        def call():
            now[0] += seconds
            return np.full(2, len(backend.waited))

        return call

    monkeypatch.setattr(sides.backends, "get", lambda name: backend if name == "jax" else None)
    monkeypatch.setattr(sides.time, "perf_counter", lambda: now[0])
    return sides.ready(Side("toy.op[a]", make=make, backend="jax"), 4), backend, drawn


def test_a_function_as_a_side_draws_from_the_seed_and_each_of_its_calls_is_waited_for(monkeypatch):
    with made_side(monkeypatch, 0.25)[0] as here:
        backend = here.backend
        assert here.calls == 1
        here.calls = 3
        assert here.run().tolist() == [2, 2]
        assert len(backend.waited) == 3
        assert here.sample() == 0.75
        assert (here.noted(), here.allocated()) == ({}, 0.0)
    assert made_side(monkeypatch)[2] == [np.random.default_rng(4).integers(1000)]


def test_a_function_is_settled_by_calls_of_which_the_last_is_the_answer(monkeypatch):
    here, backend, _ = made_side(monkeypatch)
    ((name, answer),) = here.settle()[0].items()
    assert (name, answer.tolist()) == ("copied", [1, 1])
    assert answer is not backend.waited[1]
    assert len(backend.waited) == 2
    assert here.answer()[0]["copied"].tolist() == [2, 2]
    assert len(backend.waited) == 3


@pytest.mark.parametrize(("seconds", "calls"), [(0.01, 1), (0.004, 4), (0.2, 1)])
def test_the_calls_of_a_sample_are_doubled_until_two_samples_are_long_enough(monkeypatch, seconds, calls):
    here, backend, _ = made_side(monkeypatch, seconds)
    assert here.measure_calls() == here.calls == calls
    before = len(backend.waited)
    here.sample()
    assert len(backend.waited) == before + calls


def test_what_a_benchmark_allocates_is_counted(monkeypatch):
    prepared = SimpleNamespace(settle=None, answer=None, measure_calls=None, sample=None, close=lambda: None)
    monkeypatch.setattr(sides, "prepare", lambda variant, seed: prepared)
    here = sides.ready(Side(NUMPY.format("full")), 5)
    for counted, wanted in (({"allocated_bytes": 48, "aten_ops": 3}, 48.0), ({}, 0.0)):
        monkeypatch.setattr(sides, "count", lambda of, counted=counted: counted if of is prepared else None)
        assert here.allocated() == wanted


def test_more_threads_than_there_are_cores_are_all_cores(monkeypatch):
    import torch

    given = []
    monkeypatch.setattr(sides.os, "sched_getaffinity", lambda pid: {5, 4})
    monkeypatch.setattr(sides.os, "sched_setaffinity", lambda pid, cores: given.append(set(cores)))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    with sides.limited(1):
        assert given == [{4}]
