"""With ``target_frequency=0`` there is no target net: updates bootstrap from the online net."""

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.snake.problem import differences, problem, trainer
from rl_impls.common.parts import part_of

LEARNERS = quick(
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


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_without_a_target_net_updates_are_those_of_a_target_copied_before_each(backend, form, given):
    config, batches = given
    (wanted, state), (frozen, _) = trained(backend, form, config, batches, True, False)
    [(losses, got)] = trained(backend, form, config | {"target_frequency": 0}, batches, False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    for part in ("online", "first", "second"):
        assert differences(part_of(got, part), part_of(state, part)).max() <= 1e-7
    assert np.abs(losses - frozen).min() > 0.1 * frozen.max()
