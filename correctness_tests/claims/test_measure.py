"""One process measures claims: sides take turns, ratios, answers, figures."""

from __future__ import annotations

import math
import random
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.claims import measure
from perf_tests.suite.cases import variants
from perf_tests.suite.claim import Comparison, Figure, Side

from .toy import NUMPY, claim


class Scripted:
    """A side whose samples take what a list says; the log has who had a turn."""

    def __init__(self, label, seconds, log):
        self.label, self.seconds, self.log, self.calls = label, seconds, log, 2

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.log.append(f"{self.label} closed")

    def settle(self):
        return [np.ones(3)]

    def answer(self):
        return [np.zeros(3)]

    def measure_calls(self):
        return self.calls

    def sample(self):
        self.log.append(self.label)
        return self.seconds

    def noted(self):
        return {"blocked": self.seconds, "more": 1.0}

    def allocated(self):
        return 1e3 * self.seconds


def scripted(monkeypatch, seconds):
    log, sides = [], [Side(f"toy.op[{name}]", make=lambda rng: None) for name in seconds]
    monkeypatch.setattr(measure, "ready", lambda side, seed: Scripted(side.label, seconds[side.label[7:-1]], log))
    return log, sides


def test_sides_take_turns_and_a_short_sample_after_another_does_not_count(monkeypatch):
    log, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.01, "long": 0.2})
    asked = {side.label: {"seconds"} for side in sides}
    found = measure.together(sides, asked, 0, random.Random(1))
    rounds = len(found["toy.op[a]"].seconds)
    assert rounds >= 3
    assert {len(taken.seconds) for taken in found.values()} == {rounds}
    turns = log[: -len(sides)]
    assert turns.count("toy.op[a]") == turns.count("toy.op[b]") == 2 * rounds
    assert turns.count("toy.op[long]") == rounds
    each = [tuple(dict.fromkeys(turns[k : k + 5])) for k in range(0, len(turns), 5)]
    assert len(set(each)) > 1  # the order is drawn anew
    assert found["toy.op[a]"].seconds == [0.02] * rounds  # of a call
    assert sorted(log[-3:]) == sorted(f"{side.label} closed" for side in sides)


def test_a_process_says_a_ratio_of_each_claim_and_the_figures_of_each_side(monkeypatch):
    _, (a, b, c, gone) = scripted(monkeypatch, {"a": 0.04, "b": 0.01, "c": 0.02, "gone": 0.0})
    monkeypatch.setattr(Side, "missing", lambda self: "not here" if self is gone else None)
    asked, sizes = [], {"toy.op[a]": 16.0, "toy.op[b]": 4.0}

    def memory(workload, sides, seed):
        asked.append((workload, sorted(side.label for side in sides), seed))
        return {side.label: {"resident": sizes[side.label], "peak": 2 * sizes[side.label]} for side in sides}

    monkeypatch.setattr(measure, "memory", memory)
    claims = [
        claim(contexts={"time": Comparison(a, b), "gone": Comparison(a, gone)}, same="close"),
        replace(claim(contexts={"size": Comparison(a, b, "resident")}), name="small"),
        replace(claim(contexts={}, figures=[Figure("f", c, "9/s"), Figure("f", b, "9 GB", "peak")]), name="figures"),
    ]
    found = measure.measured(claims, "toy", 3)
    assert found["claims"] == {
        "toy": {"time": {"ratio": pytest.approx(4.0), "same": True}},
        "small": {"size": {"ratio": 4.0, "same": None}},
    }
    assert found["sides"] == {
        "toy.op[a]": {"seconds": 0.02, "resident": 16.0, "peak": 32.0},
        "toy.op[b]": {"seconds": 0.005, "resident": 4.0, "peak": 8.0},
        "toy.op[c]": {"seconds": 0.01},
    }
    assert asked == [("toy", ["toy.op[a]", "toy.op[b]"], 3)]


def test_sides_with_processes_that_nothing_is_judged_by_are_measured_once(monkeypatch):
    _, (a, b, c, d) = scripted(monkeypatch, {"a": 0.04, "b": 0.01, "c": 0.02, "d": 0.02})
    monkeypatch.setattr(Side, "starts_processes", property(lambda self: self is not d))
    claims = [
        claim(contexts={"time": Comparison(a, b)}, figures=[Figure("f", b, "9/s"), Figure("g", c, "9/s")]),
        replace(claim(contexts={}, figures=[Figure("h", d, "9/s")]), name="more"),
    ]
    for number, dear in ((0, [c.label]), (1, []), (5, [])):
        found = measure.measured(claims, "toy", number)
        assert sorted(found["sides"]) == sorted([a.label, b.label, d.label, *dear])


