"""Parameters of a test that are run each time, and those that are slow."""

from __future__ import annotations

import pytest


def quick(wanted, everything):
    """Return all parameters; those that are not wanted each time are marked as slow."""
    assert set(wanted) <= set(everything)
    rows = [(one, one if isinstance(one, tuple) else (one,)) for one in everything]
    return [one if one in wanted else pytest.param(*row, marks=pytest.mark.slow) for one, row in rows]
