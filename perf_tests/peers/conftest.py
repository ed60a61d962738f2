"""The fixture ``bench`` without a row in the suite's table: peers have neither form nor backend."""

from __future__ import annotations

from typing import Any

import pytest

from ..bench import Bench


@pytest.fixture
def bench(request: pytest.FixtureRequest, benchmark: Any) -> Bench:
    """Time a function, see :mod:`perf_tests.bench`."""
    return Bench(request, benchmark)