def test_a_side_whose_memory_alone_is_asked_for_is_not_timed(monkeypatch):
    log, (a, b) = scripted(monkeypatch, {"a": 0.04, "b": 0.01})
    figures = {"resident": 1.0, "peak": 1.0}
    monkeypatch.setattr(measure, "memory", lambda workload, sides, seed: {side.label: figures for side in sides})
    measure.measured([claim(contexts={"size": Comparison(a, b, "resident")})], "toy", 0)
    assert log == []


def test_the_seconds_of_a_side_are_the_median_of_its_rounds():
    assert measure.told(measure.Taken([4.0, 1.0, 2.0])) == {"seconds": 2.0}


def test_one_weight_that_goes_the_other_way_is_not_another_answer():
    weights = np.random.default_rng(0).normal(size=10_000)
    one, all_of_them = weights.copy(), weights + 1e-2 * np.sign(weights)
    one[7] += 2e-3
    assert measure.apart(weights, one) < 1e-3 < measure.apart(weights, all_of_them)
    assert measure.apart(weights, weights) == measure.apart(np.zeros(3), np.zeros(3)) == 0
    assert measure.apart(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == 0
    assert measure.apart(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == math.inf


@pytest.mark.parametrize(
    ("seconds", "rounds"),
    [(1e-6, 24), (0.2, 8), (0.5, 3), (19.0, 3), (21.0, 2), (59.0, 2), (61.0, 1), (500.0, 1)],
)
def test_rounds_that_take_long_are_fewer(seconds, rounds):
    assert measure.rounds_of(seconds, 2) == rounds


def test_only_sides_whose_spread_is_asked_for_get_more_rounds(monkeypatch):
    _, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.01, "c": 0.2})
    asked = {side.label: {"spread" if side.label.endswith("[b]") else "seconds"} for side in sides}
    monkeypatch.setattr(measure, "rounds_of", lambda seconds, sides: 2)
    found = measure.together(sides, asked, 0, random.Random(1))
    assert {label: len(taken.seconds) for label, taken in found.items()} == {
        "toy.op[a]": 2,
        "toy.op[b]": 6,
        "toy.op[c]": 2,
    }


def test_ops_are_in_one_group_where_any_claim_compares_them():
    a, b, c, d = (Side(f"toy.{name}[x]", make=lambda rng: None) for name in "abcd")
    linked = [claim(contexts={"1": Comparison(a, b)}), claim(contexts={"2": Comparison(b, c)})]
    found = measure.grouped(linked, {side.label: side for side in (d, c, b, a)})
    assert sorted(sorted(side.op for side in group) for group in found) == [["toy.a", "toy.b", "toy.c"], ["toy.d"]]


@pytest.mark.parametrize(
    ("kind", "ratio"),
    [("seconds", 4.0), ("noted:blocked", 4.0), ("noted:blocked+more", 1.04 / 1.01), ("allocated", 4.0)],
)
def test_a_ratio_is_base_over_change(monkeypatch, kind, ratio):
    _, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.01})
    pair = Comparison(*sides, kind)
    found = measure.together(sides, {side.label: {kind} for side in sides}, 0, random.Random(0))
    assert measure.ratio(pair, *(found[side.label] for side in sides)) == pytest.approx(ratio)


def test_seconds_are_those_of_an_item(monkeypatch):
    _, (a, b) = scripted(monkeypatch, {"a": 0.04, "b": 0.01})
    pair = Comparison(replace(a, work=32), replace(b, work=64))
    found = measure.together([a, b], {side.label: {"seconds"} for side in (a, b)}, 0, random.Random(0))
    assert measure.ratio(pair, found[a.label], found[b.label]) == pytest.approx(8.0)


def test_no_time_blocked_at_all_is_a_microsecond():
    base, change = measure.Taken(noted=[{"x": 0.5}]), measure.Taken(noted=[{"x": 0.0}])
    pair = Comparison(*(Side(name, make=lambda rng: None) for name in "ab"), "noted:x")
    assert measure.ratio(pair, base, change) == pytest.approx(5e5)
    assert measure.ratio(pair, change, change) == 1.0


