"""Fixtures of Procgen's tests."""

from __future__ import annotations

import pytest

from rl_impls.backends import BackendUnavailable
from rl_impls.common.procgen_env import check_installed


@pytest.fixture
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)
