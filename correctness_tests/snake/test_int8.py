"""The net in 8 bits: quantised indeed, and close to itself in float32."""

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
    """Everything, drawn boards, the net in 8 bits, and the graphs that onnxruntime was given to run."""
    import onnx
    import onnxruntime

    rng = np.random.default_rng(0)
    everything, obs = config(rng), boards(rng, BOARDS)
    session, graphs, folder = onnxruntime.InferenceSession, [], tmp_path_factory.mktemp("int8")

    def spy(graph, *args, **kwargs):
        graphs.append(onnx.load_from_string(graph).graph)
        return session(graph, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", spy)
        patch.setattr(tempfile, "tempdir", str(folder))
        net = build("forward", "onnx", everything, (obs,), "int8")
        yield everything, obs, net, graphs
    assert list(folder.iterdir()) == []


def assert_close_to_float32(net, params, obs):
    wanted, got = q_values(params, obs), net(obs)
    assert got.dtype == np.float32
    assert 0 < np.abs(got - wanted).max() < 0.03 * np.abs(wanted).max()
    assert (got.argmax(axis=1) == wanted.argmax(axis=1)).mean() >= 0.95


def test_q_values_and_greedy_moves_are_close_to_float32_but_not_equal(quantised):
    everything, obs, net, _ = quantised
    net.load(everything["params"])
    assert_close_to_float32(net, everything["params"], obs)


def test_error_is_that_of_8_bits_and_not_of_another_summation_order(quantised):
    everything, obs, net, _ = quantised
    net.load(everything["params"])
    wanted = q_values(everything["params"], obs)
    assert np.abs(net(obs) - wanted).max() > 1e-4 * np.abs(wanted).max()
    plain = build("forward", "onnx", everything, (obs,), "full")(obs)
    assert np.abs(plain - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_every_product_is_of_integers_and_every_matrix_has_8_bits(quantised):
    import onnx
    from onnx import TensorProto

    everything, _, net, graphs = quantised
    net.load(everything["params"])
    products = [node for node in graphs[-1].node if node.op_type in ("MatMul", "Gemm", "MatMulInteger")]
    assert [node.op_type for node in products] == ["MatMulInteger"] * 3
    matrices = [tensor for tensor in graphs[-1].initializer if len(tensor.dims) == 2]
    assert [tuple(tensor.dims) for tensor in matrices] == [(100, 256), (256, 256), (256, 4)]
    assert {tensor.data_type for tensor in matrices} == {TensorProto.INT8}
    assert all(
        np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() <= 64 for tensor in matrices
    )  # see lowering


def test_new_weights_are_quantised_anew(quantised):
    everything, obs, net, graphs = quantised
    made = len(graphs)
    for part in ("target", "params", "target"):
        net.load(everything[part])
        assert_close_to_float32(net, everything[part], obs)
    assert len(graphs) == made + 3


def test_act_plays_the_greedy_moves_in_8_bits(quantised):
    everything, obs, net, _ = quantised
    net.load(everything["params"])
    explore = np.arange(BOARDS) % 10 == 0
    drawn = np.full(BOARDS, 3, np.int32)
    moves = build("act", "onnx", everything, (obs, explore, drawn), "int8")(obs, explore, drawn)
    np.testing.assert_array_equal(moves, np.where(explore, 3, net(obs).argmax(axis=1)))


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-trace", "jax"])
@pytest.mark.parametrize("op", ["forward", "act"])
def test_other_backends_refuse(backend, op):
    rng = np.random.default_rng(0)
    example = boards(rng, 2), np.zeros(2, bool), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match=f"quantised: got 'int8' on {backend}, wanted 'none', or backend onnx"):
        build(op, backend, config(rng), example if op == "act" else example[:1], "int8")


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_nets_that_learn_refuse_to_play_in_8_bits(backend):
    rng = np.random.default_rng(0)
    step = build("train_step", backend, config(rng), transitions(rng, 4), "int8")
    with pytest.raises(ValueError, match="quantised: got 'int8'"):
        step.actor(boards(rng, 2))
