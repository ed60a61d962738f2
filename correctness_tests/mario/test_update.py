"""The update: its loss and the gradient of it, double Q-learning's targets, parts of a batch, states that go on."""

from __future__ import annotations

import re

import numpy as np
import pytest

from correctness_tests.mario.problem import BATCH, NAMES, SIDE, build, exact_learner, learner, problem
from correctness_tests.reference import in_float64, largest_difference
from rl_impls import backends
from rl_impls.mario import _numpy
from rl_impls.mario.spec import is_running, shapes

pytestmark = pytest.mark.usefixtures("one_thread")

FORMS = [("torch", "naive"), ("torch", "full"), ("jax", "full")]
PLAIN, NORMED = {}, {"norm": "batch"}
PROBLEMS = [pytest.param(PLAIN, id="none"), pytest.param(NORMED, id="batch")]
BOTH = [("torch", PLAIN), ("torch", NORMED), ("jax", PLAIN)]
FREE = {"gradient_norm": 1e9}  # nothing is clipped


def changed(batch, **columns):
    """A batch with other columns."""
    return tuple(columns.get(name, column) for name, column in zip(NAMES, batch))


def reference(spec, batch):
    """Loss, TD errors and targets in float64."""
    spec, (states, actions, rewards, next_states, ends, weights) = in_float64(spec), in_float64(batch)
    targets = _numpy.td_targets(spec["params"], spec["target"], rewards, next_states, ends, spec["gamma"])
    return *_numpy.td_loss(spec["params"], states, actions, targets, weights), targets


def gradient_of(step):
    """The gradients that an update of torch has left, by name and in the layout of the weights."""
    layouts = zip(step.net.views(), step.parameters)
    return {name: step.net.to_params_layout(parameter.grad.numpy()) for name, parameter in layouts}


def gradient(batch, knobs=None, given=None, **options):
    """The gradient of one update in float64."""
    step, update = exact_learner(knobs, given, **options)
    update(batch)
    return gradient_of(step)


def assert_states_equal(got, wanted):
    """Every array of a state is the same, bit for bit, and of the same type."""
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
        assert got[name].dtype == value.dtype, name


def apart(got, wanted, start):
    """How far nearly all weights ended from each other, measured by the longest way that one of their array went."""
    far = [np.abs(got[name] - wanted[name]).ravel() / np.abs(wanted[name] - start[name]).max() for name in shapes(SIDE)]
    return max(*(np.median(each) for each in far), np.quantile(np.concatenate(far), 0.99))


@pytest.mark.parametrize("given", PROBLEMS)
@pytest.mark.parametrize("form", ["naive", "full"])
def test_the_gradient_is_that_of_finite_differences(form, given):
    spec, [_, batch, *_] = problem(**given)
    step, update = learner("torch", form, exact=True, given=given, **FREE)
    got, errors = update(batch)
    found, (loss, wanted, targets) = gradient_of(step), reference(spec, batch)
    assert got == pytest.approx(loss, rel=1e-10)
    np.testing.assert_allclose(errors, wanted, rtol=1e-9, atol=1e-12)
    params, (states, actions, *_, weights), rng = (
        in_float64(spec["params"]),
        in_float64(batch),
        np.random.default_rng(0),
    )
    assert found.keys() == {name for name in params if not is_running(name)}
    for name in found:
        direction = rng.standard_normal(found[name].shape)
        direction *= 1e-7 / np.linalg.norm(direction)
        ends = (params | {name: params[name] + sign * direction} for sign in (1, -1))
        above, below = (_numpy.td_loss(each, states, actions, targets, weights)[0] for each in ends)
        expected, scale = 2 * (found[name] * direction).sum(), 2 * np.linalg.norm(found[name]) * 1e-7
        assert scale > 0
        assert above - below == pytest.approx(expected, abs=2e-3 * scale), name


