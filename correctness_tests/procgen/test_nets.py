"""The nets: convolutions, initial weights, precisions, and sampling of actions."""

from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.procgen.problem import build, learner, problem
from correctness_tests.reference import in_float64, largest_difference
from rl_impls import backends
from rl_impls.procgen import _numpy
from rl_impls.procgen.net import init_net
from rl_impls.procgen.options import FORMS
from rl_impls.procgen.problem import pictures, random_weights

NETWORKS = [("numpy", "full"), ("torch", "naive"), ("torch", "full"), ("jax", "full")]
ROUNDED = [("torch", "bfloat16"), ("jax", "bfloat16")]
ACTING = [("torch", "naive"), ("torch", "full"), ("jax", "full")]


def forward(name, form, params, obs):
    backend = backends.get(name)
    return backend.to_host(build("forward", name, {"params": params}, (obs,), form)(backend.to_device(obs)))


def residual_net_of_the_paper(params, obs):
    """Return logits and values of the net of Espeholt et al. 2018, Figure 3, from torch's layers in float64."""
    import torch
    from torch.nn import functional

    weights = {name: torch.from_numpy(value) for name, value in in_float64(params).items()}

    def convolution(x, name):
        return functional.conv2d(x, weights[f"w_{name}"].permute(3, 2, 0, 1), weights[f"b_{name}"], padding=1)

    x = torch.from_numpy(obs).permute(0, 3, 1, 2) / 255.0
    for stage in range(3):
        x = functional.max_pool2d(convolution(x.double(), f"stage{stage}"), 3, stride=2, padding=1)
        for block in range(2):
            first = convolution(torch.relu(x), f"stage{stage}_block{block}_conv0")
            x = x + convolution(torch.relu(first), f"stage{stage}_block{block}_conv1")
    x = torch.relu(x).permute(0, 2, 3, 1).flatten(1)
    x = torch.relu(x @ weights["w_hidden"] + weights["b_hidden"])
    heads = (x @ weights[f"w_{head}"] + weights[f"b_{head}"] for head in ("logits", "return"))
    logits, values = (head.numpy() for head in heads)
    return logits, values[:, 0]


@pytest.mark.parametrize(("backend", "form"), [*NETWORKS, *ROUNDED])
def test_residual_net_matches_the_paper(backend, form):
    rng = np.random.default_rng(2)
    params, obs = random_weights(rng, "residual"), pictures(rng, 3)
    assert all(np.abs(value).max() > 0 for value in params.values())  # biases too
    for got, exact in zip(forward(backend, form, params, obs), residual_net_of_the_paper(params, obs)):
        assert got.dtype == np.float32
        assert got.shape == exact.shape
        assert largest_difference(got, exact) < (3e-2 if form == "bfloat16" else 1e-5)


@pytest.mark.parametrize(("net", "gain_of_hidden"), [("nature", 2**0.5), ("residual", 3**-0.5)])
def test_initial_weights_are_orthogonal_and_the_policy_nearly_uniform(net, gain_of_hidden):
    params, again, other = (init_net(np.random.default_rng(seed), net) for seed in (0, 0, 1))
    for name, weight in params.items():
        assert weight.dtype == np.float32
        np.testing.assert_array_equal(weight, again[name])
        if name.startswith("b_"):
            assert not weight.any()
            continue
        assert not np.array_equal(weight, other[name])
        matrix = weight.reshape(-1, weight.shape[-1]).astype(np.float64)
        gain = {"w_logits": 0.01, "w_return": 1.0}.get(name, gain_of_hidden)
        np.testing.assert_allclose(matrix.T @ matrix, gain**2 * np.eye(weight.shape[-1]), atol=1e-6)
    obs = pictures(np.random.default_rng(2), 4)
    logits, _ = forward("numpy", "full", params, obs)
    probabilities = np.exp(_numpy.log_softmax(logits))
    np.testing.assert_allclose(probabilities, 1 / 15, rtol=0.05)


def test_sampled_action_inverts_the_cumulative_distribution():
    probabilities = np.array([0.0, 0.2, 0.0, 0.5, 0.3])
    logits = np.log(np.maximum(probabilities, 1e-30))
    uniforms = np.array([0.0, 0.199, 0.201, 0.699, 0.701, 1 - 1e-9])
    actions, log_probs = _numpy.sample_actions(np.tile(logits, (len(uniforms), 1)), uniforms)
    np.testing.assert_array_equal(actions[1:], [1, 3, 3, 4, 4])
    np.testing.assert_allclose(log_probs[1:], np.log(probabilities[actions[1:]]), rtol=1e-6)
    assert actions.dtype == np.int32
    logits = np.random.default_rng(0).standard_normal((1000, 15)).astype(np.float32)
    actions, _ = _numpy.sample_actions(logits, np.full(1000, np.nextafter(np.float32(1), np.float32(0))))
    assert actions.max() == 14  # although probabilities are rounded


@pytest.mark.parametrize(("backend", "form"), ACTING)
def test_policy_uses_the_updated_weights(backend, form):
    rng = np.random.default_rng(6)
    obs, uniforms = pictures(rng, 6), rng.random(6, np.float32)
    _, batches = problem("a2c_update")
    update, call = learner("a2c_update", backend, form)
    policy, seen = update.policy(obs), []
    for _ in range(2):
        policy.refresh()
        actions, log_probs, values = policy(obs, uniforms)
        assert (actions.dtype, log_probs.dtype, values.dtype) == (np.int32, np.float32, np.float32)
        logits, wanted = _numpy.logits_and_values(in_float64(update.params), obs)
        np.testing.assert_array_equal(actions, _numpy.sample_actions(logits, uniforms)[0])
        np.testing.assert_allclose(log_probs, _numpy.log_probs_and_entropy(logits, actions)[0], rtol=1e-4)
        np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(update.values(obs), values, rtol=1e-5, atol=1e-5)
        seen.append(values)
        call(batches[0])
    assert not np.allclose(*seen)
    config, make = {"params": problem("a2c_update")[0]["params"]}, backends.get(backend)
    other = make.ops("procgen").policy(config, (obs,), options=FORMS[form], compiler=make.new_compiler())
    other.load(update.params)  # as an actor does
    other.refresh()
    np.testing.assert_allclose(other(obs, uniforms)[2], update.values(obs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("images", ["float", "uint8"])
def test_cast_acting_weights_equal_the_learned_ones_as_of_the_last_refresh(images):
    rng = np.random.default_rng(6)
    obs, uniforms = pictures(rng, 6), rng.random(6, np.float32)
    (config, (batch, *_)), torch, acted = problem("a2c_update"), backends.get("torch"), {}
    batch = tuple(map(torch.to_device, batch))
    for weights in ("learned", "cast"):
        options = replace(FORMS["bfloat16"], images=images, acting_weights=weights)
        update = torch.build("procgen", "a2c_update", config, batch, options)
        policy = update.policy(obs)
        before = policy(obs, uniforms)
        update(*batch)
        meanwhile = policy(obs, uniforms)
        policy.refresh()
        acted[weights] = before, policy(obs, uniforms)
        assert (meanwhile[2] == before[2]).all() == (weights == "cast")
    np.testing.assert_equal(acted["cast"], acted["learned"])
