"""Generalised advantages and V-trace targets are discounted sums of TD errors that stop where an episode ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests.procgen.problem import build
from correctness_tests.strategies import SEEDS
from rl_impls import backends

EXACT = [("numpy", "naive"), ("numpy", "full"), ("torch", "naive"), ("torch", "full")]  # these compute in float64
ALL = [*EXACT, ("jax", "full")]
UNIT = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
LARGEST = st.sampled_from([0.5, 1.0, 2.0, 100.0])


def drawn(rng, steps, envs, ends):
    """Sample rewards, values, next values f64, terminated and truncated bool; termination wins if both are set."""
    return *rng.standard_normal((3, steps, envs)), *(rng.random((2, steps, envs)) < ends)


ROLLOUTS = st.builds(
    lambda seed, *shape: drawn(np.random.default_rng(seed), *shape),
    SEEDS, st.integers(1, 9), st.integers(1, 3), st.sampled_from([0.0, 0.2, 1.0]),
)  # fmt: skip


def computed(op, name, form, args, **config):
    """Return the output of an op on a backend, as NumPy."""
    backend = backends.get(name)
    return backend.to_host(build(op, name, config, args, form)(*map(backend.to_device, args)))


def in_float32(args):
    """Return the arrays in float32, the precision of the benchmarks."""
    return tuple(array.astype(np.float32) if array.dtype == np.float64 else array for array in args)


def sums_of_later(deltas, decays, ended):
    """Return, for each step, the sum of errors to the end of its episode, each multiplied by the decays before it."""
    sums = np.zeros_like(deltas)
    for t, n in np.ndindex(*deltas.shape):
        weight = 1.0
        for k in range(t, len(deltas)):
            sums[t, n] += weight * deltas[k, n]
            weight *= decays[k, n]
            if ended[k, n]:
                break
    return sums


def literal_gae(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    """Return advantages, each as a sum over all later steps (Schulman et al. 2016, Eq. 16), and returns."""
    deltas = rewards + gamma * np.where(terminated, 0, next_values) - values
    advantages = sums_of_later(deltas, np.full_like(deltas, gamma * gae_lambda), terminated | truncated)
    return advantages, advantages + values


@pytest.mark.parametrize(("backend", "form"), EXACT)
@given(rollout=ROLLOUTS, gamma=UNIT, gae_lambda=UNIT)
@settings(max_examples=30)
def test_advantage_is_the_discounted_sum_of_td_errors(backend, form, rollout, gamma, gae_lambda):
    got = computed("gae", backend, form, rollout, gamma=gamma, gae_lambda=gae_lambda)
    for found, wanted in zip(got, literal_gae(*rollout, gamma, gae_lambda)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def literal_vtrace(log_ratios, rewards, values, next_values, terminated, truncated, gamma, rho_bar, c_bar):
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


@pytest.mark.parametrize(("backend", "form"), EXACT)
@given(rollout=ROLLOUTS, seed=SEEDS, gamma=UNIT, rho_bar=LARGEST, c_bar=LARGEST)
@settings(max_examples=30)
def test_target_is_the_sum_of_td_errors_with_clipped_ratios(backend, form, rollout, seed, gamma, rho_bar, c_bar):
    args = np.random.default_rng(seed).standard_normal(rollout[0].shape), *rollout
    got = computed("vtrace", backend, form, args, gamma=gamma, rho_bar=rho_bar, c_bar=c_bar)
    for found, wanted in zip(got, literal_vtrace(*args, gamma, rho_bar, c_bar)):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("op", "literal", "constants"),
    [("gae", literal_gae, {"gamma": 0.9, "gae_lambda": 0.8}),
     ("vtrace", literal_vtrace, {"gamma": 0.9, "rho_bar": 2.0, "c_bar": 1.0})],
)  # fmt: skip
def test_jax_computes_the_same_sums_in_float32(op, literal, constants):
    rng = np.random.default_rng(0)
    log_ratios, rollout = rng.standard_normal((6, 20)), drawn(rng, 6, 20, 0.3)  # episodes also end in the last step
    args = (log_ratios, *rollout) if op == "vtrace" else rollout
    for found, wanted in zip(computed(op, "jax", "full", in_float32(args), **constants), literal(*args, **constants)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("backend", "form"), ALL)
def test_rho_bar_clips_the_weight_of_an_error_and_c_bar_that_of_later_ones(backend, form):
    ones, zeros, never = np.ones((2, 1)), np.zeros((2, 1)), np.zeros((2, 1), bool)
    args = in_float32((np.log(4) * ones, ones, zeros, zeros, never, never))
    vs, _ = computed("vtrace", backend, form, args, gamma=1.0, rho_bar=2.0, c_bar=0.5)
    assert vs[:, 0].tolist() == pytest.approx([2 + 0.5 * 2, 2])


@pytest.mark.parametrize(("backend", "form"), ALL)
def test_action_of_probability_zero_contributes_nothing(backend, form):
    rollout = drawn(np.random.default_rng(2), 5, 2, 0)
    args = in_float32((np.full((5, 2), -200.0), *rollout))
    vs, advantages = computed("vtrace", backend, form, args, gamma=0.99, rho_bar=1.0, c_bar=1.0)
    np.testing.assert_allclose(vs, rollout[1], rtol=1e-6)
    np.testing.assert_allclose(advantages, 0, atol=1e-6)
