"""The nets against plain loops, and the lookup that replaces the first layer's matrix product."""

import numpy as np
import pytest

from rl_impls.treasurehunt.problem import FRAMES, HIDDEN, KINDS, LOOKED_UP, STATE, VIEW

pytestmark = pytest.mark.usefixtures("one_thread")


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
