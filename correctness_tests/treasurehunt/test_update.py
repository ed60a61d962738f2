"""Updates of every agent: Adam, clipping, the target net, and going on from a state."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.snake.problem import assert_state_equal, assert_trained_alike, differences, net_of
from correctness_tests.treasurehunt.problem import (
    AGENTS,
    LEARNERS,
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
)
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.options import FORMS, Options

EVERYTHING, _ = problem(0)
RATE, NORM, TAU = (EVERYTHING[name] for name in ("learning_rate", "gradient_norm", "soft_update"))
PARTS = "online", "target", "first", "second"
UPDATES = 3

pytestmark = pytest.mark.usefixtures("one_thread")


def test_update_is_adam_on_the_clipped_gradient_then_a_soft_update_of_the_target():
    everything, batches = in_float64(problem(9, batches=UPDATES))
    step, update = exact_trainer(everything, batches[0])
    params, target = everything["params"], everything["target"]
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
            rise = first[name] / (1 - 0.9**k) / (np.sqrt(second[name] / (1 - 0.999**k)) + 1e-8)
            params = params | {name: params[name] - RATE * rise}
            target = target | {name: (1 - TAU) * target[name] + TAU * params[name]}
        state = step.state()
        for part, wanted in zip(PARTS, (params, target, first, second)):
            for name, value in net_of(state, part).items():
                np.testing.assert_allclose(value, wanted[name], rtol=1e-9, atol=1e-12, err_msg=f"{part}.{name}")
        assert state["step"] == k
    assert 0 < np.mean(clipped) < 1


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_updates_match_those_in_float64(backend, form):
    everything, batches = problem(9, batches=UPDATES)  # some of their gradients are clipped, see above
    step, update = exact_trainer(everything, batches[0])
    wanted_losses = [update(batch) for batch in batches]
    wanted = step.state()
    losses, state = trained(backend, FORMS[form], everything, batches)
    assert losses.dtype == np.float32
    np.testing.assert_allclose(losses, wanted_losses, rtol=2e-5)
    assert state.keys() == {f"{part}.{name}" for part in PARTS for name in everything["params"]} | {"step"}
    assert state["step"] == UPDATES
    for part in PARTS[:2]:
        assert_trained_alike(net_of(state, part), net_of(wanted, part), RATE, UPDATES)
        assert differences(net_of(state, part), everything[{"online": "params"}.get(part, part)]).max() > 0.1 * RATE
    for part in PARTS[2:]:
        exact = net_of(wanted, part)
        for name, value in net_of(state, part).items():
            error = np.abs(value - exact[name]).reshape(AGENTS, -1).max(1)
            assert (error < 1e-4 * norms(exact)).all(), f"{part}.{name}"


def assert_greedy(got, params, drawn, margin):
    """Actions are the drawn ones where agents explore, and elsewhere the best ones where these lead by the margin."""
    states, taus, explore, random_actions = drawn
    means = _numpy.quantiles(*in_float64((params, states, taus))).mean(axis=2)
    best = np.sort(means, axis=-1)
    sure = best[..., -1] - best[..., -2] > margin
    assert sure.mean() > 0.5
    assert explore.all() or len(np.unique(means.argmax(-1)[sure & ~explore])) > 1
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got[explore], random_actions[explore])
    np.testing.assert_array_equal(got[~explore & sure], means.argmax(-1)[~explore & sure])


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_actor_plays_by_the_learners_present_weights_without_noise(backend, form):
    everything, [batch] = problem(15)
    changed, _ = problem(16)
    drawn = acting(np.random.default_rng(17), everything["params"])
    step, update = trained_from(backend, FORMS[form], state_of(everything))
    actor = step.actor(drawn)
    assert_greedy(called(actor, backend, *drawn), step.params, drawn, 1e-4)
    step.load_state(state_of(changed))
    for _ in range(2):
        update(batch)
        assert_greedy(called(actor, backend, *drawn), step.params, drawn, 1e-4)
    assert_state_equal(step.params, net_of(step.state(), "online"))
    step.reset()
    start, _ = problem(0)
    assert_greedy(called(actor, backend, *drawn), start["params"], drawn, 1e-4)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("torch", "naive"), ("torch", "full")),
        (("torch", "full"), ("jax", "full")),
        (("jax", "full"), ("torch", "naive")),
        (("jax", "naive"), ("jax", "full")),
    ],
    ids=lambda learner: "-".join(learner),
)
def test_training_goes_on_from_a_state_of_another_form_or_backend(before, after):
    everything, batches = problem(18, batches=4)
    changed, others = problem(19, batches=1)
    first, update_first = trained_from(before[0], FORMS[before[1]], state_of(everything))
    second, update_second = trained_from(after[0], FORMS[after[1]], state_of(changed))
    update_second(others[0])
    for batch in batches[:2]:
        update_first(batch)
    state = first.state()
    kept = {name: value.copy() for name, value in state.items()}
    second.load_state(state)
    assert_state_equal(second.state(), kept)
    for name, value in second.state().items():
        assert (value.dtype, value.shape) == (kept[name].dtype, kept[name].shape)
    for batch in batches[2:]:
        np.testing.assert_allclose(update_first(batch), update_second(batch), rtol=2e-5)
    assert_state_equal(state, kept)
    assert first.state()["step"] == second.state()["step"] == 4
    for part in PARTS[:2]:
        assert_trained_alike(net_of(second.state(), part), net_of(first.state(), part), RATE, 2)


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_reset_restores_nets_and_moments(backend, form):
    start, batches = problem(0, batches=2)
    want_losses, wanted = trained(backend, FORMS[form], start, batches)
    changed, others = problem(21, batches=2)
    step, update = trained_from(backend, FORMS[form], state_of(changed))
    for batch in others:
        update(batch)
    step.reset()
    assert_state_equal(step.state(), state_of(start))
    np.testing.assert_array_equal([update(batch) for batch in batches], want_losses)
    assert_state_equal(step.state(), wanted)


@pytest.mark.parametrize(
    ("backend", "nets"),
    quick(
        [("torch", "one_by_one"), ("torch", "batched"), ("jax", "batched")],
        [("torch", "one_by_one"), ("torch", "batched"), ("jax", "one_by_one"), ("jax", "batched")],
    ),
)
def test_bfloat16_is_close_to_float32_but_not_the_same(backend, nets):
    everything, batches = problem(22, batches=UPDATES)
    drawn = acting(np.random.default_rng(23), everything["params"])
    rounded = replace(FORMS["bfloat16"], nets=nets)
    actions = called(build("act", backend, everything, drawn, **asdict(rounded)), backend, *drawn)
    losses, state = trained(backend, rounded, everything, batches)
    wanted_losses, wanted = trained(backend, Options(), everything, batches)
    np.testing.assert_allclose(losses, wanted_losses, rtol=2e-2)
    assert (losses != wanted_losses).all()
    assert_greedy(actions, everything["params"], drawn, 0.02)
    difference = differences(net_of(state, "online"), net_of(wanted, "online"))
    assert np.median(difference) < 0.05 * RATE * UPDATES
    assert difference.max() < 2.1 * RATE * UPDATES
    assert all(value.dtype == np.float32 for name, value in state.items() if name != "step")
    first, exact = net_of(state, "first"), net_of(wanted, "first")
    error = norms({name: first[name] - exact[name] for name in exact})
    assert (error < 0.05 * norms(exact)).all()
