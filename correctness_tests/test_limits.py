"""The machine's limits: how they are measured, and how a share of them is found and shown."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest

from perf_tests.passes import Timed
from perf_tests.rows import row
from perf_tests.suite import limits
from perf_tests.suite.cases import variants
from perf_tests.suite.process import cores

LIMITS = {"threads": 1.0, "float32_flops": 1e9, "bfloat16_flops": 2e9, "copy_bytes": 1e8}


def test_measured_limits_are_plausible():
    found = limits.here(cores())
    assert found.keys() == LIMITS.keys()
    assert found["threads"] == cores()
    assert 1e9 < found["float32_flops"] < 1e14
    assert 1e9 < found["bfloat16_flops"] < 1e15
    assert 1e8 < found["copy_bytes"] < 1e13


def test_limits_are_measured_anew_each_time(monkeypatch):
    measured = itertools.count()
    monkeypatch.setattr(
        limits.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=json.dumps({"copy_bytes": next(measured)}))
    )
    assert [limits.here(1)["copy_bytes"] for _ in range(3)] == [0, 1, 2]


def few_calls(monkeypatch, times):
    """Have one product and one copy measured, whose bursts take these times; return what is called, in order."""
    called, times = [], iter(times)
    monkeypatch.setattr(limits, "set_up", lambda threads: called.append(f"{threads} threads"))
    monkeypatch.setattr(limits, "SIZES", (10,))
    monkeypatch.setattr(limits, "products", lambda size: [("float32_flops", 2.0 * size**3, lambda: called.append("x"))])
    monkeypatch.setattr(limits, "copies", lambda: [("copy_bytes", 600.0, lambda: called.append("c"))])
    monkeypatch.setattr(limits, "least_time", lambda call: call() or next(times))
    return called


def test_a_busy_stretch_does_not_lower_a_limit(monkeypatch):
    few_calls(monkeypatch, [20.0, 30.0] * (limits.BURSTS - 1) + [2.0, 3.0])
    assert limits.measure(4) == {"threads": 4.0, "float32_flops": 1000.0, "bfloat16_flops": 0.0, "copy_bytes": 200.0}


def test_bursts_take_turns_in_a_process_that_was_set_up(monkeypatch):
    called = few_calls(monkeypatch, itertools.repeat(1.0))
    limits.measure(3)
    assert called == ["3 threads", *["x", "c"] * (1 + limits.BURSTS)]


@pytest.mark.parametrize(
    ("flops", "moved", "precision", "expected"),
    [
        (4e8, 0.0, "float32", (0.2, "flops")),
        (4e8, 0.0, "bfloat16", (0.1, "flops")),
        (0.0, 1e8, "float32", (0.5, "bytes")),
        (4e8, 1e8, "float32", (0.5, "bytes")),
        (4e9, 1e8, "float32", (2.0, "flops")),
        (0.0, 0.0, "float32", (None, None)),
    ],
)
def test_the_share_is_that_of_the_limit_which_binds(flops, moved, precision, expected):
    assert limits.share(flops, moved, precision, 2.0, LIMITS) == expected


def test_a_limit_that_was_not_measured_gives_no_share():
    unknown = {**LIMITS, "bfloat16_flops": 0.0}
    assert limits.share(4e8, 0.0, "bfloat16", 2.0, unknown) == (None, None)


def test_a_row_is_held_against_the_limit_of_its_precision_and_device():
    def found(form, backend):
        samples = {0: {"seconds": 1.0, "calls": 1, "waited": 0.0, "stolen": 0.0, "others": 0.0}}
        variant = variants()[f"treasurehunt.train_step[{form}-{backend}-agents5]"]
        return row(Timed(variant, 1, samples, {"stats": {}, "phases": {}}), LIMITS, threads=1)

    full, half, cuda = found("full", "torch"), found("bfloat16", "torch"), found("full", "torch-cuda")
    assert half["limit_share"] == full["limit_share"] / 2
    assert (cuda["limit_share"], cuda["bound"]) == (None, None)


@pytest.mark.parametrize(
    ("share", "bound", "words"),
    [
        (None, None, "-"),
        (0.00123, "flops", "0.12 %"),
        (0.0456, "bytes", "4.6 %"),
        (0.124, "flops", "12 %"),
        (0.999, "bytes", "100 %"),
        (1.5, "bytes", "in cache"),
        (1.5, "flops", "150 %"),
    ],
)
def test_a_share_in_words(share, bound, words):
    assert limits.share_words(share, bound) == words


def test_a_row_that_computes_more_than_the_machine_can_is_complained_of():
    rows = [
        {"id": "impossible", "limit_share": 1.2, "bound": "flops"},
        {"id": "in cache", "limit_share": 1.2, "bound": "bytes"},
        {"id": "fine", "limit_share": 0.9, "bound": "flops"},
        {"id": "free", "limit_share": None, "bound": None},
    ]
    (line,) = limits.complaints(rows, LIMITS)
    assert line == (
        "impossible: 120 % of the limit: its cost is too high, or the peak was measured too low "
        "(FLOP/s with 1 threads: float32 1e+09, bfloat16 2e+09)"
    )
