"""The quantile Huber loss and its gradient: against plain loops, finite differences and float64 torch."""

import numpy as np
import pytest
from hypothesis import given, settings

from correctness_tests.reference import in_float64
from correctness_tests.strategies import SEEDS
from correctness_tests.treasurehunt.literal import literal_huber_loss, literal_loss
from correctness_tests.treasurehunt.problem import AGENTS, agent, problem, torch_gradient
from correctness_tests.updates import assert_is_gradient
from rl_impls.treasurehunt import _numpy


@pytest.mark.parametrize(("batch_size", "num_online", "num_targets"), [(6, 5, 5), (4, 3, 7)])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_quantile_huber_loss_equals_a_double_loop(batch_size, num_online, num_targets, seed):
    rng = np.random.default_rng(seed)
    # multiples of 1/8, so that some errors are exactly 0, 1 or -1
    online, targets = (rng.integers(-12, 13, (batch_size, n)) / 8 for n in (num_online, num_targets))
    taus = rng.random((batch_size, num_online))
    loss = _numpy.quantile_huber_loss(online, targets, taus)
    assert loss == pytest.approx(literal_huber_loss(online, targets, taus), rel=1e-12)
    assert _numpy.quantile_huber_loss(online, targets, taus, "mean") == pytest.approx(loss / num_online, rel=1e-12)


@given(seed=SEEDS)
@settings(max_examples=3)
def test_loss_of_the_reference_equals_plain_loops(seed):
    config, [batch] = in_float64(problem(seed, num_agents=2))
    args = config["params"], config["target"], *batch
    expected = [literal_loss(*agent(args, n)) for n in range(2)]
    np.testing.assert_allclose(_numpy.loss(*args), expected, rtol=1e-12)
    np.testing.assert_allclose([_numpy.loss(*agent(args, n)) for n in range(2)], expected, rtol=1e-12)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_loss_of_torch_equals_the_reference(seed):
    config, [batch] = in_float64(problem(seed))
    args = config["params"], config["target"], *batch
    expected = _numpy.loss(*args)
    np.testing.assert_allclose(torch_gradient(*args[:2], batch)[0], expected, rtol=1e-12)
    for n in range(AGENTS):
        params, target, *own = agent(args, n)
        np.testing.assert_allclose(torch_gradient(params, target, own)[0], expected[n], rtol=1e-12)


def one_problem(seed):
    """Return weights, target weights and a batch of one agent in float64, with TD errors in each piece of the loss."""
    config, [batch] = in_float64(problem(seed, num_agents=1))
    params, target, *batch = agent((config["params"], config["target"], *batch), 0)
    online = _numpy.take_action(_numpy.quantiles(params, batch[0], batch[5][0], batch[6][0]), batch[1])
    delta = _numpy.targets_of(params, target, *batch[2:])[:, None] - online[:, :, None]
    assert np.bincount(np.digitize(delta.ravel(), [-1, 0, 1]), minlength=4).min() >= 3
    return params, target, batch


@pytest.mark.parametrize("seed", range(2))
def test_torch_gradient_matches_finite_differences_with_the_targets_held(seed):
    params, target, batch = one_problem(seed)
    states, actions, *_, taus, noise = batch
    held = _numpy.targets_of(params, target, *batch[2:])

    def loss_to_held(params):
        online = _numpy.take_action(_numpy.quantiles(params, states, taus[0], noise[0]), actions)
        return _numpy.quantile_huber_loss(online, held, taus[0])

    _, gradient = torch_gradient(params, target, batch)
    assert_is_gradient(gradient, loss_to_held, params)
    assert_is_gradient(gradient, lambda params: _numpy.loss(params, target, *batch), params)
    other = target | {"b_heads": target["b_heads"] + 0.1}  # on which the loss depends, although no gradient flows there
    assert abs(_numpy.loss(params, other, *batch) - _numpy.loss(params, target, *batch)) > 1e-3
