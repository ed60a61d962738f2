"""Generalised advantages are discounted sums of TD errors that stop where an episode ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from correctness_tests.procgen.rollouts import (
    EXACT,
    ROLLOUTS,
    UNIT,
    computed,
    drawn,
    in_float32,
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


@pytest.mark.parametrize(("backend", "form"), [*EXACT, ("jax", "full")])
def test_truncation_bootstraps_and_termination_does_not(backend, form):
    rng, ones = np.random.default_rng(1), np.ones((4, 1), bool)
    rewards, values, next_values, *_ = drawn(rng, 4, 1, 0)
    end, never = ones & (np.arange(4) == 1)[:, None], ~ones
    for terminated, truncated, bootstrap in ((end, never, 0), (never, end, 1), (end, end, 0)):
        args = rewards, values, next_values, terminated, truncated
        later = rewards + 100 * (np.arange(4) > 1)[:, None], *args[1:]
        for given_ in (args, later):
            advantages, _ = gae(backend, form, in_float32(given_), 0.9, 0.8)
            wanted = rewards[1, 0] + bootstrap * 0.9 * next_values[1, 0] - values[1, 0]
            assert advantages[1, 0] == pytest.approx(wanted, rel=1e-5)
            first = rewards[0, 0] + 0.9 * next_values[0, 0] - values[0, 0] + 0.72 * wanted
            assert advantages[0, 0] == pytest.approx(first, rel=1e-5)
