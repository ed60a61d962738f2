"""How the error rates of a history are counted."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.gate.toy import FIRST, SECOND, Toy
from perf_tests.history import power
from perf_tests.history.steps import Step
from rlgauge.rule import GateError

MACHINE = {"cpu_model": "A Processor", "cores": 2, "date": "2026-11-23", "git": "0123456789ab"}


def recorded(spread=0.01, pairs=30, cases=("toy.first[full-numpy]", "toy.second[full-numpy]")):
    """Return what would have been recorded of the same code."""
    rng = np.random.default_rng(0)
    made = [{case: float(rng.normal(0, spread)) for case in cases} for _ in range(pairs)]
    return {"format": 1, "machines": [MACHINE], "pairs": made}


def rows(text):
    """Return the cells of the table."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def found(steps=(), verdict="ok"):
    """Return what was concluded: places of steps, each with its size."""
    made = [Step(f"{place:040x}", size, size, size, 0.001) for place, size in steps]
    return SimpleNamespace(steps=made, verdict=verdict)


@pytest.mark.parametrize(
    ("kind", "place", "steps", "verdict", "right"),
    [
        ("flat", None, [], "ok", True),
        ("flat", None, [(3, 0.05)], "ok", False),
        ("flat", None, [], "slower", False),
        ("step", 5, [(5, 0.05)], "slower", True),
        ("step", 5, [(4, 0.05)], "slower", True),
        ("step", 5, [(6, 0.05)], "ok", True),
        ("step", 5, [(7, 0.05)], "slower", False),
        ("step", 5, [(5, -0.05)], "slower", False),
        ("step", 5, [(5, 0.05), (6, 0.05)], "slower", False),
        ("step", 5, [], "slower", False),
        ("drift", None, [], "slower", True),
        ("drift", None, [(3, 0.05)], "ok", False),
    ],
)
def test_what_is_right(kind, place, steps, verdict, right):
    order = [f"{number:040x}" for number in range(12)]
    assert power.right(kind, place, order, found(steps, verdict)) is right


@pytest.mark.parametrize("seed", range(5))
def test_histories_are_slowed_as_they_say(seed):
    rng = np.random.default_rng(seed)
    assert not power.levels("flat", 12, rng)[0].any()
    step, place = power.levels("step", 12, rng)
    assert step.tolist() == [0.0] * place + [math.log1p(0.05)] * (12 - place)
    drift, _ = power.levels("drift", 12, rng)
    assert drift[-1] == pytest.approx(8 * math.log1p(0.01))
    assert (np.diff(drift) >= 0).all()


def test_a_step_is_planted_in_every_commit():
    rng = np.random.default_rng(0)
    assert {power.levels("step", 12, rng)[1] for _ in range(300)} == set(range(12))


def test_of_quiet_pairs_everything_is_read_rightly_and_of_loud_ones_not():
    quiet, loud = (power.table(recorded(spread), 8, 12, 12) for spread in (0.005, 0.3))
    read, misread = (rows(text) for text in (quiet, loud))
    assert [row[2] for row in read] == ["0/8 [0.0 %, 36.9 %]", *["8/8 [63.1 %, 100.0 %]"] * 2]
    assert not any("8/8" in row[2] for row in misread)
    assert "Of 12 commits of 12 pairs each, drawn from 30 to 30 recorded pairs of the same code of 2 cases" in quiet
    assert "on A Processor, 2 cores, 2026-11-23, commit 0123456789ab" in quiet


def test_false_steps_are_counted(monkeypatch):
    monkeypatch.setattr(power, "right", lambda kind, *rest: False)
    for column in (2, 3):
        found = [row[column] for row in rows(power.table(recorded(), 8, 12, 12))]
        assert found == ["8/8 [63.1 %, 100.0 %]", *["0/8 [0.0 %, 36.9 %]"] * 2]


def test_asv_alone_finds_a_step_that_is_clear():
    rng = np.random.default_rng(0)
    entries, order = power.history([0.0001 * k for k in range(20)], power.levels("step", 12, rng)[0], 12, rng)
    judged = power.by_asv(power.series(entries, order)[0])
    assert judged.verdict == "slower"
    assert power.right("step", int(np.flatnonzero([e.ratio > 1.02 for e in entries])[0]), order, judged)


def test_both_read_the_same_histories_each_case_in_turn():
    pools, read = {"b": [0.5] * 20, "a": [0.0] * 20}, []

    def judge(series):
        read.append([point.log_ratio for point in series.points])
        return found()

    for _ in range(2):
        power.counted(pools, "flat", 4, 12, 3, judge)
    assert read[:4] == read[4:]
    assert [any(levels) for levels in read[:4]] == [False, True] * 2


def test_too_few_recorded_pairs_are_no_rates():
    with pytest.raises(GateError, match=r"^19 pairs were recorded, wanted 20 or more of a case"):
        power.table(recorded(pairs=19), 8, 12, 12)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "pairs": []}', '{"format": 1, "pairs": [{"a": "b"}]}'])
def test_what_power_did_not_write_is_one_line(tmp_path, text):
    file = tmp_path / "pairs.json"
    file.write_text(text)
    with pytest.raises(GateError, match=r"^pairs\.json: wanted what python -m perf_tests\.history power writes"):
        power.read(file)


def test_the_table_takes_its_place_on_the_page(tmp_path):
    page = tmp_path / "history.md"
    page.write_text(f"before\n{power.MARKERS[0]}\nold\n{power.MARKERS[1]}\nafter\n")
    power.put(page, "new")
    assert page.read_text() == f"before\n{power.MARKERS[0]}\nnew\n{power.MARKERS[1]}\nafter\n"


def test_pairs_of_the_same_code_are_recorded_and_added_to(tmp_path):
    toy = Toy(tmp_path / "toy")
    file = tmp_path / "pairs.json"
    for runs in (1, 2):
        ran = toy.run("perf_tests.history", "power", "--minutes", "0.001", "--file", file)
        assert ran.code == 2
        assert f"{runs} pairs were recorded, wanted 20 or more of a case" in ran.text.splitlines()[-1]
        kept = json.loads(file.read_text())
        assert len(kept["pairs"]) == len(kept["machines"]) == runs
        assert set(kept["pairs"][-1]) == {FIRST, SECOND}
        assert all(abs(value) < 0.05 for value in kept["pairs"][-1].values())
    assert toy.leftovers() == []
