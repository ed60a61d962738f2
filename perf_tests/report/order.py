"""What samples support: the interval in which a figure stands, ratios of two, and ranks that are no finer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, mean, stdev
from typing import Any

Row = Mapping[str, Any]


SCATTER = 0.03  # by which two processes of the same code differ
PAIRED = 3  # passes that two figures have to share to be compared pass by pass


@dataclass(frozen=True)
class Span:
    """A positive figure, the interval in which it stands, and what each pass of a run gave, None where disturbed.

    Attributes:
        middle: the figure itself.
        low: lower end of its interval.
        high: upper end.
        passes: what each pass gave, None where it was disturbed.
    """

    middle: float
    low: float
    high: float
    passes: tuple[float | None, ...] = ()

    def __truediv__(self, other: Span) -> Span:
        """Return the ratio of two figures and its interval.

        Rows of one table are timed one after the other in each pass, so what slows the machine for a while slows both.
        Where enough passes have both, it is the geometric mean of their ratios. Its interval has the standard error of
        that and the ratio of the fastest quarters of the passes, as what slows a core for a while never makes anything
        faster; and by how much processes differ to either side. Where too few passes have both, it is the ratio of the
        medians, with the widest interval that those of the two allow.
        """
        both = [math.log(one / another) for one, another in zip(self.passes, other.passes) if one and another]
        if len(both) < PAIRED:
            return Span(self.middle / other.middle, self.low / other.high, self.high / other.low)
        usual, error, best = mean(both), stdev(both) / math.sqrt(len(both)), self.best / other.best
        low, high = min(math.exp(usual - error), best), max(math.exp(usual + error), best)
        return Span(math.exp(usual), low * (1 - SCATTER), high * (1 + SCATTER))

    @property
    def best(self) -> float:
        """The geometric mean of the fastest quarter of the passes, at least of one."""
        fastest = sorted(filter(None, self.passes))
        return geometric_mean(fastest[: max(1, round(len(fastest) / 4))])

    def __mul__(self, other: Span) -> Span:
        """Return the product of two figures, with the widest interval that theirs allow, and no passes to go by."""
        return Span(self.middle * other.middle, self.low * other.low, self.high * other.high)

    def below(self, other: Span) -> bool:
        """Return whether it is certainly the smaller one: their ratio's interval is below 1.

        Args:
            other: the figure to compare with.
        """
        return (self / other).high < 1

    @property
    def half(self) -> float:
        """Half of the interval, as a part of the figure."""
        return (self.high - self.low) / (2 * self.middle)

    @property
    def undecided(self) -> bool:
        """Whether, as a ratio, it says neither more nor less than 1."""
        return self.low <= 1 <= self.high


def spans(figures: Mapping[str, float]) -> Span:
    """Return the span of what has ``ratio``, ``low`` and ``high``.

    Args:
        figures: by name.
    """
    return Span(figures["ratio"], figures["low"], figures["high"])


def with_default_malloc(row: Row) -> Span | None:
    """Return how many times as long a row takes with default malloc, where it was seen to take longer or less.

    Args:
        row: of a result.
    """
    found = spans(row["default_malloc"]) if row.get("default_malloc") else None
    return None if found is None or found.undecided else found


def items(row: Row) -> float:
    """Return how many items a call of a row handles.

    Args:
        row: of a result.
    """
    return float(row["seconds_per_call"] * row["items_per_second"])


def per_item(row: Row) -> Span:
    """Return the seconds of one item: what forms of different numbers of items per call can be compared by.

    Args:
        row: of a result.
    """
    count = items(row)
    passes = tuple(seconds and seconds / count for seconds in row.get("passes", ()))
    return Span(1 / row["items_per_second"], row["low"] / count, row["high"] / count, passes)


def for_a_user(row: Row) -> Span:
    """Return the seconds of one item in a user's process: with default malloc, where that makes a difference.

    Args:
        row: of a result.
    """
    changed = with_default_malloc(row)
    return per_item(row) * changed if changed else per_item(row)


def ranks(figures: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the best and the worst rank that each of them may have, 1 for the smallest.

    Args:
        figures: one or more.
    """
    return [
        (1 + sum(other.below(one) for other in figures), len(figures) - sum(one.below(other) for other in figures))
        for one in figures
    ]


def leaders(figures: Mapping[str, Span]) -> list[str]:
    """Return the names of all that cannot be told apart from the smallest, smallest first.

    Args:
        figures: by name.
    """
    in_order = sorted(figures, key=lambda name: figures[name].middle)
    return [name for name in in_order if not figures[in_order[0]].below(figures[name])]


def fastest(rows: Iterable[Row]) -> Row:
    """Return the row with the least time of an item in a user's process.

    Args:
        rows: one or more.
    """
    return min(rows, key=lambda row: for_a_user(row).middle)
