"""The gate's own error rates: how verdicts are counted, and doses given."""

from __future__ import annotations

import itertools
import json
import math
import random

import numpy as np
import pytest

from perf_tests.gate.__main__ import DOCUMENT, MARKERS, POWER
from perf_tests.gate.selfcheck import power, power_table
from perf_tests.gate.selfcheck.power import CASES, DOSES, MISTAKES, named, samples_for
from perf_tests.gate.selfcheck.power_table import (
    RECORDED,
    Measured,
    example,
    pytest_benchmark,
    read,
    simulated_suites,
    smallest_found,
    table,
    whole_tier,
)
from perf_tests.gate.source import Suite
from perf_tests.report.readme import README, insert
from perf_tests.selection import Selection
from perf_tests.suite.cases import variants
from rlgauge.pairs import CaseError, Cores, Pairs, SamplePlan
from rlgauge.power import column, joined, said
from rlgauge.rates import Rate, Said, confirmation, verdicts
from rlgauge.rule import GateError, Record, Rule, decide

RULE = Rule(screen=2, confirm=8, looks=1)
SLOW, SAME = 0.1, 0.0
SUITE = 30
MACHINE = {"cpu_model": "abacus", "cores": 2, "date": "2026-11-21", "git": "0123456789ab", "gated": SUITE}


def measured(value=lambda case, dose, pair: 0.0, pairs=40):
    """Return pairs whose log-ratios are what the function says."""
    lines = [
        {
            "what": "pair",
            "kind": power.KINDS[pair % 2],
            "seconds": 1.0,
            "log_ratios": {case: {f"{dose:g}": value(case, dose, pair) for dose in DOSES} for case in CASES},
        }
        for pair in range(pairs)
    ]
    mistakes = {"what": "mistakes", "log_ratios": {named(case, name): {name: 1.0} for case, name in MISTAKES}}
    return Measured(lines, [], [MACHINE | {"gated": 1}, MACHINE], [mistakes] * 40)


def judged(values, rule, suspects=1):
    """Return the verdicts on pairs that say the same in a screen and in a confirmation."""
    return list(verdicts([Said(value, value) for value in values], rule, suspects))


def test_false_alarms_of_the_whole_tier_are_those_of_each_case_by_itself():
    slow, same = [0.1] * 36, [0.0] * 36
    found = whole_tier({"machines": [MACHINE], "pairs": [{"a": a, "b": b} for a, b in zip(slow, same)]}, Rule())
    count = len(judged(same, Rule())) + len(judged(slow, Rule()))
    where = power_table.described(MACHINE)
    assert found == (
        f"Of all 2 cases of the gate tier, in 36 other pairs of the same code, on {where}: "
        f"{Rate(len(judged(slow, Rule())), count)} false alarms."
    )


def test_a_verdict_takes_fresh_pairs_and_a_suspect_more():
    clean, slow = [SAME] * 2, [SLOW] * 10
    assert judged(clean + slow + clean, RULE) == [(False, False), (True, True), (False, False)]
    assert judged([SLOW, SLOW, *[SAME] * 8, *clean], RULE) == [(True, False), (False, False)]


def test_a_last_suspect_is_confirmed_by_the_pairs_of_the_beginning():
    assert judged([*[SAME] * 8, SLOW, SLOW], RULE) == [*[(False, False)] * 4, (True, False)]
    assert judged([SLOW, SLOW, *[SLOW] * 8, SLOW, SLOW], RULE) == [(True, True)] * 2


def test_too_few_pairs_for_a_suspect_are_no_verdict():
    assert judged([SAME] * 9, RULE) == []


def test_what_looks_faster_is_no_alarm():
    assert judged([-SLOW] * 10, RULE) == [(False, False)] * 5


def test_a_find_is_adjusted_for_the_other_suspects():
    assert judged([SLOW] * 10, RULE, suspects=2) == [(True, True)]  # 2 / 2^8 is below 0.01
    assert judged([SLOW] * 10, RULE, suspects=3) == [(True, False)]


def test_an_adjusted_p_may_be_as_large_as_the_level():
    exactly = Rule(screen=2, confirm=8, looks=1, level=2**-8)
    assert judged([SLOW] * 10, exactly) == [(True, True)]
    assert judged([SLOW] * 10, exactly, suspects=2) == [(True, False)]
    assert judged([SLOW] * 10, Rule(screen=2, confirm=8, looks=1, level=2**-7), suspects=2) == [(True, True)]


