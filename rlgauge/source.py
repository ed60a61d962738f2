"""A benchmark as the gate and the other commands see it."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 3e-5  # float32 on one machine with one library: only the order of summation may differ


@dataclass(frozen=True)
class Case:
    """A benchmark to be compared.

    Attributes:
        id: id of the test, the same in all commits.
        all_cores: whether it runs on all cores, in a separate pass, rather than on one.
        tolerance: largest difference between equal answers, as a fraction of an array's largest value; infinite if
            answers are not compared.
    """

    id: str
    all_cores: bool = False
    tolerance: float = TOLERANCE
