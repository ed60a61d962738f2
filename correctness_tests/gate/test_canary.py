"""The canaries: the work that each does on each side, and what the gate asks of them."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest

from rlgauge import canary
from rlgauge.rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL


@pytest.mark.parametrize("cores", [1, 3])
def test_the_cores_of_a_canary_share_its_work(monkeypatch, cores):
    sha256, done = hashlib.sha256, []
    monkeypatch.setattr(canary, "UNITS", 20)
    monkeypatch.setattr(canary, "cores", lambda: cores)
    monkeypatch.setattr(hashlib, "sha256", lambda data: done.append(data) or sha256(data))
    counts = {}
    for side in ("base", "head"):
        monkeypatch.setenv(canary.SIDE, side)
        for name, make in canary.CANARIES.items():
            made = make()
            assert (made.threads is None) == (cores == 1)
            done.clear()
            (answer,) = made.settle()
            made.close()
            counts[side, name] = len(done)
            assert answer == sha256(canary.DATA).digest()
    units = cores * canary.UNITS
    assert counts == {
        (side, name): round(units * 1.05) if side == "head" and name in (SLOWED, SLOWED_ON_ALL) else units
        for side in ("base", "head")
        for name in (SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL)
    }


@pytest.mark.parametrize("cores", [1, 2])
def test_a_canary_offers_what_the_gate_uses_of_a_case(monkeypatch, cores):
    monkeypatch.setattr(canary, "cores", lambda: cores)
    clock = iter([10.0, 10.25])
    monkeypatch.setattr(canary, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    made, runs = canary.Canary(3), []
    run = made.run
    monkeypatch.setattr(made, "run", lambda: runs.append(run()))
    assert made.sample() == 0.25
    assert len(runs) == 1
    assert (made.calls, made.measure_calls(), made.reset()) == (1, 1, None)
    assert made.call() == hashlib.sha256(canary.DATA).digest()
    made.close()
    if made.threads:
        assert made.threads._max_workers == cores
        with pytest.raises(RuntimeError, match="shutdown"):
            made.threads.submit(int)


@pytest.mark.parametrize(("side", "units"), [("base", 40), ("head", 42)])
def test_the_slowed_canary_does_five_per_cent_more_on_head_alone(monkeypatch, side, units):
    monkeypatch.setattr(canary, "cores", lambda: 1)
    monkeypatch.setenv(canary.SIDE, side)
    assert [len(make().work) for make in canary.CANARIES.values()] == [40, units, 40, units]
    assert list(canary.CANARIES) == [SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL]
