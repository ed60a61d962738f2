"""The net, its loss and its update, against NumPy, finite differences and float64 torch."""

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.snake.problem import assert_trained_alike, build, differences, exact_trainer, problem, trainer
from correctness_tests.updates import assert_is_gradient, gradient_of
from rl_impls.common.parts import part_of
from rl_impls.snake import _numpy
from rl_impls.snake.problem import boards

GAMMA = 0.99
LEARNERS = [("torch", "naive"), ("torch", "full"), ("jax", "naive"), ("jax", "full")]


def test_huber_loss_is_quadratic_up_to_one_and_linear_beyond():
    errors = np.array([0, 0.5, -0.5, 1, -1, 2, -3])
    np.testing.assert_allclose(_numpy.huber(errors), [0, 0.125, 0.125, 0.5, 0.5, 1.5, 2.5])


@pytest.mark.parametrize("seed", range(2))
def test_torch_gradient_matches_finite_differences_of_the_reference(seed):
    import torch

    from rl_impls.snake import _torch

    config, [batch] = in_float64(problem(seed))
    params, target = config["params"], config["target"]
    net, target_net = _torch.Net(params), _torch.Net(target)
    _torch.make_loss(net, target_net, GAMMA)(*map(torch.as_tensor, batch)).backward()
    assert all(parameter.grad is None for parameter in target_net.parameters())
    taken = _numpy.q_values(params, batch[0])[np.arange(32), batch[1]]
    errors = np.abs(taken - _numpy.td_target(target, *batch[2:], GAMMA))
    assert errors.min() < 0.9
    assert errors.max() > 1.1
    assert_is_gradient(gradient_of(net), lambda params: _numpy.loss(params, target, batch, GAMMA), params)


def norm(state, part):
    return np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in part_of(state, part).values()))


@pytest.mark.parametrize(("backend", "form"), quick(LEARNERS[:2] + LEARNERS[3:], LEARNERS))
def test_the_norm_of_the_gradient_is_clipped(backend, form):
    config, batches = problem(1, batches=3)
    for k in (0, 2):  # the Huber loss bounds the effect of large rewards, but not of large boards
        obs, actions, rewards, *rest = batches[k]
        batches[k] = (300 * obs, actions, 1e4 * rewards, *rest)
    wanted, exact_update = exact_trainer(config, batches[0])
    got, update = trainer(backend, config, batches[0], form)
    free, free_update = trainer(backend, config | {"max_grad_norm": 1e9}, batches[0], form)
    for k, batch in enumerate(batches):
        exact = exact_update(batch)
        assert abs(update(batch) - exact) < 1e-4 * exact
        free_update(batch)
        if k == 0:  # after one update, Adam's first moment is a tenth of the gradient
            assert abs(norm(got.state(), "first") - 0.1 * config["max_grad_norm"]) < 1e-4
            assert norm(free.state(), "first") > 0.2 * config["max_grad_norm"]
    assert_trained_alike(got.params, wanted.params, config["learning_rate"], 3)
    assert np.quantile(differences(free.params, wanted.params), 0.9) > 0.01 * config["learning_rate"] * 3


@pytest.mark.parametrize(
    ("backend", "form"),
    [
        ("numpy", "full"),
        ("torch", "naive"),
        ("torch", "full"),
        ("torch-trace", "full"),
        ("onnx", "full"),
        ("jax", "full"),
    ],
)
def test_actions_are_greedy_unless_they_explore(backend, form):
    rng, num_envs = np.random.default_rng(0), 64
    config, _ = problem(6)
    actor = None
    for _ in range(10):
        obs, explore = boards(rng, num_envs), rng.random(num_envs) < 0.3
        drawn = rng.integers(0, 4, num_envs).astype(np.int32)
        if actor is None:
            actor = build("act", backend, config, (obs, explore, drawn), form)
        q = _numpy.q_values(*in_float64((config["params"], obs)))
        best = np.sort(q, axis=1)
        sure = best[:, -1] - best[:, -2] > 1e-4
        assert sure.mean() > 0.5
        for flags in (explore, np.zeros(num_envs, bool), np.ones(num_envs, bool)):
            got = actor(obs, flags, drawn)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got[flags], drawn[flags])
            np.testing.assert_array_equal(got[~flags & sure], q.argmax(axis=1)[~flags & sure])


TRAINED = quick(
    [("torch", "naive"), ("torch", "full"), ("jax", "full")],
    [("torch", "naive"), ("torch", "full"), ("torch-compile", "full"), ("torch", "bfloat16"), ("torch", "ddp"),
     ("jax", "full"), ("jax", "bfloat16")],
)  # fmt: skip
UPDATES = 6


@pytest.fixture(scope="module")
def given():
    """Return a configuration with a target net that values each move 2 higher, and batches."""
    config, batches = problem(3, batches=UPDATES)
    return config | {"target": config["params"] | {"b2": config["params"]["b2"] + 2}}, batches


def trained(backend, form, config, batches, *syncs):
    """Return the losses of some updates, and the final state, for each of `syncs`.

    Where it is true, the target net is copied before each update.
    """
    step, update = trainer(backend, config, batches[0], form)
    try:
        for sync in syncs:
            step.reset()
            losses = []
            for batch in batches:
                if sync:
                    step.sync_target()
                losses.append(update(batch))
            yield np.array(losses), step.state()
    finally:
        step.close()


@pytest.mark.parametrize(("backend", "form"), TRAINED)
def test_without_a_target_net_updates_are_those_of_a_target_copied_before_each(backend, form, given):
    config, batches = given
    (wanted, state), (frozen, _) = trained(backend, form, config, batches, True, False)
    [(losses, got)] = trained(backend, form, config | {"target_frequency": 0}, batches, False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    for part in ("online", "first", "second"):
        assert differences(part_of(got, part), part_of(state, part)).max() <= 1e-7
    assert np.abs(losses - frozen).min() > 0.1 * frozen.max()
