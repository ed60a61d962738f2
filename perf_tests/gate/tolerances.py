"""By how much the answers of two revisions may differ on the same inputs, for each precision."""

from __future__ import annotations

from perf_tests.suite.case import Variant
from rlgauge.source import TOLERANCE

# Largest difference of answers that are the same, as a part of an array's largest value. Base and head compute on one
# machine by one backend, so that the order of sums alone may differ: of 107 pairs of forms of an op on one backend the
# most was 5e-6. In bfloat16 and int8 another order can turn a rounding, of 4e-3 and 8e-3.
TOLERANCES = {"float32": TOLERANCE, "bfloat16": 1e-2, "float16": 1e-2, "int8": 1e-2}


def tolerance(variant: Variant) -> float:
    """Return by how much a case's answers may differ.

    Args:
        variant: the benchmark.
    """
    return TOLERANCES[variant.precision]