@pytest.mark.parametrize(("backend", "given"), BOTH)
def test_loss_and_errors_are_those_of_the_reference_in_float32(backend, given):
    spec, batches = problem(**given)
    for batch in batches:
        _, update = learner(backend, given=given)
        (loss, errors), (wanted, exact, _) = update(batch), reference(spec, batch)
        assert (loss.dtype, errors.dtype, loss.shape, errors.shape) == (np.float32, np.float32, (), (BATCH,))
        assert loss == pytest.approx(wanted, rel=1e-4)
        assert largest_difference(errors, exact) < 1e-4


def test_errors_are_values_less_what_they_should_be_on_both_sides_of_1():
    spec, batches = problem()
    sizes = []
    for batch in batches:
        _, errors, targets = reference(spec, batch)
        taken = _numpy.q_values(in_float64(spec["params"]), batch[0])[np.arange(BATCH), batch[1]]
        np.testing.assert_allclose(exact_learner()[1](batch)[1], taken - targets, rtol=1e-9, atol=1e-12)
        sizes.extend(np.abs(errors))
    assert 0 < np.mean(np.array(sizes) > 1) < 1


def by_states(table):
    """A net that looks values up in a table, by the grey level of the newest frame."""

    def values(params, states, *args, **kwargs):
        return np.array(params[table])[np.asarray(states)[:, -1, 0, 0]]

    return values


def test_the_next_action_is_the_online_nets_and_its_value_the_target_nets(monkeypatch):
    # two states of three actions: the nets disagree about which is the best
    online, target = {"q": [[1.0, 5.0, 2.0], [7.0, 0.0, 6.0]]}, {"q": [[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]]}
    monkeypatch.setattr(_numpy, "q_values", by_states("q"))
    next_states = np.zeros((2, 4, 1, 1), np.uint8)
    next_states[1] = 1
    rewards, going_on = np.array([0.5, -0.5]), np.zeros(2)
    found = _numpy.td_targets(online, target, rewards, next_states, going_on, 0.9)
    assert found == pytest.approx([0.5 + 0.9 * 20, -0.5 + 0.9 * 40])
    found = _numpy.td_targets(online, target, rewards, next_states, np.array([1.0, 0.0]), 0.9)
    assert found == pytest.approx([0.5, -0.5 + 0.9 * 40])


def biased(values):
    """Weights of a net that gives each state the same values."""
    spec, _ = problem()
    params = {name: np.zeros_like(value) for name, value in spec["params"].items()}
    return params | {"b_value": np.pad(np.float32(values), (0, 15 - len(values)), constant_values=-9)}


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_every_backend_takes_the_next_action_by_one_net_and_its_value_by_the_other(backend, form):
    online, target = biased([1.0, 4.0, 2.0]), biased([8.0, 0.25, 6.0])
    _, [batch, *_] = problem()
    ends = (np.arange(BATCH) % 2).astype(np.float32)
    batch = changed(batch, actions=np.full(BATCH, 2, np.int32), rewards=np.full(BATCH, 0.5, np.float32), ends=ends)
    _, update = learner(backend, form, params=online, target=target, gamma=0.5)
    _, errors = update(batch)
    # neither the best of the target net, 8, nor the online net's own value, 4
    np.testing.assert_allclose(errors, np.where(ends, 2.0 - 0.5, 2.0 - (0.5 + 0.5 * 0.25)), rtol=1e-6)


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_ends_cut_off_all_that_comes_after(backend, form):
    _, [batch, other, *_] = problem()
    found = {}
    for end in (0.0, 1.0):
        for k, next_states in enumerate((batch[3], other[3])):
            _, update = learner(backend, form)
            ends = np.full(BATCH, end, np.float32)
            found[end, k] = update(changed(batch, ends=ends, next_states=next_states))[1]
    np.testing.assert_array_equal(found[1.0, 0], found[1.0, 1])
    assert (np.abs(found[0.0, 0] - found[0.0, 1]) > 1e-4).all()


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_weights_scale_what_an_experience_counts(backend, form):
    _, [batch, *_] = problem()
    ones = np.ones(BATCH, np.float32)
    whole, errors = learner(backend, form)[1](changed(batch, weights=ones))
    halved, same = learner(backend, form)[1](changed(batch, weights=0.5 * ones))
    assert halved == pytest.approx(0.5 * whole, rel=1e-6)
    np.testing.assert_allclose(same, errors, rtol=1e-6)
    each = [learner(backend, form)[1](changed(batch, weights=np.eye(BATCH, dtype=np.float32)[k]))[0] for k in (0, 5)]
    size = np.abs(errors)
    wanted = np.where(size < 1, errors**2 / 2, size - 0.5) / BATCH
    np.testing.assert_allclose(each, wanted[[0, 5]], rtol=1e-5)


