"""Two sides timed in turns, and the ratio of their times."""

from __future__ import annotations

import math

import pytest

from rlgauge.interleaved import block
from rlgauge.statistics import log_ratio, log_ratios


@pytest.mark.parametrize("first", [0, 1])
def test_block_of_four_turns_cancels_a_drift(first):
    turns = []

    def sample(side, changed):
        turns.append((side, changed))
        return 10.0 * (1 + side) + len(turns)  # everything gets slower by one from turn to turn

    spent = block(first, sample)
    other = 1 - first
    assert turns == [(first, True), (other, True), (other, False), (first, True)]
    assert (spent[0] - 2 * 10, spent[1] - 2 * 20) == (5, 5)


def test_log_ratio_is_the_median_of_second_over_first():
    assert log_ratio([(1.0, 2.0), (1.0, 3.0), (1.0, 50.0)]) == pytest.approx(math.log(3))
    assert log_ratio([(1.0, 2.0), (4.0, 2.0)]) == pytest.approx(0.0)
    assert log_ratios([(2.0, 1.0), (1.0, 3.0)]) == pytest.approx([-math.log(2), math.log(3)])
