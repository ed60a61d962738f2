"""Two sides timed in turns, and the ratio of their times."""

import pytest

from rlgauge.interleaved import block


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