def test_weights_scale_gradients():
    _, [batch, *_] = problem()
    none = gradient(changed(batch, weights=np.zeros(BATCH, np.float32)))
    assert not any(each.any() for each in none.values())
    first, rest = np.float32(np.arange(BATCH) < 3), np.float32(np.arange(BATCH) >= 3)
    parts = [gradient(changed(batch, weights=weights), **FREE) for weights in (2 * first, rest, 2 * first + rest)]
    for name, whole in parts[2].items():
        assert largest_difference(parts[0][name] + parts[1][name], whole) < 1e-10


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_far_from_its_target_a_value_is_pulled_as_hard_as_from_1(backend, form):
    _, [batch, *_] = problem()
    losses = []
    for reward in (1000.0, 1001.0):
        _, update = learner(backend, form)
        ends, weights = np.ones(BATCH, np.float32), np.ones(BATCH, np.float32)
        rewards = np.full(BATCH, reward, np.float32)
        losses.append(update(changed(batch, rewards=rewards, ends=ends, weights=weights)))
    assert losses[1][0] - losses[0][0] == pytest.approx(1, abs=1e-3)
    for loss, errors in losses:
        assert loss == pytest.approx(np.mean(np.abs(errors) - 0.5), rel=1e-6)


def test_beyond_1_the_gradient_does_not_grow():
    _, [batch, *_] = problem()
    ones = np.ones(BATCH, np.float32)
    near, far = (gradient(changed(batch, rewards=reward * ones, ends=ones), **FREE) for reward in (100, 1000))
    for name, value in near.items():
        assert largest_difference(far[name], value) < 1e-12


def test_huber_is_half_the_square_up_to_1_and_a_line_beyond():
    params, states = in_float64(biased([0.0])), np.zeros((5, 4, SIDE, SIDE), np.uint8)
    targets = np.array([0.0, 0.5, -0.5, 1.0, -3.0])
    for k, wanted in enumerate((0, 0.125, 0.125, 0.5, 2.5)):
        weights = 5.0 * (np.arange(5) == k)
        loss, errors = _numpy.td_loss(params, states, np.zeros(5, int), targets, weights)
        assert loss == pytest.approx(wanted)
        np.testing.assert_allclose(errors, -targets)


def adam(step, gradient, first, second):
    """The step of Adam (Kingma and Ba 2015, Algorithm 1), without the learning rate."""
    first[:] = 0.9 * first + 0.1 * gradient
    second[:] = 0.999 * second + 0.001 * gradient**2
    return first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)


def by_hand(batches, norm):
    """Weights after some updates, from torch's gradients in float64 and Adam's rule, and the norms of the gradients."""
    spec, _ = problem()
    params, norms = in_float64(spec["params"]), []
    moments = {name: np.zeros((2, *value.shape)) for name, value in params.items()}
    for k, batch in enumerate(batches):
        found = gradient(batch, params=params, **FREE)
        norms.append(np.sqrt(sum((each**2).sum() for each in found.values())))
        scale = min(1, norm / norms[-1])
        params = {
            name: value - spec["learning_rate"] * adam(k + 1, scale * found[name], *moments[name])
            for name, value in params.items()
        }
    return params, norms


@pytest.mark.parametrize(("backend", "form"), FORMS)
@pytest.mark.parametrize("norm", [1e9, 0.05])
def test_the_gradient_is_clipped_to_its_norm_and_adam_keeps_to_its_rule(norm, backend, form):
    spec, batches = problem()
    batches = [batches[0], changed(batches[1], weights=np.full(BATCH, 1e-4, np.float32)), batches[2]]
    wanted, norms = by_hand(batches, norm)
    assert (min(norms) < 0.05 < max(norms)) or norm > 1  # one is clipped and another is not: that shows in Adam's steps
    step, update = learner(backend, form, gradient_norm=norm)
    for batch in batches:
        update(batch)
    assert apart(step.params, wanted, spec["params"]) < 5e-3
    assert apart(step.params, by_hand(batches, 0.05 if norm > 1 else 1e9)[0], spec["params"]) > 0.05


