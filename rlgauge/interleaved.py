"""Time two alternatives in turns, A B B A or B A A B.

A turn that follows the other side's turn starts with work that is not counted. At first, the other side's data fill
the caches and its idle threads may still spin, unlike in a program that runs alone.
"""

from __future__ import annotations

from collections.abc import Callable

from .statistics import Block


def block(first: int, sample: Callable[[int, bool], float], turns: int = 2) -> Block:
    """Return the seconds of each side's turns, summed.

    Args:
        first: the side, 0 or 1, with the first turn.
        sample: ``sample(side, changed)`` takes a turn and returns its seconds. If ``changed``, the other side ran
            before, and the turn starts with an uncounted warm-up.
        turns: turns of each side: 2, or 1 for A B or B A.
    """
    spent = [0.0, 0.0]
    for side, changed in ((first, True), (1 - first, True), (1 - first, False), (first, True))[: 2 * turns]:
        spent[side] += sample(side, changed)
    return spent[0], spent[1]
