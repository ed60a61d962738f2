"""The net in 8 bits: quantised, and close to the net in float32."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest

from correctness_tests.snake.problem import build
from rl_impls.snake._numpy import q_values
from rl_impls.snake.problem import boards, config, transitions

BOARDS = 512


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """Yield the configuration, boards and the net in 8 bits; no temporary file may be left behind."""
    rng = np.random.default_rng(0)
    everything, obs, folder = config(rng), boards(rng, BOARDS), tmp_path_factory.mktemp("int8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield everything, obs, build("forward", "onnx", everything, (obs,), "int8")
    assert list(folder.iterdir()) == []


def assert_close_to_float32(net, params, obs):
    wanted, got = q_values(params, obs), net(obs)
    assert got.dtype == np.float32
    assert 0 < np.abs(got - wanted).max() < 0.03 * np.abs(wanted).max()
    assert (got.argmax(axis=1) == wanted.argmax(axis=1)).mean() >= 0.95


def test_error_is_that_of_8_bits_and_not_of_another_summation_order(quantised):
    everything, obs, net = quantised
    net.load(everything["params"])
    wanted = q_values(everything["params"], obs)
    assert np.abs(net(obs) - wanted).max() > 1e-4 * np.abs(wanted).max()
    plain = build("forward", "onnx", everything, (obs,), "full")(obs)
    assert np.abs(plain - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_q_values_and_greedy_moves_are_close_to_float32_with_new_weights_too(quantised):
    everything, obs, net = quantised
    for part in ("target", "params", "target"):
        net.load(everything[part])
        assert_close_to_float32(net, everything[part], obs)


def test_act_plays_the_greedy_moves_in_8_bits(quantised):
    everything, obs, net = quantised
    net.load(everything["params"])
    explore = np.arange(BOARDS) % 10 == 0
    drawn = np.full(BOARDS, 3, np.int32)
    moves = build("act", "onnx", everything, (obs, explore, drawn), "int8")(obs, explore, drawn)
    np.testing.assert_array_equal(moves, np.where(explore, 3, net(obs).argmax(axis=1)))


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_other_backends_refuse(backend):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=f"quantised: got 'int8' on {backend}, wanted 'none', or backend onnx"):
        build("forward", backend, config(rng), (boards(rng, 2),), "int8")


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_nets_that_learn_refuse_to_play_in_8_bits(backend):
    rng = np.random.default_rng(0)
    step = build("train_step", backend, config(rng), transitions(rng, 4), "int8")
    with pytest.raises(ValueError, match="quantised: got 'int8'"):
        step.actor(boards(rng, 2))