def test_the_clipped_gradient_has_the_norm_and_the_direction():
    _, [batch, *_] = problem()
    free, clipped = gradient(batch, **FREE), gradient(batch, gradient_norm=0.01)
    size = np.sqrt(sum((each**2).sum() for each in free.values()))
    assert size > 0.01
    for name, value in clipped.items():
        np.testing.assert_allclose(value, free[name] * 0.01 / (size + 1e-6), rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("given", PROBLEMS)
def test_the_loss_of_one_batch_falls(given):
    _, [batch, *_] = problem(**given)
    for backend, form in FORMS[:2] if given else FORMS:
        _, update = learner(backend, form, given=given)
        losses = [update(batch)[0] for _ in range(20)]
        assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_torch_and_jax_learn_alike_over_several_updates(backend, form):
    spec, batches = problem()
    exact, exactly = exact_learner()
    step, update = learner(backend, form)
    for k, batch in enumerate(batches):
        (loss, errors), (wanted, wanted_errors) = update(batch), exactly(batch)
        assert loss == pytest.approx(wanted, rel=1e-3)
        assert largest_difference(errors, wanted_errors) < 1e-3
        if k == 1:
            step.sync_target()
            exact.sync_target()
    assert apart(step.params, exact.params, spec["params"]) < 5e-3
    assert all(value.dtype == np.float32 for value in step.params.values())


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_in_bfloat16_the_loss_stays_near(backend):
    _, [batch, *_] = problem()
    (rounded, errors), (exact, wanted) = (learner(backend, form)[1](batch) for form in ("bfloat16", "full"))
    assert rounded == pytest.approx(exact, rel=0.05)
    assert 0 < largest_difference(errors, wanted) < 0.05
    assert (rounded.dtype, errors.dtype) == (np.float32, np.float32)


def test_a_batch_in_parts_is_learned_from_as_the_whole():
    spec, batches = problem()
    (whole, once), (parts, four) = exact_learner(), exact_learner({"accumulate": 4})
    for batch in batches[:3]:
        (loss, errors), (wanted, exact) = four(batch), once(batch)
        assert loss == pytest.approx(wanted, rel=1e-12)
        np.testing.assert_allclose(errors, exact, rtol=1e-10, atol=1e-12)
    for name, value in gradient_of(whole).items():
        assert largest_difference(gradient_of(parts)[name], value) < 1e-6
    assert apart(parts.params, whole.params, spec["params"]) < 1e-6


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_in_float32_too(backend):
    spec, batches = problem()
    (whole, once), (parts, four) = learner(backend), learner(backend, knobs={"accumulate": 4})
    for batch in batches[:2]:
        (loss, errors), (wanted, exact) = four(batch), once(batch)
        assert loss == pytest.approx(wanted, rel=1e-5)
        assert largest_difference(errors, exact) < 1e-5
    assert apart(parts.params, whole.params, spec["params"]) < 5e-3


def test_with_batch_norm_a_batch_in_parts_is_another_one():
    _, [batch, *_] = problem(**NORMED)
    found = [exact_learner(knobs, NORMED)[1](batch) for knobs in (None, {"accumulate": 4})]
    assert largest_difference(found[1][1], found[0][1]) > 1e-3
    grads = [gradient(batch, knobs, NORMED) for knobs in (None, {"accumulate": 4})]
    assert largest_difference(grads[1]["w_conv0"], grads[0]["w_conv0"]) > 1e-2


@pytest.mark.parametrize(("backend", "given"), BOTH)
def test_an_update_leaves_the_target_net_as_it_is_and_a_copy_takes_all_of_the_online_net(backend, given):
    spec, batches = problem(**given)
    step, update = learner(backend, given=given)
    for batch in batches[:2]:
        update(batch)
    state = step.state()
    for name, value in spec["target"].items():
        np.testing.assert_array_equal(state[f"target.{name}"], value)
        assert not np.array_equal(state[f"online.{name}"], spec["params"][name])
    step.sync_target()
    copied = step.state()
    for name in spec["target"]:
        np.testing.assert_array_equal(copied[f"target.{name}"], state[f"online.{name}"])
        np.testing.assert_array_equal(step.params[name], state[f"online.{name}"])
    update(batches[2])  # a copy, not the same arrays
    assert not np.array_equal(step.state()["online.b_value"], state["online.b_value"])
    for name in spec["target"]:
        np.testing.assert_array_equal(step.state()[f"target.{name}"], state[f"online.{name}"])


def test_learning_moves_the_running_statistics_of_the_online_net_once_an_update():
    spec, [batch, *_] = problem(**NORMED)
    step, update = exact_learner(None, NORMED)
    params = in_float64(spec["params"])
    h = _numpy.convolution(batch[0].transpose(0, 2, 3, 1) / 255, params["w_conv0"], 0, 4)
    update(batch)
    assert largest_difference(step.params["m_conv0"], 0.9 * params["m_conv0"] + 0.1 * h.mean(axis=(0, 1, 2))) < 1e-10


@pytest.mark.parametrize(
    ("backend", "form", "given"), [(*form, PLAIN) for form in FORMS] + [(*form, NORMED) for form in FORMS[:2]]
)
def test_from_a_state_or_after_a_reset_the_same_is_learned_bit_for_bit(backend, form, given):
    _, batches = problem(**given)
    step, update = learner(backend, form, given=given)
    start = step.state()
    results = [update(batches[0])]
    step.sync_target()
    state = step.state()
    kept = {name: value.copy() for name, value in state.items()}
    results += [update(batch) for batch in batches[1:3]]
    wanted = step.state()
    for going_on, going_on_with in ((step, update), learner(backend, form, given=given)):
        going_on.load_state(state)
        assert_states_equal(going_on.state(), kept)
        for batch, (loss, errors) in zip(batches[1:3], results[1:]):
            again = going_on_with(batch)
            assert again[0] == loss
            np.testing.assert_array_equal(again[1], errors)
        assert_states_equal(going_on.state(), wanted)
    assert_states_equal(state, kept)
    step.reset()
    assert_states_equal(step.state(), start)
    assert update(batches[0])[0] == results[0][0]
    step.sync_target()
    assert_states_equal(step.state(), kept)


@pytest.mark.parametrize("given", PROBLEMS)
def test_a_state_has_both_nets_the_moments_and_the_step(given):
    spec, batches = problem(**given)
    learned = [name for name in spec["params"] if not is_running(name)]
    wanted = {f"{part}.{name}" for part in ("online", "target") for name in spec["params"]}
    wanted |= {f"{part}.{name}" for part in ("first", "second") for name in learned} | {"step"}
    for backend in ("torch",) if given else ("torch", "jax"):
        step, update = learner(backend, given=given)
        assert step.state()["step"] == 0
        update(batches[0])
        state = step.state()
        assert state.keys() == wanted
        assert state["step"] == 1
        assert all(state[f"second.{name}"].any() for name in learned)
        assert step.params.keys() == spec["params"].keys()


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_a_state_goes_from_one_backend_to_another_and_back(first, second):
    spec, batches = problem()
    here, update_here = learner(*first)
    there, update_there = learner(*second)
    for batch in batches[:2]:
        update_here(batch)
    here.sync_target()
    state = here.state()
    there.load_state(state)
    assert_states_equal(there.state(), state)
    here.load_state(there.state())
    assert_states_equal(here.state(), state)
    for batch in batches[2:]:
        (loss, errors), (wanted, exact) = update_there(batch), update_here(batch)
        assert loss == pytest.approx(wanted, rel=1e-3)
        assert largest_difference(errors, exact) < 1e-3
    assert there.state()["step"] == here.state()["step"] == 4
    assert apart(there.params, here.params, spec["params"]) < 5e-3


@pytest.mark.parametrize(("backend", "form"), FORMS)
def test_a_batch_of_arrays_is_put_where_it_is_learned_from(backend, form):
    _, [batch, *_] = problem()
    made, results = backends.get(backend), []
    for put in (False, True):
        step, _ = learner(backend, form)
        given = step.batch(*batch) if put else tuple(map(made.to_device, batch))
        results.append([made.to_host(each) for each in step(*given)])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][0] == results[1][0]


