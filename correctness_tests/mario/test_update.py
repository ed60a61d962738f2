"""The update: loss and gradient, double Q-learning targets, clipping, Adam, gradient accumulation, and states."""

import functools

import numpy as np
import pytest

from correctness_tests.mario.problem import BATCH_SIZE, NAMES, SIDE, build, exact_learner, learner, problem
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.updates import apart, assert_goes_on, assert_is_gradient, assert_same, gradient_of
from rl_impls import backends
from rl_impls.compilers import Compiler, eager
from rl_impls.mario import _numpy
from rl_impls.mario.net import is_running
from rl_impls.mario.options import FORMS as OPTIONS

FORMS = [("torch", "naive"), ("torch", "full"), ("jax", "full")]
NORMS = ["none", "batch"]
FREE = {"max_grad_norm": 1e9}  # nothing is clipped


@functools.cache
def compiled(norm):
    """Return a JAX learner that tests share through :func:`fresh`; XLA takes seconds to compile each."""
    return learner("jax", norm=norm)


def fresh(backend, form="full", norm="none"):
    """Return a :func:`learner` in its initial state."""
    if (backend, form) != ("jax", "full"):
        return learner(backend, form, norm=norm)
    step, update = compiled(norm)
    step.reset()
    return step, update


def changed(batch, **columns):
    return tuple(columns.get(name, column) for name, column in zip(NAMES, batch))


def reference(config, batch):
    config, (obs, actions, rewards, next_obs, terminated, weights) = in_float64(config), in_float64(batch)
    targets = _numpy.td_targets(config["params"], config["target"], rewards, next_obs, terminated, config["gamma"])
    return *_numpy.td_loss(config["params"], obs, actions, targets, weights), targets


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("form", ["naive", "full"])
def test_the_gradient_is_that_of_finite_differences(form, norm):
    config, [_, batch, *_] = problem(norm=norm)
    step, update = learner("torch", form, exact=True, norm=norm, **FREE)
    got, errors = update(batch)
    found, (loss, wanted, targets) = gradient_of(step.net), reference(config, batch)
    assert got == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(errors, wanted, rtol=1e-9, atol=1e-12)
    params, (obs, actions, *_, weights) = in_float64(config["params"]), in_float64(batch)
    assert found.keys() == {name for name in params if not is_running(name)}
    assert_is_gradient(found, lambda params: _numpy.td_loss(params, obs, actions, targets, weights)[0], params, 2e-3)


def biased(values):
    """Return the weights of a net that gives every state the same values."""
    config, _ = problem()
    params = {name: np.zeros_like(value) for name, value in config["params"].items()}
    return params | {"b_value": np.pad(np.float32(values), (0, 15 - len(values)), constant_values=-9)}


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_the_online_net_chooses_the_next_action_and_the_target_net_values_it(backend, form):
    online, target = biased([1.0, 4.0, 2.0]), biased([8.0, 0.25, 6.0])
    config, [batch, *_] = problem()
    terminated, half = (np.arange(BATCH_SIZE) % 2).astype(np.float32), np.full(BATCH_SIZE, 0.5, np.float32)
    batch = changed(batch, actions=np.full(BATCH_SIZE, 2, np.int32), rewards=half, terminated=terminated)
    step, update = fresh(backend, form)
    nets = {"online": online, "target": target}
    step.load_state(step.state() | {f"{part}.{name}": net[name] for part, net in nets.items() for name in net})
    _, errors = update(batch)
    # neither the target net's best value, 8, nor the online net's own, 4
    np.testing.assert_allclose(errors, np.where(terminated, 2.0 - 0.5, 2.0 - (0.5 + config["gamma"] * 0.25)), rtol=1e-6)


