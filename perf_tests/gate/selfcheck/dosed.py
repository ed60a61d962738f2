"""A pytest plugin that slows every sample of a run by a part: with RLGAUGE_DOSE=0.05 in the environment, by 5 %."""

from __future__ import annotations

import os

import pytest

DOSE = "RLGAUGE_DOSE"
DOSED = pytest.StashKey[float]()  # part of its own time by which every sample of a plain run is slowed


def pytest_configure(config: pytest.Config) -> None:
    """Tell the run."""
    config.stash[DOSED] = float(os.environ[DOSE])