def test_a_screen_that_is_left_over_is_a_verdict_and_a_pair_that_is_left_over_is_none():
    assert judged([SAME] * 10, RULE) == [(False, False)] * 5
    assert judged([SAME] * 11, RULE) == [(False, False)] * 5
    assert judged([*[SLOW] * 10, SAME], RULE) == [(True, True)]


def test_a_verdict_that_the_first_look_leaves_open_takes_the_pairs_of_the_second():
    both, clean = Rule(screen=2, confirm=8), [SAME] * 2
    late = [*[SLOW] * 8, *[-SLOW / 2] * 2, *[SLOW] * 8]
    assert judged(late + clean, both) == [(True, True), (False, False)]
    assert judged([SLOW] * 10 + clean * 4, both) == [(True, True), *[(False, False)] * 4]
    assert judged([SLOW] * 2 + [SAME] * 8 + clean * 4, both) == [(True, False), *[(False, False)] * 4]  # it was let go
    assert judged([*[SLOW] * 8, *[-SLOW] * 10], both) == [(True, False)]
    assert judged([SLOW] * 10, both) == [(True, True)]
    assert judged(late[:10], both) == [(True, False)]  # too few for a second look
    assert judged([SLOW] * 9, both) == []


def test_a_screen_and_what_comes_up_to_the_first_look_are_quick():
    hidden, found = Said(SAME, SLOW), Said(SLOW, SAME)
    assert list(verdicts([hidden] * 10, RULE)) == [(False, False)] * 5
    assert list(verdicts([found] * 10, RULE)) == [(True, False)]
    assert list(verdicts([found] * 2 + [hidden] * 8, RULE)) == [(True, False)]  # let go at the first look
    assert list(verdicts([found] * 4 + [hidden] * 6, RULE)) == [(True, True)]
    assert confirmation([found] * 3, RULE).tolist() == [SLOW, SLOW, SAME]


def test_rates_come_with_the_exact_interval():
    assert str(Rate(0, 240)) == "0/240 [0.0 %, 1.5 %]"
    assert str(Rate(48, 48)) == "48/48 [92.6 %, 100.0 %]"
    assert str(Rate(0, 0)) == "not measured"
    assert Rate(1, 2) + Rate(3, 4) == Rate(4, 6)


def test_the_rival_rule_is_five_per_cent_of_the_median():
    medians = {"plain": {"a": 1.0, "b": 1.0}, "0.05": {"a": 1.0501, "b": 1.0499}}
    assert pytest_benchmark(Measured([], [{"medians": medians}], []), "0.05") == Rate(1, 2)


@pytest.mark.parametrize("dose", DOSES[1:])
@pytest.mark.parametrize(("calls", "least"), [(3, 4), (15, 1), (62, 1), (400, 1)])
def test_a_dose_of_calls_is_a_whole_number_of_them(calls, least, dose):
    samples, extra = samples_for(calls, least, dose)
    assert samples >= least
    assert extra == pytest.approx(samples * calls * dose, rel=0.05)


def test_suites_of_the_same_code_have_no_alarm_and_of_slower_code_always(monkeypatch):
    monkeypatch.setattr(power_table, "SUITES", 200)
    assert simulated_suites(measured(), Rule()) == 0
    assert simulated_suites(measured(lambda *_: SLOW), Rule()) == power_table.SUITES


def drawn(rng, values, rule, suite):
    """Return the records of one suite: sets of all cases, each with pairs of its own."""
    records = {}
    while len(records) < suite:
        screen, confirm = (rng.integers(values.shape[1], size=n) for n in (rule.screen, rule.most))
        for case in rng.permutation(len(values))[: suite - len(records)]:
            pairs = ([[(1.0, math.exp(x))] for x in values[case, which]] for which in (screen, confirm))
            records[f"{len(records)}"] = Record(screen=next(pairs), confirm=next(pairs))
    return records


