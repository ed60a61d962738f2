"""The ledger of claims: what is claimed, how ratios become words, how sides take turns, what is kept."""

from __future__ import annotations

import importlib
import json
import math
import random
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests.claims import __main__ as command
from perf_tests.claims import ledger, measure, pages, resident, returns, sides, table
from perf_tests.suite.cases import variants
from perf_tests.suite.claim import Claim, ClaimsError, Comparison, Figure, Side, alone, between, removed
from perf_tests.suite.claims import claims_of, workloads

ACT, NUMPY = "snake.act[naive-torch-envs1]", "treasurehunt.observe[{}-numpy-agents5-worlds1]"
OBSERVE = between(NUMPY.format("naive"), NUMPY.format("full"))
NAMES = {
    "pirl": "neuron-b1 neuron-b32 neuron-b128 neuron-b512 neuron-b1024 neuron-b2048 batching grad-dominates latency-b1 "
    "throughput-b32 throughput-peak throughput-table latency-forward precision-neuron precision-jax",
    "snake": "overall overall-equal-work batched-tensors memory-time memory-bytes inference-mode train-every-4 "
    "threads batch-gpu gpu amp vectorised async bf16-cpu int8 ddp batch-128-256 every-8-16 tensors-on-device compile "
    "tf32-cudnn",
    "mario": "lock-wait-local lock-wait-ring collection-local collection-ring amp-forward amp-backward compile sync "
    "accumulate uint8 prealloc threads batchnorm gpu-utilisation batches epoch overall lockfree-most amp-memory "
    "batchnorm-convergence threads-variance",
    "procgen": "ppo-fps impala-fps parallel-ppo parallel-impala impala-vs-ppo memory threads a3c-a2c",
    "treasure": "forward train infer eager-10x first-call steady-call grad vmap-act vmap-train batch-agents buffer "
    "loss stack observe rng phase1 phase2 phase3 all multiprocess conservative-train conservative-infer "
    "optimistic-train optimistic-infer vmap-observe",
}
EVERY = [(workload, claim) for workload in workloads() for claim in claims_of(workload)]


def claim(least=2.0, same=None, **more):
    fields = {"contexts": {"alone": OBSERVE}, **more}
    return Claim("toy", "words", "source.md", "2 x", least, same=same, **fields)


def said(*ratios, same=None, name="toy", context="alone"):
    return [{"claims": {name: {context: {"ratio": ratio, "same": same}}}, "sides": {}} for ratio in ratios]


def test_every_published_claim_is_there():
    there = {claim.name for _, claim in EVERY}
    wanted = {f"{prefix}-{name}" for prefix, names in NAMES.items() for name in names.split()}
    assert wanted <= there


@pytest.mark.parametrize(("workload", "claim"), EVERY, ids=[claim.name for _, claim in EVERY])
def test_the_sides_of_a_claim_are_two_of_its_workload(workload, claim):
    for pair in claim.contexts.values():
        assert pair.base.label != pair.change.label
        if pair.base.make is None and pair.change.make is None and pair.base.threads == pair.change.threads:
            both = pair.base.variant, pair.change.variant
            assert (both[0].knobs(), both[0].backend, both[0].axes, pair.base.words) != (
                both[1].knobs(), both[1].backend, both[1].axes, pair.change.words,
            )  # fmt: skip
    assert {side.op.partition(".")[0] for side in claim.sides} == {workload}
    assert claim.evidence in {*returns.TRIALS, ""}


def test_precision_differs_only_where_the_claim_is_about_it():
    for _, found in EVERY:
        for pair in found.contexts.values():
            if pair.base.make is None and pair.base.variant.precision != pair.change.variant.precision:
                assert any(
                    word in found.name for word in ("amp", "bf16", "int8", "precision", "batches", "epoch", "overall")
                )


@pytest.mark.parametrize(
    ("low", "high", "least", "word"),
    [
        (2.0, 3.0, 2.0, "holds"), (1.99, 3.0, 2.0, "unclear"), (1.99, 2.0, 2.0, "unclear"),
        (1.03, 1.99, 2.0, "partly"), (1.02, 1.99, 2.0, "unclear"), (0.5, 1.02, 2.0, "refuted"),
        (0.9, 1.03, 2.0, "unclear"), (0.3, 0.5, None, "measured"), (0.36, 0.4, 0.35, "holds"),
        (0.2, 0.3, 0.35, "refuted"),
    ],
)  # fmt: skip
def test_an_interval_becomes_a_word(low, high, least, word):
    assert ledger.verdict(low, high, least) == word


@pytest.mark.parametrize(("same", "word"), [(True, "holds"), (False, "refuted"), (None, "unclear")])
def test_what_was_to_stay_the_same_decides_too(same, word):
    assert ledger.verdict(3.0, 4.0, 2.0, same, promised=True) == word


def test_a_comparison_has_the_median_and_the_interval_of_its_processes():
    found = ledger.told(claim(), "alone", said(2.5, 2.2, 2.25, 2.3, 2.55, 2.4), None)
    assert (found["verdict"], found["n"], found["low"], found["high"], found["wide"]) == ("holds", 6, 2.2, 2.55, False)
    assert found["ratio"] == pytest.approx(2.35)


def test_one_process_whose_answers_differ_refutes():
    processes = said(2.1, 2.2, 2.3, 2.4, 2.5, same=True) + said(2.6, same=False)
    assert ledger.told(claim(same="close"), "alone", processes, None)["verdict"] == "refuted"


def test_without_evidence_a_claim_about_returns_is_unclear():
    about = claim(same="returns", evidence="snake-every-4")
    words = [ledger.told(about, "alone", said(*[2.5] * 6), known)["verdict"] for known in (None, True, False)]
    assert words == ["unclear", "holds", "refuted"]


def test_what_nothing_was_promised_of_is_unclear_where_its_interval_is_wide():
    narrow, wide = ([1.0, 1.01, 1.02, 1.03, 1.04, 1.05], [0.5, 0.8, 1.0, 1.2, 1.4, 2.0])
    words = [ledger.told(claim(None), "alone", said(*ratios), None)["verdict"] for ratios in (narrow, wide)]
    assert words == ["measured", "unclear"]


def test_what_fewer_than_six_processes_say_counts_as_wide():
    found = [ledger.told(claim(None), "alone", said(*[1.5] * n), None) for n in (5, 6)]
    assert [(each["wide"], each["verdict"]) for each in found] == [(True, "unclear"), (False, "measured")]


def test_a_side_that_cannot_run_here_is_never_guessed(monkeypatch):
    from rl_impls import backends

    monkeypatch.setattr(backends.Backend, "missing", lambda self: "no GPU" if self.device == "cuda" else None)
    on_gpu = claim(contexts={"alone": between(ACT, "snake.act[full-torch-cuda-envs1]")})
    found = ledger.told(on_gpu, "alone", [], None)
    assert (found["verdict"], found["ratio"], found["n"]) == ("needs CUDA", None, 0)


def test_an_error_of_a_side_is_told():
    processes = [{"claims": {"toy": {"alone": {"error": "ValueError: no"}}}, "sides": {}}]
    assert ledger.told(claim(), "alone", processes, None)["error"] == "ValueError: no"


def test_the_most_gain_is_over_the_best_of_the_others():
    most = claim(1.0, most_of=("a", "b"))
    gains = {"toy": 3.0, "a": 1.5, "b": 2.0}
    process = {"claims": {name: {"alone": {"ratio": gain}} for name, gain in gains.items()}, "sides": {}}
    assert ledger.gains(most, "alone", [process]) == [1.5]
    del process["claims"]["b"]
    assert ledger.gains(most, "alone", [process]) == []