def test_huber_is_half_the_square_up_to_1_and_linear_beyond():
    params, obs = in_float64(biased([0.0])), np.zeros((5, 4, SIDE, SIDE), np.uint8)
    targets = np.array([0.0, 0.5, -0.5, 1.0, -3.0])
    for k, wanted in enumerate((0, 0.125, 0.125, 0.5, 2.5)):
        weights = 5.0 * (np.arange(5) == k)
        loss, errors = _numpy.td_loss(params, obs, np.zeros(5, int), targets, weights)
        assert loss == pytest.approx(wanted)
        np.testing.assert_allclose(errors, -targets)


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_torch_and_jax_learn_alike_over_several_updates(backend, form):
    config, batches = problem()
    # the gradient of one batch is too small to be clipped to 0.05; if all were clipped, Adam would undo the scaling
    batches = [batches[0], changed(batches[1], weights=np.full(BATCH_SIZE, 1e-4, np.float32)), *batches[2:]]
    exact, exactly = exact_learner()
    step, update = fresh(backend, form)
    beyond_1 = []
    for k, batch in enumerate(batches):
        (loss, errors), (wanted, wanted_errors) = update(batch), exactly(batch)
        beyond_1.extend(np.abs(wanted_errors) > 1)
        assert loss == pytest.approx(wanted, rel=1e-3)
        assert largest_difference(errors, wanted_errors) < 1e-3
        if k == 1:
            step.sync_target()
            exact.sync_target()
    assert apart(step.params, exact.params, config["params"]) < 5e-3
    assert all(value.dtype == np.float32 for value in step.params.values())
    assert 0 < np.mean(beyond_1) < 1  # both sides of the Huber loss


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_bfloat16_loss_is_close_to_float32(backend):
    _, [batch, *_] = problem(norm="batch")
    (step, update), (_, exactly) = (fresh(backend, form, "batch") for form in ("bfloat16", "full"))
    (rounded, errors), (exact, wanted) = update(batch), exactly(batch)
    assert rounded == pytest.approx(exact, rel=0.05)
    assert 0 < largest_difference(errors, wanted) < 0.05
    assert {value.dtype for value in (rounded, errors, *step.params.values())} == {np.dtype(np.float32)}


def test_accumulated_gradients_equal_those_of_the_whole_batch():
    config, batches = problem()
    whole, once = learner("torch", exact=True, **FREE)
    parts, four = learner("torch", exact=True, options={"accumulate": 4}, **FREE)
    for batch in batches[:2]:
        (loss, errors), (wanted, exact) = four(batch), once(batch)
        assert loss == pytest.approx(wanted, rel=1e-9)
        assert largest_difference(errors, exact) < 1e-9
        found = gradient_of(parts.net)
        for name, value in gradient_of(whole.net).items():
            assert largest_difference(found[name], value) < 1e-6, name
    assert apart(parts.params, whole.params, config["params"]) < 5e-3


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_only_sync_target_changes_the_target_net_and_it_copies_the_whole_online_net(backend):
    config, batches = problem(norm="batch")
    step, update = fresh(backend, norm="batch")
    for batch in batches[:2]:
        update(batch)
    state = step.state()
    for name, value in config["target"].items():
        np.testing.assert_array_equal(state[f"target.{name}"], value)
        assert not np.array_equal(state[f"online.{name}"], config["params"][name])
    step.sync_target()
    copied = step.state()
    for name in config["target"]:
        np.testing.assert_array_equal(copied[f"target.{name}"], state[f"online.{name}"])
        np.testing.assert_array_equal(step.params[name], state[f"online.{name}"])
    update(batches[2])  # a copy, not the same arrays
    assert not np.array_equal(step.state()["online.b_value"], state["online.b_value"])
    for name in config["target"]:
        np.testing.assert_array_equal(step.state()[f"target.{name}"], state[f"online.{name}"])


