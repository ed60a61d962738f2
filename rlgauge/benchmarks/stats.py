"""The statistics in ``benchmark.stats``, as pytest-benchmark defines them."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

FIELDS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers",
    "outliers", "ld15iqr", "hd15iqr", "ops", "total",
)  # fmt: skip
FENCE = 1.5  # a value further from a quartile, in interquartile ranges, is an outlier


class Stats:
    """Statistics of a benchmark's rounds; `data` holds the seconds per call in each round."""

    fields = FIELDS

    def __init__(self, data: Sequence[float]) -> None:
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        """Return all statistics by name."""
        return {name: getattr(self, name) for name in FIELDS}

    @cached_property
    def sorted_data(self) -> list[float]:
        """Seconds in ascending order."""
        return sorted(self.data)

    @cached_property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.data)

    @cached_property
    def total(self) -> float:
        """Sum of the rounds."""
        return sum(self.data)

    @cached_property
    def ops(self) -> float:
        """Calls per second."""
        return self.rounds / self.total if self.total else 0

    @cached_property
    def min(self) -> float:
        """Smallest round."""
        return self.sorted_data[0]

    @cached_property
    def max(self) -> float:
        """Largest round."""
        return self.sorted_data[-1]

    @cached_property
    def mean(self) -> float:
        """Arithmetic mean."""
        return statistics.mean(self.data)

    @cached_property
    def median(self) -> float:
        """Median."""
        return statistics.median(self.data)

    @cached_property
    def stddev(self) -> float:
        """Sample standard deviation; 0 for a single round."""
        return statistics.stdev(self.data) if self.rounds > 1 else 0

    @cached_property
    def q1(self) -> float:
        """First quartile."""
        return lower_quartile(self.sorted_data)

    @cached_property
    def q3(self) -> float:
        """Third quartile."""
        return lower_quartile(self.sorted_data[::-1])

    @cached_property
    def iqr(self) -> float:
        """Interquartile range."""
        return self.q3 - self.q1

    @cached_property
    def ld15iqr(self) -> float:
        """Smallest round that is not an outlier by the interquartile range."""
        return self.sorted_data[bisect_left(self.sorted_data, self.q1 - FENCE * self.iqr)]

    @cached_property
    def hd15iqr(self) -> float:
        """Largest round that is not an outlier by the interquartile range."""
        return self.sorted_data[bisect_right(self.sorted_data, self.q3 + FENCE * self.iqr) - 1]

    @cached_property
    def iqr_outliers(self) -> int:
        """Number of outliers by the interquartile range (Tukey)."""
        return self.beyond(self.q1 - FENCE * self.iqr, self.q3 + FENCE * self.iqr)

    @cached_property
    def stddev_outliers(self) -> int:
        """Number of rounds more than one standard deviation from the mean."""
        return self.beyond(self.mean - self.stddev, self.mean + self.stddev)

    @cached_property
    def outliers(self) -> str:
        """Both numbers of outliers, as in ``1;2``."""
        return f"{self.stddev_outliers};{self.iqr_outliers}"

    def beyond(self, low: float, high: float) -> int:
        """Return the number of rounds below ``low`` or above ``high``."""
        return sum(value < low or value > high for value in self.data)


def lower_quartile(data: Sequence[float]) -> float:
    """Return the quartile nearest to the first value of data sorted in either direction."""
    quarter, rest = divmod(len(data), 4)
    if len(data) == 1:
        return data[0]
    if rest == 1:
        return 0.25 * data[quarter - 1] + 0.75 * data[quarter]
    if rest == 3:
        return 0.75 * data[quarter] + 0.25 * data[quarter + 1]
    return statistics.median(data[: len(data) // 2])
