"""DQN options: each gives bit-identical results, close results, or a known difference."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.snake.problem import differences, problem, trainer
from correctness_tests.updates import assert_same
from rl_impls import backends
from rl_impls.snake.options import FORMS, Options
from rl_impls.snake.problem import boards, transitions

SAME = [
    ("memory", "arrays"),
    ("memory", "ring"),
    ("batches", "stacked"),
    ("tensors", "direct"),
    ("zero_grad", "none"),
    ("relu", "inplace"),
    ("inference", "no_grad"),
    ("inference", "inference_mode"),
]
UPDATES = 3


def run_ops(backend, options):
    """Return losses, weights and actions with these options, on the same batches and boards for all options."""
    implementation = backends.get(backend)
    config, batches = problem(7, batches=UPDATES)
    rng = np.random.default_rng(8)
    stored, obs, explore = transitions(rng, 100), boards(rng, 64), rng.random(64) < 0.1
    acting = obs, explore, rng.integers(0, 4, 64).astype(np.int32)
    rows = rng.choice(100, 32, replace=False)

    def op(name, config, example):
        return implementation.build("snake", name, config, tuple(map(implementation.to_device, example)), options)

    train = op("train_step", config, batches[0])
    losses = [float(implementation.to_host(train(*map(implementation.to_device, batch)))) for batch in batches]
    actions = op("act", config, acting)(*acting)
    batch = implementation.to_host(op("sample", {"stored": stored}, (rows,))(rows))
    wanted = [column[rows] for column in stored]
    for got, exact in zip(batch, wanted, strict=True):
        np.testing.assert_array_equal(got, exact, strict=True)
    return np.array(losses), train.params, actions


@functools.cache
def naive(backend):
    return run_ops(backend, Options())


@pytest.mark.parametrize(("option", "value"), SAME)
def test_an_option_leaves_every_bit_the_same(option, value):
    (losses, params, actions), wanted = run_ops("torch", replace(Options(), **{option: value})), naive("torch")
    np.testing.assert_array_equal(losses, wanted[0])
    np.testing.assert_array_equal(actions, wanted[2])
    assert differences(params, wanted[1]).max() == 0


@pytest.mark.parametrize(("backend", "form"), [("torch", "bfloat16"), ("jax", "bfloat16"), ("torch", "float16")])
def test_half_precision_is_close_and_not_the_same(backend, form):
    (losses, params, actions), wanted = run_ops(backend, FORMS[form]), naive(backend)
    np.testing.assert_allclose(losses, wanted[0], rtol=2e-2)
    assert (losses != wanted[0]).all()
    assert (actions == wanted[2]).mean() > 0.9
    difference = differences(params, wanted[1])
    assert np.median(difference) < 0.2 * 1e-3 * UPDATES
    assert difference.max() < 2.1 * 1e-3 * UPDATES
    assert all(value.dtype == np.float32 for value in params.values())


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_learners_actor_rounds_weights_to_bfloat16(backend):
    config, [batch] = problem(7)
    params = {name: np.zeros_like(value) for name, value in config["params"].items()}
    params["b1"][:2] = 1
    params["w2"][:2] = [0.5015, 0.5025, 0, 0], [-0.498, -0.5, 0, 0]  # values 0.0035, 0.0025; rounded: 0.002, 0.004
    never, none = np.zeros(len(batch[0]), bool), np.zeros(len(batch[0]), np.int32)
    for form, best in (("full", 0), ("bfloat16", 1)):
        step, _ = trainer(backend, config | {"params": params}, batch, form)
        assert set(step.actor(batch[0])(batch[0], never, none)) == {best}


def test_float16_skips_an_update_that_overflows_and_halves_the_scale():
    config, [(obs, actions, rewards, *rest)] = problem(7)
    batch = obs, np.zeros_like(actions), np.full_like(rewards, 1e3), *rest  # one bias's gradient overflows, at 2**16
    step, update = trainer("torch", config, batch, "float16")
    update(batch)
    assert differences(step.params, config["params"]).max() == 0
    halved = step.state()
    assert halved["loss_scale"].tolist() == [2**15, 0]
    update(batch)
    assert differences(step.params, config["params"]).max() > 0
    other, update_other = trainer("torch", config, batch, "float16")
    other.load_state(halved)
    update_other(batch)
    assert_same(other.state(), step.state())
    step.reset()
    update(batch)
    assert_same(step.state(), halved)


def test_cuda_flags_are_set_and_restored():
    import torch

    from rl_impls.snake._torch import cuda_flags

    def flags():
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark

    before = flags()
    with cuda_flags(Options(tf32=True, cudnn_benchmark=True)):
        assert flags() == (True, True)
    assert flags() == before
