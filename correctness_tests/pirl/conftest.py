"""Fixtures of this workload."""

from __future__ import annotations

import pytest

from rl_impls.backends import BackendUnavailable, get

LEARNERS = ("torch", "torch-cuda", "jax", "jax-cuda")


@pytest.fixture(params=LEARNERS)
def learner(request, unavailable):
    try:
        get(request.param).require()
    except BackendUnavailable as error:
        unavailable(error)
    return request.param