def test_what_is_noted_is_of_an_item():
    one, five = (Side(name, make=lambda rng: None, work=work) for name, work in (("a", 2), ("b", 10)))
    base, change = measure.Taken(noted=[{"x": 0.3, "y": 0.1}]), measure.Taken(noted=[{"x": 0.4, "y": 0.0}])
    assert measure.ratio(Comparison(one, five, "noted:x+y"), base, change) == pytest.approx(5.0)


def test_a_side_without_any_spread_has_a_little(monkeypatch):
    pair = replace(Comparison(Side(NUMPY.format("naive")), Side(NUMPY.format("full"))), measure="spread")
    moved, still = measure.Taken([1.0, 2.0, 3.0]), measure.Taken([1.0, 1.0, 1.0])
    found = measure.ratio(pair, moved, still), measure.ratio(pair, still, moved), measure.ratio(pair, still, still)
    some = measure.spread([1.0, 2.0, 3.0])
    assert found == pytest.approx((some / measure.NOTHING, measure.NOTHING / some, 1.0))


def test_spread_memory_and_difference():
    pair = Comparison(Side("a"), Side("b"), "spread")
    base, change = measure.Taken([1.0, 2.0, 3.0, 4.0, 5.0]), measure.Taken([2.5, 2.75, 3.0, 3.25, 3.5])
    assert measure.ratio(pair, base, change) == pytest.approx(4.0)
    big, small = measure.Taken(memory={"resident": 8.0}), measure.Taken(memory={"resident": 2.0})
    assert measure.ratio(replace(pair, measure="resident"), big, small) == 4.0
    one, other = measure.Taken(answer=[np.array([1.0, 2.0])]), measure.Taken(answer=[np.array([1.0, 2.0 + 2e-7])])
    assert measure.ratio(replace(pair, measure="difference"), one, other) == pytest.approx(0.5, rel=1e-3)


def test_of_two_cases_the_larger_tolerance_counts(monkeypatch):
    pair = Comparison(*[Side(NUMPY.format(form)) for form in ("naive", "full")])
    near, far = (replace(variants()[pair.base.name].case, tolerance=tolerance) for tolerance in (1e-5, 1e-2))
    for base, change, alike in ((near, far, True), (far, near, True), (near, near, False)):
        cases = {pair.base.name: SimpleNamespace(case=base), pair.change.name: SimpleNamespace(case=change)}
        monkeypatch.setattr(Side, "variant", property(lambda self, cases=cases: cases[self.name]))
        assert measure.alike([np.ones(3)], [np.ones(3) + 2e-3], claim(same="close"), pair) is alike


def test_sides_are_made_with_the_seed_of_the_process_and_their_own_threads(monkeypatch):
    _, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.04})
    sides[0], made, here = replace(sides[0], threads=1), [], [None]
    scripts = measure.ready

    @contextmanager
    def limited(threads):
        here[0] = threads
        yield
        here[0] = None

    def ready(side, seed):
        made.append((side.label, seed, here[0]))
        return scripts(side, seed)

    monkeypatch.setattr(measure, "limited", limited)
    monkeypatch.setattr(measure, "ready", ready)
    measure.together(sides, {side.label: {"seconds"} for side in sides}, 7, random.Random(1))
    assert made == [(sides[0].label, 7, 1), (sides[1].label, 7, None)]


def test_sides_are_made_in_an_order_that_each_process_draws(monkeypatch):
    _, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.04, "c": 0.04})
    orders = []

    def together(sides, *rest):
        orders[-1].append(tuple(side.label for side in sides))
        return {side.label: measure.Taken(error="no") for side in sides}

    monkeypatch.setattr(Side, "missing", lambda self: None)
    monkeypatch.setattr(measure, "memory", lambda workload, sides, seed: {})
    monkeypatch.setattr(measure, "together", together)
    asked = [replace(claim(contexts={"alone": Comparison(*sides[k : k + 2])}), name=str(k)) for k in (0, 1)]
    for seed in range(10):
        orders.append([])
        measure.measured(asked, "toy", seed)
    assert len({tuple(groups) for groups in orders}) > 1


