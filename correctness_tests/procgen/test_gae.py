"""Generalised advantages are the sums that define them, and stop where an episode ends."""

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
    returns_of,
    sums_of_later,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def literal(rewards, values, next_values, terminated, truncated, gamma, lam):
    """The advantages, each a sum over all later steps of its episode."""
    deltas = rewards + gamma * np.where(terminated, 0, next_values) - values
    return sums_of_later(deltas, np.full_like(deltas, gamma * lam), terminated | truncated)


def gae(backend, form, args, gamma, lam):
    return computed("gae", backend, form, {"gamma": gamma, "lam": lam}, args)


@pytest.mark.parametrize(("backend", "form"), EXACT)
@given(args=ROLLOUTS, gamma=UNIT, lam=UNIT)
@settings(max_examples=30)
def test_each_advantage_is_the_sum_of_later_errors(backend, form, args, gamma, lam):
    advantages, returns = gae(backend, form, args, gamma, lam)
    wanted = literal(*args, gamma, lam)
    np.testing.assert_allclose(advantages, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(returns, wanted + args[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ends", [0, 0.2, 1])
def test_jax_computes_the_same(ends):
    args = drawn(np.random.default_rng(0), 20, 3, ends)
    advantages, returns = gae("jax", "full", in_float32(args), 0.99, 0.95)
    wanted = literal(*args, 0.99, 0.95)
    np.testing.assert_allclose(advantages, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(returns, wanted + args[1], rtol=1e-5, atol=1e-5)


@given(args=ROLLOUTS, gamma=UNIT)
@settings(max_examples=30)
def test_with_lambda_1_returns_are_those_of_the_rewards_and_with_0_of_one_step(args, gamma):
    # values of next states are those of the states that follow, but where an episode ends
    rewards, values, next_values, terminated, truncated = args
    ended = terminated | truncated
    next_values = np.concatenate([np.where(ended[:-1], next_values[:-1], values[1:]), next_values[-1:]])
    given_ = rewards, values, next_values, terminated, truncated
    _, returns = gae("numpy", "full", given_, gamma, 1.0)
    wanted = returns_of(rewards, next_values, terminated, truncated, gamma)
    np.testing.assert_allclose(returns, wanted, rtol=1e-10, atol=1e-10)
    _, returns = gae("numpy", "full", given_, gamma, 0.0)
    np.testing.assert_allclose(returns, rewards + gamma * np.where(terminated, 0, next_values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("backend", "form"), [*EXACT, ("jax", "full")])
def test_a_truncation_bootstraps_and_a_termination_does_not_and_neither_lets_later_errors_through(backend, form):
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
