"""The nets against plain loops, and the lookup that replaces the first layer's matrix product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from correctness_tests.reference import in_float64
from correctness_tests.strategies import SEEDS
from correctness_tests.treasurehunt.literal import literal_quantiles
from correctness_tests.treasurehunt.problem import learner, transitions
from rl_impls.treasurehunt import _numpy
from rl_impls.treasurehunt.problem import FRAMES, HIDDEN, KINDS, LOOKED_UP, STATE, VIEW

pytestmark = pytest.mark.usefixtures("one_thread")


@given(seed=SEEDS)
@settings(max_examples=5)
def test_quantiles_equal_plain_loops(seed):
    rng = np.random.default_rng(seed)
    params = in_float64(learner(rng, 2)["params"])
    states, *_, taus, noise = in_float64(transitions(rng, params, batch=2, quantiles=3))
    batched = _numpy.quantiles(params, states, taus[:, 0], noise[:, 0])
    for n in range(2):
        one = {name: value[n] for name, value in params.items()}, states[n], taus[n, 0], noise[n, 0]
        z, values = literal_quantiles(*one)
        np.testing.assert_allclose(batched[n], z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(_numpy.quantiles(*one), z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(batched[n].mean(-1), values, rtol=0, atol=1e-12)


def test_looking_up_onehot_frames_equals_their_product_for_a_sixth_of_its_flops():
    import jax

    from rl_impls.treasurehunt._jax import onehot_matmul

    rng = np.random.default_rng(0)
    lookup = jax.jit(onehot_matmul)
    weights = rng.normal(size=(STATE, HIDDEN)).astype(np.float32)
    for turns in (0, 2, FRAMES):  # frames since the start of the episode; earlier ones are zeros
        kinds = rng.integers(KINDS, size=(FRAMES, 1, VIEW))
        frames = (kinds == np.arange(KINDS)[:, None]).astype(np.float32)
        frames[: FRAMES - turns] = 0
        state = frames.reshape(1, STATE)
        np.testing.assert_allclose(lookup(state, weights), state.astype(np.float64) @ weights, rtol=0, atol=1e-4)
    flops, stated = lookup.lower(state, weights).cost_analysis()["flops"], 2 * STATE * HIDDEN * LOOKED_UP["state"]
    assert stated <= flops <= 1.1 * stated