def test_running_statistics_move_once_per_update():
    config, [batch, *_] = problem(norm="batch")
    step, update = exact_learner(norm="batch")
    params = in_float64(config["params"])
    h = _numpy.convolution(batch[0].transpose(0, 2, 3, 1) / 255, params["w_conv0"], 0, 4)
    update(batch)
    assert largest_difference(step.params["m_conv0"], 0.9 * params["m_conv0"] + 0.1 * h.mean(axis=(0, 1, 2))) < 1e-10


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_training_from_a_state_or_a_reset_is_bit_exact(backend, form, norm):
    _, batches = problem(norm=norm)
    step, update = fresh(backend, form, norm)
    start = step.state()
    results = [update(batches[0])]
    step.sync_target()
    state = step.state()
    kept = {name: value.copy() for name, value in state.items()}
    results += [update(batch) for batch in batches[1:3]]
    wanted = step.state()
    for going_on, going_on_with in ((step, update), fresh(backend, form, norm)):
        going_on.load_state(state)
        assert_same(going_on.state(), kept)
        for batch, (loss, errors) in zip(batches[1:3], results[1:]):
            again = going_on_with(batch)
            assert again[0] == loss
            np.testing.assert_array_equal(again[1], errors)
        assert_same(going_on.state(), wanted)
    assert_same(state, kept)
    step.reset()
    assert_same(step.state(), start)
    assert update(batches[0])[0] == results[0][0]
    step.sync_target()
    assert_same(step.state(), kept)


def test_a_state_of_float16_has_the_loss_scale_and_a_reset_restores_it():
    config, [batch, *_] = problem()
    backend, on_cuda = backends.get("torch"), Compiler("torch-cuda", eager, "cpu", "torch-cuda")  # without a GPU
    step = backend.build(
        "mario", "train_step", config, tuple(map(backend.to_device, batch)), OPTIONS["float16"], on_cuda
    )
    (plain, _), start = learner("torch"), step.state()
    assert start["loss_scale"].tolist() == [2**16, 0]
    adapted = start | {"loss_scale": np.array([2.0**13, 7])}
    step.load_state(adapted)
    assert_same(step.state(), adapted)
    step.reset()
    assert_same(step.state(), start)
    plain.load_state(adapted)
    step.load_state(plain.state())  # from float32, so the scale starts at its default
    assert step.state()["loss_scale"].tolist() == [2**16, 0]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("before", "after"), [("torch", "jax"), ("jax", "torch")])
def test_another_backend_goes_on_from_a_state(before, after, norm):
    config, batches = problem(norm=norm)
    first, second = (fresh(backend, norm=norm) for backend in (before, after))
    assert_goes_on(first, second, batches, 1e-3)
    # rounding switches a ReLU on or off, and the batch statistics spread the effect to all weights
    assert apart(second[0].params, first[0].params, config["params"]) < (0.05 if norm == "batch" else 5e-3)


@pytest.mark.parametrize("options", [{}, {"accumulate": 4}], ids=["whole", "parts"])
def test_jax_updates_a_net_with_batch_norm_as_torch_does(options):
    _, [batch, *_] = problem(norm="batch")
    exact, exactly = exact_learner(options, norm="batch")
    step, update = learner("jax", options=options, norm="batch") if options else fresh("jax", norm="batch")
    (loss, errors), (wanted, wanted_errors) = update(batch), exactly(batch)
    assert loss == pytest.approx(wanted, rel=1e-4)
    assert largest_difference(errors, wanted_errors) < 1e-4
    got = step.state()
    for name, value in exact.state().items():
        part, _, weight = name.partition(".")
        if part == "first" or is_running(weight):  # the first moment is a tenth of the gradient
            # rounding switches a ReLU on or off, and the batch statistics spread the effect to all weights
            assert largest_difference(got[name], value) < 1e-2, name


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_batch_that_accumulate_does_not_divide_is_refused(backend):
    config, [batch, *_] = problem(batch_size=6)
    with pytest.raises(ValueError, match=r"^accumulate=4 should divide the batch size, 6$"):
        build("train_step", backend, config, batch, accumulate=4)