def test_simulated_suites_are_decided_as_the_gate_decides(monkeypatch):
    for name, value in {"SUITES": 150, "CASES": CASES[:3]}.items():
        monkeypatch.setattr(power_table, name, value)
    monkeypatch.setitem(MACHINE, "gated", 7)
    rng, rule = np.random.default_rng(1), Rule(screen=2, confirm=16)
    values = rng.normal(rng.uniform(0, 0.016, (3, 1)), 0.01, (3, 40))
    places = {case: k % 3 for k, case in enumerate(CASES)}
    found = simulated_suites(measured(lambda case, dose, pair: values[places[case], pair]), rule)
    wanted = sum(
        any(finding.verdict == "slower" for finding in decide(drawn(rng, values, rule, 7), rule).values())
        for _ in range(150)
    )
    assert 30 < wanted < 120  # far from none and all
    assert abs(found - wanted) < 4 * math.sqrt(2 * 150 / 4)


def test_the_smallest_slowdown_found_grows_with_the_spread():
    rng = np.random.default_rng(0)
    draws = (np.repeat(rng.normal(0, s, (60, 1)), 2, axis=1) for s in (0.002, 0.02, 5.0))  # the same in both phases
    quiet, loud, wild = (smallest_found(values, Rule(), 1) for values in draws)
    assert Rule().tolerated < quiet < 0.015 < loud < 0.05
    assert wild == math.inf


@pytest.fixture
def few(monkeypatch):
    """Fewer simulations, which take most of a table's time."""
    monkeypatch.setattr(power_table, "SUITES", 200)
    monkeypatch.setattr(power_table, "TRIES", 50)


@pytest.mark.usefixtures("few")
def test_the_table_counts_each_dose():
    found = table(measured(lambda case, dose, pair: math.log1p(dose)), Rule())
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in found.splitlines() if line.startswith("|")}
    clean, *doses = (cell.strip().split(" ")[0] for cell in rows["**gate**"])
    assert clean == f"0/{40 // 4 * len(CASES)}"
    assert doses == [f"{2 * len(CASES)}/{2 * len(CASES)}"] * 4  # of 40 pairs
    assert all(f"`{case}`" in rows for case in CASES)
    assert "On abacus, 2 cores, 2026-11-21, commit 0123456789ab, of 40 pairs" in found
    assert [line.split("|")[4].strip()[:3] for line in found.splitlines() if line.startswith("| copy")] == ["2/2"]


def test_the_documents_show_what_was_measured():
    measured, of_all = read(POWER), whole_tier(json.loads(RECORDED.read_bytes()), Rule())
    for page, text in ((DOCUMENT, f"{table(measured, Rule())}\n\n{of_all}"), (README, example(measured, Rule()))):
        assert insert(page.read_text(), *MARKERS, text) == page.read_text()


def test_an_example_is_a_verdict_on_the_first_case_that_is_found():
    case = CASES[1]
    told = example(measured(lambda name, dose, pair: (name == case) * (dose + pair % 8 / 100)), Rule())
    assert told.startswith(f"```\n{case}: slower, +")
    assert "n = 16 pairs, p = 3.1e-05" in told
    with pytest.raises(GateError, match=r"^nothing was found that is 5 % slower$"):
        example(measured(), Rule())


@pytest.mark.usefixtures("few")
def test_the_table_tells_what_each_kind_does_and_adjusts_for_suspects():
    found = table(measured(lambda case, dose, pair: math.log1p(dose) * (pair % 2 == 0)), Rule())
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in found.splitlines() if line.startswith("|")}
    assert {rows[f"`{case}`"][2].strip() for case in CASES} == {"+5.0 %, +0.0 %"}
    assert "the smallest of 1 suspects" in found
    noisy = table(measured(lambda case, dose, pair: 0.02 * (pair % 20 < 4)), Rule())  # each screen, no confirmation
    assert f"the smallest of {1 + SUITE} suspects" in noisy


@pytest.mark.parametrize("text", ["nonsense", '{"seconds": 1}', "[1]"])
def test_a_file_that_is_something_else_is_refused(tmp_path, text):
    (tmp_path / "power.jsonl").write_text(text)
    with pytest.raises(GateError, match=r"power\.jsonl"):
        read(tmp_path / "power.jsonl")


