"""With ``target_frequency=0`` there is no target net: updates bootstrap from the online net."""

from __future__ import annotations

import numpy as np
import pytest

from correctness_tests.quick import quick
from correctness_tests.reference import in_float64
from correctness_tests.snake.problem import differences, exact_trainer, net_of, problem, trainer
from correctness_tests.waiting import limit
from rl_impls.snake import _numpy

LEARNERS = quick(
    [("torch", "naive"), ("torch", "full"), ("jax", "full")],
    [("torch", "naive"), ("torch", "full"), ("torch-compile", "full"), ("torch", "bfloat16"), ("torch", "ddp"),
     ("jax", "full"), ("jax", "bfloat16")],
)  # fmt: skip
UPDATES = 6

limited = limit("the second process")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def given():
    """Return a configuration with a target net that values each move 2 higher, and batches."""
    config, batches = problem(3, batches=UPDATES)
    return config | {"target": config["params"] | {"b2": config["params"]["b2"] + 2}}, batches


def trained(backend, form, config, batches, sync=False):
    """Return the losses of some updates, and the final state; with `sync`, copy the target net before each update."""
    step, update = trainer(backend, config, batches[0], form)
    losses = []
    try:
        for batch in batches:
            if sync:
                step.sync_target()
            losses.append(update(batch))
        return np.array(losses), step.state()
    finally:
        step.close()


@pytest.mark.parametrize(("backend", "form"), LEARNERS)
def test_without_a_target_net_updates_are_those_of_a_target_copied_before_each(backend, form, given):
    config, batches = given
    wanted, state = trained(backend, form, config, batches, sync=True)
    losses, got = trained(backend, form, config | {"target_frequency": 0}, batches)
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)
    for part in ("online", "first", "second"):
        assert differences(net_of(got, part), net_of(state, part)).max() <= 1e-7
    frozen, _ = trained(backend, form, config, batches)
    assert np.abs(losses - frozen).min() > 0.1 * frozen.max()


def test_no_gradient_flows_through_the_td_target(given):
    """The first moment after one update is a tenth of the gradient of the NumPy loss with its TD target held fixed."""
    config, batches = given
    config = config | {"target_frequency": 0, "max_grad_norm": 1e9}
    step, update = exact_trainer(config, batches[0])
    update(batches[0])
    first, params, batch = net_of(step.state(), "first"), in_float64(config["params"]), in_float64(batches[0])

    def loss(change):
        return _numpy.loss(params | {"b2": params["b2"] + change}, params, batch, config["gamma"])

    for k, change in enumerate(1e-6 * np.eye(4)):
        slope = (loss(change) - loss(-change)) / 2e-6
        assert 0.1 * slope == pytest.approx(first["b2"][k], rel=1e-6)
