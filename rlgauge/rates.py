"""The gate's error rates in recorded pairs, each with its n and exact interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .rule import Rule, confirmed, suspect_direction
from .statistics import rate_interval


@dataclass(frozen=True)
class Rate:
    """A count out of n trials."""

    found: int
    n: int

    def __str__(self) -> str:
        """Format the count with the exact (Clopper-Pearson) 95% interval of the rate."""
        if not self.n:
            return "not measured"
        low, high = rate_interval(self.found, self.n)
        return f"{self.found:,}/{self.n:,} [{low:.1%}, {high:.1%}]"


class PairLogRatio(NamedTuple):
    """The log-ratio of a case in one pair, as a quick pair and as a thorough one, which has more blocks.

    Attributes:
        quick: as measured in a screen, and in a confirmation before it becomes thorough.
        thorough: as measured in the rest of a confirmation.
    """

    quick: float
    thorough: float


def verdicts(values: Sequence[PairLogRatio], rule: Rule, suspects: int = 1) -> Iterator[tuple[bool, bool]]:
    """Yield, for successive verdicts on fresh pairs, whether the case was a suspect and whether it was `slower`.

    The p-value is multiplied by `suspects`, as Holm's method does for the smallest of that many. If pairs run out, the
    last suspect is confirmed by those from the beginning: dropping a verdict depending on its outcome would bias the
    rates. With too few pairs for another look, an undecided suspect does not count as `slower`.
    """
    start = 0
    while start + rule.screen <= len(values) >= rule.screen + rule.confirm:
        screen = [pair.quick for pair in values[start : start + rule.screen]]
        others = [*values[start + rule.screen :], *values[:start]]
        start += rule.screen
        if suspect_direction(screen, rule) < 1:
            yield False, False
        else:
            for pairs in range(rule.confirm, min(rule.most, len(others)) + 1, rule.confirm):
                quick, thorough = others[: rule.screen], others[rule.screen : pairs]  # as measured among many suspects
                (p,) = confirmed([[pair.quick for pair in quick] + [pair.thorough for pair in thorough]], rule)
                slower = suspects * p <= rule.level
                if slower or p == 1:
                    break
            start += pairs
            yield True, slower
