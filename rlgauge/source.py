"""A benchmark as the gate and the other commands know it."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 3e-5  # of answers in float32: one machine, one library, so that the order of sums alone may differ


@dataclass(frozen=True)
class Case:
    """What is compared.

    Attributes:
        id: of the test, the same from commit to commit.
        all_cores: it runs on all cores, in a pass of its own; else on one.
        tolerance: largest difference of answers that are the same, as a part of an array's largest value; infinite for
            answers that are not compared.
    """

    id: str
    all_cores: bool = False
    tolerance: float = TOLERANCE
