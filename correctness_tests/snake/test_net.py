"""The net, its loss and its update: against NumPy, finite differences and float64 torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests import strategies
from correctness_tests.quick import quick
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.snake.problem import (
    assert_state_equal,
    assert_trained_alike,
    build,
    differences,
    exact_trainer,
    net_of,
    problem,
    trainer,
)
from correctness_tests.strategies import SEEDS
from rl_impls.backends import get
from rl_impls.snake import _numpy
from rl_impls.snake.problem import SIZES, boards

GAMMA = 0.99
LEARNERS = [("torch", "naive"), ("torch", "full"), ("jax", "naive"), ("jax", "full")]
SHARED = {}


def torch_loss(params, target):
    from rl_impls.snake import _torch

    net, target_net = _torch.Net(params), _torch.Net(target)
    return net, target_net, _torch.make_loss(net, target_net, GAMMA)


pytestmark = pytest.mark.usefixtures("one_thread")


@given(seed=SEEDS)
@settings(max_examples=10)
def test_torch_loss_equals_the_reference(seed):
    import torch

    everything, [batch] = in_float64(problem(seed))
    _, _, loss = torch_loss(everything["params"], everything["target"])
    wanted = _numpy.loss(everything["params"], everything["target"], batch, GAMMA)
    assert abs(loss(*map(torch.as_tensor, batch)).item() - wanted) < 1e-12 * wanted


def test_huber_loss_is_quadratic_up_to_one_and_linear_beyond():
    errors = np.array([0, 0.5, -0.5, 1, -1, 2, -3])
    np.testing.assert_allclose(_numpy.huber(errors), [0, 0.125, 0.125, 0.5, 0.5, 1.5, 2.5])


def test_td_target_is_the_reward_and_what_the_best_next_move_is_worth():
    target = {"w0": np.eye(2, 4), "b0": np.zeros(4)}
    got = _numpy.td_target(target, np.array([1.0, 1.0]), np.array([[2.0, 5.0], [2.0, 5.0]]), np.array([0, 1]), 0.5)
    np.testing.assert_array_equal(got, [3.5, 1])


@pytest.mark.parametrize("seed", range(2))
def test_torch_gradient_matches_finite_differences_of_the_reference(seed):
    import torch

    rng = np.random.default_rng(seed)
    everything, [batch] = in_float64(problem(seed))
    params, target = everything["params"], everything["target"]
    net, target_net, loss = torch_loss(params, target)
    loss(*map(torch.as_tensor, batch)).backward()
    assert all(parameter.grad is None for parameter in target_net.parameters())
    gradient = {}
    for k, linear in enumerate(net.linears):
        gradient[f"w{k}"], gradient[f"b{k}"] = linear.weight.grad.T.numpy(), linear.bias.grad.numpy()
    taken = _numpy.q_values(params, batch[0])[np.arange(32), batch[1]]
    errors = np.abs(taken - _numpy.td_target(target, *batch[2:], GAMMA))
    assert errors.min() < 0.9
    assert errors.max() > 1.1

    def slope(direction, step=1e-7):  # so short that no ReLU is likely to change in between
        forth, back = ({k: v + sign * step * direction[k] for k, v in params.items()} for sign in (1, -1))
        return (_numpy.loss(forth, target, batch, GAMMA) - _numpy.loss(back, target, batch, GAMMA)) / (2 * step)

    scale = np.sqrt(sum((value**2).sum() for value in gradient.values()))
    for _ in range(5):
        direction = {name: rng.normal(size=value.shape) for name, value in params.items()}
        length = np.sqrt(sum((value**2).sum() for value in direction.values()))
        along = sum((gradient[name] * direction[name] / length).sum() for name in params)
        assert abs(slope({name: value / length for name, value in direction.items()}) - along) < 1e-6 * scale
    for name, value in params.items():
        largest = np.unravel_index(np.abs(gradient[name]).argmax(), value.shape)
        for index in (largest, *(tuple(rng.integers(0, value.shape)) for _ in range(2))):
            unit = {other: np.zeros_like(array) for other, array in params.items()}
            unit[name][index] = 1
            assert abs(slope(unit) - gradient[name][index]) < 1e-6 * scale


@given(seed=SEEDS)
@settings(max_examples=5)
def test_gradient_by_hand_is_that_of_autograd(seed):
    import torch

    from rl_impls.snake import _torch

    everything, [batch] = in_float64(problem(seed))
    batch = [*map(torch.as_tensor, batch)]
    net, target, loss = torch_loss(everything["params"], everything["target"])
    value = loss(*batch)
    wanted = torch.autograd.grad(value, list(net.parameters()))
    found = _torch.make_gradient(net, target, GAMMA)(*batch)
    assert abs(found - value) < 1e-12 * value
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        assert largest_difference(parameter.grad, gradient) < 1e-10


def shared(backend, form):
    """One compiled update for all draws: only its weights change."""
    if (backend, form) not in SHARED:
        everything, [batch] = problem(0)
        SHARED[backend, form] = trainer(backend, everything, batch, form)
    return SHARED[backend, form]


def restart(step, everything):
    """Give a step other weights to start from."""
    step.reset()
    nets = {"online": everything["params"], "target": everything["target"]}
    step.load_state(step.state() | {f"{part}.{name}": net[name] for part, net in nets.items() for name in net})


@pytest.mark.parametrize(
    ("backend", "form", "updates"),
    [*((*pair, 5) for pair in LEARNERS), pytest.param("torch-compile", "full", 2, marks=pytest.mark.slow)],
)
@given(seed=SEEDS)
@settings(max_examples=3)
def test_weights_after_updates_match_float64_torch(backend, form, updates, seed):
    everything, batches = problem(seed, batches=updates)
    got, update = shared(backend, form)
    restart(got, everything)
    wanted, exact_update = exact_trainer(everything, batches[0])
    for batch in batches:
        exact = exact_update(batch)
        assert abs(update(batch) - exact) < 1e-4 * exact
    most = 0.01 if backend == "jax" else 0.001  # optax rounds 1 - 0.999^t to float32, 5e-5 off at first
    assert_trained_alike(got.params, wanted.params, everything["learning_rate"], updates, most)
    assert np.median(differences(wanted.params, everything["params"])) > 0.1 * everything["learning_rate"]


def norm(state, part):
    return np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in net_of(state, part).values()))


@pytest.mark.parametrize(("backend", "form"), quick(LEARNERS[:2] + LEARNERS[3:], LEARNERS))
def test_the_norm_of_the_gradient_is_clipped(backend, form):
    everything, batches = problem(1, batches=3)
    for k in (0, 2):  # the Huber loss bounds what a reward can do, not what a board can
        obs, actions, rewards, *rest = batches[k]
        batches[k] = (300 * obs, actions, 1e4 * rewards, *rest)
    wanted, exact_update = exact_trainer(everything, batches[0])
    got, update = trainer(backend, everything, batches[0], form)
    free, free_update = trainer(backend, everything | {"gradient_norm": 1e9}, batches[0], form)
    for k, batch in enumerate(batches):
        exact = exact_update(batch)
        assert abs(update(batch) - exact) < 1e-4 * exact
        free_update(batch)
        if k == 0:  # Adam's first moment is a tenth of the first gradient
            assert abs(norm(got.state(), "first") - 0.1 * everything["gradient_norm"]) < 1e-4
            assert norm(free.state(), "first") > 0.2 * everything["gradient_norm"]
    assert_trained_alike(got.params, wanted.params, everything["learning_rate"], 3)
    assert np.quantile(differences(free.params, wanted.params), 0.9) > 0.01 * everything["learning_rate"] * 3


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_the_target_net_stands_still_until_it_is_synced(backend, form):
    everything, batches = problem(2, batches=2)
    step, update = trainer(backend, everything, batches[0], form)
    for batch in batches:
        update(batch)
    for name, value in everything["target"].items():
        np.testing.assert_array_equal(step.state()[f"target.{name}"], value)
    step.sync_target()
    synced = step.params
    for name in synced:
        np.testing.assert_array_equal(step.state()[f"target.{name}"], synced[name])
    wanted = _numpy.loss(*in_float64((synced, synced, batches[0])), GAMMA)
    assert abs(update(batches[0]) - wanted) < 1e-4 * wanted
    for name in synced:
        np.testing.assert_array_equal(step.state()[f"target.{name}"], synced[name])
    assert differences(step.params, synced).max() > 0
    step.reset()
    for name, value in everything["target"].items():
        np.testing.assert_array_equal(step.state()[f"target.{name}"], value)


@pytest.mark.parametrize(("backend", "form"), quick(LEARNERS[:2] + LEARNERS[3:], LEARNERS))
def test_the_td_target_is_the_target_nets_but_where_an_episode_ended(backend, form):
    everything, [batch] = problem(3)
    other = {name: 2 * value for name, value in everything["target"].items()}
    for flag, differs in ((0, True), (1, False)):
        ended = (*batch[:4], np.full_like(batch[4], flag))
        losses = []
        for target in (everything["target"], other):
            _, update = trainer(backend, everything | {"target": target}, batch, form)
            losses.append(update(ended))
            wanted = _numpy.loss(*in_float64((everything["params"], target, ended)), GAMMA)
            assert abs(losses[-1] - wanted) < 1e-4 * wanted
        assert (abs(losses[0] - losses[1]) > 1e-2 * losses[0]) == differs
        if not differs:
            _, update = trainer(backend, everything, batch, form)
            assert update((*ended[:3], 5 * ended[3], ended[4])) == losses[0]


@pytest.mark.parametrize(
    ("before", "after"),
    quick(
        [
            (("torch", "full"), ("jax", "full")),
            (("jax", "full"), ("torch", "full")),
            (("torch", "full"), ("torch", "naive")),
        ],
        [
            (("torch", "full"), ("jax", "full")),
            (("jax", "full"), ("torch", "full")),
            (("torch", "naive"), ("jax", "naive")),
            (("jax", "full"), ("jax", "naive")),
            (("torch", "full"), ("torch", "naive")),
            (("jax", "naive"), ("torch", "full")),
        ],
    ),
)
def test_training_goes_on_from_a_state(before, after):
    everything, batches = problem(4, batches=5)
    changed, _ = problem(5)
    first, update_first = trainer(before[0], everything, batches[0], before[1])
    second, update_second = trainer(after[0], changed, batches[0], after[1])
    wanted, exact_update = exact_trainer(everything, batches[0])
    for batch in batches[:3]:
        update_first(batch)
        exact_update(batch)
    first.sync_target()
    wanted.sync_target()
    state = first.state()
    kept = {name: value.copy() for name, value in state.items()}
    second.load_state(state)
    assert_state_equal(second.state(), kept)
    assert {k: (v.dtype, v.shape) for k, v in second.state().items()} == {
        k: (v.dtype, v.shape) for k, v in kept.items()
    }
    for batch in batches[3:]:
        losses = update_first(batch), update_second(batch)
        exact = exact_update(batch)
        np.testing.assert_allclose(losses, exact, rtol=1e-4)
    assert second.state()["step"] == 5
    for step in (first, second):
        assert_trained_alike(step.params, wanted.params, everything["learning_rate"], 5)
    assert_state_equal(state, kept)
    second.reset()
    assert second.state()["step"] == 0
    assert_state_equal(net_of(second.state(), "online"), changed["params"])


@pytest.mark.parametrize(
    ("backend", "envs"),
    quick(
        [("numpy", 1), ("torch", 64), ("torch-trace", 64), ("onnx", 64), ("jax", 64)],
        list(itertools.product(("numpy", "torch", "torch-trace", "torch-compile", "onnx", "jax"), (1, 64))),
    ),
)
@given(data=st.data())
@settings(max_examples=10)
def test_q_values_match_float64_on_drawn_weights_and_boards(backend, envs, data):
    params = data.draw(strategies.weights(SIZES))
    obs = boards(np.random.default_rng(data.draw(SEEDS)), envs)
    made, spec = get(backend), {"params": params}
    if backend == "numpy" or (backend, envs) not in SHARED:
        SHARED[backend, envs] = build("forward", backend, spec, (obs,))
    net = SHARED[backend, envs]
    if backend != "numpy":
        net.load(params)
    got = made.to_host(net(made.to_device(obs)))
    assert got.dtype == np.float32
    assert largest_difference(got, _numpy.q_values(in_float64(params), in_float64(obs))) < 1e-5


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
@pytest.mark.parametrize("envs", [1, 64])
def test_moves_are_greedy_unless_they_explore(backend, form, envs):
    rng = np.random.default_rng(0)
    everything, _ = problem(6)
    actor = None
    for _ in range(10):
        obs, explore = boards(rng, envs), rng.random(envs) < 0.3
        drawn = rng.integers(0, 4, envs).astype(np.int32)
        if actor is None:
            actor = build("act", backend, everything, (obs, explore, drawn), form)
        q = _numpy.q_values(*in_float64((everything["params"], obs)))
        best = np.sort(q, axis=1)
        sure = best[:, -1] - best[:, -2] > 1e-4
        assert sure.mean() > 0.5
        for flags in (explore, np.zeros(envs, bool), np.ones(envs, bool)):
            got = actor(obs, flags, drawn)
            assert got.dtype == np.int32
            np.testing.assert_array_equal(got[flags], drawn[flags])
            np.testing.assert_array_equal(got[~flags & sure], q.argmax(axis=1)[~flags & sure])
