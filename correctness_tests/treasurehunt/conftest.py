"""What the tests of this workload share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["cells", "arrays"])
def form(request):
    from rl_impls.treasurehunt.vector_env import WORLDS

    return WORLDS[request.param]
