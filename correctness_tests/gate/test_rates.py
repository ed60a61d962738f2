"""Verdicts on recorded pairs, and the error rates computed from them."""

import math
import random

from rlgauge.pairs import Pairs
from rlgauge.power import add_log_ratios, pair_log_ratios
from rlgauge.rates import PairLogRatio, verdicts
from rlgauge.rule import Rule
from rlgauge.sampling import SamplePlan

RULE = Rule(screen=2, confirm=8, looks=1)
SLOW, SAME = 0.1, 0.0


def judged(values, rule, suspects=1):
    """Return the verdicts on pairs whose quick and thorough log-ratios are equal."""
    return list(verdicts([PairLogRatio(value, value) for value in values], rule, suspects))


def test_each_verdict_takes_fresh_pairs():
    clean, slow = [SAME] * 2, [SLOW] * 10
    assert judged(clean + slow + clean, RULE) == [(False, False), (True, True), (False, False)]
    assert judged([SLOW, SLOW, *[SAME] * 8, *clean], RULE) == [(True, False), (False, False)]


def test_too_few_pairs_for_a_suspect_are_no_verdict():
    assert judged([SAME] * 9, RULE) == []


def test_p_is_adjusted_for_the_other_suspects():
    assert judged([SLOW] * 10, RULE, suspects=2) == [(True, True)]  # 2 / 2^8 is below 0.01
    assert judged([SLOW] * 10, RULE, suspects=3) == [(True, False)]


def test_p_equal_to_the_level_is_significant():
    exactly = Rule(screen=2, confirm=8, looks=1, level=2**-8)
    assert judged([SLOW] * 10, exactly) == [(True, True)]
    assert judged([SLOW] * 10, exactly, suspects=2) == [(True, False)]


def test_an_open_first_look_takes_the_pairs_of_a_second():
    both, clean = Rule(screen=2, confirm=8), [SAME] * 2
    late = [*[SLOW] * 8, *[-SLOW / 2] * 2, *[SLOW] * 8]
    assert judged(late + clean, both) == [(True, True), (False, False)]
    assert judged([SLOW] * 10 + clean * 4, both) == [(True, True), *[(False, False)] * 4]
    assert judged([SLOW] * 2 + [SAME] * 8 + clean * 4, both) == [(True, False), *[(False, False)] * 4]  # futile
    assert judged(late[:10], both) == [(True, False)]  # too few pairs for a second look


def test_screen_and_first_futility_check_use_quick_pairs():
    hidden, found = PairLogRatio(SAME, SLOW), PairLogRatio(SLOW, SAME)
    assert list(verdicts([hidden] * 10, RULE)) == [(False, False)] * 5
    assert list(verdicts([found] * 10, RULE)) == [(True, False)]
    assert list(verdicts([found] * 2 + [hidden] * 8, RULE)) == [(True, False)]  # stopped at the first futility check
    assert list(verdicts([found] * 4 + [hidden] * 6, RULE)) == [(True, True)]


def test_a_pair_keeps_its_thorough_and_its_quick_log_ratio():
    pairs = Pairs((), 2, 1.0, {}, None, random.Random(0))
    plan = SamplePlan(1, 1, True, max_blocks=3, max_noisy_blocks=2)
    found = {"log_ratios": {}, "quick": {}}
    add_log_ratios(found, pairs, "a", plan, {"0": [(1.0, 1.0), (1.0, 4.0), (1.0, 4.0)]})  # noisy
    add_log_ratios(found, pairs, "b", plan, {"0.05": [(1.0, 2.0)] * 2})
    two, four = round(math.log(2), 6), round(math.log(4), 6)
    assert found == {
        "log_ratios": {"a": {"0": four}, "b": {"0.05": two}},
        "quick": {"a": {"0": two}, "b": {"0.05": two}},
    }
    assert pair_log_ratios([found], "a", "0") == [PairLogRatio(two, four)]
    old = {"log_ratios": found["log_ratios"]}  # without quick log-ratios
    assert pair_log_ratios([old], "a", "0") == [PairLogRatio(four, four)]