def test_answers_are_as_close_as_the_case_wants_where_it_wants_less(monkeypatch):
    a, b, pair = (
        [np.ones(3)],
        [np.ones(3) + 2e-3],
        Comparison(*[Side(NUMPY.format(form)) for form in ("naive", "full")]),
    )
    found = []
    for tolerance in (1e-5, 1e-2):
        case = replace(variants()[pair.base.name].case, tolerance=tolerance)
        monkeypatch.setattr(Side, "variant", SimpleNamespace(case=case))
        found.append(measure.alike(a, b, claim(same="close"), pair))
    assert found == [False, True]
    assert not measure.alike(a, [np.ones((3, 1))], claim(same="close"), pair)


def test_a_side_that_cannot_be_built_does_not_end_the_others(monkeypatch):
    _, sides = scripted(monkeypatch, {"a": 0.04, "b": 0.01})
    made = measure.ready
    monkeypatch.setattr(measure, "ready", lambda side, seed: made(side, seed) if "a" in side.name[6:] else 1 / 0)
    found = measure.together(sides, {side.label: {"seconds"} for side in sides}, 0, random.Random(0))
    assert found["toy.op[b]"].error == "ZeroDivisionError: division by zero"
    assert found["toy.op[a]"].seconds
    assert measure.compared(claim(), Comparison(*sides), found) == {"error": "ZeroDivisionError: division by zero"}


@pytest.mark.parametrize(
    ("asked", "own", "done"),
    [({"seconds"}, False, "settle"), ({"seconds"}, True, "sample"), ({"spread", "resident"}, True, "sample"),
     ({"noted:x", "answer"}, True, "settle"), ({"seconds", "difference"}, True, "settle"), ({"answer"}, True, "answer"),
     ({"difference"}, False, "answer"), ({"allocated"}, False, "settle"), ({"allocated", "answer"}, True, "settle")],
)  # fmt: skip
def test_a_side_is_settled_where_it_is_timed_or_counted_and_in_one_sample_where_it_has_processes(
    monkeypatch, asked, own, done
):
    monkeypatch.setattr(Side, "starts_processes", own)
    here = SimpleNamespace(**{name: lambda name=name: name for name in ("settle", "answer", "sample")})
    assert measure.settled(here, Side("a.b[c]"), asked) == done


def test_each_side_is_asked_for_all_that_any_claim_wants_of_it():
    a, b, c = (Side(f"toy.op[{name}]", make=lambda rng: None) for name in "abc")
    claims = [
        claim(contexts={"1": Comparison(a, b), "2": Comparison(a, c, "resident")}, same="bits"),
        claim(contexts={"1": Comparison(b, c, "spread")}, same="returns", evidence="snake-every-4"),
        claim(contexts={}, figures=[Figure("f", c, "9", "peak"), Figure("f", b, "9", "rate")]),
    ]
    assert measure.measures_of(claims) == {
        a.label: {"seconds", "resident", "answer"}, b.label: {"seconds", "spread", "answer"},
        c.label: {"resident", "spread", "answer", "peak"},
    }  # fmt: skip
    assert measure.measures_of([claim(contexts={"1": Comparison(a, b)}, same="close")])[b.label] == {
        "seconds",
        "answer",
    }
    assert measure.measures_of(claims[1:2]) == {b.label: {"spread"}, c.label: {"spread"}}
    wanted = [({"seconds"}, True), ({"spread"}, True), ({"noted:blocked"}, True), ({"resident", "peak"}, False),
              ({"allocated", "answer"}, False), ({"peak", "seconds"}, True)]  # fmt: skip
    assert [measure.needs_time(asked) for asked, _ in wanted] == [needs for _, needs in wanted]


@pytest.mark.parametrize(("seconds", "kept"), [([0.09, 0.02], 0.02), ([0.1, 0.02], 0.1), ([0.4, 0.02], 0.4)])
def test_a_sample_is_taken_with_the_sides_threads_and_kept_by_the_call(monkeypatch, seconds, kept):
    log, left = [], iter(seconds)

    class Here:
        calls = 4

        def sample(self):
            log.append("sample")
            return next(left)

        def noted(self):
            return {"taken": float(len(log))}

    @contextmanager
    def limited(threads):
        log.append(threads)
        yield
        log.append("over")

    monkeypatch.setattr(measure, "limited", limited)
    taken = measure.Taken()
    measure.visit(Here(), Side("toy.op[a]", make=lambda rng: None, threads=2), taken)
    assert taken.seconds == [kept / 4]
    samples = 1 + (kept == seconds[1])
    assert log == [2, *["sample"] * samples, "over"]
    assert taken.noted == [{"taken": 2.0 + samples}]


