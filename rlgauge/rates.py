"""How often the gate is wrong, counted in recorded pairs: every rate with its n and exact interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .rule import Rule, confirmed, suspected
from .statistics import rate_interval

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class Rate:
    """How often something happened, of how many.

    Attributes:
        found: how often.
        n: of how many.
    """

    found: int
    n: int

    def __str__(self) -> str:
        """Return the count, and the exact (Clopper-Pearson) 95 % interval of the rate."""
        if not self.n:
            return "not measured"
        low, high = rate_interval(self.found, self.n)
        return f"{self.found}/{self.n} [{100 * low:.1f} %, {100 * high:.1f} %]"

    def __add__(self, other: Rate) -> Rate:
        """Return both together."""
        return Rate(self.found + other.found, self.n + other.n)


class Said(NamedTuple):
    """What a pair says of a case: the log-ratio of its blocks, of which a thorough pair has more.

    Attributes:
        quick: as a screen says it, and a confirmation up to its first look.
        thorough: as the rest of a confirmation says it.
    """

    quick: float
    thorough: float


def confirmation(values: npt.ArrayLike, rule: Rule) -> npt.NDArray[np.float64]:
    """Return what the pairs of confirmations say, each as it is measured among many.  f[..., n, 2] -> f[..., n]

    Args:
        values: f[..., n, 2], quick and thorough, of the pairs of each confirmation in their order.
        rule: the numbers to decide by.
    """
    import numpy as np

    said = np.asarray(values, dtype=float)
    return np.where(np.arange(said.shape[-2]) < rule.screen, said[..., 0], said[..., 1])


def verdicts(values: Sequence[Said], rule: Rule, suspects: int = 1) -> Iterator[tuple[bool, bool]]:
    """Return, of one verdict after the other on fresh pairs, whether it was a suspect and whether it was `slower`.

    The p-value is adjusted as that of the smallest of so many suspects. A last suspect that lacks pairs is confirmed by
    those of the beginning: a verdict that were dropped for its outcome would make the rates look better. Where there
    are too few pairs for another look, one that is still open is not `slower`.

    Args:
        values: what pairs say of a case, in the order they were measured.
        rule: the numbers to decide by.
        suspects: in a whole run, for which p is adjusted.
    """
    start = 0
    while start + rule.screen <= len(values) >= rule.screen + rule.confirm:
        screen = [pair.quick for pair in values[start : start + rule.screen]]
        others = [*values[start + rule.screen :], *values[:start]]
        start += rule.screen
        if suspected(screen, rule) < 1:
            yield False, False
        else:
            for pairs in range(rule.confirm, min(rule.most, len(others)) + 1, rule.confirm):
                (p,) = confirmed(confirmation([others[:pairs]], rule), rule)
                slower = suspects * p <= rule.level
                if slower or p == 1:
                    break
            start += pairs
            yield True, slower
