"""A benchmark as the gate and the other commands see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TOLERANCE = 3e-5  # float32 on one machine with one library: only the order of summation may differ


@dataclass(frozen=True)
class Case:
    """A benchmark to be compared.

    Attributes:
        id: id of the test, the same in all commits.
        all_cores: whether it runs on all cores, in a separate pass, rather than on one.
        tolerance: largest difference between equal outputs, as a fraction of an array's largest absolute value;
            infinite if outputs are not compared.
    """

    id: str
    all_cores: bool = False
    tolerance: float = TOLERANCE


def by_cores(cases: Iterable[Case]) -> dict[bool, list[str]]:
    """Return the ids of the cases of each pass: those on one core (False), and those on all cores (True), if any."""
    passes: dict[bool, list[str]] = {}
    for case in sorted(cases, key=lambda case: case.all_cores):
        passes.setdefault(case.all_cores, []).append(case.id)
    return passes
