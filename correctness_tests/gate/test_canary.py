"""The canaries: the work that each does on each side."""

from __future__ import annotations

import hashlib
import os

import pytest

from rlgauge import canary
from rlgauge.rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL


@pytest.mark.parametrize("cores", [1, 3])
def test_the_slowed_canaries_do_five_percent_more_on_head_alone(monkeypatch, cores):
    sha256, done = hashlib.sha256, []
    monkeypatch.setattr(os, "sched_getaffinity", lambda which: set(range(cores)))
    monkeypatch.setattr(hashlib, "sha256", lambda data: done.append(data) or sha256(data))
    counts = {}
    for side in ("base", "head"):
        monkeypatch.setenv(canary.SIDE, side)
        for name, make in canary.CANARIES.items():
            made = make()
            done.clear()
            (output,) = made.first_output()
            made.close()
            counts[side, name] = len(done)
            assert output == sha256(canary.DATA).digest()
    assert counts == {
        (side, name): cores * (42 if side == "head" and name in (SLOWED, SLOWED_ON_ALL) else 40)
        for side in ("base", "head")
        for name in (SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL)
    }


def test_a_sample_of_a_canary_is_one_run(monkeypatch):
    monkeypatch.setenv(canary.SIDE, "base")
    made = canary.CANARIES[SAME]()
    assert (made.calls, made.calibrate()) == (1, 1)
    assert made.sample() > 0
    made.close()
