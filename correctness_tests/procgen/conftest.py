"""Fixtures of Procgen's tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def installed(unavailable):
    """Skip, or fail, where Procgen is not installed."""
    from rl_impls.backends import BackendUnavailable
    from rl_impls.common.procgen_env import check_installed  # imports NumPy, whose threads pytest sets first

    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)
