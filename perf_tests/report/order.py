"""Figures with the interval in which they stand, and ratios of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

SCATTER = 0.03  # by which two processes of the same code differ


@dataclass(frozen=True)
class Span:
    """A positive figure and the interval in which it stands.

    Attributes:
        middle: the figure itself.
        low: lower end of its interval.
        high: upper end.
    """

    middle: float
    low: float
    high: float

    def __truediv__(self, other: Span) -> Span:
        """Return the ratio of two figures, with the widest interval that theirs allow."""
        return Span(self.middle / other.middle, self.low / other.high, self.high / other.low)

    @property
    def undecided(self) -> bool:
        """Whether, as a ratio, it says neither more nor less than 1."""
        return self.low <= 1 <= self.high


def items(row: Row) -> float:
    """Return how many items a call of a row handles."""
    return float(row["seconds_per_call"] * row["items_per_second"])


def per_item(row: Row) -> Span:
    """Return the seconds of one item: forms may handle different numbers of items per call."""
    count = items(row)
    return Span(1 / row["items_per_second"], row["low"] / count, row["high"] / count)
