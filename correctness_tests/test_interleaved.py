"""Two things timed in turns, and what is said of them."""

from __future__ import annotations

import math
import os

import pytest

from perf_tests.interleaved import fresh_processes, interruptible
from rlgauge.interleaved import block
from rlgauge.statistics import log_ratio, log_ratios


@pytest.mark.parametrize("first", [0, 1])
def test_a_block_is_four_turns_that_cancel_a_drift(first):
    turns = []

    def sample(side, changed):
        turns.append((side, changed))
        return 10.0 * (1 + side) + len(turns)  # everything gets slower by one from turn to turn

    spent = block(first, sample)
    other = 1 - first
    assert turns == [(first, True), (other, True), (other, False), (first, True)]
    assert (spent[0] - 2 * 10, spent[1] - 2 * 20) == (5, 5)


def test_the_ratio_of_blocks_is_the_median_of_second_over_first():
    assert log_ratio([(1.0, 2.0), (1.0, 3.0), (1.0, 50.0)]) == pytest.approx(math.log(3))
    assert log_ratio([(1.0, 2.0), (4.0, 2.0)]) == pytest.approx(0.0)
    assert log_ratios([(2.0, 1.0), (1.0, 3.0)]) == pytest.approx([-math.log(2), math.log(3)])


ONE = """import json, os, sys
print("noise")
print(json.dumps([os.getpid(), *sys.argv[1:]]))
if sys.argv[-1] == "2":
    sys.exit(3)
"""


def test_each_fresh_process_gives_its_last_line_until_one_fails_and_ends_this_with_its_code(tmp_path, monkeypatch):
    (tmp_path / "measured.py").write_text(ONE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = fresh_processes("measured", ["--a", "b"], 5)
    (first, *asked), (second, *_) = next(found), next(found)
    assert asked == ["--a", "b", "--one", "0"]
    assert len({first, second, os.getpid()}) == 3
    with pytest.raises(SystemExit) as ended:
        next(found)
    assert ended.value.code == 3


def test_processes_are_numbered_from_the_first(tmp_path, monkeypatch):
    (tmp_path / "measured.py").write_text(ONE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [found[1:] for found in fresh_processes("measured", [], 2, first=3)] == [["--one", "3"], ["--one", "4"]]


def test_what_is_no_interrupt_is_raised():
    with pytest.raises(ZeroDivisionError), interruptible():
        1 / 0  # noqa: B018
    with interruptible():
        pass
