"""Fixtures for the pirl tests."""

import pytest

from rl_impls.backends import get

LEARNERS = ("torch", "torch-cuda", "jax", "jax-cuda")


@pytest.fixture(params=LEARNERS)
def learner(request, needed):
    needed(get(request.param).require)
    return request.param


@pytest.fixture
def neuron(stand_in, monkeypatch):
    """Make the stand-in for torch-neuronx count as a device; return the list of its compilations."""
    monkeypatch.setattr("rl_impls.neuron.missing", lambda: None)
    return stand_in
