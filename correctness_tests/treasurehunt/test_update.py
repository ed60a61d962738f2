"""Updates of all agents: Adam, clipping, the target net, and resuming from a state."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.snake.problem import assert_trained_alike, differences
from correctness_tests.treasurehunt.problem import (
    AGENTS,
    LEARNERS,
    QUANTILES,
    acting,
    build,
    called,
    exact_trainer,
    norms,
    problem,
    state_of,
    torch_gradient,
    trained,
    trained_from,
    trainer,
)
from correctness_tests.updates import assert_goes_on, assert_same
from rl_impls.common.parts import part_of
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.options import FORMS, Options

CONFIG, _ = problem(0)
RATE, NORM, TAU = (CONFIG[name] for name in ("learning_rate", "max_grad_norm", "soft_update"))
PARTS = "online", "target", "first", "second"
UPDATES = 3


def test_update_is_adam_on_the_clipped_gradient_then_a_soft_update_of_the_target():
    config, batches = in_float64(problem(9, batches=UPDATES))
    step, update = exact_trainer(config, batches[0])
    params, target = config["params"], config["target"]
    first, second = ({name: np.zeros_like(value) for name, value in params.items()} for _ in range(2))
    clipped = []
    for k, batch in enumerate(batches, 1):
        losses, gradient = torch_gradient(params, target, batch)
        np.testing.assert_allclose(update(batch), losses, rtol=1e-12)
        clipped.append(norms(gradient) > NORM)
        for name, value in gradient.items():
            scale = np.minimum(NORM / (norms(gradient) + 1e-6), 1).reshape(-1, *[1] * (value.ndim - 1))
            first[name] = 0.9 * first[name] + 0.1 * scale * value
            second[name] = 0.999 * second[name] + 0.001 * (scale * value) ** 2
            adam_step = first[name] / (1 - 0.9**k) / (np.sqrt(second[name] / (1 - 0.999**k)) + 1e-8)
            params = params | {name: params[name] - RATE * adam_step}
            target = target | {name: (1 - TAU) * target[name] + TAU * params[name]}
        state = step.state()
        for part, expected in zip(PARTS, (params, target, first, second)):
            for name, value in part_of(state, part).items():
                np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-12, err_msg=f"{part}.{name}")
        assert state["step"] == k
    assert 0 < np.mean(clipped) < 1


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_updates_match_those_in_float64(backend, form):
    config, batches = problem(9, batches=UPDATES)  # some of their gradients are clipped, see above
    step, update = exact_trainer(config, batches[0])
    expected_losses = [update(batch) for batch in batches]
    expected = step.state()
    losses, state = trained(backend, FORMS[form], config, batches)
    assert losses.dtype == np.float32
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-5)
    assert state.keys() == {f"{part}.{name}" for part in PARTS for name in config["params"]} | {"step"}
    assert state["step"] == UPDATES
    for part in PARTS[:2]:
        assert_trained_alike(part_of(state, part), part_of(expected, part), RATE, UPDATES)
        assert differences(part_of(state, part), config[{"online": "params"}.get(part, part)]).max() > 0.1 * RATE
    for part in PARTS[2:]:
        exact = part_of(expected, part)
        for name, value in part_of(state, part).items():
            error = np.abs(value - exact[name]).reshape(AGENTS, -1).max(1)
            assert (error < 1e-4 * norms(exact)).all(), f"{part}.{name}"


@pytest.mark.parametrize(("backend", "form"), [("torch", "naive"), ("torch", "full"), ("jax", "full")])
def test_mean_over_quantiles_divides_the_gradient_before_it_is_clipped(backend, form):
    config, [batch] = problem(9)
    losses, gradient = torch_gradient(config["params"], config["target"], batch)
    norm = float(np.median(norms(gradient))) / QUANTILES  # clips one of the three agents
    step, update = trainer(backend, config | {"loss_reduction": "mean", "max_grad_norm": norm}, batch, form)
    np.testing.assert_allclose(update(batch), losses / QUANTILES, rtol=2e-5)
    scale = np.minimum(norm, norms(gradient) / QUANTILES) / norms(gradient)
    for name, value in part_of(step.state(), "first").items():
        exact = gradient[name] * scale.reshape(-1, *[1] * (value.ndim - 1))
        np.testing.assert_allclose(value, 0.1 * exact, rtol=0, atol=1e-5 * norm, err_msg=name)


def assert_greedy(actions, params, act_args, margin):
    """Assert that exploring agents take the random actions, and others the best one if it leads by the margin."""
    states, taus, explore, random_actions = act_args
    means = _numpy.quantiles(*in_float64((params, states, taus))).mean(axis=2)
    best = np.sort(means, axis=-1)
    sure = best[..., -1] - best[..., -2] > margin
    assert sure.mean() > 0.5
    assert explore.all() or len(np.unique(means.argmax(-1)[sure & ~explore])) > 1
    assert actions.dtype == np.int32
    np.testing.assert_array_equal(actions[explore], random_actions[explore])
    np.testing.assert_array_equal(actions[~explore & sure], means.argmax(-1)[~explore & sure])


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_actor_plays_by_the_learners_present_weights_without_noise(backend, form):
    config, [batch] = problem(15)
    changed, _ = problem(16)
    act_args = acting(np.random.default_rng(17), config["params"])
    step, update = trained_from(backend, FORMS[form], state_of(config))
    actor = step.actor(act_args)
    assert_greedy(called(actor, backend, *act_args), step.params, act_args, 1e-4)
    step.load_state(state_of(changed))
    for _ in range(2):
        update(batch)
        assert_greedy(called(actor, backend, *act_args), step.params, act_args, 1e-4)
    assert_same(step.params, part_of(step.state(), "online"))
    step.reset()
    start, _ = problem(0)
    assert_greedy(called(actor, backend, *act_args), start["params"], act_args, 1e-4)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("torch", "naive"), ("torch", "full")),
        (("torch", "full"), ("jax", "full")),
        (("jax", "full"), ("torch", "naive")),
    ],
    ids=lambda learner: "-".join(learner),
)
def test_training_goes_on_from_a_state_of_another_form_or_backend(before, after):
    config, batches = problem(18, batches=4)
    changed, [other] = problem(19)
    first = trained_from(before[0], FORMS[before[1]], state_of(config))
    second = trained_from(after[0], FORMS[after[1]], state_of(changed))
    second[1](other)
    assert_goes_on(first, second, batches, 2e-5)
    for part in PARTS[:2]:
        nets = (part_of(step.state(), part) for step in (second[0], first[0]))
        assert_trained_alike(*nets, RATE, 2)


@pytest.mark.parametrize(
    ("backend", "nets"),
    quick(
        [("torch", "one_by_one"), ("torch", "batched"), ("jax", "batched")],
        [("torch", "one_by_one"), ("torch", "batched"), ("jax", "one_by_one"), ("jax", "batched")],
    ),
)
def test_bfloat16_is_close_to_float32_but_not_the_same(backend, nets):
    config, batches = problem(22, batches=UPDATES)
    act_args = acting(np.random.default_rng(23), config["params"])
    rounded = replace(FORMS["bfloat16"], nets=nets)
    actions = called(build("act", backend, config, act_args, **asdict(rounded)), backend, *act_args)
    losses, state = trained(backend, rounded, config, batches)
    expected_losses, expected = trained(backend, Options(), config, batches)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-2)
    assert (losses != expected_losses).all()
    assert_greedy(actions, config["params"], act_args, 0.02)
    difference = differences(part_of(state, "online"), part_of(expected, "online"))
    assert np.median(difference) < 0.05 * RATE * UPDATES
    assert difference.max() < 2.1 * RATE * UPDATES
    assert all(value.dtype == np.float32 for name, value in state.items() if name != "step")
    first, exact = part_of(state, "first"), part_of(expected, "first")
    error = norms({name: first[name] - exact[name] for name in exact})
    assert (error < 0.05 * norms(exact)).all()
