"""Values with an interval, and ratios of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

SCATTER = 0.03  # relative difference between two processes of the same code


@dataclass(frozen=True)
class Span:
    """A positive value and its interval from ``low`` to ``high``."""

    middle: float
    low: float
    high: float

    def __truediv__(self, other: Span) -> Span:
        """Return the ratio, with the widest interval that both intervals allow."""
        return Span(self.middle / other.middle, self.low / other.high, self.high / other.low)

    @property
    def undecided(self) -> bool:
        """Whether the interval of a ratio contains 1."""
        return self.low <= 1 <= self.high


def items(row: Row) -> float:
    """Return the number of items per call."""
    return float(row["seconds_per_call"] * row["items_per_second"])


def per_item(row: Row) -> Span:
    """Return the seconds per item, as forms may handle different numbers of items per call."""
    count = items(row)
    return Span(1 / row["items_per_second"], row["low"] / count, row["high"] / count)
