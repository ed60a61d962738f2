"""The nets, their loss and its gradient: against plain loops, finite differences and float64 torch."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests import strategies
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.treasurehunt.problem import (
    AGENTS,
    BATCH,
    QUANTILES,
    agent,
    build,
    called,
    learner,
    numbers,
    problem,
    tensors,
    torch_gradient,
    trained,
    transitions,
    with_agent,
)
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.agent_by_agent import of_agent
from rl_impls.treasurehunt.knobs import CHOICES, FORMS, Knobs
from rl_impls.treasurehunt.memory import FRAMES
from rl_impls.treasurehunt.settings import ACTIONS, KINDS

SEEDS = st.integers(0, 2**32 - 1)
LEARNERS = [(backend, form) for backend in ("torch", "jax") for form in ("naive", "one_by_one", "full")]

pytestmark = pytest.mark.usefixtures("one_thread")


def literal_quantiles(params, states, taus, noise):
    """One agent's return of each action at each quantile, one at a time: and what a state alone is worth."""
    layers, start = {}, 0
    for layer in ("hidden", "heads"):
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        eps = [math.copysign(math.sqrt(abs(x)), x) for x in noise[start : start + sum(w.shape)]]
        eps_in, eps_out = eps[: len(w)], eps[len(w) :]
        layers[layer] = w + params[f"sw_{layer}"] * np.outer(eps_in, eps_out), b + params[f"sb_{layer}"] * eps_out
        start += sum(w.shape)
    assert start == len(noise)

    def linear(h, w, b):
        return np.array([sum(h[i] * w[i, j] for i in range(len(h))) + b[j] for j in range(len(b))])

    z, values = np.zeros((*taus.shape, ACTIONS)), np.zeros(taus.shape)
    for b, q in itertools.product(*map(range, taus.shape)):
        embedded = np.maximum(linear(states[b], params["w_state"], params["b_state"]), 0)
        cosines = [math.cos(math.pi * i * taus[b, q]) for i in range(1, 65)]
        h = np.maximum(linear(cosines, params["w_cos"], params["b_cos"]), 0) * embedded
        value, *advantages = linear(np.maximum(linear(h, *layers["hidden"]), 0), *layers["heads"])
        values[b, q] = value
        z[b, q] = [value + advantage - sum(advantages) / ACTIONS for advantage in advantages]
    return z, values


def literal_huber_loss(online, targets, taus):
    """One agent's loss from the returns it expects, those it should, and its quantiles."""
    total = 0.0
    for b in range(len(online)):
        for i in range(online.shape[1]):
            for j in range(targets.shape[1]):
                delta = targets[b, j] - online[b, i]
                huber = delta**2 / 2 if abs(delta) <= 1 else abs(delta) - 0.5
                weight = 1 - taus[b, i] if delta < 0 else taus[b, i]
                total += weight * huber / targets.shape[1] / len(online)
    return total


def literal_loss(params, target, states, actions, returns, next_states, discounts, taus, noise):
    """One agent's loss from the literal nets."""
    each = range(len(actions))
    online, _ = literal_quantiles(params, states, taus[0], noise[0])
    choosing, _ = literal_quantiles(params, next_states, taus[1], noise[0])
    following, _ = literal_quantiles(target, next_states, taus[2], noise[1])
    greedy = choosing.mean(axis=1).argmax(axis=1)
    targets = np.array([returns[b] + discounts[b] * following[b, :, greedy[b]] for b in each])
    return literal_huber_loss(np.array([online[b, :, actions[b]] for b in each]), targets, taus[0])


@functools.cache
def huber_op(backend, batch, count, targets):
    example = [np.zeros((batch, n), np.float32) for n in (count, targets, count)]
    return build("quantile_huber", backend, {}, example)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(("batch", "count", "targets"), [(1, 1, 1), (6, 5, 5), (4, 3, 7)])
@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_quantile_huber_loss_equals_a_double_loop(backend, batch, count, targets, seed):
    rng = np.random.default_rng(seed)
    # eighths: some errors are exactly 0, 1 or -1
    example = [(rng.integers(-12, 13, (batch, n)) / 8).astype(np.float32) for n in (count, targets)]
    example.append(rng.random((batch, count), np.float32))
    delta = example[1][:, None] - example[0][:, :, None]
    if batch > 1:
        assert len(np.unique(np.digitize(delta, [-1, 0, 1]))) == 4
    wanted = literal_huber_loss(*in_float64(example))
    assert abs(called(huber_op(backend, batch, count, targets), backend, *example) - wanted) <= 1e-6 * wanted


