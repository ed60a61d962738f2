"""How many blocks of a case a pair has: more where they scatter, whichever side is slower."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from rlgauge.pairs import COSTLY, MORE, Cores, Pairs, SamplePlan, sure
from rlgauge.rule import SAME, SLOWED, Record, Rule
from rlgauge.run import Gate
from rlgauge.statistics import error_of_median

PLAN = SamplePlan(1, 1, True)


def mixed(plans, times, blocks=8, thorough=False):
    """Return the blocks of these cases, where a block of a case is what ``times`` gives."""
    pairs = Pairs((), blocks, 1.0, {}, None, random.Random(0))
    return pairs.mixed(plans, lambda name: times[name](), thorough)


def scattered(by, middle=1.0):
    rng = random.Random(1)
    return lambda: (1.0, middle * rng.uniform(1 - by, 1 + by))


def test_a_case_that_scatters_gets_more_blocks_and_the_others_do_not():
    found = mixed(dict.fromkeys("abc", PLAN), {"a": scattered(0.0), "b": scattered(0.3), "c": scattered(0.01)})
    assert {name: len(blocks) for name, blocks in found.items()} == {"a": 8, "b": 8 * MORE, "c": 8}


def test_it_ends_as_soon_as_the_median_is_sure():
    (blocks,) = mixed({"a": PLAN}, {"a": scattered(0.04)}).values()
    assert 8 < len(blocks) < 8 * MORE
    assert sure(blocks)
    assert not sure(blocks[:-1])


@pytest.mark.parametrize("by", [0.0, 0.03, 0.3])
def test_which_side_is_slower_does_not_matter(by):
    one, other = (mixed({"a": PLAN}, {"a": scattered(by, middle)})["a"] for middle in (1.0, 1.5))
    assert len(one) == len(other)


@pytest.mark.parametrize(
    ("most", "more", "wanted"), [(3, 1, 3), (3, 3, 3), (100, 0, 8), (100, 20, 20), (100, 100, 32), (2, 100, 32)]
)
def test_long_calls_get_fewer(most, more, wanted):
    plan = SamplePlan(1, 1, True, most, more)
    assert len(mixed({"a": plan}, {"a": scattered(0.5)})["a"]) == wanted


@pytest.mark.parametrize(("most", "wanted"), [(3, 3), (20, 20), (100, 32)])
def test_long_calls_get_more_where_few_cases_are_confirmed(most, wanted):
    plan = SamplePlan(1, 1, True, most, more_blocks=0)
    assert len(mixed({"a": plan}, {"a": scattered(0.5)}, thorough=True)["a"]) == wanted
    assert len(mixed({"a": plan}, {"a": scattered(0.0)}, thorough=True)["a"]) == min(8, most)


@pytest.mark.parametrize("by", [0.0, 0.02, 0.04, 0.5])
@pytest.mark.parametrize("more", [0, 12, 100])
def test_the_blocks_of_a_quick_pair_are_the_first_of_a_thorough_one(by, more):
    plan = SamplePlan(1, 1, True, 100, more)
    quick, thorough = (mixed({"a": plan}, {"a": scattered(by)}, 8, which)["a"] for which in (False, True))
    assert Pairs((), 8, 1.0, {}, None, random.Random(0)).quick(thorough, plan) == quick


@pytest.mark.parametrize(("suspects", "quick"), [(1, 0), (4, 0), (5, 4)])
def test_a_confirmation_is_thorough_after_its_first_look_or_of_a_few(monkeypatch, suspects, quick):
    asked = []
    monkeypatch.setattr(Pairs, "measure", lambda self, records, names, place, phase, how: asked.append((phase, how)))
    names = [f"case {number}" for number in range(suspects)]
    records = {name: Record() for name in (*names, SAME, SLOWED)}
    gate = Gate(None, "", "", (), (), records, None, Rule(), 0, 1.0, log=lambda line: None)
    how = Pairs((), 8, 1.0, {}, None, random.Random(0)), "screen", 4, names, Cores((0, 1), 1)
    gate.phase(*how)
    gate.records.update({name: slow_in_its_screen() for name in names})
    gate.phase(how[0], "confirm", 6, *how[3:])
    assert asked == [("screen", False)] * 4 + [("confirm", False)] * quick + [("confirm", True)] * (6 - quick)


@pytest.mark.parametrize(
    ("preparing", "costly"),
    [([], False), ([COSTLY], False), ([COSTLY, COSTLY], True), ([2 * COSTLY, 1.0], False), ([1.0, COSTLY], False)],
)
def test_what_is_costly_to_prepare_in_every_process_gets_longer_pairs(preparing, costly):
    pairs = Pairs((), 8, 1.0, {}, None, random.Random(0))
    pairs.preparing["a"] = preparing
    assert pairs.costly("a") is costly
    plans, calls = {"a": PLAN, "b": SamplePlan(1, 1, True, most_blocks=3)}, {"a": scattered(0.0), "b": scattered(0.0)}
    found = pairs.mixed(plans, lambda name: calls[name]())
    assert {name: len(blocks) for name, blocks in found.items()} == {"a": 16 if costly else 8, "b": 3}


@pytest.mark.parametrize(("preparing", "screened"), [(COSTLY, 2), (COSTLY - 0.1, 4)])
def test_what_is_costly_to_prepare_is_screened_by_two_pairs(monkeypatch, preparing, screened):
    asked, pairs = [], Pairs((), 8, 1.0, {}, None, random.Random(0))

    def measure(records, names, place, phase, thorough):
        asked.append(names)
        for name in names:
            pairs.preparing.setdefault(name, []).append(preparing if name == "a" else 1.0)
            records[name].screen.append([(1.0, 1.02)])

    monkeypatch.setattr(pairs, "measure", measure)
    records = {name: Record() for name in ("a", "b", SAME, SLOWED)}
    gate = Gate(None, "", "", (), (), records, None, Rule(), 0, 1.0, log=lambda line: None)
    gate.phase(pairs, "screen", 4, ["a", "b"], Cores((0, 1), 1))
    assert [len(gate.records[name].screen) for name in "ab"] == [screened, 4]


def slow_in_its_screen():
    return Record(screen=[[(1.0, 1.1)]] * Rule().screen)


def test_those_of_all_cases_are_mixed():
    order = []
    plans = dict.fromkeys("abcd", PLAN)
    mixed(plans, {name: lambda name=name: order.append(name) or (1.0, 1.0) for name in plans})
    turns = [tuple(order[k : k + 4]) for k in range(0, len(order), 4)]
    assert all(Counter(turn) == Counter("abcd") for turn in turns)
    assert len(set(turns)) > 3


def test_the_error_of_a_median_is_that_of_a_normal_distribution():
    rng = random.Random(0)
    values = [rng.gauss(5.0, 2.0) for _ in range(10_000)]
    assert error_of_median(values) == pytest.approx(1.2533 * 2.0 / 100, rel=0.05)
    assert error_of_median([3.0]) == error_of_median([]) == 0.0
    assert error_of_median([1.0, 3.0]) == pytest.approx(1.2533 * 1.4826 * 1.0 / 2**0.5, rel=1e-12)
    assert error_of_median([0.0, 10.0, 1.0, 2.0, 90.0]) == pytest.approx(1.2533 * 1.4826 * 2.0 / 5**0.5, rel=1e-12)


def test_the_gate_passes_turns_on_the_core_of_the_workers_and_then_leaves_it(monkeypatch):
    now = [{0, 1}]  # a worker of the tests has one core, on which nothing would show
    monkeypatch.setattr(os, "sched_getaffinity", lambda which: now[-1])
    monkeypatch.setattr(os, "sched_setaffinity", lambda which, cores: now.append(set(cores)))
    with Cores((0, 1), 1).shared():
        assert now[-1] == {1}
    assert now[-1] == {0, 1}
    with pytest.raises(KeyboardInterrupt), Cores((0, 1), 1).shared():
        raise KeyboardInterrupt
    assert now[-1] == {0, 1}
    with Cores((0, 1), None).shared():
        assert now[-1] == {0, 1}
