"""The nets, their noise and their heads: against plain loops and each other."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correctness_tests import strategies
from correctness_tests.reference import in_float64, largest_difference
from correctness_tests.strategies import SEEDS
from correctness_tests.treasurehunt.literal import literal_quantiles
from correctness_tests.treasurehunt.problem import (
    AGENTS,
    LEARNERS,
    agent,
    build,
    called,
    learner,
    numbers,
    problem,
    tensors,
    transitions,
    with_agent,
)
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.knobs import CHOICES
from rl_impls.treasurehunt.memory import FRAMES
from rl_impls.treasurehunt.spec import KINDS

pytestmark = pytest.mark.usefixtures("one_thread")


@given(seed=SEEDS)
@settings(max_examples=5)
def test_quantiles_of_the_reference_equal_plain_loops(seed):
    rng = np.random.default_rng(seed)
    params = in_float64(learner(rng, 2)["params"])
    states, *_, taus, noise = in_float64(transitions(rng, params, batch=2, quantiles=3))
    got = _numpy.quantiles(params, states, taus[:, 0], noise[:, 0])
    for n in range(2):
        one = {name: value[n] for name, value in params.items()}, states[n], taus[n, 0], noise[n, 0]
        z, values = literal_quantiles(*one)
        np.testing.assert_allclose(got[n], z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(_numpy.quantiles(*one), z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got[n].mean(-1), values, rtol=0, atol=1e-12)


@given(seed=SEEDS)
@settings(max_examples=10)
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
@settings(max_examples=10)
def test_quantiles_of_jax_equal_the_reference(cosines, seed):
    everything, [(states, *_, taus, noise)] = problem(seed)
    for args in (everything["params"], states, taus[:, 0], noise[:, 0]), (everything["params"], states, taus[:, 0]):
        wanted = _numpy.quantiles(*in_float64(args))
        assert largest_difference(jax_quantiles(cosines, True)(*args), wanted) < 2e-5
        assert largest_difference(jax_quantiles(cosines, False)(*agent(args, 1)), wanted[1]) < 2e-5


@given(cells=st.sampled_from([1, 9, 25]), seen=st.integers(0, FRAMES), count=st.integers(1, 3), seed=SEEDS)
@settings(max_examples=40)
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
    assert largest_difference(np.asarray(_jax.onehot_matmul(states[0], weights[0])), states[0] @ weights[0]) < 1e-5


@functools.cache
def mapped_lookup():
    import jax

    from rl_impls.treasurehunt import _jax

    return jax.jit(jax.vmap(_jax.onehot_matmul))


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
@settings(max_examples=30)
def test_cosines_are_those_of_each_multiple(taus):
    from rl_impls.treasurehunt import _jax, _torch

    wanted = np.array([[math.cos(math.pi * i * tau) for i in range(1, 65)] for tau in taus.tolist()])
    for function, most in ((_jax.cosines_direct, 2.5e-5), (_jax.cosines_by_doubling, 2e-5)):
        np.testing.assert_allclose(np.asarray(jitted(function)(taus)).T, wanted, rtol=0, atol=most)
    np.testing.assert_allclose(_torch.cosines(tensors(taus)), wanted, rtol=0, atol=2.5e-5)


def test_looking_up_a_state_takes_a_sixth_of_the_product():
    import jax
    import numpy as np

    from rl_impls.treasurehunt._jax import onehot_matmul
    from rl_impls.treasurehunt.problem import FORWARD, HIDDEN, LOOKED_UP, STATE

    state, weights = np.zeros((1, STATE), np.float32), np.zeros((STATE, HIDDEN), np.float32)
    counted = jax.jit(onehot_matmul).lower(state, weights).cost_analysis()["flops"]
    stated = 2 * STATE * HIDDEN * LOOKED_UP["state"]
    assert FORWARD["state"] == 1
    assert stated <= counted <= 1.1 * stated
