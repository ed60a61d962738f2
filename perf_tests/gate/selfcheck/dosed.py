"""A pytest plugin that slows every sample of a run by a part: with RLGAUGE_DOSE=0.05 in the environment, by 5 %."""

from __future__ import annotations

import os

import pytest

from ..plugin import DOSED

DOSE = "RLGAUGE_DOSE"


def pytest_configure(config: pytest.Config) -> None:
    """Tell the run."""
    config.stash[DOSED] = float(os.environ[DOSE])
