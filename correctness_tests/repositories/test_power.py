"""The gate's error rates on a repository's own benchmarks: what is measured of which case, and how it is counted."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from rlgauge import power
from rlgauge.pairs import CaseError, Cores, SamplePlan
from rlgauge.power import DOSES
from rlgauge.rates import Said
from rlgauge.rule import SAME, SAME_ON_ALL, SLOWED, SLOWED_ON_ALL, WANTED, GateError, Rule
from rlgauge.source import Case

from .made import Repository, flat

RULE = Rule(screen=2, confirm=8, looks=1)


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
    source = SimpleNamespace(everything=lambda root, arguments: done.append(root), cases=lambda: [Case("a")])
    monkeypatch.setattr(power, "measure", lambda *how, doses, faults: done.append(how))
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
    source = SimpleNamespace(cases=lambda: cases, machine=lambda root: {"cpu_model": "abacus"})

    @contextmanager
    def laid_out(given, root):
        assert (given, root) == (source, tmp_path)
        yield SimpleNamespace(side=lambda commit, name: (commit, name), folder="a folder")

    class Drawing:
        def __init__(self, sides, blocks, limit, tolerances, folder, rng):
            assert (sides, blocks, limit) == ([(None, "base"), (None, "head")], RULE.blocks, 7.0)
            assert folder == "a folder"
            self.draw = rng.random()

    def treated(pairs, names, place, doses, faults):
        seen.append((pairs.draw, *names, place.one is None))
        if "fails" in names:
            raise CaseError("fails", "head: killed by SIGKILL")
        return {key: said for key, said in line(**dict.fromkeys(names, 0.0)).items() if key != "what"}

    def run(seconds, **how):
        clock = itertools.count()
        monkeypatch.setattr(power.time, "monotonic", lambda: float(next(clock)))
        power.measure(source, tmp_path, tmp_path / "power.jsonl", seconds / 60, RULE, 7.0, said.append, **how)
        return power.read(tmp_path / "power.jsonl"), seen, said

    monkeypatch.setattr(power, "laid_out", laid_out)
    monkeypatch.setattr(power, "Pairs", Drawing)
    monkeypatch.setattr(power, "treated", treated)
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


def test_measuring_ends_with_the_number_of_pairs_that_is_wanted(measured):
    measured(4)
    lines, seen, said = measured(math.inf, passes={True: ["d"]}, most=3)
    assert [found["what"] for found in lines] == ["machine", "pair", "machine", "pair", "pair"]
    assert [names for _, *names in seen] == [["a", "c", False], ["b", True], *[["d", True]] * 2]
    assert said[1:] == ["power: 2 pairs, 2 s the last, about 2 s left", "power: 3 pairs, 2 s the last, about 0 s left"]
    assert len(measured(math.inf, most=3)[0]) == len(lines) + 1


def canaries(slow, same=0.0):
    """Return a pair that says this of the slowed canaries and of the same ones."""
    said = {name: {"0": slow if "slowed" in name else same} for wanted in WANTED.values() for name in wanted}
    return {"what": "pair", "log_ratios": said, "quick": said}


def cells(lines):
    """Return the cells of the table of canaries, by name."""
    found = [row.strip("| ").split(" | ") for row in power.canary_table(lines, RULE).splitlines()[2:-2]]
    return {name.strip("`"): told for name, *told in found}


def test_of_each_canary_the_table_has_the_spread_and_how_often_it_is_called_slower():
    lines = [canaries(slow, same) for slow, same in [(0.05, -0.01), (0.06, 0.0), (0.07, 0.01)] * 4]
    slowed = ["+6.18%", "1.48%", "2/2 [15.8 %, 100.0 %]", "100.0%"]
    same = ["+0.00%", "1.48%", "0/6 [0.0 %, 45.9 %]", "0.0%"]
    found = cells([{"what": "machine"}, *lines])
    assert found == {SAME: same, SLOWED: slowed, SAME_ON_ALL: same, SLOWED_ON_ALL: slowed}
    assert power.canary_table(lines, RULE).endswith("\n12 pairs of processes of the same code.")


def test_of_a_few_pairs_of_canaries_there_is_no_rate():
    unknown = ["not measured", "not measured"]
    assert cells([canaries(0.0)] * 9)[SAME] == ["+0.00%", "0.00%", *unknown]
    assert cells([{"what": "machine"}]) == {}
    with pytest.raises(
        GateError, match=r"^power: the file holds pairs of other cases than the canaries: name another "
    ):
        cells([line(a=0.0)])


@pytest.mark.parametrize("reply", [{"failed": "why"}, {"skipped": "why"}])
@pytest.mark.parametrize("side", [0, 1])
def test_a_case_that_cannot_be_prepared_on_a_side_is_named(monkeypatch, side, reply):
    monkeypatch.setattr(power, "both", lambda *how, **what: [reply, {}] if side == 0 else [{}, reply])
    with pytest.raises(GateError, match=r"^a case: why$"):
        power.prepared([], "a case", Cores((0, 1), 1))


def test_doses_are_of_the_same_code_and_of_two_five_and_ten_per_cent():
    assert DOSES == (0.0, 0.02, 0.05, 0.10)
    head, _, *found = power.table([line(a=0.0, b=0.0)] * 10, RULE).splitlines()
    assert head == "| slowed by | called slower [95 % interval] |"
    said = [row.strip("| ").split(" | ")[0] for row in found]
    assert said[:4] == ["0 %, the same code", "2 %", "5 %", "10 %"]


def test_a_case_that_only_some_pairs_have_is_not_counted():
    lines = [line(a=0.0, old=0.2), *[line(a=0.0, new=0.2)] * 9]
    assert power.table(lines, RULE).endswith("\n10 pairs of 1 cases.")
    assert rows(lines) == ["0/5"] * 4


def test_what_a_pair_says_is_of_all_blocks_and_of_those_of_a_quick_pair():
    quick = SimpleNamespace(quick=lambda values, plan: values[: plan.samples])
    plans = SamplePlan(1, 1, True), SamplePlan(1, 2, True)
    values = [(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]
    blocks = {("a", "0", plans[0]): values, ("a", "0.05", plans[1]): values, ("b", "0", plans[0]): values[1:]}
    assert power.said(quick, blocks) == {
        "log_ratios": {"a": {"0": 1.098612, "0.05": 1.098612}, "b": {"0": 1.242453}},
        "quick": {"a": {"0": 0.693147, "0.05": 0.89588}, "b": {"0": 1.098612}},
    }


def test_parts_are_joined_case_by_case():
    parts = [{"log_ratios": {name: {"0": 1.0}}, "quick": {name: {"0": 2.0}}} for name in "ab"]
    joined = power.joined(parts)
    assert joined == {"log_ratios": {name: {"0": 1.0} for name in "ab"}, "quick": {name: {"0": 2.0} for name in "ab"}}
    assert power.joined([]) == {"log_ratios": {}, "quick": {}}


def test_of_lines_of_old_quick_pairs_are_like_thorough_ones():
    new = {"log_ratios": {"a": {"0.05": 1.0, "0": 3.0}}, "quick": {"a": {"0.05": 2.0, "0": 4.0}}}
    old = {"log_ratios": {"a": {"0.05": 5.0}}}
    assert power.column([new, old], "a", "0.05") == [Said(2.0, 1.0), Said(5.0, 5.0)]
    assert power.column([new], "a", "0") == [Said(4.0, 3.0)]


class Answering:
    """A worker that is asked for what a call takes."""

    side = SimpleNamespace(name="base")

    def __init__(self, reply):
        self.answer, self.asked = reply, []

    def ask(self, do, **what):
        self.asked.append((do, what))

    def reply(self):
        return self.answer


def test_a_case_is_prepared_and_placed_on_both_sides_and_measured_on_base(monkeypatch):
    both, base, head = [], Answering({"call": 0.5, "calls": 3, "wall": 2.0}), Answering({})
    monkeypatch.setattr(power, "both", lambda workers, do, **what: both.append((workers, do, what)) or [{}, {}])
    assert power.prepared([base, head], "a", Cores((0, 1), 1)) == (0.5, 3, 2.0)
    assert both == [([base, head], "prepare", {"identity": "a"}), ([base, head], "place", {"core": 1})]
    assert (base.asked, head.asked) == ([("measure", {"identity": "a"})], [])
    base.answer = {"failed": "killed"}
    with pytest.raises(CaseError, match=r"^base: killed$"):
        power.prepared([base, head], "a", Cores((0, 1), None))
    assert both[-1][2] == {"core": None}


def test_a_pair_of_old_counts_for_the_number_of_the_next(measured, monkeypatch, tmp_path):
    today = datetime.date(2026, 1, 2)
    monkeypatch.setattr(power, "datetime", SimpleNamespace(date=SimpleNamespace(today=lambda: today)))
    power.measurements.keep(tmp_path / "power.jsonl", {"what": "machine"})
    power.measurements.keep(tmp_path / "power.jsonl", line(a=0.0))
    lines, seen, said = measured(4)
    assert seen[0][0] == random.Random(1).random()
    assert said[0].startswith("power: 2 pairs, ")
    assert lines[-1]["seconds"] == 1.0
    assert lines[2]["date"] == "2026-01-02"


def with_fault(**cases):
    """Return a pair of the same code in which a fault was put into some cases."""
    found = line(**dict.fromkeys(cases, 0.0))
    for case, value in cases.items():
        found["log_ratios"][case]["faults:slow"] = found["quick"][case]["faults:slow"] = value
    return found


def test_a_fault_has_a_row_with_the_slowdown_of_each_of_its_tests():
    lines = [line(a=0.0, b=0.0), *[with_fault(a=math.log(2), b=0.0)] * 10]
    *_, row, _, _ = power.table(lines, RULE).splitlines()
    assert row == "| `faults:slow` (x 2.00, x 1.00) | 1/6 [0.4 %, 64.1 %] |"


FAULTS = """def doubled(function):
    return lambda *args: (function(*args), function(*args))[0]


