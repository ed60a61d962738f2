"""Fixtures for the Procgen tests."""

import pytest


@pytest.fixture
def installed(unavailable):
    from rl_impls.backends import BackendUnavailable
    from rl_impls.common.procgen_env import check_installed  # imports NumPy, so not before pytest sets its threads

    try:
        check_installed()
    except BackendUnavailable as error:
        unavailable(error)
