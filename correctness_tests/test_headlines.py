"""The ten rows of the first page, and their picture."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from correctness_tests.result_rows import cells, malloc, row
from perf_tests.report.headlines import COLORS, COUNT, chosen, headlines, picture

RESULTS = {"date": "2020-01-02", "machine": {"cpu_model": "a <CPU>", "cores": 2, "git": "abc"}}


def op(name, form, backend, seconds, workload="pirl", **changed):
    """Make a row of an op in microseconds."""
    return row(backend, seconds * 1e-6, op=name, form=form, workload=workload, axes={"batch": 8}, **changed)


TORCH = [
    op("act", "naive", "torch", 100), op("act", "full", "torch", 40), op("act", "full", "torch-compile", 20),
    op("act", "full", "onnx", 1), op("act", "full", "numpy", 1), op("act", "naive", "jax", 50),
    op("act", "full", "jax", 10), op("act", "other", "jax", 10.1),
]  # fmt: skip


def test_a_gain_is_over_naive_in_the_same_library_and_in_jax():
    _, _, _, _, line, _, last = headlines(RESULTS, TORCH, "results/x").splitlines()
    wanted = ["`pirl.act batch 8`", "100 us: torch", "20 us: full torch-compile", "5.00 (4.80-5.20)", "50 %"]
    assert cells(line) == [*wanted, "10 us: full jax or other jax", "10 (9.61-10.4)", "50 %"]
    assert last == "2020-01-02, a <CPU>, 2 cores, commit abc. All 8 benchmarks: [results/x.md](results/x.md)."


def test_without_torch_it_is_over_naive_in_numpy_and_without_others_there_is_none():
    rows = [op("step", "naive", "numpy", 100), op("step", "full", "numpy", 50), op("alone", "naive", "torch", 1)]
    rows += [op("jax", "naive", "jax", 3), op("jax", "full", "jax", 1), op("onnx", "naive", "torch", 1)]
    (one,) = chosen([*rows, op("onnx", "full", "onnx", 1)])
    assert (one.name, one.naive["backend"], one.bests[0].gain.middle) == (
        "pirl.step batch 8",
        "numpy",
        pytest.approx(2),
    )
    assert one.bests[1] is None


def test_what_a_user_gets_and_no_stale_row_counts():
    rows = [op("act", "naive", "torch", 100), op("act", "full", "torch", 40, default_malloc=malloc(2.0))]
    (one,) = chosen([*rows, op("act", "faster", "torch", 1, stale=True)])
    assert one.bests[0].gain.middle == pytest.approx(100 / 80)
    assert not chosen([rows[0] | {"stale": True}, rows[1]])


def test_a_gain_is_per_item():
    (one,) = chosen([op("act", "naive", "torch", 100, count=8), op("act", "full", "torch", 100, count=16)])
    assert one.bests[0].gain.middle == pytest.approx(2)


def test_each_workload_gives_its_longest_ops_in_turn_and_an_op_the_axes_with_most_rows():
    many = [op(f"op{k}", form, "torch", 10 + k, "many") for k in range(20) for form in ("naive", "full")]
    few = [op(f"op{k}", form, "torch", 1, "few") for k in range(2) for form in ("naive", "full")]
    wider = [one | {"axes": {"batch": 64}} for one in few[:2]] + [
        op("op0", "other", "torch", 1, "few") | {"axes": {"batch": 64}}
    ]
    names = [one.name for one in chosen([*many, *few, *wider])]
    assert names == sorted(names)
    assert len(names) == COUNT
    assert [name for name in names if name.startswith("few")] == ["few.op0 batch 64", "few.op1 batch 8"]
    assert {name for name in names if name.startswith("many")} == {f"many.op{k} batch 8" for k in range(12, 20)}


def test_bars_of_the_picture_are_as_long_as_the_logarithm_of_their_gain():
    drawn = ET.fromstring(picture(RESULTS, [*TORCH, op("slow", "naive", "torch", 10), op("slow", "full", "jax", 20)]))
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in drawn.iter(f"{space}text")]
    assert {"2020-01-02, a <CPU>, 2 cores, commit abc", "pirl.act batch 8", "pirl.slow batch 8"} <= set(words)
    bars = [(float(bar.get("x")), float(bar.get("width"))) for bar in list(drawn.iter(f"{space}rect"))[3:]]
    ticks = {text.text: float(text.get("x")) for text in drawn.iter(f"{space}text") if re.fullmatch(r"\d+x", text.text)}
    unit = (ticks["10x"] - ticks["1x"]) / math.log(10)
    for (left, width), gain in zip(bars, (5.0, 10.0, 0.5), strict=True):
        assert width == pytest.approx(abs(unit * math.log(gain)), abs=0.2)
        assert left == pytest.approx(ticks["1x"] + min(0.0, unit * math.log(gain)), abs=0.2)


def test_lines_of_the_picture_are_intervals_and_its_colours_are_of_libraries():
    drawn = ET.fromstring(picture(RESULTS, TORCH))
    space = "{http://www.w3.org/2000/svg}"
    bars = [bar.attrib for bar in drawn.iter(f"{space}rect")][1:]
    same, jax = COLORS
    assert [bar["fill"] for bar in bars] == [same, jax, same, jax]
    words = [(text.text, float(text.get("y"))) for text in drawn.iter(f"{space}text")]
    assert [text for text, _ in words[:4]] == [
        "How many times as fast as naive", "2020-01-02, a <CPU>, 2 cores, commit abc", "best in the same library",
        "best in JAX",
    ]  # fmt: skip
    ticks = {text.text: float(text.get("x")) for text in drawn.iter(f"{space}text") if re.fullmatch(r"\d+x", text.text)}
    assert set(ticks) == {"1x", "2x", "5x", "10x"}
    unit = (ticks["10x"] - ticks["1x"]) / math.log(10)
    intervals = [line for line in drawn.iter(f"{space}line") if line.get("stroke") == "#222"]
    (one,) = chosen(TORCH)
    for line, bar, found in zip(intervals, bars[2:], one.bests, strict=True):
        for end, gain in (("x1", found.gain.low), ("x2", found.gain.high)):
            assert float(line.get(end)) == pytest.approx(ticks["1x"] + unit * math.log(gain), abs=0.2)
        assert float(line.get("y1")) == float(line.get("y2")) == float(bar["y"]) + float(bar["height"]) / 2


def test_an_op_of_which_one_library_has_nothing_has_empty_cells():
    rows = [op("act", "naive", "torch", 100), op("act", "full", "jax", 10, limit_share=0.25)]
    line = headlines(RESULTS, rows, "results/x").splitlines()[4]
    assert cells(line)[2:] == ["", "", "", "10 us: full jax", "10 (9.61-10.4)", "25 %"]
    (one,) = chosen([*rows, op("act", "full", "torch-compile", 50, count=16)])
    assert one.bests[0].names == ["full torch-compile"]
