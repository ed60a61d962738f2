"""The ``bench`` fixture without a row in the suite's table, as peers have neither form nor backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # importing NumPy here would precede setting its number of threads
    from ..bench import Bench


@pytest.fixture
def bench(request: pytest.FixtureRequest, benchmark: Any) -> Bench:
    """Time a peer; see :mod:`perf_tests.bench` for the arguments."""
    from ..bench import Bench

    return Bench(request, benchmark)
