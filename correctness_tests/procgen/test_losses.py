"""The losses: gradients against finite differences, PPO against A2C, clipping and normalisation."""

import functools

import numpy as np
import pytest

from correctness_tests import updates
from correctness_tests.procgen.problem import PROBLEMS, exact_learner, learner, problem
from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.updates import assert_is_gradient, gradient_of
from rl_impls.procgen import _numpy
from rl_impls.procgen.problem import a2c_update, impala_update, ppo_update

UNCLIPPED = {"max_grad_norm": 1e9}
POLICY = {"value_weight": 0.0, "entropy_weight": 0.0, **UNCLIPPED}


def loss_of(op, config, batch):
    """Return ``loss(params)`` in NumPy; for IMPALA, the V-trace targets are fixed to those of the initial weights."""
    weights = {name: config[name] for name in ("value_weight", "entropy_weight")}
    if op == "ppo_update":
        return lambda params: _numpy.ppo_loss(params, batch, clip=config["clip"], **weights)
    if op == "a2c_update":
        return lambda params: _numpy.a2c_loss(params, batch, **weights)
    constants = {name: config[name] for name in ("gamma", "rho_bar", "c_bar")}
    targets = _numpy.impala_targets(config["params"], batch, **constants)
    return lambda params: _numpy.impala_loss(params, batch, targets, **weights)


def gradient(op, batch, **changed):
    update, call = exact_learner(op, **changed)
    call(batch)
    return gradient_of(update.net)


@pytest.mark.parametrize("form", ["naive", "full"])
@pytest.mark.parametrize("op", PROBLEMS)
def test_gradient_matches_finite_differences(op, form):
    config, batches = problem(op)
    config, batch = in_float64(config), in_float64(batches[1])
    if op != "impala_update":
        batch = tuple(column[:8] for column in batch)
    update, call = learner(op, "torch", form, exact=True, **UNCLIPPED)
    got, found = call(batch), gradient_of(update.net)
    loss, params = loss_of(op, config, batch), config["params"]
    assert got == pytest.approx(loss(params), rel=1e-10)
    assert_is_gradient(found, loss, params, 1e-3)


@pytest.mark.parametrize(
    "problem", [ppo_update(0, 80, "residual"), a2c_update(0, 300), impala_update(0, 512)], ids=lambda each: each.op
)
def test_small_passes_give_the_loss_and_gradient_of_one_pass(problem):
    results = []
    for passes in ("one", "small"):
        config = problem.config | UNCLIPPED
        update, call = updates.learner("procgen", problem.op, "torch", config, problem.args, exact=True, passes=passes)
        results.append((call(problem.args), update.parts, *gradient_of(update.net).values()))
    for wanted, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("op", "backend"),
    quick(
        [(op, "torch") for op in PROBLEMS],
        [(op, backend) for op in PROBLEMS for backend in ("torch", "jax")],
    ),
)
def test_update_reports_policy_loss_value_loss_and_entropy(op, backend):
    config, batches = problem(op)
    update, call = learner(op, backend)
    call(batches[1])
    config, batch = in_float64(config), in_float64(batches[1])
    steps = batch[1].size if op == "impala_update" else 1  # over which the loss is summed

    def loss(value_weight=0.0, entropy_weight=0.0):
        weights = {"value_weight": value_weight, "entropy_weight": entropy_weight}
        return loss_of(op, config | weights, batch)(config["params"]) / steps

    wanted = loss(), loss(value_weight=1.0) - loss(), loss() - loss(entropy_weight=1.0)
    np.testing.assert_allclose(np.asarray(update.parts), wanted, rtol=1e-4, atol=1e-5)


def on_policy(batch):
    config, _ = problem("ppo_update")
    obs, actions, _, advantages, returns = in_float64(batch)
    logits, _ = _numpy.logits_and_values(in_float64(config["params"]), obs)
    return obs, actions, _numpy.log_probs_and_entropy(logits, actions)[0], advantages, returns


def test_ppo_gradient_at_ratio_1_is_the_policy_gradient_of_a2c():
    _, batches = problem("ppo_update")
    obs, actions, log_probs, advantages, returns = on_policy(batches[0])
    normalised = (advantages - advantages.mean()) / advantages.std()
    ppo = gradient("ppo_update", (obs, actions, log_probs, advantages, returns), **POLICY)
    a2c = gradient("a2c_update", (obs, actions, normalised, returns), **POLICY)
    for name in ppo:
        np.testing.assert_allclose(ppo[name], a2c[name], rtol=1e-5, atol=1e-6 * np.abs(a2c[name]).max(), err_msg=name)
    assert np.abs(ppo["w_logits"]).max() > 0 == np.abs(ppo["w_return"]).max()


def test_ppo_gradient_is_zero_beyond_the_clip():
    _, batches = problem("ppo_update")
    obs, actions, log_probs, *_, returns = on_policy(batches[0])
    advantages = np.where(np.arange(len(obs)) % 2, 1.0, -1.0)
    beyond = gradient("ppo_update", (obs, actions, log_probs - 0.3 * advantages, advantages, returns), **POLICY)
    assert all(np.abs(value).max() == 0 for value in beyond.values())
    # a ratio beyond the other side of the clip range is not clipped
    before = gradient("ppo_update", (obs, actions, log_probs + 0.3 * advantages, advantages, returns), **POLICY)
    assert np.abs(before["w_logits"]).max() > 0


def test_ppo_normalises_advantages_over_the_batch():
    config, batches = problem("ppo_update")
    obs, actions, log_probs, advantages, returns = in_float64(batches[0])
    losses = [
        loss_of("ppo_update", config, (obs, actions, log_probs, given, returns))(in_float64(config["params"]))
        for given in (advantages, 50 * advantages + 7)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    normalised = _numpy.normalised(advantages)
    assert (normalised.mean(), normalised.std()) == pytest.approx((0, 1), abs=1e-6)


def test_entropy_of_uniform_and_of_deterministic_policies():
    _, entropy = _numpy.log_probs_and_entropy(np.zeros((3, 15)), np.zeros(3, int))
    assert entropy == pytest.approx(np.log(15))
    _, entropy = _numpy.log_probs_and_entropy(np.eye(15)[:3] * 1000, np.zeros(3, int))
    assert entropy == pytest.approx(0, abs=1e-12)


def test_on_policy_impala_targets_are_n_step_returns():
    config, batches = problem("impala_update")
    params, (obs, actions, _, rewards, terminated, truncated) = in_float64(config["params"]), in_float64(batches[0])
    logits, values = _numpy.logits_and_values(params, obs.reshape(-1, 64, 64, 3))
    log_probs = _numpy.log_probs_and_entropy(logits[: actions.size], actions.ravel())[0].reshape(actions.shape)
    constants = functools.partial(_numpy.impala_targets, gamma=0.9, rho_bar=1.0, c_bar=1.0)
    vs, advantages = constants(params, (obs, actions, log_probs, rewards, terminated, truncated))
    values = values.reshape(obs.shape[:2])
    returns = values[-1]
    for t in reversed(range(len(actions))):
        after = np.where(truncated[t], values[t + 1], returns)
        returns = rewards[t] + 0.9 * np.where(terminated[t], 0, after)
        np.testing.assert_allclose(vs[t], returns, rtol=1e-9)
        np.testing.assert_allclose(advantages[t], returns - values[t], rtol=1e-9, atol=1e-12)
