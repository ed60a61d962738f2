"""How the error rates of a history are counted."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from correctness_tests.gate.toy import FIRST, SECOND, Toy
from perf_tests.history import power
from perf_tests.history.steps import Step
from rlgauge.pairs import cores
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


def test_a_made_history_has_pairs_of_the_pool_either_way_round_at_each_level():
    true = np.array([0.0, 0.5, 0.5])
    entries, order = power.history([0.1], true, 40, np.random.default_rng(0))
    assert [e.commit for e in entries] == order == [f"{number:040x}" for number in (1, 2, 3)]
    assert {e.anchor for e in entries} == {"0" * 40}
    for e, level in zip(entries, true):
        assert set(e.log_ratios) == {round(level + 0.1, 6), round(level - 0.1, 6)}
        assert e.n == 40
    for level in power.levels("drift", 8, np.random.default_rng(0))[0]:
        assert level > 0  # as many commits as there are slow ones


@pytest.mark.parametrize(("size", "verdict"), [(0.2, "slower"), (-0.2, "faster"), (0.0, "ok"), (0.009, "ok")])
def test_asv_alone_says_what_it_fits(size, verdict):
    entries, order = power.history([0.0001, 0.0002], np.array([0.0] * 6 + [size] * 6), 8, np.random.default_rng(0))
    found = power.by_asv(power.series(entries, order)[0])
    assert found.verdict == verdict
    assert [step.commit for step in found.steps] == ([order[6]] if verdict != "ok" else [])
    for step in found.steps:
        assert (step.log_ratio, step.low, step.high) == pytest.approx((size,) * 3, abs=1e-3)
    assert (found.end.commit, found.end.log_ratio) == (order[-1], pytest.approx(size, abs=1e-3))


def test_what_is_concluded_here_is_adjusted_for_as_many_cases_as_are_asked_for():
    entries, order = power.history([0.01, 0.02], np.array([0.0] * 6 + [0.05] * 6), 12, np.random.default_rng(0))
    (made,) = power.series(entries, order)
    one, many = (power.by_us(made, cases).end.p for cases in (1, 30))
    assert many == pytest.approx(30 * one)


def test_rates_are_of_cases_with_enough_pairs_each_kind_read_both_ways(monkeypatch):
    asked = []

    def counted(pools, kind, histories, commits, pairs, judge):
        ours = getattr(judge, "keywords", None)
        asked.append((kind, sorted(pools), histories, commits, pairs, ours and ours["cases"]))
        return power.Rate({"flat": 90, "step": 70, "drift": 60}[kind] - 10 * (ours is None), histories)

    made = recorded(pairs=20, cases=("b", "a"))
    made["pairs"] += [{"a": 0.5, "few": 0.5}] * 3
    made["machines"] = [MACHINE, MACHINE, MACHINE | {"cores": 4}]
    monkeypatch.setattr(power, "counted", counted)
    text = power.table(made, 100, 12, 9)
    both = [
        (kind, ["a", "b"], 100, 12, 9, cases) for kind in power.KINDS for cases in (1 if kind == "flat" else 2, None)
    ]
    assert asked == both
    assert [[cell.partition(" ")[0] for cell in row[2:]] for row in rows(text)] == [
        ["10/100", "20/100"], ["70/100", "60/100"], ["60/100", "50/100"],
    ]  # fmt: skip
    assert [row[0] for row in rows(text)] == ["flat", "one step of 5 %", "8 times 1 %"]
    where = "A Processor, {} cores, 2026-11-23, commit 0123456789ab"
    assert f"drawn from 20 to 23 recorded pairs of the same code of 2 cases, on {where.format(2)} and " in text
    assert f"{where.format(2)} and {where.format(4)}. Intervals are exact" in text
    assert "A find is a p of at most 0.01, adjusted as the smallest of 2 cases" in text


@pytest.fixture
def recording(monkeypatch, tmp_path):
    """Record pairs of two cases of which each takes a minute; the call returns what was asked, said and kept."""
    now, asked, said, file = [0.0], [], [], tmp_path / "pairs.json"
    made = [
        SimpleNamespace(id=name, tier=tier, backend=backend, case=SimpleNamespace(cores=cores))
        for name, tier, backend, cores in (
            ("one", "gate", "numpy", "one"), ("all", "gate", "numpy", "own"), ("long", "full", "numpy", "one"),
            ("gone", "gate", "cuda", "one"),
        )
    ]  # fmt: skip

    class Pairs:
        def __init__(self, sides, blocks, limit, tolerances, folder, rng):
            asked.append((sides, blocks, folder, sorted(tolerances), rng.random()))

        def measure(self, records, names, place, phase):
            now[0] += 30.0
            asked.append((names, place, phase))
            for name in names:
                if name == "all" and failing:
                    records[name].state, records[name].words = "error", "no such net"
                else:
                    records[name].confirm.append([(1.0, 1.1)] * 3)

    layout, failing = SimpleNamespace(folder=tmp_path, side=lambda revision, name: (name, revision)), []
    monkeypatch.setattr(power.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(power, "variants", lambda: {one.id: one for one in made})
    here = {name: SimpleNamespace(missing=lambda name=name: name == "cuda") for name in ("numpy", "cuda")}
    monkeypatch.setattr(power.backends, "get", here.get)
    monkeypatch.setattr(power, "tolerance", lambda variant: 0.0)
    monkeypatch.setattr(power, "everything", lambda: "all")
    monkeypatch.setattr(power, "laid_out", lambda what, root: nullcontext(layout))
    monkeypatch.setattr(power, "Pairs", Pairs)
    monkeypatch.setattr(power.machine, "info", lambda root: {"cpu_model": "A Processor"})

    def run(minutes, fails=False):
        asked.clear(), said.clear(), failing.clear()
        failing.extend([True] * fails)
        power.record(tmp_path, file, minutes, said.append)
        return [*asked], [*said], power.read(file)

    return run


def test_pairs_of_the_gates_cases_that_can_run_here_are_recorded_until_the_time_is_over(recording):
    asked, said, kept = recording(1.5)
    assert said == ["power: 1 pairs, 60 s the last, about 30 s left", "power: 2 pairs, 60 s the last, about 0 s left"]
    assert kept["pairs"] == [{"one": 0.09531, "all": 0.09531}] * 2
    (machine,) = kept["machines"]
    assert (machine["cpu_model"], len(machine["date"])) == ("A Processor", 10)
    sides, _, _, names, first = asked[0]
    assert (sides, names) == ([("base", None), ("head", None)], ["all", "one"])
    assert asked[1:3] == asked[4:6] == [(["one"], cores(False), "confirm"), (["all"], cores(True), "confirm")]
    assert asked[3][-1] != first  # each pair draws its own order
    again, said, kept = recording(0.5)
    assert (len(kept["pairs"]), len(kept["machines"])) == (3, 2)
    assert again[0][-1] not in (first, asked[3][-1])


def test_a_case_that_fails_while_pairs_are_recorded_is_said_and_the_others_are_kept(recording):
    _, said, kept = recording(0.5, fails=True)
    assert said[0] == "power: all: no such net"
    assert kept["pairs"] == [{"one": 0.09531}]


def test_where_pairs_cannot_be_kept_is_said(tmp_path):
    assert power.read(tmp_path / "none.json") == {"format": 1, "machines": [], "pairs": []}
    with pytest.raises(GateError, match=rf"^{tmp_path}: cannot be written: it is no file$"):
        power.write(tmp_path, b"{}")