def broken(function):
    raise KeyError("weights")
"""
FEW = ("--minutes=0.6", "--rule=screen=1,confirm=1,looks=1,blocks=2,level=0.5", "benchmarks", "-k", "slow")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("power") / "toy", flat() | {"benchmarks/faults.py": FAULTS})
    yield toy
    assert toy.leftovers() == []


def test_doses_and_faults_are_found_in_a_repository_of_their_own(toy):
    code, text = toy.run("rlgauge", "power", *FEW, "--fault=benchmarks.faults:doubled=*::test_slow")
    assert code == 0, text
    rows = {cells[0]: cells[1] for cells in (row.strip("| ").split(" | ") for row in text.splitlines() if " | " in row)}
    same, two, five, ten = (rows[name].split("/") for name in ("0 %, the same code", "2 %", "5 %", "10 %"))
    assert (same[0], two[0], five[0], ten[0]) == ("0", *[two[1].split()[0]] * 3)
    (found,) = [rate for name, rate in rows.items() if name.startswith("`benchmarks.faults:doubled` (x 2.0")]
    assert found == rows["10 %"]
    assert "pairs of 1 cases." in text


SLOW = "benchmarks/test_sorting.py::test_slow"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fault=faults"], "--fault: got 'faults', wanted MODULE:FUNCTION or MODULE:FUNCTION=PATTERN"),
        (["--fault=benchmarks.faults:doubled=*other"], "--fault benchmarks.faults:doubled: no test fits *other"),
        (["--fault=benchmarks.faults:broken"], f"{SLOW}: benchmarks.faults:broken: its test fails: KeyError"),
        (["--fault=nothing:here"], "nothing:here: its test fails: ModuleNotFoundError: No module named 'nothing'"),
        (["--canaries=1"], "--canaries: got benchmarks -k slow too, which is of tests"),
    ],
)
def test_a_fault_that_cannot_be_put_in_is_one_line(toy, tmp_path, options, words):
    code, text = toy.run("rlgauge", "power", *FEW, "--file", tmp_path / "power.jsonl", *options)
    assert code == 2, text
    assert words in text.splitlines()[-1]
    assert "Traceback" not in text


@pytest.mark.parametrize(("text", "doses"), [("0.05", (0.0, 0.05)), ("0.1, 0.02,", (0.0, 0.02, 0.1)), ("", (0.0,))])
def test_slowdowns_are_parts_of_a_call_beside_the_same_code(text, doses):
    assert power.doses_of(text) == doses


@pytest.mark.parametrize("text", ["5%", "-0.05", "nan", "0"])
def test_a_slowdown_that_is_none_is_one_line(text):
    with pytest.raises(
        GateError, match=r"^--slowdowns: got '.*'; give parts of a call above 0, for example 0.02,0.05$"
    ):
        power.doses_of(text)
