"""Fixtures of the treasurehunt tests."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["cells", "arrays"])
def form(request):
    """Return the class of the worlds: of Python objects, or of arrays."""
    from rl_impls.treasurehunt.vector_env import WORLDS

    return WORLDS[request.param]
