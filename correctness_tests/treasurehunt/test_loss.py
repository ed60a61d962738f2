"""The quantile Huber loss and its gradient: against plain loops, finite differences and float64 torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from correctness_tests.reference import in_float64
from correctness_tests.strategies import SEEDS
from correctness_tests.treasurehunt.literal import literal_huber_loss, literal_loss
from correctness_tests.treasurehunt.problem import (
    AGENTS,
    BATCH,
    LEARNERS,
    QUANTILES,
    agent,
    build,
    called,
    problem,
    torch_gradient,
    trained,
)
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.knobs import FORMS

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("batch", "count", "targets"), [(6, 5, 5), (4, 3, 7)])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_quantile_huber_loss_equals_a_double_loop(batch, count, targets, seed):
    rng = np.random.default_rng(seed)
    # eighths: some errors are exactly 0, 1 or -1
    online, wanted = (rng.integers(-12, 13, (batch, n)) / 8 for n in (count, targets))
    taus = rng.random((batch, count))
    got = _numpy.quantile_huber_loss(online, wanted, taus)
    assert got == pytest.approx(literal_huber_loss(online, wanted, taus), rel=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(
    ("target", "loss"),  # of one quantile, tau = 0.2, whose value is 2
    [(2, 0), (2.5, 0.2 * 0.125), (3, 0.2 * 0.5), (5, 0.2 * 2.5), (1.5, 0.8 * 0.125), (1, 0.8 * 0.5), (-1, 0.8 * 2.5)],
)
def test_error_above_a_quantile_counts_by_tau_and_below_by_the_rest(backend, target, loss):
    example = tuple(np.full((1, 1), x, np.float32) for x in (2, target, 0.2))
    assert called(build("quantile_huber", backend, {}, example), backend, *example) == pytest.approx(loss, abs=1e-6)


@given(seed=SEEDS)
@settings(max_examples=3)
def test_loss_of_the_reference_equals_plain_loops(seed):
    everything, [batch] = in_float64(problem(seed, agents=2))
    args = everything["params"], everything["target"], *batch
    wanted = [literal_loss(*agent(args, n)) for n in range(2)]
    np.testing.assert_allclose(_numpy.loss(*args), wanted, rtol=1e-12)
    np.testing.assert_allclose([_numpy.loss(*agent(args, n)) for n in range(2)], wanted, rtol=1e-12)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_loss_of_torch_equals_the_reference(seed):
    everything, [batch] = in_float64(problem(seed))
    args = everything["params"], everything["target"], *batch
    wanted = _numpy.loss(*args)
    np.testing.assert_allclose(torch_gradient(*args[:2], batch)[0], wanted, rtol=1e-12)
    for n in range(AGENTS):
        params, target, *own = agent(args, n)
        np.testing.assert_allclose(torch_gradient(params, target, own)[0], wanted[n], rtol=1e-12)


def one_problem(seed):
    """Return weights, target weights and a batch of one agent in float64, with errors on both sides of the corner."""
    everything, [batch] = in_float64(problem(seed, agents=1))
    params, target, *batch = agent((everything["params"], everything["target"], *batch), 0)
    online = _numpy.take_action(_numpy.quantiles(params, batch[0], batch[5][0], batch[6][0]), batch[1])
    delta = _numpy.targets_of(params, target, *batch[2:])[:, None] - online[:, :, None]
    assert np.bincount(np.digitize(delta.ravel(), [-1, 0, 1]), minlength=4).min() >= 3
    return params, target, batch


def slope(function, params, name, index, step=1e-6):
    """Return the central difference of a function of the weights, in one of them."""
    ways = []
    for sign in (1, -1):
        changed = params | {name: params[name].copy()}
        changed[name][index] += sign * step
        ways.append(function(changed))
    return (ways[0] - ways[1]) / (2 * step)


@pytest.mark.parametrize("seed", range(2))
def test_torch_gradient_matches_finite_differences_with_the_targets_held(seed):
    rng = np.random.default_rng(seed)
    params, target, batch = one_problem(seed)
    states, actions, *_, taus, noise = batch
    held = _numpy.targets_of(params, target, *batch[2:])

    def loss_to_held(params):
        online = _numpy.take_action(_numpy.quantiles(params, states, taus[0], noise[0]), actions)
        return _numpy.quantile_huber_loss(online, held, taus[0])

    _, gradient = torch_gradient(params, target, batch)
    scale = np.sqrt(sum((value**2).sum() for value in gradient.values()))
    for name, value in params.items():
        largest = np.unravel_index(np.abs(gradient[name]).argmax(), value.shape)
        assert abs(gradient[name][largest]) > 1e-4 * scale
        for index in (largest, *(tuple(rng.integers(0, value.shape)) for _ in range(3))):
            for function in (loss_to_held, lambda params: _numpy.loss(params, target, *batch)):
                assert abs(slope(function, params, name, index) - gradient[name][index]) < 1e-6 * scale
    name, index = "b_heads", 0  # the loss does depend on the target net
    assert abs(slope(lambda target: _numpy.loss(params, target, *batch), target, name, index)) > 0.01 * scale


def flat_nets(heads):
    """Return nets whose Z of each action is ``heads``, whatever the state, quantile or noise."""
    params = {name: np.zeros_like(value) for name, value in problem(0)[0]["params"].items()}
    params["b_heads"][:] = [np.mean(heads), *heads]
    return params


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_online_net_chooses_and_target_net_values(backend, form):
    everything, [batch] = problem(6)
    online, target = [0.0, 0.25, 4.0, 0.5], [3.0, 0.25, -1.0, 0.5]
    everything |= {"params": flat_nets(online), "target": flat_nets(target)}
    states, _, _, next_states, _, taus, noise = batch
    actions, returns = np.full((AGENTS, BATCH), 1, np.int32), np.full((AGENTS, BATCH), 2, np.float32)
    batch = states, actions, returns, next_states, np.full((AGENTS, BATCH), 0.5, np.float32), taus, noise
    [got], _ = trained(backend, FORMS[form], everything, [batch])

    def loss_of(following):
        ones = np.ones((BATCH, QUANTILES))
        return [literal_huber_loss(0.25 * ones, (2 + 0.5 * following) * ones, taus[n, 0]) for n in range(AGENTS)]

    np.testing.assert_allclose(got, loss_of(target[2]), rtol=1e-5)
    for wrong in (target[0], online[2], online[0]):
        assert np.abs(np.divide(loss_of(wrong), got) - 1).min() > 0.1


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_with_discount_zero_the_targets_are_the_returns(backend, form):
    everything, [batch] = problem(7)
    other, [elsewhere] = problem(8)
    states, actions, returns, next_states, discounts, taus, noise = batch
    ended = states, actions, returns, next_states, 0 * discounts, taus, noise
    online = _numpy.take_action(_numpy.quantiles(everything["params"], states, taus[:, 0], noise[:, 0]), actions)
    targets = _numpy.targets_of(everything["params"], everything["target"], *ended[2:])
    np.testing.assert_array_equal(targets, np.broadcast_to(returns[..., None], targets.shape))
    wanted = [literal_huber_loss(*in_float64((online[n], targets[n], taus[n, 0]))) for n in range(AGENTS)]
    [losses], _ = trained(backend, FORMS[form], everything, [ended])
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    changed = *ended[:3], elsewhere[3], *ended[4:]
    [same], _ = trained(backend, FORMS[form], everything | {"target": other["target"]}, [changed])
    np.testing.assert_array_equal(same, losses)
    [differs], _ = trained(backend, FORMS[form], everything | {"target": other["target"]}, [batch])
    assert np.abs(differs / losses - 1).min() > 1e-3
