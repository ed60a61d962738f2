"""Quick and slow parameters of a test."""

import pytest


def quick(wanted, everything):
    """Return all parameters, with those that are not in ``wanted`` marked as slow."""
    assert set(wanted) <= set(everything)
    rows = [(one, one if isinstance(one, tuple) else (one,)) for one in everything]
    return [one if one in wanted else pytest.param(*row, marks=pytest.mark.slow) for one, row in rows]


def size(benchmark):
    """Return the sum of a benchmark's axes that are numbers."""
    return sum(value for value in benchmark.params.values() if isinstance(value, int))
