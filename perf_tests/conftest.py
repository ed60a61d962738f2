"""Selection of benchmarks by tier and backend, and the fixture ``bench``."""

from __future__ import annotations

import os

import pytest

from rlgauge.workers import SIDE

from .bench import bench  # noqa: F401 - a fixture
from .grid import TIERS


def tier_of(item: pytest.Item) -> str | None:
    """Return the tier of a benchmark; None for another test."""
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), None)


def is_selected(item: pytest.Item, tier: str, backends: tuple[str, ...]) -> bool:
    """Return whether the options select a benchmark; ``bench`` includes ``gate``, and ``full`` includes both."""
    own = tier_of(item)
    if own is None:
        return True
    backend = item.callspec.params.get("backend")  # type: ignore[attr-defined]
    return TIERS.index(own) <= TIERS.index(tier) and (not backends or backend in backends)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the benchmarks of other tiers and backends; a gate's worker runs what the gate has selected."""
    if SIDE in os.environ:
        return
    tier = config.getoption("tier") or ("gate" if config.getoption("gate_against") else "bench")
    backends = config.getoption("backend")
    chosen = [item for item in items if is_selected(item, tier, backends)]
    if dropped := [item for item in items if item not in chosen]:
        items[:] = chosen
        config.hook.pytest_deselected(items=dropped)
