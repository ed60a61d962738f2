"""Drift within pairs: it shows that a benchmark changes its own data, for example by appending to a list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from .statistics import Block, rank_correlation

if TYPE_CHECKING:
    from .rule import Record

MIN_DRIFT, MIN_DRIFT_PAIRS = 0.1, 3  # minimum drift within a pair; minimum number of pairs
# Rank correlation of samples with their order, and the share of pairs that must reach it: noise may move as far in
# all pairs, but not as steadily.
MIN_STEADINESS, STEADY_SHARE = 0.7, 0.75


def drift_factor(record: Record) -> float | None:
    """Return the factor by which samples change from the first to the last third of a pair, or None.

    A benchmark that changes its own data, such as a list it appends to, does different work in every call. Its samples
    then move far and steadily in one direction, in all pairs and on both sides. None if pairs disagree or are too few.
    """
    pairs = [blocks for blocks in (*record.screen, *record.confirm) if len(blocks) >= 3]
    trends = [log_trend([block[side] for block in blocks]) for blocks in pairs for side in (0, 1)]
    least = math.log1p(MIN_DRIFT)
    if len(pairs) < MIN_DRIFT_PAIRS or not (min(trends) > least or max(trends) < -least):
        return None
    steady = sum(steadiness(blocks) >= MIN_STEADINESS for blocks in pairs)
    return math.exp(median(trends)) if steady >= STEADY_SHARE * len(pairs) else None


def steadiness(blocks: Sequence[Block]) -> float:
    """Return how steadily a pair's samples (three or more blocks) move in one direction, from 0 to 1.

    This is the absolute rank correlation of the samples with their order (Spearman).
    """
    seconds = [base * head for base, head in blocks]
    return abs(rank_correlation(range(len(seconds)), seconds))


def log_trend(seconds: Sequence[float]) -> float:
    """Return the log of the last third's median over the first third's median, of three or more samples in order."""
    third = len(seconds) // 3
    return math.log(median(seconds[-third:]) / median(seconds[:third]))
