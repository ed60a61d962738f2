"""The machine's limits: how they are measured, and how a share of them is found and shown."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.rows import row
from perf_tests.suite import limits
from rl_impls.pirl import problem as pirl
from rl_impls.snake import problem as snake
from rl_impls.treasurehunt import problem as treasurehunt

from .commands import ROOT

LIMITS = {
    "threads": 1.0, "float32_flops": 1e9, "bfloat16_flops": 2e9, "copy_bytes": 1e8, "cuda_float32_flops": 1e11,
}  # fmt: skip


def test_limits_are_measured_anew_each_time_in_a_process_with_so_many_threads(monkeypatch):
    asked, measured = [], itertools.count()

    def run(command, *, cwd, env, check, stdout, text):
        asked.append((command[1:], env["JAX_PLATFORMS"]))
        return SimpleNamespace(stdout=json.dumps({"copy_bytes": next(measured)}))

    monkeypatch.setattr(limits.subprocess, "run", run)
    assert [limits.here(threads)["copy_bytes"] for threads in (1, 3)] == [0, 1]
    assert asked == [(["-m", "perf_tests.suite.limits", threads], "cpu") for threads in ("1", "3")]


def test_the_work_of_a_product_is_that_of_its_matrices():
    found = list(limits.products(8))
    assert [figure for figure, *_ in found] == ["float32_flops", "float32_flops", "bfloat16_flops", "float32_flops"]
    wanted = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    wanted = wanted @ wanted
    for figure, flops, call in found:
        out = call()
        assert str(out.dtype).endswith(figure.removesuffix("_flops"))
        np.testing.assert_allclose(np.asarray(out.tolist()), wanted, atol=0.1 if figure == "bfloat16_flops" else 1e-5)
        assert flops == 8 * 8 * (8 + 8)  # each of so many sums has 8 products and 8 additions


def test_the_work_of_a_copy_is_what_it_reads_and_writes_and_pieces_take_turns(monkeypatch):
    import torch

    copied = []
    monkeypatch.setattr(limits, "PIECE", 64)
    for library, name in ((np, "copyto"), (torch.Tensor, "copy_")):
        monkeypatch.setattr(library, name, lambda *arrays: copied.append(arrays))
    for _, moved, call in limits.copies():
        copied.clear()
        for _ in range(limits.PIECES):
            call()
        assert {sum(array.nbytes for array in arrays) for arrays in copied} == {moved}
        pieces = [np.asarray(array).ctypes.data for arrays in copied for array in arrays]
        assert len(set(pieces)) == len(pieces) == 2 * limits.PIECES


def test_the_time_of_a_burst_is_that_of_its_fastest_call(monkeypatch):
    now, lengths = [0.0], iter([7.0, 3.0, 5.0, 1024 * limits.BURST])
    monkeypatch.setattr(limits.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += next(lengths) / 1024

    assert limits.least_time(call) == 3 / 1024


def few_calls(monkeypatch, times):
    """Have two products and a copy measured, whose bursts take these times; return what is called, in order."""
    called, times = [], iter(times)
    monkeypatch.setattr(limits, "set_up", lambda threads: called.append(f"{threads} threads"))
    monkeypatch.setattr(limits, "SIZES", (10,))
    figures = ("float32_flops", "bfloat16_flops")
    monkeypatch.setattr(
        limits, "products", lambda size: [(name, 2.0 * size**3, lambda: called.append("x")) for name in figures]
    )
    monkeypatch.setattr(limits, "copies", lambda: [("copy_bytes", 600.0, lambda: called.append("c"))])
    monkeypatch.setattr(limits, "least_time", lambda call: call() or next(times))
    return called


def test_a_busy_stretch_does_not_lower_a_limit(monkeypatch):
    busy = [20.0, 10.0, 30.0]
    few_calls(monkeypatch, busy + [2.0, 1.0, 3.0] + busy * (limits.BURSTS - 2))
    assert limits.measure(4) == {
        "threads": 4.0, "float32_flops": 1000.0, "bfloat16_flops": 2000.0, "copy_bytes": 200.0,
    }  # fmt: skip


def test_what_no_library_can_tell_is_zero(monkeypatch):
    few_calls(monkeypatch, itertools.repeat(1.0))
    monkeypatch.setattr(limits, "products", lambda size: [])
    assert limits.measure(1) == {"threads": 1.0, "float32_flops": 0.0, "bfloat16_flops": 0.0, "copy_bytes": 600.0}


def test_a_processor_without_bfloat16_computes_it_in_32_bits(monkeypatch):
    few_calls(monkeypatch, itertools.cycle([1.0, 50.0, 3.0]))
    found = limits.measure(1)
    assert (found["float32_flops"], found["bfloat16_flops"]) == (2000.0, 2000.0)


def test_bursts_take_turns_in_a_process_that_was_set_up(monkeypatch):
    called = few_calls(monkeypatch, itertools.repeat(1.0))
    limits.measure(3)
    assert called == ["3 threads", *["x", "x", "c"] * (1 + limits.BURSTS)]


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


def row_of(name, problem, precision="float32", seconds=1.0, calls=1, **figures):
    """Return the row of a benchmark, ``test_op[form-backend]``, each of whose samples took so long."""
    op, form, backend = re.match(r"test_(\w+)\[(\w+)-([\w-]+)\]", name).groups()
    told = {**problem.cost, "op": op, "precision": precision, "figures": figures}
    stats = SimpleNamespace(stats=SimpleNamespace(data=[seconds] * 3), iterations=calls)
    item = SimpleNamespace(
        name=name, originalname=f"test_{op}", path=Path(f"perf_tests/test_{problem.workload}.py"),
        callspec=SimpleNamespace(params={"form": form, "backend": backend}),
    )  # fmt: skip
    return row(item, SimpleNamespace(extra_info=told, stats=stats), LIMITS, threads=1)


def test_a_row_is_held_against_the_limit_of_its_precision_and_device():
    problem = treasurehunt.train_step(0, agents=1)
    full, half, cuda = (
        row_of(f"test_train_step[full-{backend}]", problem, precision)
        for backend, precision in (("torch", "float32"), ("torch", "bfloat16"), ("torch-cuda", "float32"))
    )
    assert half["limit_share"] == full["limit_share"] / 2
    assert cuda["limit_share"] == pytest.approx(full["limit_share"] / 100)
    assert row_of("test_train_step[full-neuron]", problem)["limit_share"] is None


def test_the_rates_and_shares_of_a_row_are_of_one_call():
    found = row_of("test_forward[full-numpy]", pirl.forward(0, batch_size=32), seconds=1e-3, calls=10)
    assert (found["id"], found["calls"]) == ("pirl.forward[full-numpy]", 10)
    assert found["items_per_second"] == pytest.approx(32_000)
    assert (found["limit_share"], found["bound"]) == (pytest.approx(32 * 2 * 3360 / 1e-3 / 1e9), "flops")
    found = row_of("test_sample[full-numpy]", snake.sample(0, batch_size=32), seconds=1e-3)
    assert (found["limit_share"], found["bound"]) == (pytest.approx(32 * 4 * 400 / 1e-3 / 1e8), "bytes")


def test_phases_of_a_row_are_of_one_call_and_other_figures_as_the_op_says():
    figures = {"phases": {"waiting": 2.0}, "latency_p99_s": 3.0}
    found = row_of("test_act[full-numpy]", pirl.act(0), calls=4, **figures)
    assert (found["phases"], found["latency_p99_s"]) == ({"waiting": 0.5}, 3.0)


@pytest.mark.parametrize(
    ("share", "bound", "words"),
    [
        (None, None, "-"),
        (0.00123, "flops", "0.12 %"),
        (0.0456, "bytes", "4.6 %"),
        (0.1, "flops", "10 %"),
        (0.124, "flops", "12 %"),
        (0.999, "bytes", "100 %"),
        (1.0, "bytes", "100 %"),
        (1.5, "bytes", "in cache"),
        (1.5, "flops", "150 %"),
    ],
)
def test_a_share_in_words(share, bound, words):
    assert limits.share_words(share, bound) == words


def test_a_row_above_the_measured_peak_is_warned_of():
    rows = [
        {"id": "too fast", "limit_share": 1.01, "bound": "flops"},
        {"id": "at the peak", "limit_share": 1.0, "bound": "flops"},
        {"id": "in cache", "limit_share": 1.2, "bound": "bytes"},
        {"id": "free", "limit_share": None, "bound": None},
    ]
    (line,) = limits.above_peak_warnings(rows, LIMITS)
    assert line.startswith("Above the machine's measured peak: too fast (101 %). ")
    assert "(FLOP/s: float32 1e+09, bfloat16 2e+09, cuda_float32 1e+11)" in line
    assert limits.above_peak_warnings(rows[1:], LIMITS) == []


def test_limits_are_asked_for_at_the_root_and_a_process_that_fails_is_an_error(monkeypatch):
    asked = {}
    monkeypatch.setattr(
        limits.subprocess,
        "run",
        lambda command, **how: asked.update(how, program=command[0]) or SimpleNamespace(stdout="{}"),
    )
    monkeypatch.setenv("SOME", "thing")
    assert limits.here(2) == {}
    assert (asked["cwd"], asked["check"], asked["program"]) == (ROOT, True, sys.executable)
    assert asked["env"]["SOME"] == "thing"


def test_without_other_libraries_numpy_alone_is_measured(monkeypatch):
    monkeypatch.setattr(limits, "find_spec", lambda name: None)
    assert [figure for figure, *_ in limits.products(8)] == ["float32_flops"]
    monkeypatch.setattr(limits, "PIECE", 64)
    assert [figure for figure, *_ in limits.copies()] == ["copy_bytes"]


def test_a_limit_is_the_best_over_all_sizes_of_matrices(monkeypatch):
    few_calls(monkeypatch, itertools.cycle([1.0, 1.0, 1.0, 1.0, 1.0]))
    assert limits.measure(1)["float32_flops"] == 2e3
    for sizes in ((10, 100), (100, 10)):
        monkeypatch.setattr(limits, "SIZES", sizes)
        assert limits.measure(1)["float32_flops"] == 2e6


def test_what_a_call_moves_is_held_against_copies_whatever_its_precision():
    assert limits.share(4e8, 1e8, "int8", 2.0, LIMITS) == (0.5, "bytes")
    assert limits.share(4e8, 0.0, "int8", 2.0, LIMITS) == (None, None)
