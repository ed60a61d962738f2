"""Fixtures for the treasurehunt tests."""

import pytest


@pytest.fixture(params=["cells", "arrays"])
def form(request):
    """Return a class of worlds, made of Python objects or of arrays."""
    from rl_impls.treasurehunt.vector_env import WORLDS

    return WORLDS[request.param]
