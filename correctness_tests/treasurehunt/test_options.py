"""Optimisation options take effect. Options that change a result are tested along with that result."""

import numpy as np
import pytest

from correctness_tests.treasurehunt import hunts
from correctness_tests.treasurehunt.problem import AGENTS, acting, build, called, problem, tensors
from rl_impls import backends
from rl_impls.treasurehunt.problem import HIDDEN, LOOKED_UP, STATE
from rl_impls.treasurehunt.vector_env import ArrayWorlds, CellWorlds

pytestmark = pytest.mark.usefixtures("one_thread")


def example_of(op):
    """Return the configuration of small nets for three agents, and the arguments [N, ...] of an op."""
    config, [batch] = problem(0)
    states, *_, taus, noise = batch
    act = acting(np.random.default_rng(1), config["params"])
    return config, {"forward": (states, taus[:, 0], noise[:, 0]), "act": act, "train_step": batch}[op]


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("op", ["forward", "act", "train_step"])
def test_one_by_one_nets_take_an_array_per_agent_and_batched_nets_one_array(op, backend):
    implementation, (config, example) = backends.get(backend), example_of(op)
    args = tuple(map(implementation.to_device, example))
    one_by_one = build(op, backend, config, example, "one_by_one")
    expected = implementation.to_host(one_by_one(*args))
    one_by_one.reset()
    packed = one_by_one.pack_args(*args)
    for parts, whole in zip(packed, args, strict=True):
        assert isinstance(parts, tuple)
        assert len(parts) == AGENTS
        np.testing.assert_array_equal([implementation.to_host(part) for part in parts], implementation.to_host(whole))
    np.testing.assert_array_equal(implementation.to_host(one_by_one(*packed)), expected)
    batched = build(op, backend, config, example, "full")
    packed = getattr(batched, "pack_args", lambda *args: args)(*args)
    assert all(array is whole for array, whole in zip(packed, args, strict=True))


@pytest.mark.parametrize(("inference", "expected"), [("grad", (True, False)), ("inference_mode", (False, True))])
def test_inference_decides_whether_autograd_records(inference, expected):
    config, example = example_of("forward")
    out = build("forward", "torch", config, example, inference=inference)(*tensors(example))
    assert (out.requires_grad, out.is_inference()) == expected


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_bfloat16_rounds_the_quantiles(backend):
    config, example = example_of("forward")
    exact, rounded = (
        called(build("forward", backend, config, example, precision=precision), backend, *example)
        for precision in ("float32", "bfloat16")
    )
    assert rounded.dtype == np.float32
    assert 1e-4 < np.abs(rounded - exact).max() < 0.1


@pytest.mark.parametrize(("optimizer", "fused"), [("loop", False), ("fused", True)])
def test_optimizer_decides_whether_adam_is_fused(optimizer, fused):
    step = build("train_step", "torch", *example_of("train_step"), optimizer=optimizer)
    assert bool(step.optimizer.defaults["fused"]) == fused


@pytest.mark.parametrize(("zero_grad", "kept"), [("fill", True), ("none", False)])
def test_zero_grad_decides_whether_gradients_stay_where_they_are(zero_grad, kept):
    config, batch = example_of("train_step")
    step = build("train_step", "torch", config, batch, zero_grad=zero_grad)
    step(*tensors(batch))
    before = [parameter.grad for parameter in step.parameters]
    step(*tensors(batch))
    assert {parameter.grad is gradient for parameter, gradient in zip(step.parameters, before)} == {kept}


def test_cosines_by_doubling_round_differently():
    config, example = example_of("forward")
    direct, doubling = (
        called(build("forward", "jax", config, example, cosines=cosines), "jax", *example)
        for cosines in ("direct", "doubling")
    )
    assert (direct != doubling).any()


@pytest.mark.parametrize(("world", "kind"), [("cells", CellWorlds), ("arrays", ArrayWorlds)])
def test_world_decides_between_objects_and_arrays(world, kind):
    config, [epoch] = hunts.hunt(0, epochs=1)
    assert isinstance(hunts.build("epoch", "torch", config, epoch, world=world).worlds, kind)


def test_looking_states_up_costs_fewer_flops_than_multiplying():
    config, [(_, *turns, _, _, _)] = hunts.hunt(0, epochs=1)
    flops = {}
    for states in ("product", "lookup"):
        loop = hunts.build("turn", "jax", config, turns, "compiled", states=states)
        flops[states] = loop.run.lower(loop.carry, *turns).cost_analysis()["flops"]
    assert flops["lookup"] < flops["product"]


def test_looking_onehot_frames_up_takes_the_stated_flops():
    import jax

    from rl_impls.treasurehunt._jax import onehot_matmul

    state, weights = np.zeros((1, STATE), np.float32), np.zeros((STATE, HIDDEN), np.float32)
    flops = jax.jit(onehot_matmul).lower(state, weights).cost_analysis()["flops"]
    stated = 2 * STATE * HIDDEN * LOOKED_UP["state"]
    assert stated <= flops <= 1.1 * stated
