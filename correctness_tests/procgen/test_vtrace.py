"""V-trace targets are the sums of the paper's Eq. 1, with clipped ratios; on-policy, they are n-step returns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.procgen.rollouts import (
    EXACT,
    ROLLOUTS,
    UNIT,
    computed,
    drawn,
    in_float32,
    sums_of_later,
)
from correctness_tests.strategies import SEEDS

pytestmark = pytest.mark.usefixtures("one_thread")

LARGEST = st.sampled_from([0.5, 1.0, 2.0, 100.0])


def literal(log_ratios, rewards, values, next_values, terminated, truncated, gamma, rho_bar, c_bar):
    """Return targets, each as a sum over all later steps (Espeholt et al. 2018, Eq. 1), and advantages."""
    ratios, ended = np.exp(log_ratios), terminated | truncated
    rhos, cs = np.where(ratios < rho_bar, ratios, rho_bar), np.where(ratios < c_bar, ratios, c_bar)
    bootstraps = np.where(terminated, 0, next_values)
    vs = values + sums_of_later(rhos * (rewards + gamma * bootstraps - values), gamma * cs, ended)
    advantages = np.zeros_like(vs)
    for t, n in np.ndindex(*vs.shape):
        follows = t + 1 < len(vs) and not ended[t, n]
        after = vs[t + 1, n] if follows else bootstraps[t, n]
        advantages[t, n] = rhos[t, n] * (rewards[t, n] + gamma * after - values[t, n])
    return vs, advantages


def vtrace(backend, form, args, gamma, rho_bar=1.0, c_bar=1.0):
    return computed("vtrace", backend, form, {"gamma": gamma, "rho_bar": rho_bar, "c_bar": c_bar}, args)


def with_ratios(seed, rollout):
    return np.random.default_rng(seed).standard_normal(rollout[0].shape), *rollout


@pytest.mark.parametrize(("backend", "form"), EXACT)
@given(rollout=ROLLOUTS, seed=SEEDS, gamma=UNIT, rho_bar=LARGEST, c_bar=LARGEST)
@settings(max_examples=30)
def test_target_is_the_sum_of_td_errors_with_clipped_ratios(backend, form, rollout, seed, gamma, rho_bar, c_bar):
    args = with_ratios(seed, rollout)
    got = vtrace(backend, form, args, gamma, rho_bar, c_bar)
    for found, wanted in zip(got, literal(*args, gamma, rho_bar, c_bar)):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("backend", "form"), [*EXACT, ("jax", "full")])
def test_rho_bar_clips_the_weight_of_an_error_and_c_bar_that_of_later_ones(backend, form):
    ones, zeros, never = np.ones((2, 1)), np.zeros((2, 1)), np.zeros((2, 1), bool)
    args = np.log(4) * ones, ones, zeros, zeros, never, never
    vs, _ = vtrace(backend, form, in_float32(args), 1.0, rho_bar=2.0, c_bar=0.5)
    assert vs[:, 0].tolist() == pytest.approx([2 + 0.5 * 2, 2])


@pytest.mark.parametrize(("backend", "form"), [*EXACT, ("jax", "full")])
def test_action_of_probability_zero_contributes_nothing(backend, form):
    rollout = drawn(np.random.default_rng(2), 5, 2, 0)
    vs, advantages = vtrace(backend, form, in_float32((np.full((5, 2), -200.0), *rollout)), 0.99)
    np.testing.assert_allclose(vs, rollout[1], rtol=1e-6)
    np.testing.assert_allclose(advantages, 0, atol=1e-6)
