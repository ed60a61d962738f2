"""Two things timed in turns, A B B A or B A A B.

A sample that follows one of the other side does not count: the other's data fill the caches and its idle threads still
turn, as they do not where a program runs alone.
"""

from __future__ import annotations

from collections.abc import Callable

from .statistics import Block


def block(first: int, sample: Callable[[int, bool], float]) -> Block:
    """Return what four turns measured, summed over each side's two.

    Args:
        first: the side, 0 or 1, that has the first turn and the last.
        sample: ``sample(side, changed)`` has a turn and returns its seconds; where ``changed``, the other side was at
            work before, so that it begins with something that does not count.
    """
    spent = [0.0, 0.0]
    for side, changed in ((first, True), (1 - first, True), (1 - first, False), (first, True)):
        spent[side] += sample(side, changed)
    return spent[0], spent[1]