@pytest.mark.parametrize("delta", [0, 0.5, 1, 1.5, 30])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_a_quantile_counts_errors_above_it_by_tau_and_those_below_by_the_rest(backend, delta, sign):
    example = tuple(np.full((1, 1), x, np.float32) for x in (2, 2 + sign * delta, 0.2))
    huber = delta**2 / 2 if delta <= 1 else delta - 0.5
    got = called(huber_op(backend, 1, 1, 1), backend, *example)
    assert abs(got - {-1: 0.8, 1: 0.2}[sign] * huber) < 1e-6 * max(1, delta)


@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=5)
def test_quantiles_of_the_reference_equal_plain_loops(seed):
    rng = np.random.default_rng(seed)
    params = in_float64(learner(rng, 2)["params"])
    states, *_, taus, noise = in_float64(transitions(rng, params, batch=2, quantiles=3))
    got = _numpy.quantiles(params, states, taus[:, 0], noise[:, 0])
    for n in range(2):
        one = of_agent(params, n), states[n], taus[n, 0], noise[n, 0]
        z, values = literal_quantiles(*one)
        np.testing.assert_allclose(got[n], z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(_numpy.quantiles(*one), z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got[n].mean(-1), values, rtol=0, atol=1e-12)


@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_quantiles_of_torch_equal_the_reference(seed):
    from rl_impls.treasurehunt import _torch

    everything, [(states, *_, taus, noise)] = in_float64(problem(seed))
    for args in (everything["params"], states, taus[:, 0], noise[:, 0]), (everything["params"], states, taus[:, 0]):
        wanted = _numpy.quantiles(*args)
        np.testing.assert_allclose(_torch.quantiles(*tensors(args)), wanted, rtol=0, atol=1e-12)
        for n in range(AGENTS):
            np.testing.assert_allclose(_torch.quantiles(*tensors(agent(args, n))), wanted[n], rtol=0, atol=1e-12)


@functools.cache
def jax_quantiles(cosines, mapped):
    import jax

    from rl_impls.treasurehunt import _jax

    net = functools.partial(_jax.quantiles, cosines=_jax.COSINES_OF[cosines])
    return jax.jit(jax.vmap(net) if mapped else net)


@pytest.mark.parametrize("cosines", CHOICES["cosines"])
@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_quantiles_of_jax_equal_the_reference(cosines, seed):
    everything, [(states, *_, taus, noise)] = problem(seed)
    for args in (everything["params"], states, taus[:, 0], noise[:, 0]), (everything["params"], states, taus[:, 0]):
        wanted = _numpy.quantiles(*in_float64(args))
        assert largest_difference(jax_quantiles(cosines, True)(*args), wanted) < 2e-5
        assert largest_difference(jax_quantiles(cosines, False)(*agent(args, 1)), wanted[1]) < 2e-5


@given(cells=st.sampled_from([1, 9, 25]), seen=st.integers(0, FRAMES), count=st.integers(1, 3), seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=40)
def test_weights_looked_up_are_the_product_with_onehot_frames(cells, seen, count, seed):
    from rl_impls.treasurehunt import _jax

    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=(AGENTS, count, FRAMES, 1, cells))
    frames = (kinds == np.arange(KINDS)[:, None]).astype(np.float32)
    frames[:, :, : FRAMES - seen] = 0  # as after a reset
    states = frames.reshape(AGENTS, count, -1)
    weights = rng.normal(size=(AGENTS, states.shape[-1], 7)).astype(np.float32)
    got = np.asarray(mapped_lookup()(states, weights))
    assert got.shape == (AGENTS, count, 7)
    assert largest_difference(got, states.astype(np.float64) @ weights) < 1e-5
    assert largest_difference(np.asarray(_jax.looked_up(states[0], weights[0])), states[0] @ weights[0]) < 1e-5


@functools.cache
def mapped_lookup():
    import jax

    from rl_impls.treasurehunt import _jax

    return jax.jit(jax.vmap(_jax.looked_up))


@pytest.mark.parametrize(("backend", "form"), [("numpy", "full"), *LEARNERS])
def test_forward_equals_the_reference(backend, form):
    everything, [(states, *_, taus, noise)] = problem(1)
    example = states, taus[:, 0], noise[:, 0]
    net = build("forward", backend, everything, example, form)
    got = called(net, backend, *example)
    assert got.dtype == np.float32
    assert largest_difference(got, _numpy.quantiles(*in_float64((everything["params"], *example)))) < 2e-5
    other = [with_agent(x, 1, y) for x, y in zip(example, (states * 2, 1 - example[1], -example[2]))]
    changed = called(net, backend, *other)
    np.testing.assert_array_equal(changed[[0, 2]], got[[0, 2]])
    assert np.abs(changed[1] - got[1]).max() > 0.1


