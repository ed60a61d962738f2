"""The turns of a block, and the number of blocks and pairs of a case: noisy and undecided cases get more."""

import math
import os
import random
import time
from types import SimpleNamespace

import pytest

from rlgauge.interleaved import block
from rlgauge.pairs import NOISY_FACTOR, Pairs
from rlgauge.rule import SAME, SLOWED, Record, Rule
from rlgauge.run import Gate
from rlgauge.sampling import Cores, SamplePlan

PLAN = SamplePlan(1, 1, True)


def pairs_of(blocks=8):
    return Pairs((), blocks, 1.0, {}, None, random.Random(0))


def measured(plans, blocks, thorough=False):
    """Measure the blocks of cases; ``blocks[case]()`` returns one block."""
    return pairs_of().measure_blocks(plans, lambda name: blocks[name](), thorough)


def scattered(by, middle=1.0):
    rng = random.Random(1)
    return lambda: (1.0, middle * rng.uniform(1 - by, 1 + by))


def test_a_case_that_scatters_gets_more_blocks_and_the_others_do_not():
    found = measured(dict.fromkeys("abc", PLAN), {"a": scattered(0.0), "b": scattered(0.3), "c": scattered(0.01)})
    assert {name: len(blocks) for name, blocks in found.items()} == {"a": 8, "b": 8 * NOISY_FACTOR, "c": 8}


@pytest.mark.parametrize(
    ("most", "more", "quick", "thorough"), [(3, 1, 3, 3), (100, 0, 8, 32), (100, 20, 20, 32), (20, 0, 8, 20)]
)
def test_long_calls_get_fewer_blocks_but_more_in_a_thorough_pair(most, more, quick, thorough):
    plan = {"a": SamplePlan(1, 1, True, most, more)}
    assert [len(measured(plan, {"a": scattered(0.5)}, how)["a"]) for how in (False, True)] == [quick, thorough]
    assert len(measured(plan, {"a": scattered(0.0)}, True)["a"]) == min(8, most)


@pytest.mark.parametrize(("seconds", "count"), [([30.0], 8), ([30.0, 1.0], 8), ([30.0, 11.0], 16)])
def test_a_case_that_every_process_takes_long_to_prepare_gets_twice_the_blocks(seconds, count):
    pairs = pairs_of()
    pairs.prepare_seconds["a"] = seconds
    assert len(pairs.measure_blocks({"a": PLAN}, lambda name: (1.0, 1.0))["a"]) == count


@pytest.mark.parametrize("by", [0.0, 0.04, 0.5])
@pytest.mark.parametrize("more", [0, 12, 100])
def test_the_blocks_of_a_quick_pair_are_the_first_of_a_thorough_one(by, more):
    plan = SamplePlan(1, 1, True, 100, more)
    quick, thorough = (measured({"a": plan}, {"a": scattered(by)}, which)["a"] for which in (False, True))
    assert pairs_of().quick_blocks(thorough, plan) == quick


def gate_of(records, rule, names=(), log=lambda line: None):
    records = records | {SAME: Record(), SLOWED: Record()}  # the canaries are not screened yet
    return Gate("", "", (), (), records, None, rule, 0, 1.0, names=names, log=log)


@pytest.mark.parametrize(("names", "pairs"), [("ab", [14, 7]), ("abcd", [14, 14])], ids=["whole", "shard"])
def test_a_confirmation_that_its_first_look_leaves_open_goes_on_to_the_second(names, pairs):
    values = {"a": [0.1] * 6 + [0.009] + [0.1] * 7, "b": [0.05, 0.2] * 7}  # p after seven pairs: 2 / 2^7 and 1 / 2^7

    def measure(records, names, *how):
        for name in names:
            records[name].confirm.append([(1.0, math.exp(values[name][len(records[name].confirm)]))])

    rule = Rule(screen=1, confirm=7, level=4 * 2**-7)  # the smaller p, adjusted for two suspects and two looks
    gate = gate_of({name: Record(screen=[[(1.0, 1.1)]]) for name in values}, rule, names)
    gate.measure_phase(SimpleNamespace(measure=measure), "confirm", rule.most, list(values), Cores((0,), 0))
    assert [len(gate.records[name].confirm) for name in values] == pairs


def test_the_expected_time_covers_the_confirmation_and_says_how_much_longer_a_slower_test_takes(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def measure(records, names, *how):
        now[0] += 4.0 + len(names)  # both processes take four seconds to start, and each case one
        for name in names:
            records[name].screen.append([(1.0, 1.05 if name == SLOWED else 1.0)])

    gate = gate_of({"a": Record()}, Rule(), "a", lines.append)
    gate.measure_phase(SimpleNamespace(measure=measure, start_seconds=4.0, costly=lambda name: False), "screen", 4,
                       ["a", SAME, SLOWED], Cores((0,), 0))  # fmt: skip
    assert lines[:3] == [
        "gate: screen 1 of 4: 1 benchmark on 1 core",
        "gate: about 62 s for the remaining pairs on 1 core, and up to 3 min more if a test looks slower or faster",
        "gate: screen 2 of 4: 1 benchmark on 1 core, about 62 s left",
    ]


@pytest.mark.parametrize(("shard", "pairs"), [((1, 2), 2), (None, 1)], ids=["shard", "whole"])
def test_a_shard_of_new_tests_measures_its_canaries(shard, pairs):
    def measure(records, names, *how):
        records["a"].state = "new"
        for name in {SAME, SLOWED} & {*names}:
            records[name].screen.append([(1.0, 1.0)])

    gate = gate_of({"a": Record()}, Rule(screen=2), "a")
    gate.shard = shard
    measuring = SimpleNamespace(measure=measure, start_seconds=0.0)
    gate.measure_phase(measuring, "screen", gate.rule.screen, ["a", SAME, SLOWED], Cores((0,), 0))
    assert len(gate.records[SAME].screen) == pairs


@pytest.fixture
def all_cores():
    """Let a test use all cores: a worker of the tests has one."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    yield os.sched_getaffinity(0)
    os.sched_setaffinity(0, own)


@pytest.mark.skipif(os.cpu_count() < 2, reason="needs two cores")
def test_the_gate_moves_to_the_core_of_the_workers_and_back(all_cores):
    last = max(all_cores)
    with Cores((*all_cores,), last).share_core():
        assert os.sched_getaffinity(0) == {last}
    assert os.sched_getaffinity(0) == all_cores
    with pytest.raises(KeyboardInterrupt), Cores((*all_cores,), last).share_core():
        raise KeyboardInterrupt
    assert os.sched_getaffinity(0) == all_cores
    with Cores((*all_cores,), None).share_core():  # no pinning on all cores
        assert os.sched_getaffinity(0) == all_cores


@pytest.mark.parametrize("first", [0, 1])
def test_block_of_four_turns_cancels_a_drift(first):
    turns = []

    def sample(side, changed):
        turns.append((side, changed))
        return 10.0 * (1 + side) + len(turns)  # each turn is slower by 1 than the one before

    spent = block(first, sample)
    other = 1 - first
    assert turns == [(first, True), (other, True), (other, False), (first, True)]
    assert (spent[0] - 2 * 10, spent[1] - 2 * 20) == (5, 5)