def test_figures_of_others_stand_beside_ours():
    side = Side(NUMPY.format("full"))
    processes = [{"claims": {}, "sides": {side.label: {"seconds": seconds}}} for seconds in (1.0, 2.0, 4.0)]
    for number, process in enumerate(processes):
        process["sides"][side.label]["peak"] = 100.0 + number
    found = [ledger.beside(Figure("f", side, "9", of), processes)["ours"] for of in ("rate", "seconds", "peak")]
    assert found == [2.5, 2.0, 101.0]  # five observations a call
    units = [ledger.beside(Figure("f", side, "9", unit=unit), processes)["unit"] for unit in ("", "batches")]
    assert units == [f"{side.unit}/s", "batches/s"]


def test_batches_are_counted_as_the_source_does_with_the_experiences_beside_them():
    (batches,) = (claim for claim in claims_of("mario") if claim.name == "mario-batches")
    assert batches.least == 2.5
    process = {"claims": {}, "sides": {figure.side.label: {"seconds": 0.5} for figure in batches.figures}}
    found = [ledger.beside(figure, [process]) for figure in batches.figures]
    assert [(one["ours"], one["unit"], one["theirs"]) for one in found] == [
        (4.0, "batches/s", "4 batches/s"), (1024.0, "experiences/s", "1,000 exp/s"),
        (4.0, "batches/s", "10 batches/s"), (2048.0, "experiences/s", "1,800 exp/s"),
    ]  # fmt: skip
    for figure in batches.figures:
        spec = figure.side.variant.inputs(0).spec
        each = spec["collectors"] * spec["envs"]
        assert spec["updates"] * spec["batch"] == figure.side.items * (
            1 if figure.unit == "experiences" else spec["batch"]
        )
        assert (spec["reuse"], spec["collectors"], each) == (1.0, 2, 2 if spec["batch"] == 256 else 16)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            claim(contexts={"alone": alone("snake.act[naive-torch-envs7]", inference="no_grad")}),
            "no benchmark is called",
        ),
        (claim(contexts={"alone": alone(ACT, speed="more")}), "speed"),
        (claim(contexts={"alone": alone(ACT, inference="never")}), "inference"),
        (claim(contexts={"alone": alone(ACT, "weight", inference="no_grad")}), "measure: got 'weight'"),
        (claim(same="nearly"), "same: got 'nearly'"),
        (claim(same="returns"), "evidence: got ''"),
        (claim(contexts={}), "neither contexts nor figures"),
    ],
)
def test_a_claim_that_cannot_be_measured_is_named(wrong, message):
    with pytest.raises(ClaimsError, match="toy: ") as error:
        wrong.check()
    assert message in str(error.value)


def test_a_side_has_its_forms_knobs_but_for_those_that_are_changed():
    pair, before = removed("snake.act[full-torch-envs1]", both={"acting": "torch"}, inference="grad"), variants()
    base, change = pair.base.variant.knobs(), pair.change.variant.knobs()
    full = before["snake.act[full-torch-envs1]"].knobs()
    assert (base, change) == (replace(full, acting="torch", inference="grad"), replace(full, acting="torch"))
    assert variants()["snake.act[full-torch-envs1]"].knobs() == full


def test_other_inputs_take_the_place_of_the_cases():
    side = Side(NUMPY.format("full"), given=lambda rng: ("given", rng.integers(9)), words="others")
    assert side.variant.inputs(0)[0] == "given"
    assert side.label.endswith(", others")


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


@pytest.mark.parametrize(("workload", "claim"), EVERY, ids=[claim.name for _, claim in EVERY])
def test_what_is_compared_is_measured_together(workload, claim):
    sides = {side.label: side for side in claim.sides}
    groups = measure.grouped([claim], sides)
    assert sorted(side.label for group in groups for side in group) == sorted(sides)
    for pair in claim.contexts.values():
        both = {pair.base.label, pair.change.label}
        assert any(both <= {side.label for side in group} for group in groups)


def test_what_starts_threads_or_processes_is_measured_apart():
    names = [[claim.name for claim in part] for part in command.apart(claims_of("snake"))]
    assert sorted(names[1]) == ["snake-async", "snake-ddp"]
    assert len(names[0]) + 2 == len(claims_of("snake"))
    assert [len(command.apart(claims_of(name))) for name in ("pirl", "procgen")] == [1, 2]


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


def test_spread_memory_and_difference():
    pair = Comparison(Side("a"), Side("b"), "spread")
    base, change = measure.Taken([1.0, 2.0, 3.0, 4.0, 5.0]), measure.Taken([2.5, 2.75, 3.0, 3.25, 3.5])
    assert measure.ratio(pair, base, change) == pytest.approx(4.0)
    big, small = measure.Taken(memory={"resident": 8.0}), measure.Taken(memory={"resident": 2.0})
    assert measure.ratio(replace(pair, measure="resident"), big, small) == 4.0
    one, other = measure.Taken(answer=[np.array([1.0, 2.0])]), measure.Taken(answer=[np.array([1.0, 2.0 + 2e-7])])
    assert measure.ratio(replace(pair, measure="difference"), one, other) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("same", "change", "alike"),
    [("bits", 1e-9, False), ("close", 1e-9, True), ("close", 2e-3, False), ("bits", 0.0, True)],
)
def test_answers_are_compared(same, change, alike):
    sides = [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"]
    a, b = [np.ones(3)], [np.ones(3) + change]
    assert measure.alike(a, b, claim(same=same), Comparison(*sides)) is alike


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


def test_evidence_is_a_gain_that_is_kept():
    def pairs(*changes):
        return [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]

    assert returns.stays(pairs(3.9, 4.0, 4.1, 4.0, 3.9), 0.0) is True
    assert returns.stays(pairs(1.0, 1.1, 0.9, 1.0, 1.0), 0.0) is False
    assert returns.stays(pairs(1.0, 5.0, 3.0, 4.0, 2.0), 0.0) is None
    assert returns.stays(pairs(4.0, 4.0, 4.0, 4.0), 0.0) is None  # too few
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 0.0) is True  # just the share
    assert returns.stays(pairs(3.0, 3.0, 3.0, 3.0, 3.0), 3.0) is False  # nothing of the gain


class Learner:
    """An agent that takes a thousand steps at a time; the log has what it was asked."""

    def __init__(self, log, **how):
        self.log, self.step = log, 0
        log.append(how)

    def learn(self):
        self.step += 1000

    def evaluate(self, episodes, seed):
        self.log.append((self.step, episodes, seed))
        return {"foods": np.array([1.0, 3.0])}

    def close(self):
        self.log.append("closed")


@pytest.mark.parametrize(("changed", "every"), [(False, 1), (True, 4)])
def test_a_training_is_of_its_seed_and_evaluated_on_others(monkeypatch, changed, every):
    log = []
    monkeypatch.setattr("rl_impls.snake.agent.SnakeAgent", lambda **how: Learner(log, **how))
    trial = returns.TRIALS["snake-every-4"]
    assert returns.trained(trial, 3, changed) == 2.0
    assert log == [{**returns.SNAKE, "every": every, "seed": 3}, (trial.steps, trial.episodes, 1003), "closed"]


@pytest.mark.parametrize("name", returns.TRIALS)
def test_both_sides_of_a_trial_are_agents_that_can_be_made_and_of_other_configurations(name, monkeypatch):
    trial, log = returns.TRIALS[name], []
    made = importlib.import_module(f"rl_impls.{trial.workload}.agent")
    config = importlib.import_module(f"rl_impls.{trial.workload}.agent").Config
    base, changed = (config(**{**trial.base, **more}) for more in ({}, trial.change))
    assert base != changed
    agents = [kind for kind in vars(made) if kind.endswith("Agent")]
    assert len(agents) == 1
    monkeypatch.setattr(made, agents[0], lambda **how: Learner(log, **how))
    monkeypatch.setattr(Learner, "evaluate", lambda self, episodes, seed: {trial.figure: np.full(episodes, 7.0)})
    assert returns.trained(trial, 2, True) == 7.0
    assert log[0] == {**trial.base, **trial.change, "seed": 2}