def quantiles_of(backend):
    """The nets of all agents, from and to NumPy."""
    if backend == "numpy":
        return _numpy.quantiles
    if backend == "jax":
        return lambda *args: np.asarray(jax_quantiles("direct", True)(*args))
    from rl_impls.treasurehunt import _torch

    return lambda *args: _torch.quantiles(*tensors(args)).numpy()


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_noise_of_zero_and_no_noise_leave_the_means(backend):
    everything, [(states, *_, taus, noise)] = problem(2)
    net, params = quantiles_of(backend), everything["params"]
    quiet = {name: np.zeros_like(value) if name.startswith("s") else value for name, value in params.items()}
    wanted = net(params, states, taus[:, 0])
    for weights, drawn in ((params, 0 * noise), (quiet, noise)):
        np.testing.assert_array_equal(net(weights, states, taus[:, 0], drawn[:, 0]), wanted)
    assert np.abs(net(params, states, taus[:, 0], noise[:, 0]) - wanted).max() > 0.1


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_noise_of_a_layer_has_rank_one_times_its_spread(backend):
    import importlib

    noisy = importlib.import_module(f"rl_impls.treasurehunt._{backend}").noisy
    everything, [(*_, drawn)] = problem(3)
    params, noise = agent((everything["params"], drawn[:, 0]), 1)
    layers = numbers(noisy(*(tensors((params, noise)) if backend == "torch" else (params, noise))))
    eps = np.sign(noise) * np.abs(noise) ** 0.5
    hidden, heads = params["b_hidden"].size, params["b_heads"].size
    parts = np.split(eps, np.cumsum([hidden, hidden, hidden]))
    assert [part.size for part in parts] == [hidden, hidden, hidden, heads]
    for layer, eps_in, eps_out in (("hidden", *parts[:2]), ("heads", *parts[2:])):
        w, b = (layers[layer][k] - params[f"{kind}_{layer}"] for k, kind in enumerate("wb"))
        np.testing.assert_allclose(w / params[f"sw_{layer}"], np.outer(eps_in, eps_out), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(b / params[f"sb_{layer}"], eps_out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_heads_are_dueling(backend):
    everything, [(states, *_, taus, noise)] = problem(4)
    net, rest = quantiles_of(backend), (states, taus[:, 0], noise[:, 0])
    params = {name: value.copy() for name, value in everything["params"].items()}
    z = net(params, *rest)
    params["b_heads"][:, 1:] += 3  # the same for each action
    np.testing.assert_allclose(net(params, *rest), z, rtol=0, atol=1e-5)
    params["w_heads"][..., 1:] *= -2  # another advantage
    advantage = net(params, *rest)
    assert np.abs(advantage - z).max() > 0.1
    np.testing.assert_allclose(advantage.mean(-1), z.mean(-1), rtol=0, atol=1e-5)
    params["b_heads"][:, 0] += 3
    np.testing.assert_allclose(net(params, *rest), advantage + 3, rtol=0, atol=1e-5)


@functools.cache
def jitted(function):
    import jax

    return jax.jit(function)


@given(taus=strategies.unit(40))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_cosines_are_those_of_each_multiple(taus):
    from rl_impls.treasurehunt import _jax, _torch

    wanted = np.array([[math.cos(math.pi * i * tau) for i in range(1, 65)] for tau in taus.tolist()])
    for function, most in ((_jax.cosines_direct, 2.5e-5), (_jax.cosines_by_doubling, 2e-5)):
        np.testing.assert_allclose(np.asarray(jitted(function)(taus)).T, wanted, rtol=0, atol=most)
    np.testing.assert_allclose(_torch.cosines(tensors(taus)), wanted, rtol=0, atol=2.5e-5)


@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=3)
def test_loss_of_the_reference_equals_plain_loops(seed):
    everything, [batch] = in_float64(problem(seed, agents=2))
    args = everything["params"], everything["target"], *batch
    wanted = [literal_loss(*agent(args, n)) for n in range(2)]
    np.testing.assert_allclose(_numpy.loss(*args), wanted, rtol=1e-12)
    np.testing.assert_allclose([_numpy.loss(*agent(args, n)) for n in range(2)], wanted, rtol=1e-12)


@given(seed=SEEDS)
@settings(deadline=None, derandomize=True, max_examples=10)
def test_loss_of_torch_equals_the_reference(seed):
    everything, [batch] = in_float64(problem(seed))
    args = everything["params"], everything["target"], *batch
    wanted = _numpy.loss(*args)
    np.testing.assert_allclose(torch_gradient(*args[:2], batch)[0], wanted, rtol=1e-12)
    for n in range(AGENTS):
        params, target, *own = agent(args, n)
        np.testing.assert_allclose(torch_gradient(params, target, own)[0], wanted[n], rtol=1e-12)


def one_problem(seed):
    """Weights, target weights and a batch of one agent in float64, whose errors lie on both sides of the corner."""
    everything, [batch] = in_float64(problem(seed, agents=1))
    params, target, *batch = agent((everything["params"], everything["target"], *batch), 0)
    online = _numpy.take_action(_numpy.quantiles(params, batch[0], batch[5][0], batch[6][0]), batch[1])
    delta = _numpy.targets_of(params, target, *batch[2:])[:, None] - online[:, :, None]
    assert np.bincount(np.digitize(delta.ravel(), [-1, 0, 1]), minlength=4).min() >= 3
    return params, target, batch


def slope(function, params, name, index, step=1e-6):
    """The central difference of a function of the weights in one of them."""
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
    name, index = "b_heads", 0  # the target net does move the loss, but is not moved by it
    assert abs(slope(lambda target: _numpy.loss(params, target, *batch), target, name, index)) > 0.01 * scale


@pytest.mark.parametrize(("cosines", "nets"), [("direct", "one_by_one"), ("doubling", "batched")])
def test_jax_gradient_in_float64_equals_torchs_and_passes_no_target(cosines, nets, monkeypatch):
    import jax
    import jax.numpy as jnp

    from rl_impls.treasurehunt import _jax

    everything, [batch] = in_float64(problem(5))
    args = everything["params"], everything["target"], *batch
    args = args if nets == "batched" else agent(args, 2)
    wanted_loss, wanted = torch_gradient(*args[:2], args[2:])
    monkeypatch.setitem(_jax.DTYPES, "float32", jnp.float64)
    with jax.enable_x64(True):
        function = jax.value_and_grad(_jax.make_loss(Knobs(cosines=cosines, nets=nets)), argnums=(0, 1))
        loss, (gradient, of_target) = jax.jit(jax.vmap(function) if nets == "batched" else function)(*args)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-10)
    scale = max(np.abs(value).max() for value in wanted.values())
    for name in wanted:
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=0, atol=1e-10 * scale, err_msg=name)
        assert np.abs(of_target[name]).max() == 0