@pytest.mark.parametrize("form", ["naive", "full"])
def test_an_update_leaves_what_it_is_given_as_it_is(form):
    spec, [batch, *_] = problem()
    params = {name: value.copy() for name, value in spec["params"].items()}
    columns = tuple(column.copy() for column in batch)
    step, _ = learner("torch", form)
    step(*step.batch(*columns))
    for column, kept in zip(columns, batch):
        np.testing.assert_array_equal(column, kept)
    for name, value in params.items():
        np.testing.assert_array_equal(spec["params"][name], value)


def test_batch_norm_is_refused_by_jax():
    with pytest.raises(ValueError, match=r"^params: got batch norm on jax, wanted torch, or a net without it$"):
        learner("jax", given=NORMED)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_float16_is_refused_but_for_torch_on_cuda(backend):
    said = f"precision: got 'float16' on {backend}, wanted torch on CUDA, or 'bfloat16'"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        learner(backend, "float16")


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_batch_that_parts_do_not_divide_is_refused(backend):
    spec, [batch, *_] = problem(batch=6)
    with pytest.raises(ValueError, match=r"^batch: got 6, wanted a multiple of accumulate, 4$"):
        build("train_step", backend, spec, batch, accumulate=4)


WRONG = [
    ({"states": np.zeros((BATCH, 3, SIDE, SIDE), np.uint8)}, "states: got uint8[8, 3, 36, 36], wanted u8[B, 4, S, S]"),
    ({"states": np.zeros((BATCH, 4, SIDE, 40), np.uint8)}, "states: got uint8[8, 4, 36, 40], wanted u8[B, 4, S, S]"),
    ({"states": np.zeros((BATCH, 4, 40, 40), np.uint8)}, "states: got uint8[8, 4, 40, 40], wanted u8[B, 4, S, S]"),
    ({"states": np.zeros((BATCH, 4, SIDE, SIDE), np.float32)}, "states: got float32[8, 4, 36, 36], wanted u8["),
    ({"next_states": np.zeros((7, 4, SIDE, SIDE), np.uint8)}, "next_states: got uint8[7, 4, 36, 36], wanted u8[B"),
    ({"actions": np.zeros(BATCH, np.float32)}, "actions: got float32[8], wanted i32[B]"),
    ({"rewards": np.zeros((BATCH, 1), np.float32)}, "rewards: got float32[8, 1], wanted f32[B]"),
    ({"rewards": np.zeros(BATCH, np.int32)}, "rewards: got int32[8], wanted f32[B]"),
    ({"ends": np.zeros(BATCH, bool)}, "ends: got bool[8], wanted f32[B]"),
    ({"weights": np.zeros(7, np.float32)}, "weights: got float32[7], wanted f32[B]"),
]


@pytest.mark.parametrize(("columns", "said"), WRONG, ids=[said for _, said in WRONG])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_batch_of_other_shapes_or_types_is_refused(backend, columns, said):
    spec, [batch, *_] = problem()
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        build("train_step", backend, spec, changed(batch, **columns))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"side": 35}, "side: got 35, wanted 36 or more"),
        ({"side": 84}, "params: w_hidden: got float32[64, 512], wanted f32[3136, 512]"),
    ],
)
def test_another_side_than_that_of_the_net_is_refused(change, said):
    spec, [batch, *_] = problem()
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        build("train_step", "torch", spec | change, batch)


def test_a_target_net_of_another_kind_is_refused():
    (spec, [batch, *_]), (normed, _) = problem(), problem(**NORMED)
    with pytest.raises(ValueError, match=r"^target: g_conv0: got \[32\], wanted None, as in params$"):
        build("train_step", "torch", spec | {"target": normed["target"]}, batch)
