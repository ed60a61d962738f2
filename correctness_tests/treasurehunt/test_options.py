"""Optimisation options take effect. Options that change a result are tested along with that result."""

import numpy as np
import pytest

from correctness_tests.treasurehunt import hunts
from correctness_tests.treasurehunt.problem import AGENTS, acting, build, called, problem
from rl_impls import backends
from rl_impls.treasurehunt.problem import HIDDEN, LOOKED_UP, STATE
from rl_impls.treasurehunt.vector_env import ArrayWorlds, CellWorlds


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
