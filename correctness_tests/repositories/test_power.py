"""The gate's error rates on a repository's own benchmarks: what is measured of which case, and how it is counted."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from rlgauge import power
from rlgauge.pairs import CaseError, Cores
from rlgauge.power import DOSES
from rlgauge.rule import GateError, Rule
from rlgauge.source import Case

RULE = Rule(screen=2, confirm=8)


def line(**cases):
    """Return a pair that says this of each case at every dose; of the same code nothing."""
    said = {case: {f"{dose:g}": value * (dose > 0) for dose in DOSES} for case, value in cases.items()}
    return {"what": "pair", "log_ratios": said, "quick": said}


def rows(lines):
    return [row.strip("|").split(" | ")[1].split(" ")[0] for row in power.table(lines, RULE).splitlines()[2:-2]]


def test_a_table_counts_every_dose_of_the_cases_that_all_pairs_have():
    lines = [{"what": "machine"}, *[line(a=0.2, b=0.0)] * 9, line(a=0.2, b=0.0, new=0.2)]
    assert rows(lines) == ["0/10", *["1/6"] * 3]  # a: 1 of 1; b: 0 of 5
    assert power.table(lines, RULE).endswith("\n10 pairs of 2 cases.")
    assert rows([line(a=0.2, b=0.0, c=0.0)] * 10)[1:] == ["0/11"] * 3  # 3 / 2^8 is above 0.01


def test_too_few_pairs_for_a_verdict_are_no_table():
    with pytest.raises(
        GateError, match=r"^power: 9 pairs were measured, a verdict takes 10: rlgauge power --minutes 60$"
    ):
        power.table([{"what": "machine"}, *[line(a=0.0)] * 9], RULE)


def test_without_minutes_nothing_is_measured(monkeypatch, tmp_path):
    done, file = [], tmp_path / "power.jsonl"
    source = SimpleNamespace(everything=lambda root: done.append(root))
    monkeypatch.setattr(power, "measure", lambda *how: done.append(how))
    with pytest.raises(GateError, match=r"^nothing was measured yet: rlgauge power --minutes 60$"):
        power.rates(source, tmp_path, file, 0, RULE, 7.0)
    assert done == []
    file.write_text(json.dumps(line(a=0.0)) + "\n")
    file.write_text(file.read_text() * 10)
    assert power.rates(source, tmp_path, file, 0.5, RULE, 7.0) == power.table([line(a=0.0)] * 10, RULE)
    assert done == [tmp_path, (source, tmp_path, file, 0.5, RULE, 7.0)]
    file.write_text('{"what": "round"}\n')
    with pytest.raises(GateError, match=r"a line is of 'round', wanted machine, pair$"):
        power.read(file)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Measure for some seconds, each pair takes two of them. -> the lines, and the passes and draws of each pair"""
    cases, seen, said = [Case("a", False), Case("b", True), Case("c", False)], [], []
    source = SimpleNamespace(cases=lambda: cases, together=False, machine=lambda root: {"cpu_model": "abacus"})

    @contextmanager
    def laid_out(given, root):
        assert (given, root) == (source, tmp_path)
        yield SimpleNamespace(side=lambda commit, name: (commit, name), folder="a folder")

    class Drawing:
        def __init__(self, sides, blocks, limit, tolerances, folder, rng, known, together):
            assert (sides, blocks, limit) == ([(None, "base"), (None, "head")], RULE.blocks, 7.0)
            assert (folder, together) == ("a folder", False)
            self.draw = rng.random()

    def dosed(pairs, names, place):
        seen.append((pairs.draw, *names, place.one is None))
        if "fails" in names:
            raise CaseError("fails", "head: killed by SIGKILL")
        return {key: said for key, said in line(**dict.fromkeys(names, 0.0)).items() if key != "what"}

    def run(seconds):
        clock = itertools.count()
        monkeypatch.setattr(power.time, "monotonic", lambda: float(next(clock)))
        power.measure(source, tmp_path, tmp_path / "power.jsonl", seconds / 60, RULE, 7.0, said.append)
        return power.read(tmp_path / "power.jsonl"), seen, said

    monkeypatch.setattr(power, "laid_out", laid_out)
    monkeypatch.setattr(power, "Pairs", Drawing)
    monkeypatch.setattr(power, "dosed", dosed)
    run.cases = cases
    return run


def test_measuring_goes_on_with_the_next_pair_of_what_is_there(measured):
    for _ in range(2):
        lines, seen, said = measured(8)
    assert [found["what"] for found in lines] == ["machine", "pair", "pair"] * 2
    assert lines[0]["cpu_model"] == "abacus"
    assert lines[1]["log_ratios"].keys() == lines[1]["quick"].keys() == {*"abc"}
    draws = [random.Random(number).random() for number in range(4)]
    assert seen == [found for draw in draws for found in ((draw, "a", "c", False), (draw, "b", True))]
    assert said[0] == "power: 1 pairs, 2 s the last, about 4 s left"
    assert said[-1] == "power: 4 pairs, 2 s the last, about 0 s left"


def test_a_case_that_ends_a_worker_ends_measuring_with_a_line_and_no_half_of_a_pair(measured):
    measured.cases += [Case("fails", True)]
    with pytest.raises(GateError, match=r"^head: killed by SIGKILL$"):
        measured(8)
    assert [found["what"] for found in measured(0)[0]] == ["machine"] * 2


@pytest.mark.parametrize("together", [True, False])
def test_a_dose_is_that_part_of_the_turn_of_its_own_case(monkeypatch, together):
    place, asked, calls = Cores((0, 1), 1), [], {"a": 0.002, "b": 0.004}
    monkeypatch.setattr(power, "both", lambda workers, do, **what: asked.append((do, what["identity"])))
    monkeypatch.setattr(
        power, "prepared", lambda workers, name, where: asked.append(("prepare", name)) or (calls[name], 2, calls[name])
    )

    class Mixing:
        drawn = staticmethod(lambda names: [[name] for name in reversed(names)])

        @contextmanager
        def workers(self, where):
            assert where is place
            yield "both workers"

        def mixed(self, slots, block, thorough):
            assert thorough
            return {slot: [block(slot)] for slot in slots}

        def block(self, workers, name, plan, dose):
            assert (workers, plan) == ("both workers", place.plan(calls[name], 2, calls[name]))
            turn = plan.samples * plan.calls * calls[name]
            return turn, turn + dose.get("spin", 0.0)

        def quick(self, blocks, plan):
            return blocks

    pairs = Mixing()
    pairs.together = together
    found = power.dosed(pairs, ["a", "b"], place)
    wanted = {f"{dose:g}": round(power.log_ratio([(1.0, 1 + dose)]), 6) for dose in DOSES}
    assert found == {key: {"a": wanted, "b": wanted} for key in ("log_ratios", "quick")}
    order = "ab" if together else "ba"
    one_by_one = [(do, name) for name in order for do in ("prepare", "close")]
    all_at_once = [(do, name) for do in ("prepare", "close") for name in order]
    assert asked == (all_at_once if together else one_by_one)


@pytest.mark.parametrize("reply", [{"failed": "why"}, {"skipped": "why"}])
@pytest.mark.parametrize("side", [0, 1])
def test_a_case_that_cannot_be_prepared_on_a_side_is_named(monkeypatch, side, reply):
    monkeypatch.setattr(power, "both", lambda *how, **what: [reply, {}] if side == 0 else [{}, reply])
    with pytest.raises(GateError, match=r"^a case: why$"):
        power.prepared([], "a case", Cores((0, 1), 1))