def flat_nets(heads):
    """Nets that return the same everywhere: Z of each action is ``heads``, whatever the state, quantile or noise."""
    params = {name: np.zeros_like(value) for name, value in problem(0)[0]["params"].items()}
    params["b_heads"][:] = [np.mean(heads), *heads]
    return params


@pytest.mark.parametrize(
    ("backend", "form"), [("numpy", "full"), ("torch", "naive"), ("torch", "full"), ("jax", "full")]
)
def test_online_net_chooses_and_target_net_values(backend, form):
    everything, [batch] = problem(6)
    online, target = [0.0, 0.25, 4.0, 0.5], [3.0, 0.25, -1.0, 0.5]
    everything |= {"params": flat_nets(online), "target": flat_nets(target)}
    states, _, _, next_states, _, taus, noise = batch
    actions, returns = np.full((AGENTS, BATCH), 1, np.int32), np.full((AGENTS, BATCH), 2, np.float32)
    batch = states, actions, returns, next_states, np.full((AGENTS, BATCH), 0.5, np.float32), taus, noise
    if backend == "numpy":
        targets = _numpy.targets_of(everything["params"], everything["target"], *batch[2:])
        np.testing.assert_array_equal(targets, np.full((AGENTS, BATCH, QUANTILES), 2 + 0.5 * -1))
        got = _numpy.loss(everything["params"], everything["target"], *batch)
    else:
        [got], _ = trained(backend, FORMS[form], everything, [batch])

    def loss_of(following):
        ones = np.ones((BATCH, QUANTILES))
        return [literal_huber_loss(0.25 * ones, (2 + 0.5 * following) * ones, taus[n, 0]) for n in range(AGENTS)]

    np.testing.assert_allclose(got, loss_of(target[2]), rtol=1e-5)
    for wrong in (target[0], online[2], online[0]):
        assert np.abs(np.divide(loss_of(wrong), got) - 1).min() > 0.1


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_without_discount_the_returns_are_the_targets(backend, form):
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
