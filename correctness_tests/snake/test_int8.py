"""The net quantised to 8 bits, which is close to the net in float32."""

import tempfile

import numpy as np
import pytest

from correctness_tests.snake.problem import build
from rl_impls.params import init_mlp
from rl_impls.snake import problem as snake
from rl_impls.snake._numpy import q_values
from rl_impls.snake.agent import Config, play

BOARDS = 512


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """Yield a configuration, boards and the 8-bit net; fail if a temporary file is left behind."""
    rng = np.random.default_rng(0)
    config, obs, folder = snake.config(rng), snake.boards(rng, BOARDS), tmp_path_factory.mktemp("int8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        yield config, obs, build("forward", "onnx", config, (obs,), "int8")
    assert list(folder.iterdir()) == []


def assert_close_to_float32(net, params, obs):
    wanted, got = q_values(params, obs), net(obs)
    assert got.dtype == np.float32
    assert 1e-4 < np.abs(got - wanted).max() / np.abs(wanted).max() < 0.03  # more than rounding in float32
    assert (got.argmax(axis=1) == wanted.argmax(axis=1)).mean() >= 0.95


def test_q_values_and_greedy_moves_are_close_to_float32_with_new_weights_too(quantised):
    config, obs, net = quantised
    for part in ("target", "params", "target"):
        net.load(config[part])
        assert_close_to_float32(net, config[part], obs)


def test_act_plays_the_greedy_moves_in_8_bits(quantised):
    config, obs, net = quantised
    net.load(config["params"])
    explore = np.arange(BOARDS) % 10 == 0
    drawn = np.full(BOARDS, 3, np.int32)
    moves = build("act", "onnx", config, (obs, explore, drawn), "int8")(obs, explore, drawn)
    np.testing.assert_array_equal(moves, np.where(explore, 3, net(obs).argmax(axis=1)))


def test_an_evaluation_plays_in_8_bits():
    config, exact = Config("onnx", "int8", hidden=16), Config("onnx", "full", hidden=16)
    net = {name: np.zeros_like(value) for name, value in init_mlp(np.random.default_rng(0), config.sizes).items()}
    net["b1"][0], net["b2"][0] = 1, 0.1
    up = play(exact, net, 20, seed=0)
    net["w2"][:2, 1] = 0.15, 100  # of active and inactive units; beside 100, 0.15 rounds to 0
    right, rounded = (play(one, net, 20, seed=0) for one in (exact, config))
    np.testing.assert_equal(rounded, up)
    assert (right["lengths"] != up["lengths"]).any()


def test_nets_that_learn_refuse_to_play_in_8_bits():
    rng = np.random.default_rng(0)
    step = build("train_step", "torch", snake.config(rng), snake.transitions(rng, 4), "int8")
    with pytest.raises(ValueError, match=r"^quantised='int8' is not available"):
        step.actor(snake.boards(rng, 2))