def test_answers_are_kept_and_only_what_is_asked_for_is_counted(monkeypatch):
    log, made = scripted(monkeypatch, {"a": 0.04, "b": 0.01})
    found = measure.together(made, {made[0].label: {"allocated"}, made[1].label: {"answer"}}, 0, random.Random(0))
    assert [(taken.allocated, taken.answer[0].tolist(), taken.seconds) for taken in found.values()] == [
        (40.0, [1, 1, 1], []), (0.0, [0, 0, 0], []),
    ]  # fmt: skip
    assert sorted(log) == ["toy.op[a] closed", "toy.op[b] closed"]


def test_what_fails_is_told_in_its_first_line_and_nothing_else_of_it():
    taken = measure.Taken([1.0, 3.0], memory={"resident": 5.0})
    assert measure.told(taken) == {"seconds": 2.0, "resident": 5.0}
    assert measure.told(replace(taken, error="no", seconds=[])) == {"error": "no"}
    sound, failed = measure.Taken([2.0]), measure.Taken(error="E: no")
    pair = Comparison(*(Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"))
    for found in ((sound, failed), (failed, sound)):
        kept = dict(zip(("toy.op[a]", "toy.op[b]"), found))
        assert measure.compared(claim(), pair, kept) == {"error": "E: no"}
    both = {
        "toy.op[a]": measure.Taken([2.0], answer=[np.ones(2)]),
        "toy.op[b]": measure.Taken([1.0], answer=[np.zeros(2)]),
    }
    for same, alike in ((None, None), ("returns", None), ("bits", False), ("close", False)):
        assert measure.compared(claim(same=same), pair, both) == {"ratio": pytest.approx(2.0), "same": alike}


def test_an_error_of_several_lines_is_one(monkeypatch):
    _, (side,) = scripted(monkeypatch, {"a": 0.04})

    def fails(side, seed):
        raise ValueError("first\nsecond")

    monkeypatch.setattr(measure, "ready", fails)
    found = measure.together([side], {side.label: {"seconds"}}, 0, random.Random(0))
    assert found[side.label].error == "ValueError: first"


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    pair = Comparison(*(Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"))
    base, change = measure.Taken([1.0, 8.0, 6.0]), measure.Taken([1.0, 2.0, 2.0])
    assert measure.ratio(pair, base, change) == pytest.approx(3.0)
    assert measure.ratio(replace(pair, measure="allocated"), measure.Taken(allocated=6.0), measure.Taken()) == 6.0
    noted = measure.Taken(noted=[{"x": 1.0, "y": 9.0}, {"x": 5.0, "y": 9.0}, {"x": 3.0, "y": 9.0}])
    assert measure.ratio(replace(pair, measure="noted:x"), noted, measure.Taken(noted=[{"x": 1.5}])) == 2.0
    assert measure.spread([5.0, 1.0, 2.0, 4.0, 3.0]) == pytest.approx(2 / 3)


def test_the_difference_of_answers_is_the_largest_of_all_their_numbers():
    one = {"a": np.array([1, 2], np.uint8), "b": [np.array([0.0]), np.array([])]}
    assert measure.difference(one, {"a": np.array([3, 2], np.uint8), "b": [np.array([-0.5]), np.array([])]}) == 2.0
    assert measure.difference(one, one) == 0.0
    pair = Comparison(Side("a"), Side("b"), "difference")
    same = measure.Taken(answer=one)
    assert measure.ratio(pair, same, same) == pytest.approx(1e5)


def test_answers_of_other_lengths_are_not_alike():
    pair = Comparison(*(Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"))
    for same in ("bits", "close"):
        assert not measure.alike([np.ones(3)], [np.ones(3), np.ones(3)], claim(same=same), pair)
        assert not measure.alike([np.ones(3), np.ones(2)], [np.ones(3), np.zeros(2)], claim(same=same), pair)
    assert measure.apart(np.array([3.0, 4.0]), np.array([3.0, 3.0])) == pytest.approx(0.2)
    assert measure.apart(np.array([3.0, 3.0]), np.array([3.0, 4.0])) == pytest.approx(0.2)