def test_no_file_or_an_empty_one_is_refused(tmp_path):
    with pytest.raises(GateError, match="not what power writes"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(GateError, match="nothing was measured"):
        table(read(tmp_path / "empty.jsonl"), Rule())


def test_what_was_measured_is_read_in_its_order(tmp_path):
    lines = [{"what": "round", "medians": {}}, *measured(lambda case, dose, pair: float(pair)).pairs]
    (tmp_path / "power.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read(tmp_path / "power.jsonl")
    assert len(found.rounds) == 1
    assert found.values(CASES[0], "0.05") == [(pair, pair) for pair in range(40)]
    assert found.values(CASES[0], "0.05", "calls") == [(pair, pair) for pair in range(1, 40, 2)]


def test_a_pair_is_kept_as_a_thorough_one_says_it_and_as_another_does():
    pairs = Pairs((), 2, 1.0, {}, None, random.Random(0))
    plan = SamplePlan(1, 1, True, most_blocks=3, more_blocks=2)
    scattered = [(1.0, 1.0), (1.0, 4.0), (1.0, 4.0)]
    steady = [(1.0, 2.0)] * 2
    found = joined([said(pairs, {("a", "0", plan): scattered}), said(pairs, {("b", "0.05", plan): steady})])
    two, four = round(math.log(2), 6), round(math.log(4), 6)
    assert found == {
        "log_ratios": {"a": {"0": four}, "b": {"0.05": two}},
        "quick": {"a": {"0": two}, "b": {"0.05": two}},
    }
    assert column([found], "a", "0") == [Said(two, four)]
    assert column([{"log_ratios": found["log_ratios"]}], "a", "0") == [Said(four, four)]


def test_measuring_goes_on_where_it_was_stopped_and_after_a_worker_died(tmp_path, monkeypatch):
    asked, seconds = [], itertools.count()

    def pair(pairs, number, alone, together):
        asked.append(number)
        if len(asked) == 2:
            raise CaseError("some case", "head: killed by SIGKILL")
        return {"what": "pair", "number": number}

    monkeypatch.setattr(power, "measured_pair", pair)
    monkeypatch.setattr(power, "mistaken_pair", lambda pairs, place: {"log_ratios": {"case!copy": {"copy": 0.1}}})
    source = Suite(Selection(tier="full"), tmp_path / "cache")
    monkeypatch.setattr(power.time, "monotonic", lambda: float(next(seconds)))
    said = []
    for _ in range(2):  # a line takes three readings of the clock
        power.measure(source, README.parent, tmp_path / "power.jsonl", 12 / 60, said.append)
    lines = [json.loads(line) for line in (tmp_path / "power.jsonl").read_text().splitlines()]
    kinds = ["machine", "pair", "mistakes", "failed", "pair", "machine", "pair", "pair", "mistakes", "pair"]
    assert [line["what"] for line in lines] == kinds
    assert lines[0]["gated"] == lines[5]["gated"] == sum(v.tier == "gate" for v in variants().values())
    assert asked == [0, 1, 1, 2, 3, 4]
    assert lines[2]["log_ratios"] == {"case!copy": {"copy": 0.1}}
    assert lines[3]["words"] == "head: killed by SIGKILL"
    assert said[-1] == "power: 5 pairs, 1 failed, 1 s the last, about 0 s left"
    assert said[0].endswith("about 9 s left")


ONE, ALL = Cores((0, 1), 1), Cores((0, 1), None)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", power.KINDS)
def test_a_dose_is_that_part_of_a_sample(case, kind):
    for call in (1e-6, power.LONG / 2, power.LONG * 2):
        slots = list(power.doses_of(case, call, 16, kind, ONE))
        given = DOSES if case in power.FULLY else power.FEWER
        assert [slot.treatment for slot in slots] == [f"{dose:g}" for dose in given]
        assert slots[0].dose == {}
        for dose, slot in zip(given, slots, strict=True):
            seconds = slot.plan.samples * slot.plan.calls * call
            assert seconds >= ONE.least * (1 - 1e-9)
            if dose and (kind == "spin" or call > power.LONG):
                assert slot.dose == {"spin": pytest.approx(dose * seconds)}
            elif dose:
                assert slot.dose == {"extra": pytest.approx(dose * slot.plan.samples * slot.plan.calls, rel=0.05)}
    assert [slot.treatment for slot in power.doses_of(case, 0.05, 1, kind, ALL)] == ["0", "0.05"]