def test_trainings_go_on_with_the_seeds_that_are_missing(tmp_path, monkeypatch, capsys):
    asked = []

    def fresh(module, words, count, first):
        asked.append((*words, first))
        yield 3.0 + first + ("--changed" in words)

    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "fresh_processes", fresh)
    returns.main(["snake-every-4"])
    assert asked == [("snake-every-4", *more, seed) for seed in range(5) for more in ((), ("--changed",))]
    asked.clear()
    returns.main(["snake-every-4", "--seeds", "6"])
    assert asked == [("snake-every-4", 5), ("snake-every-4", "--changed", 5)]
    assert returns.pairs_of("snake-every-4")[-1] == {"seed": 5, "base": 8.0, "change": 9.0}
    assert "stays the same" in capsys.readouterr().out


def test_an_interrupted_training_says_where_it_goes_on(tmp_path, monkeypatch, capsys):
    trained = iter([(4.0,), (5.0,)])

    def fresh(*asked, **more):
        yield from next(trained, ())
        raise KeyboardInterrupt

    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "fresh_processes", fresh)
    with pytest.raises(SystemExit, match="130"):
        returns.main(["snake-every-4"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"interrupted: what was trained is kept in {tmp_path}; the same command goes on"
    assert returns.pairs_of("snake-every-4") == [{"seed": 0, "base": 4.0, "change": 5.0}]


def test_evidence_of_other_code_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(returns, "KEPT", tmp_path)
    pairs = [{"seed": seed, "base": 4.0, "change": 4.0} for seed in range(5)]
    about = claim(same="returns", evidence="snake-every-4")
    assert returns.evidence(about, "snake") is None
    for code, known in ((returns.code(returns.TRIALS["snake-every-4"]), True), ("of old", None)):
        (tmp_path / "snake-every-4.json").write_text(json.dumps({"code": code, "pairs": pairs}))
        assert returns.evidence(about, "snake") is known


def test_what_was_measured_is_kept_until_the_code_changes(tmp_path):
    path, process = tmp_path / "toy.jsonl", {"claims": {}, "sides": {}}
    assert command.kept(path, {"code": "a"}) == []
    with path.open("a") as file:
        file.write(json.dumps(process) + "\n")
    assert command.kept(path, {"code": "a"}) == [process]
    assert command.kept(path, {"code": "b"}) == []
    path.write_text(path.read_text() + f'{json.dumps(process)}\n{{"cut')
    assert command.kept(path, {"code": "b"}) == [process]
    assert path.read_text().splitlines() == [json.dumps({"code": "b"}), json.dumps(process)]
    path.write_text("\x00")
    assert command.kept(path, {"code": "b"}) == []


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Measure claims by processes of 100 s that nobody starts; the call returns those asked for, and what all said."""
    now = [0.0]
    monkeypatch.setattr(command, "KEPT", tmp_path)
    monkeypatch.setattr(command, "code", lambda workload: "of now")
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])

    def run(*ratios, claims=(), **options):
        asked, left = [], iter(ratios)

        def fresh(module, words, count, first):
            now[0] += 100
            asked.append((first, words))
            yield from said(next(left))

        monkeypatch.setattr(command, "fresh_processes", fresh)
        options = {"threads": 1, "fresh": False, "processes": 2, "minutes": 9} | options
        *_, found = command.processes("toy", claims or [claim()], SimpleNamespace(**options))
        return asked, [each["claims"]["toy"]["alone"]["ratio"] for each in found]

    return run


def test_processes_go_on_from_those_that_were_measured_alike(processes):
    words = ["toy", "--threads", "1", "--only=toy"]
    assert processes(2.0, 2.0) == ([(0, words), (1, words)], [2.0, 2.0])
    assert processes(2.1, processes=3) == ([(2, words)], [2.0, 2.0, 2.1])
    assert processes(minutes=-1, processes=3) == ([], [2.0, 2.0, 2.1])  # a moment has passed
    for other in ({"fresh": True}, {"threads": 2}, {"claims": [claim(), claim()]}):
        asked, found = processes(3.0, 3.0, **other)
        assert ([first for first, _ in asked], found) == ([0, 1], [3.0, 3.0])


@pytest.mark.parametrize(
    ("minutes", "least", "count"),
    [(8.3, 2, 2), (8.4, 2, 5), (13.3, 2, 5), (13.4, 2, 8), (8.4, 3, 3), (0, 2, 2), (99, 2, 12), (99, 6, 12)],
)
def test_processes_are_as_many_as_make_an_interval_narrow_or_three_more_end_in_time(processes, minutes, least, count):
    assert len(processes(*[1.0, 2.0] * 6, minutes=minutes, processes=least)[0]) == count


def test_further_processes_go_on_to_three_where_they_were_interrupted(processes):
    with pytest.raises(RuntimeError, match="StopIteration"):
        processes(1.0, 2.0, 1.0, minutes=99)
    assert len(processes(1.0, 1.0, minutes=0.1)[1]) == 5


def test_after_as_many_as_were_asked_for_what_is_open_is_measured_alone(processes):
    whole = ["toy", "--threads", "1", "--only=toy"]
    some = [*whole, "--context=toy:alone"]
    both = [claim(contexts={"alone": OBSERVE, "from full": ACTING})]  # fewer sides are expected to take less
    for minutes, further in ((5.9, 3), (5.8, 0)):
        asked, _ = processes(1.9, 2.1, 2.0, 2.0, 2.0, claims=both, minutes=minutes, fresh=True)
        assert asked == [(0, whole), (1, whole), (2, some), (3, some), (4, some)][: 2 + further], minutes


@pytest.mark.usefixtures("processes")
def test_workloads_take_turns_each_with_time_of_its_own(monkeypatch):
    asked = []

    def fresh(module, words, count, first):
        clock.sleep(100)
        asked.append((words[0], first))
        yield from said([1.0, 3.0][first % 2] if words[0] == "wide" else 2.0)

    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "fresh_processes", fresh)
    claims = {"clear": [claim()], "wide": [claim()]}
    options = SimpleNamespace(threads=1, fresh=False, processes=2, minutes=8.4, claims=claims)
    told = [(workload, len(found)) for workload, found in command.in_turns(options)]
    assert asked == [("clear", 0), ("wide", 0), ("clear", 1), ("wide", 1), ("wide", 2), ("wide", 3), ("wide", 4)]
    assert len(told) == len(asked) + 2  # what is known of each at first


@pytest.mark.usefixtures("ready_command")
def test_a_process_measures_the_contexts_that_are_named_alone():
    words = ["snake", "--only", "snake-int8", "--only", "snake-bf16-cpu", "--context=snake-bf16-cpu:alone"]
    options = command.parse(words)
    assert [(each.name, [*each.contexts]) for each in options.claims["snake"]] == [("snake-bf16-cpu", ["alone"])]


def test_figures_depend_on_all_that_measures_them_and_on_no_page(monkeypatch):
    before, read = command.code("snake"), Path.read_bytes

    def changes(path):
        changed = command.ROOT / "perf_tests" / path
        monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == changed))
        assert changed.exists()
        return command.code("snake") != before

    parts = [f"claims/{name}.py" for name in ("measure", "resident", "sides")]
    parts += ["suite/prepared.py", "suite/claims/snake.py", "suite/cases/snake.py"]
    assert [path for path in parts if not changes(path)] == []
    assert [path for path in ("claims/pages.py", "suite/claims/pirl.py", "suite/cases/pirl.py") if changes(path)] == []


@pytest.fixture
def ready_command(monkeypatch):
    """The command in a process whose threads are left as they are."""
    monkeypatch.setattr(command.process, "set_up", lambda threads: None)


@pytest.mark.usefixtures("ready_command")
def test_a_claim_brings_those_that_it_is_compared_with():
    options = command.parse(["--only", "mario-lockfree-most"])
    names = {name: [claim.name for claim in claims] for name, claims in options.claims.items()}
    (most,) = [claim for claim in claims_of("mario") if claim.name == "mario-lockfree-most"]
    assert {name: set(found) for name, found in names.items()} == {"mario": {most.name, *most.most_of}}
    assert len(most.most_of) > 1


@pytest.mark.usefixtures("ready_command")
def test_each_process_draws_from_its_own_number(monkeypatch, capsys):
    monkeypatch.setattr(measure, "measured", lambda claims, workload, seed: [claims[0].name, workload, seed])
    command.main(["snake", "--only", "snake-int8", "--one", "3"])
    assert json.loads(capsys.readouterr().out) == ["snake-int8", "snake", 3]


@pytest.mark.usefixtures("ready_command")
def test_claims_that_are_not_measured_now_stay_and_a_failure_is_named(tmp_path, monkeypatch):
    path, said_of = tmp_path / "claims.json", {"snake-int8": {"ratio": 2.5, "same": True}, "snake-ddp": {"error": "no"}}

    def measured(workload, claims, options):
        names = [claim.name for claim in claims]
        contexts = {claim.name: dict.fromkeys(claim.contexts, said_of[claim.name]) for claim in claims}
        yield [{"claims": contexts, "sides": {side.label: {} for claim in claims for side in claim.sides}}] * len(names)

    monkeypatch.setattr(command, "processes", measured)
    monkeypatch.setattr(command, "KEPT", tmp_path)
    command.main(["snake", "--only", "snake-int8", "--output", str(path)])
    with pytest.raises(SystemExit) as ended:
        command.main(["snake", "--only", "snake-ddp", "--output", str(path)])
    assert ended.value.code == "could not be measured: snake-ddp"
    assert [row["id"] for row in pages.read(path)["claims"]] == ["snake-int8", "snake-ddp"]


def row(name="snake-overall", verdict="partly", ratio=1.5):
    context = {
        "context": "alone", "base": "a", "change": "b", "measure": "seconds", "ratio": ratio, "low": 1.4, "high": 1.7,
        "n": 6, "wide": True, "same_holds": None, "verdict": verdict,
    }  # fmt: skip
    return {
        "id": name, "workload": "snake", "words": "it is faster", "source": "s.md", "promised": "2 x", "least": 2.0,
        "same": None, "note": "", "contexts": [context], "figures": [],
    }  # fmt: skip


def test_new_rows_take_the_place_of_old_ones_and_claims_that_are_gone_go():
    old, gone, new = row(), row("snake-gone"), row(ratio=3.0)
    assert ledger.joined([old, gone], [new]) == [new]
    assert ledger.joined([old], [row("pirl-batching")]) == [row("pirl-batching"), old]


def test_the_table_says_ratio_interval_n_and_word():
    assert "| `snake-overall` | 2 x | alone | ~1.50 (1.40-1.70), n = 6 | partly |" in table.table([row()])
    (other,) = row(verdict="refuted")["contexts"]
    assert table.verdict_words(other | {"same_holds": False}) == "refuted: another answer"
    assert table.verdict_words(other | {"same_holds": None}) == "refuted"
    needs = row(verdict="needs CUDA", ratio=None)
    assert table.ratio_words(needs["contexts"][0]) == "-"
    assert table.summary([row(), needs]) == (
        "Of 1 comparisons with a published figure 1 hold partly. 1 more need hardware that is not here."
    )


def test_what_a_ledger_says_stands_in_cells_and_words():
    assert "| a \\| b |" in table.table([row() | {"promised": "a | b"}])
    two = row() | {"contexts": row()["contexts"] * 2}
    assert [line.split(" | ")[0] for line in table.table([two]).splitlines()[2:]] == ["| `snake-overall`", "| "]
    figure = {"what": "rate", "unit": "bytes", "theirs": "9 GB", "ours": None}
    assert table.figure_words(figure | {"needs": "CUDA"}) == "rate: needs CUDA, 9 GB there"
    assert table.figure_words(figure) == "rate: not measured, 9 GB there"
    about = {"commit": "abc", "date": "2026-11-23", "machine": {"cpu_model": "a CPU", "cores": 2}, "threads": 2}
    pages_of = [table.page({**about, "dirty": dirty, "claims": [row()]}) for dirty in (False, True)]
    assert ["commit abc with changes." in text for text in pages_of] == [False, True]


def test_the_report_reads_what_the_ledger_writes(tmp_path):
    from perf_tests.report.html import claims

    path, needs = tmp_path / "claims.json", row("snake-gpu", "needs CUDA", None)
    about = {"commit": "abc", "dirty": False, "date": "2026-11-23", "machine": {}, "threads": 2}
    figure = {"what": "rate", "side": "x", "unit": "samples/s", "theirs": "18K", "ours": None, "needs": "Neuron"}
    rows = [row(), needs | {"figures": [figure]}]
    path.write_text(json.dumps({"format": ledger.FORMAT, "version": ledger.VERSION, **about, "claims": rows}))
    assert [each.id for each in claims.read(path).claims] == ["snake-overall", "snake-gpu"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "other"}', '{"format": "rlgauge-claims", "version": 99}', "\x00"]
)
def test_a_ledger_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "claims.json"
    path.write_text(text)
    with pytest.raises(ClaimsError, match=r"claims\.json"):
        pages.read(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chess"], "unknown workload 'chess'"),
        (["--only", "snake-none"], "unknown claim 'snake-none'"),
        (["--processes", "0"], "got --processes 0"),
        (["--threads", "99"], "got --threads 99"),
    ],
)
def test_bad_input_is_one_line(words, message, capsys, monkeypatch):
    monkeypatch.setattr(command.process, "set_up", lambda threads: None)
    with pytest.raises(SystemExit) as end:
        command.parse(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_the_kept_pages_are_those_of_the_kept_ledgers_of_which_the_readme_shows_one():
    root = Path(pages.__file__).parents[2]
    readme, shown = (root / "README.md").read_text(), []
    for path in root.glob("results/*-claims.json"):
        kept = pages.read(path)
        assert path.with_suffix(".md").read_text() == table.page(kept)
        shown.append(pages.front(kept, path.stem.removesuffix("-claims")) in readme)
    assert shown.count(True) == 1


@pytest.mark.slow
def test_a_claim_is_measured_in_fresh_processes_and_an_unwritable_output_costs_nothing(tmp_path):
    root = Path(command.__file__).parents[2]
    output = tmp_path / "claims.json"

    def run(*words):
        asked = [
            sys.executable,
            "-m",
            "perf_tests.claims",
            "treasurehunt",
            "--only",
            "treasure-vmap-observe",
            "--fresh",
        ]
        return subprocess.run([*asked, *words], cwd=root, capture_output=True, text=True, timeout=300)

    done = run("--output", str(output))
    assert done.returncode == 0, done.stderr
    (found,) = pages.read(output)["claims"]
    assert (found["id"], found["contexts"][0]["verdict"]) == ("treasure-vmap-observe", "holds")
    assert found["contexts"][0]["n"] >= 6
    assert math.isfinite(found["contexts"][0]["ratio"])
    before = output.read_bytes()
    refused = run("--output", "/proc/claims.json")
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1].startswith("--output /proc/claims.json: cannot be written")
    assert output.read_bytes() == before


def test_threads_and_cores_are_limited_for_a_while(monkeypatch):
    import torch

    cores, threads = [{3, 1, 2}], [3]
    monkeypatch.setattr(sides.os, "sched_getaffinity", lambda pid: cores[-1])
    monkeypatch.setattr(sides.os, "sched_setaffinity", lambda pid, given: cores.append(set(given)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    with sides.limited(None):
        pass
    with pytest.raises(ZeroDivisionError), sides.limited(2):
        1 / 0  # noqa: B018
    assert (cores, threads) == ([{1, 2, 3}, {1, 2}, {1, 2, 3}], [3, 2, 3])


def test_a_benchmark_as_a_side_says_phases_and_figures_and_is_closed(monkeypatch):
    log = []
    prepared = SimpleNamespace(
        settle=None, answer=None, measure_calls=None, sample=None, close=lambda: log.append("closed"), calls=7,
        phases=lambda: {"learn": 1.0}, stats=lambda: {"blocked": 2.0},
    )  # fmt: skip
    monkeypatch.setattr(sides, "prepare", lambda variant, seed: log.append((variant.id, seed)) or prepared)
    with sides.ready(Side(NUMPY.format("full")), 5) as here:
        assert (here.noted(), here.calls) == ({"learn": 1.0, "blocked": 2.0}, 7)
    assert log == [(NUMPY.format("full"), 5), "closed"]


def test_the_memory_of_a_side_is_what_a_call_raises_the_most_by(monkeypatch):
    told = iter([("VmHWM", 900), ("VmRSS", 300), ("VmHWM", 800)])

    def status(name):
        of, found = next(told)
        assert name == of
        return found * 4096

    side, written = Side("toy.op[a]", make=lambda rng: lambda: None), []
    monkeypatch.setattr(resident, "status", status)
    monkeypatch.setattr(Path, "write_text", lambda self, text: written.append((str(self), text)))
    assert resident.own_memory(side, 0) == {"resident": 500 * 4096.0, "peak": 900 * 4096.0}
    assert written == [("/proc/self/clear_refs", "5")]


@pytest.fixture
def weighed(monkeypatch):
    """Processes that say how much memory they have, instead of real ones. -> what happens to each, and their codes"""
    log, codes = [], {}

    class Weighed:
        def __init__(self, words, **how):
            self.label, self.returncode = words[-2], codes.get(words[-2], 0)
            log.append(("start", words, how["env"]))

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            log.append(("over", self.label))

        def communicate(self):
            if self.returncode == "interrupted":
                raise KeyboardInterrupt
            log.append(("out", self.label))
            return 'noise\n{"resident": 8.0, "peak": 16.0}\n', None

        def kill(self):
            self.returncode = -9
            log.append(("kill", self.label))

    monkeypatch.setattr(resident.subprocess, "Popen", Weighed)
    monkeypatch.setattr(resident.process, "cores", lambda: 2)
    return log, codes


FIGURES = {"resident": 8.0, "peak": 16.0}


def test_memory_is_that_of_a_process_with_default_malloc(monkeypatch, weighed):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pair = claims_of("mario")[0].contexts["alone"]
    assert resident.memory("mario", [pair.base], 0) == {pair.base.label: FIGURES}
    ((_, _, given),) = [step for step in weighed[0] if step[0] == "start"]
    assert "GLIBC_TUNABLES" not in given
    assert given["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_the_memory_of_frames_as_bytes_is_a_quarter():
    from perf_tests.claims.resident import memory

    found = [claim for claim in claims_of("mario") if claim.name == "mario-uint8"]
    pair = found[0].contexts["alone"]
    found = memory("mario", [pair.base, pair.change], 0)
    assert 3.9 < found[pair.base.label]["resident"] / found[pair.change.label]["resident"] < 4.1


class Waiting:
    """A backend whose results are waited for."""

    def __init__(self):
        self.waited = []

    def wait(self, out):
        self.waited.append(out)
        return out

    def to_host(self, out):
        return {"copied": out}


def made_side(monkeypatch, seconds=0.0):
    """Return a function that is a side, its backend, and what its generator drew; a call takes so many seconds."""
    backend, drawn, now = Waiting(), [], [0.0]

    def make(rng):
        drawn.append(rng.integers(1000))

        def call():
            now[0] += seconds
            return np.full(2, len(backend.waited))

        return call

    monkeypatch.setattr(sides.backends, "get", lambda name: backend if name == "jax" else None)
    monkeypatch.setattr(sides.time, "perf_counter", lambda: now[0])
    return sides.ready(Side("toy.op[a]", make=make, backend="jax"), 4), backend, drawn


def test_a_function_as_a_side_draws_from_the_seed_and_each_of_its_calls_is_waited_for(monkeypatch):
    with made_side(monkeypatch, 0.25)[0] as here:
        backend = here.backend
        assert here.calls == 1
        here.calls = 3
        assert here.run().tolist() == [2, 2]
        assert len(backend.waited) == 3
        assert here.sample() == 0.75
        assert (here.noted(), here.allocated()) == ({}, 0.0)
    assert made_side(monkeypatch)[2] == [np.random.default_rng(4).integers(1000)]


def test_a_function_is_settled_by_calls_of_which_the_last_is_the_answer(monkeypatch):
    here, backend, _ = made_side(monkeypatch)
    ((name, answer),) = here.settle()[0].items()
    assert (name, answer.tolist()) == ("copied", [1, 1])
    assert answer is not backend.waited[1]
    assert len(backend.waited) == 2
    assert here.answer()[0]["copied"].tolist() == [2, 2]
    assert len(backend.waited) == 3


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


@pytest.mark.parametrize(("seconds", "calls"), [(0.01, 1), (0.004, 4), (0.2, 1)])
def test_the_calls_of_a_sample_are_doubled_until_two_samples_are_long_enough(monkeypatch, seconds, calls):
    here, backend, _ = made_side(monkeypatch, seconds)
    assert here.measure_calls() == here.calls == calls
    before = len(backend.waited)
    here.sample()
    assert len(backend.waited) == before + calls


def test_what_a_benchmark_allocates_is_counted(monkeypatch):
    prepared = SimpleNamespace(settle=None, answer=None, measure_calls=None, sample=None, close=lambda: None)
    monkeypatch.setattr(sides, "prepare", lambda variant, seed: prepared)
    here = sides.ready(Side(NUMPY.format("full")), 5)
    for counted, wanted in (({"allocated_bytes": 48, "aten_ops": 3}, 48.0), ({}, 0.0)):
        monkeypatch.setattr(sides, "count", lambda of, counted=counted: counted if of is prepared else None)
        assert here.allocated() == wanted


def test_more_threads_than_there_are_cores_are_all_cores(monkeypatch):
    import torch

    given = []
    monkeypatch.setattr(sides.os, "sched_getaffinity", lambda pid: {5, 4})
    monkeypatch.setattr(sides.os, "sched_setaffinity", lambda pid, cores: given.append(set(cores)))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    with sides.limited(1):
        assert given == [{4}]


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


@pytest.mark.parametrize(("low", "high", "wide"), [(9.0, 11.0, False), (8.9, 10.0, True), (10.0, 11.1, True)])
def test_an_interval_is_wide_beyond_a_tenth_to_either_side(low, high, wide):
    assert ledger.is_wide(10.0, low, high) is wide


def of_several(**ratios):
    """Return what six processes say of claims by their names: of each a ratio a process, on ``alone``."""
    return [
        {"claims": {name: {"alone": {"ratio": each[i]}} for name, each in ratios.items()}, "sides": {}}
        for i in range(6)
    ]


def open_of(claims, processes):
    return {each.name: [*each.contexts] for each in ledger.still_open(claims, processes)}


UNCLEAR, WIDE, SURE = [1.95, 1.97, 1.99, 2.0, 2.02, 2.04], [2.1, 2.3, 2.5, 2.7, 2.9, 3.1], [2.4, 2.41] * 3
ACTING = between("snake.act[naive-torch-envs1]", "snake.act[full-torch-envs1]")


def test_what_is_unclear_is_open_and_what_is_wide_where_nothing_is_unclear():
    toy, other = claim(), replace(claim(contexts={"alone": ACTING}), name="other")
    assert open_of([toy, other], of_several(toy=UNCLEAR, other=WIDE)) == {"toy": ["alone"]}
    assert open_of([toy, other], of_several(toy=SURE, other=WIDE)) == {"other": ["alone"]}
    assert open_of([toy, other], of_several(toy=SURE, other=SURE)) == {}
    assert open_of([toy, other], []) == {}
    unpromised = replace(other, least=None)
    assert open_of([toy, unpromised], of_several(toy=WIDE, other=WIDE)) == {"other": ["alone"]}
    assert open_of([toy, unpromised], of_several(toy=WIDE, other=SURE)) == {"toy": ["alone"]}


def test_the_other_contexts_and_figures_of_what_is_open_are_not_measured_again():
    both = claim(contexts={"alone": OBSERVE, "from full": ACTING}, figures=[Figure("f", OBSERVE.base, "9")])
    processes = [
        {"claims": {"toy": {"alone": {"ratio": a}, "from full": {"ratio": b}}}, "sides": {}}
        for a, b in zip(SURE, UNCLEAR)
    ]
    (found,) = ledger.still_open([both], processes)
    assert (found.contexts, found.figures) == ({"from full": ACTING}, ())


def test_with_what_is_open_come_the_same_comparison_and_what_it_is_compared_with():
    toy, same = claim(), replace(claim(least=1.5), name="same")
    assert open_of([toy, same], of_several(toy=UNCLEAR, same=UNCLEAR)) == {"toy": ["alone"], "same": ["alone"]}
    unlike = replace(same, contexts={"alone": replace(OBSERVE, measure="spread")})
    assert open_of([toy, unlike], of_several(toy=UNCLEAR, same=UNCLEAR)) == {"toy": ["alone"]}
    most = replace(claim(1.0, contexts={"alone": ACTING}), name="most", most_of=["toy"])
    found = of_several(toy=SURE, most=[ratio * gain for ratio, gain in zip(SURE, (0.9, 0.95, 1.0, 1.0, 1.05, 1.1))])
    assert open_of([toy, most], found) == {"most": ["alone"], "toy": ["alone"]}


def test_what_no_process_told_is_unclear_and_one_error_is_an_error():
    found = ledger.told(claim(), "alone", [{"claims": {}, "sides": {}}], None)
    assert found == {
        "context": "alone", "base": OBSERVE.base.label, "change": OBSERVE.change.label, "measure": "seconds",
        "ratio": None, "low": None, "high": None, "n": 0, "same_holds": None, "verdict": "unclear",
    }  # fmt: skip
    failed = {"claims": {"toy": {"alone": {"error": "E: no"}}}, "sides": {}}
    found = ledger.told(claim(), "alone", [*said(2.0, 2.1), failed], None)
    assert (found["verdict"], found["error"], found["ratio"]) == ("error", "E: no", None)
    assert ledger.gains(claim(), "alone", [*said(2.0), failed, *said(3.0, name="other")]) == [2.0]


def test_what_must_not_change_is_told_by_all_answers_or_by_the_evidence():
    kept = {same: ledger.told(claim(same=same), "alone", said(*[2.5] * 6, same=True), known)["same_holds"]
            for same, known in ((None, None), ("bits", False), ("close", None), ("returns", False))}  # fmt: skip
    assert kept == {None: None, "bits": True, "close": True, "returns": False}


def test_a_figure_needs_what_its_side_does_and_is_nothing_where_no_process_has_it(monkeypatch):
    from rl_impls import backends

    side = Side(NUMPY.format("full"))
    kept = {"what": "f", "side": side.label, "theirs": "9"}
    units = {"rate": f"{side.unit}/s", "seconds": "s", "peak": "bytes"}
    for of, unit in units.items():
        assert ledger.beside(Figure("f", side, "9", of), [{"sides": {}}]) == {**kept, "unit": unit, "ours": None}
    monkeypatch.setattr(backends.Backend, "missing", lambda self: f"no {self.device}")
    for device, word in (("cuda", "CUDA"), ("neuron", "Neuron"), ("cpu", "no cpu")):
        monkeypatch.setattr(Side, "device", lambda self, device=device: device)
        found = ledger.beside(Figure("f", side, "9"), [{"sides": {side.label: {"seconds": 1.0}}}])
        assert (found["ours"], found["needs"]) == (None, word)


def test_a_row_says_all_of_its_claim():
    about = claim(same="close", note="a note", figures=[Figure("rate", OBSERVE.change, "9")])
    found = ledger.row(about, said(2.5, same=True), None)
    contexts, figures = found.pop("contexts"), found.pop("figures")
    assert found == {
        "id": "toy", "workload": "treasurehunt", "words": "words", "source": "source.md", "promised": "2 x",
        "least": 2.0, "same": "close", "note": "a note",
    }  # fmt: skip
    assert [(each["context"], each["ratio"]) for each in contexts] == [("alone", 2.5)]
    assert [each["what"] for each in figures] == ["rate"]


@pytest.mark.usefixtures("processes")
def test_what_is_said_in_a_process_of_its_own_is_joined_with_the_rest(monkeypatch):
    shared, own = claim(), replace(claim(), name="own")
    asked = []

    def fresh(module, words, count, first):
        asked.append((module, words, count, first))
        (name,) = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
        yield {"claims": {name: {"alone": {"ratio": 2.0}}}, "sides": {name: {"seconds": 1.0}}}

    monkeypatch.setattr(command, "apart", lambda claims: [[shared], [own]])
    monkeypatch.setattr(command, "fresh_processes", fresh)
    options = SimpleNamespace(threads=1, fresh=False, processes=1, minutes=9)
    *_, found = command.processes("toy", [shared, own], options)
    assert [sorted(each["claims"]) for each in found] == [["own", "toy"]]
    assert [sorted(each["sides"]) for each in found] == [["own", "toy"]]
    words = ["toy", "--threads", "1"]
    assert asked == [("perf_tests.claims", [*words, f"--only={name}"], 1, 0) for name in ("toy", "own")]


def test_figures_depend_on_the_workloads_code_too(monkeypatch):
    monkeypatch.setattr("perf_tests.gate.source.digest", lambda root, workload: f"{root} {workload}")
    one = command.code("snake")
    assert command.code("snake") == one
    monkeypatch.setattr("perf_tests.gate.source.digest", lambda root, workload: "changed")
    assert command.code("snake") != one


def test_the_command_measures_all_workloads_with_all_cores_unless_told_otherwise(monkeypatch):
    threads = []
    monkeypatch.setattr(command.process, "set_up", threads.append)
    monkeypatch.setattr(command.process, "cores", lambda: 3)
    options = command.parse([])
    assert {name: len(claims) for name, claims in options.claims.items()} == {
        name: len(claims_of(name)) for name in workloads()
    }
    assert (options.threads, options.processes, options.minutes, options.output) == (3, 6, 9.5, command.RESULT)
    assert [options.fresh, options.list, options.pages, options.one] == [False, False, False, None]
    options = command.parse(["snake", "pirl", "--threads", "2", "--processes", "12", "--only", "snake-int8"])
    assert {name: [each.name for each in claims] for name, claims in options.claims.items()} == {
        "snake": ["snake-int8"]
    }
    assert threads == [3, 2]


@pytest.mark.usefixtures("ready_command")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--processes", "13"], "got --processes 13, wanted 1 to 12"),
        (["--threads", "0"], "got --threads 0, wanted 1 to "),
        (["pirl", "--only", "snake-int8"], "unknown claim 'snake-int8'; --list names them"),
    ],
)
def test_an_option_out_of_its_range_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.parse(words)
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("ready_command")
def test_a_list_has_a_line_for_each_claim(monkeypatch, capsys):
    monkeypatch.setattr(command, "processes", lambda *asked: pytest.fail("it was measured"))
    command.main(["snake", "--list"])
    assert capsys.readouterr().out.splitlines() == [
        f"{each.name}: {each.words} (promised: {each.promised})" for each in claims_of("snake")
    ]


@pytest.fixture
def one_claim(tmp_path, monkeypatch, ready_command):
    """The command that measures one claim into a file, of processes that nobody starts; what it put on pages."""
    shown = []

    def measured(workload, claims, options):
        for count in range(2):
            contexts = {each.name: {key: {"ratio": 2.5, "same": True} for key in each.contexts} for each in claims}
            yield [{"claims": contexts, "sides": {}}] * count

    monkeypatch.setattr(command, "processes", measured)
    monkeypatch.setattr(command, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(pages, "show", shown.append)
    asked = ["snake", "--only", "snake-int8", "--threads", "1", "--output", str(tmp_path / "claims.json")]
    return SimpleNamespace(run=lambda *more: command.main([*asked, *more]), shown=shown, path=tmp_path / "claims.json")


def test_a_ledger_says_of_which_code_and_machine_it_is_and_takes_its_pages_only_where_asked(
    one_claim, monkeypatch, capsys
):
    for state, dirty in (("abc+dirty", True), ("abc", False)):
        monkeypatch.setattr("rlgauge.machine.git_state", lambda root, state=state: state)
        one_claim.run(*([] if dirty else ["--pages"]))
        found = pages.read(one_claim.path)
        assert (found["commit"], found["dirty"], found["threads"]) == ("abc", dirty, 1)
        assert found["date"].endswith("+00:00")
        assert found["machine"]["cores"]
        assert {each["ratio"] for each in found["claims"][0]["contexts"]} == {2.5}
    assert one_claim.shown == [found]
    (line,) = [line for line in capsys.readouterr().out.splitlines()[:1]]
    assert line.startswith("snake-int8 [")


@pytest.mark.parametrize("other", ["code", "threads", "machine"])
def test_rows_of_an_earlier_ledger_stay_where_they_are_of_the_same_code_threads_and_machine(one_claim, capsys, other):
    one_claim.run()
    kept = pages.read(one_claim.path)
    kept["claims"].append(kept["claims"][0] | {"id": "snake-ddp"})
    one_claim.path.write_text(json.dumps(kept))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8", "snake-ddp"]
    assert "dropped" not in capsys.readouterr().out
    if other == "code":
        kept["claims"][1]["code"] = "of old"
    else:
        kept[other] = {"threads": 2, "machine": kept["machine"] | {"vectors": "beads"}}[other]
    one_claim.path.write_text(json.dumps(kept))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8"]
    dropped = 1 if other == "code" else 2
    said = f"{dropped} claims of an earlier run are dropped: they were measured with other code or on another machine\n"
    assert capsys.readouterr().out.startswith(said)


def test_evidence_is_asked_for_each_claim_of_its_workload(one_claim, monkeypatch):
    asked = []
    monkeypatch.setattr(returns, "evidence", lambda about, workload: asked.append((about.name, workload)))
    one_claim.run()
    assert asked == [("snake-int8", "snake")]


def test_an_interrupt_says_that_it_goes_on_and_what_cannot_be_kept_is_a_line(one_claim, monkeypatch, tmp_path):
    def interrupted(*asked):
        raise KeyboardInterrupt
        yield

    one_claim.path.write_text("{}")
    with pytest.raises(SystemExit, match=r"claims\.json: wanted what perf_tests\.claims writes"):
        one_claim.run()
    one_claim.path.unlink()
    monkeypatch.setattr(command, "processes", interrupted)
    with pytest.raises(SystemExit, match=rf"^interrupted: what was measured is kept in {tmp_path}/kept, and the same"):
        one_claim.run()
    assert not one_claim.path.exists()


@pytest.mark.parametrize("fails", [False, True])
def test_an_agent_is_closed_after_its_training_whatever_happens(monkeypatch, fails):
    log = []

    class Agent(Learner):
        def evaluate(self, episodes, seed):
            if fails:
                raise ValueError("no")
            return {"return": np.array([2.0, 6.0])}

    monkeypatch.setattr("rl_impls.mario.agent.MarioAgent", lambda **how: Agent(log, **how))
    trial = returns.TRIALS["mario-batch-norm"]
    if fails:
        with pytest.raises(ValueError, match="no"):
            returns.trained(trial, 1, True)
    else:
        assert returns.trained(trial, 1, True) == 4.0
    assert log == [{**returns.MARIO, "norm": "batch", "seed": 1}, "closed"]


def test_what_a_change_keeps_is_paired_by_seed_beyond_three_quarters_of_the_gain_over_random():
    pairs_of = [{"base": 5.0 + seed, "change": 5.0 + seed + (-1) ** seed} for seed in range(6)]
    low, high = returns.excess(pairs_of, 1.0)
    over = np.array([(5 + k + (-1) ** k - 1) - 0.75 * (5 + k - 1) for k in range(6)])
    room = 2.570582 * over.std(ddof=1) / math.sqrt(6)  # Student's t of five degrees of freedom
    assert (low, high) == pytest.approx((over.mean() - room, over.mean() + room))
    assert returns.excess([{"base": 4.0, "change": 3.0}] * 5, 0.0) == (0.0, 0.0)


def test_evidence_is_of_the_code_and_of_the_trial_that_it_was_asked_by(monkeypatch):
    trial = returns.TRIALS["snake-every-4"]
    one = returns.code(trial)
    assert returns.code(trial) == one
    assert returns.code(replace(trial, steps=1)) != one
    read = Path.read_bytes
    changed: list[str] = []
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * str(self).endswith(tuple(changed)))
    for name, depends in (
        ("rl_impls/snake/agent.py", True), ("rl_impls/common/replay.py", True), ("rl_impls/params.py", True),
        ("requirements/py311.txt", True), ("rl_impls/mario/agent.py", False), ("rl_impls/common/runs.py", False),
        ("rl_impls/snake/__main__.py", False), ("perf_tests/suite/cases/snake.py", False),
    ):  # fmt: skip
        changed[:] = [name]
        assert (returns.code(trial) != one) is depends
    changed[:] = ["rl_impls/snake/agent.py"]
    assert returns.evidence(claim(), "snake") is None


@pytest.fixture
def trials(tmp_path, monkeypatch):
    """Trials whose evidence is of the code as it is: what each seed learned with the change, of bases of 4."""
    monkeypatch.setattr(returns, "KEPT", tmp_path)
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)

    def put(name, *changes):
        pairs_of = [{"seed": seed, "base": 4.0, "change": change} for seed, change in enumerate(changes)]
        found = {"code": returns.code(returns.TRIALS[name]), "pairs": pairs_of}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))

    return put


def test_each_trial_is_said_in_a_line(trials, capsys, monkeypatch):
    monkeypatch.setattr(returns, "fresh_processes", lambda *asked, **more: pytest.fail("it was trained"))
    trials("snake-every-4", *[4.0] * 5)
    trials("snake-every-16", *[1.0] * 5)
    trials("snake-batch-256", 1.0, 5.0, 3.0, 4.0, 2.0, 3.0)
    returns.main(["snake-every-4", "snake-every-16", "snake-batch-256"])
    said_of = capsys.readouterr().out.splitlines()
    assert said_of[:2] == [
        "snake-every-4: what is learned stays the same: +1.00 to +1.00 foods beyond 75% of the gain, n = 5 seeds",
        "snake-every-16: what is learned is less: -2.00 to -2.00 foods beyond 75% of the gain, n = 5 seeds",
    ]
    assert said_of[2].startswith("snake-batch-256: what is learned unclear: -1.")
    assert said_of[2].endswith(" n = 6 seeds")


def test_one_training_is_of_the_trial_the_seed_and_the_side_asked_for(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(returns.process, "set_up", lambda threads: None)
    monkeypatch.setattr(returns, "trained", lambda *of: asked.append(of) or 3.5)
    for more in ([], ["--changed"]):
        returns.main(["snake-every-16", "--one", "2", *more])
    trial = returns.TRIALS["snake-every-16"]
    assert asked == [(trial, 2, False), (trial, 2, True)]
    assert capsys.readouterr().out == "3.5\n3.5\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chess"], "unknown trial 'chess'; known: snake-every-4, "),
        (["--seeds", "4"], "got --seeds 4, wanted 5 or more"),
    ],
)
def test_a_mistaken_trial_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        returns.main(words)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_evidence_that_cannot_be_kept_ends_it(trials, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(returns, "KEPT", tmp_path / "file")
    monkeypatch.setattr(returns, "fresh_processes", lambda *asked, **more: iter([1.0]))
    with pytest.raises(SystemExit, match=r"snake-every-4\.json: cannot be written: "):
        returns.main(["snake-every-4"])


def test_a_figure_of_the_process_is_in_bytes(monkeypatch):
    told = "Name:\tpython\nVmHWM:\t     900 kB\nVmRSS:\t 300 kB\n"
    monkeypatch.setattr(Path, "read_text", lambda self: told if str(self) == "/proc/self/status" else "")
    assert (resident.status("VmHWM"), resident.status("VmRSS")) == (900 * 1024, 300 * 1024)
    with pytest.raises(ClaimsError, match=r"^/proc/self/status has no VmRS: memory cannot be measured here$"):
        resident.status("VmRS")


def test_a_call_that_raises_nothing_needs_a_page_at_least(monkeypatch):
    told = iter([5000, 9000, 9000])
    monkeypatch.setattr(resident, "status", lambda name: next(told))
    monkeypatch.setattr(Path, "write_text", lambda self, text: None)
    side = Side("toy.op[a]", make=lambda rng: lambda: None)
    assert resident.own_memory(side, 0) == {"resident": 4096.0, "peak": 9000.0}


def test_a_process_for_memory_is_asked_for_its_side_and_runs_beside_as_many_as_there_are_cores(weighed):
    (log, _), sides = weighed, [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "abc"]
    assert resident.memory("toy", sides, 7) == {side.label: FIGURES for side in sides}
    a, b, c = (side.label for side in sides)
    started = [words for step, words, *_ in log if step == "start"]
    command_ = [sys.executable, "-m", "perf_tests.claims.resident", "toy"]
    assert started == [[*command_, label, "7"] for label in (a, b, c)]
    steps = [(step[0], step[1][-2] if step[0] == "start" else step[1]) for step in log]
    assert steps[:4] == [("start", a), ("start", b), ("out", a), ("out", b)]
    assert steps.index(("start", c)) > max(steps.index(("over", label)) for label in (a, b))
    assert resident.memory("toy", [], 7) == {}


def test_a_process_for_memory_that_fails_is_named_and_none_is_left(weighed):
    (log, codes), sides = weighed, [Side(f"toy.op[{name}]", make=lambda rng: None) for name in "ab"]
    codes["toy.op[a]"] = 1
    with pytest.raises(ClaimsError) as failed:
        resident.memory("toy", sides, 7)
    assert str(failed.value) == "toy.op[a]: the process whose memory is measured ended with 1"
    assert [step[:2] for step in log[-4:]] == [(step, f"toy.op[{name}]") for name in "ba" for step in ("kill", "over")]
    log.clear()
    codes["toy.op[a]"] = "interrupted"
    with pytest.raises(KeyboardInterrupt):
        resident.memory("toy", sides, 7)
    assert [step[:2] for step in log[-4:]] == [(step, f"toy.op[{name}]") for name in "ba" for step in ("kill", "over")]


def test_the_memory_of_the_side_that_is_named_is_printed(monkeypatch, capsys):
    set_up, pair = [], claims_of("mario")[0].contexts["alone"]
    monkeypatch.setattr(resident.process, "set_up", lambda threads, memory: set_up.append((threads, memory)))
    monkeypatch.setattr(resident, "own_memory", lambda side, seed: {"label": side.label, "seed": seed})
    monkeypatch.setattr(sys, "argv", ["resident", "mario", pair.change.label, "7"])
    resident.main()
    assert json.loads(capsys.readouterr().out) == {"label": pair.change.label, "seed": 7}
    assert set_up == [(resident.process.cores(), "default")]


def test_a_wide_ratio_alone_has_a_mark_and_a_figure_its_unit():
    (context,) = row()["contexts"]
    assert table.ratio_words(context | {"wide": False}) == "1.50 (1.40-1.70), n = 6"
    figure = {"what": "rate", "theirs": "9 GB"}
    assert table.figure_words(figure | {"unit": "s", "ours": 0.0123}) == "rate: 12.3 ms here, 9 GB there"
    assert table.figure_words(figure | {"unit": "moves/s", "ours": 12_345}) == "rate: 12.3k moves/s here, 9 GB there"


def test_a_terminal_gets_a_line_for_each_comparison_and_figure():
    failed = row("snake-gpu", "error", None)
    failed["contexts"][0]["error"] = "E: no"
    figure = {"what": "rate", "unit": "s", "theirs": "9 s", "ours": 2.0}
    assert table.lines_of([row() | {"figures": [figure]}, failed]) == [
        "snake-overall [alone]: partly, ~1.50 (1.40-1.70), n = 6; promised 2 x",
        "snake-overall: rate: 2 s here, 9 s there",
        "snake-gpu [alone]: error, - (E: no); promised 2 x",
    ]


def test_the_summary_counts_what_was_promised_most_first_and_the_rest_apart():
    rows = [row(verdict=word) for word in ("holds", "partly", "refuted", "partly", "unclear", "needs CUDA", "error")]
    rows += [row(verdict=word) | {"least": None} for word in ("measured", "measured", "unclear")]
    assert table.summary(rows) == (
        "Of 6 comparisons with a published figure 2 hold partly, 1 hold, 1 are refuted, 1 are unclear, 1 error. "
        "1 more need hardware that is not here. 2 more are measured, of which nothing was promised."
    )


def test_the_front_has_what_was_promised_and_measured_and_says_where_the_rest_is():
    rows = [row(), row("snake-gpu", "needs CUDA", None), row("snake-more") | {"least": None}]
    text = pages.front({"claims": rows}, "a-cpu")
    assert text.startswith(
        f"{table.summary(rows)} [All of them, with what each says and where](results/a-cpu-claims.md)."
    )
    assert [name for name in ("snake-overall", "snake-gpu", "snake-more") if f"`{name}`" in text] == ["snake-overall"]


def test_pages_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    about = {"commit": "abc", "date": "2026-11-23", "machine": {"cpu_model": "a CPU", "cores": 2}, "threads": 2}
    found = {**about, "dirty": False, "claims": [row()]}
    (tmp_path / "results").mkdir()
    readme = tmp_path / "README.md"
    monkeypatch.setattr(pages, "PAGES", tmp_path / "results")
    monkeypatch.setattr(pages, "README", readme)
    readme.write_text("no place")
    with pytest.raises(ClaimsError, match=rf"^{readme}: wanted the markers"):
        pages.show(found)
    assert list((tmp_path / "results").iterdir()) == []
    readme.write_text(f"before\n{pages.START}\nold\n{pages.END}\nafter\n")
    pages.show(found)
    assert (tmp_path / "results" / "a-cpu-2-cores-claims.md").read_text() == table.page(found)
    assert json.loads((tmp_path / "results" / "a-cpu-2-cores-claims.json").read_text()) == found
    front = pages.front(found, "a-cpu-2-cores")
    assert readme.read_text() == f"before\n{pages.START}\n{front}\n{pages.END}\nafter\n"
