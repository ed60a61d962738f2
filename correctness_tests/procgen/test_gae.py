"""Generalised advantages are discounted sums of TD errors that stop where an episode ends."""

import numpy as np
import pytest
from hypothesis import given, settings

from correctness_tests.procgen.rollouts import (
    EXACT,
    ROLLOUTS,
    UNIT,
    computed,
    sums_of_later,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def literal(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Return advantages, each as a sum over all later steps of its episode."""
    deltas = rewards + gamma * np.where(terminated, 0, next_values) - values
    return sums_of_later(deltas, np.full_like(deltas, gamma * gae_lambda), terminated | truncated)


def gae(backend, form, args, gamma, gae_lambda):
    return computed("gae", backend, form, {"gamma": gamma, "gae_lambda": gae_lambda}, args)


@pytest.mark.parametrize(("backend", "form"), EXACT)
@given(args=ROLLOUTS, gamma=UNIT, gae_lambda=UNIT)
@settings(max_examples=30)
def test_advantage_is_the_discounted_sum_of_td_errors(backend, form, args, gamma, gae_lambda):
    advantages, returns = gae(backend, form, args, gamma, gae_lambda)
    wanted = literal(*args, gamma, gae_lambda)
    np.testing.assert_allclose(advantages, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(returns, wanted + args[1], rtol=1e-12, atol=1e-12)
