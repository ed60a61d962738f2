"""Options of a DQN: each one does what it says, and gives the same bits, close results, or a stated difference."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.snake.loops import close, timed
from correctness_tests.snake.problem import (
    assert_trained_alike,
    build,
    differences,
    dispatched,
    keeps_gradients,
    problem,
    trainer,
)
from rl_impls import backends
from rl_impls.compilers import Compiler, eager
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
CLOSE = [
    ("acting", "numpy"),
    ("optimizer", "fused"),
    ("parameters", "flat"),
    ("gradient", "by_hand"),
    ("threads", "all"),
]
UPDATES = 3
NAIVE = {}


def done(backend, options):
    """Return the losses and weights of the same updates, and the moves on the same boards, with these options."""
    made = backends.get(backend)
    everything, batches = problem(7, batches=UPDATES)
    rng = np.random.default_rng(8)
    stored, obs, explore = transitions(rng, 100), boards(rng, 64), rng.random(64) < 0.1
    acting = obs, explore, rng.integers(0, 4, 64).astype(np.int32)
    rows = rng.choice(100, 32, replace=False)

    def op(name, spec, example):
        return made.build("snake", name, spec, tuple(map(made.to_device, example)), options)

    train = op("train_step", everything, batches[0])
    losses = [float(made.to_host(train(*map(made.to_device, batch)))) for batch in batches]
    moves = op("act", everything, acting)(*acting)
    batch = made.to_host(op("sample", {"stored": stored}, (rows,))(rows))
    wanted = [column[rows] for column in stored]
    for got, exact in zip(batch, wanted, strict=True):
        np.testing.assert_array_equal(got, exact, strict=True)
    return np.array(losses), train.params, moves


def naive(backend):
    if backend not in NAIVE:
        NAIVE[backend] = done(backend, Options())
    return NAIVE[backend]


@pytest.mark.parametrize(("option", "value"), SAME)
def test_an_option_leaves_every_bit_the_same(option, value):
    (losses, params, moves), wanted = done("torch", replace(Options(), **{option: value})), naive("torch")
    np.testing.assert_array_equal(losses, wanted[0])
    np.testing.assert_array_equal(moves, wanted[2])
    assert differences(params, wanted[1]).max() == 0


@pytest.mark.parametrize(
    ("backend", "option", "value"), [*(("torch", *option) for option in CLOSE), ("jax", "optimizer", "fused")]
)
def test_an_option_changes_the_order_of_sums_only(backend, option, value):
    (losses, params, moves), wanted = done(backend, replace(Options(), **{option: value})), naive(backend)
    np.testing.assert_allclose(losses, wanted[0], rtol=1e-6)
    np.testing.assert_array_equal(moves, wanted[2])
    assert np.quantile(differences(params, wanted[1]), 0.99) < 1e-6
    assert_trained_alike(params, wanted[1], 1e-3, UPDATES)


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_bfloat16_is_close_and_not_the_same(backend):
    (losses, params, moves), wanted = done(backend, FORMS["bfloat16"]), naive(backend)
    np.testing.assert_allclose(losses, wanted[0], rtol=2e-2)
    assert (losses != wanted[0]).all()
    assert (moves == wanted[2]).mean() > 0.9
    difference = differences(params, wanted[1])
    assert np.median(difference) < 0.2 * 1e-3 * UPDATES
    assert difference.max() < 2.1 * 1e-3 * UPDATES
    assert all(value.dtype == np.float32 for value in params.values())


def acting(count=3):
    """Return boards, and flags that explore nowhere."""
    return boards(np.random.default_rng(1), count), np.zeros(count, bool), np.zeros(count, np.int32)


def operations(op, note=lambda: "", **options):
    """Return what torch dispatches in a call of a naive op, but for these options."""
    everything, [batch] = problem(7)
    example = {"forward": batch[:1], "act": acting(), "train_step": batch}[op]
    call = build(op, "torch", everything, example, "naive", **options)
    args = example if op == "act" else map(backends.get("torch").to_device, example)
    return "\n".join(dispatched(call, *args, note=note))


@pytest.mark.parametrize(
    ("op", "options", "present", "absent"),
    [
        ("forward", {"relu": "copy"}, "aten.relu.default", "aten.relu_.default"),
        ("forward", {"relu": "inplace"}, "aten.relu_.default", "aten.relu.default"),
        ("act", {"relu": "inplace"}, "aten.relu_.default", "aten.relu.default"),
        ("train_step", {"relu": "inplace"}, "aten.relu_.default", "aten.relu.default"),
        ("act", {"precision": "float32"}, "addmm.default torch.float32", "bfloat16"),
        ("act", {"precision": "bfloat16"}, "addmm.default torch.bfloat16", "addmm.default torch.float32"),
        ("train_step", {"precision": "bfloat16"}, "addmm.default torch.bfloat16", "addmm.default torch.float32"),
        ("train_step", {"optimizer": "default"}, "_foreach_norm", "_fused_adam_"),
        ("train_step", {"optimizer": "fused"}, "_fused_adam_", "no such operation"),
        ("train_step", {"optimizer": "loop"}, "addmm", "_foreach_norm"),
        ("train_step", {"gradient": "autograd"}, "_backward", "no such operation"),
        ("train_step", {"gradient": "by_hand"}, "addmm", "_backward"),
    ],
    ids=str,
)
def test_an_option_shows_in_what_torch_computes(op, options, present, absent):
    found = operations(op, **options)
    assert present in found
    assert absent not in found


@pytest.mark.parametrize(
    ("inference", "flags"), [("grad", (True, False)), ("no_grad", (False, False)), ("inference_mode", (False, True))]
)
def test_inference_says_what_autograd_records(inference, flags):
    everything, [batch] = problem(7)
    net = build("forward", "torch", everything, batch[:1], "naive", inference=inference)
    out = net(backends.get("torch").to_device(batch[0]))
    assert (out.requires_grad, out.is_inference()) == flags


@pytest.mark.parametrize(("zero_grad", "kept"), [("fill", True), ("none", False)])
def test_gradients_are_filled_with_zeros_or_dropped(zero_grad, kept):
    everything, [batch] = problem(7)
    step, _ = trainer("torch", everything, batch, "naive", zero_grad=zero_grad)
    assert keeps_gradients(step, *map(backends.get("torch").to_device, batch)) == kept


@pytest.mark.parametrize(("parameters", "arrays"), [("separate", 6), ("flat", 1)])
def test_flat_parameters_are_one_vector_to_adam(parameters, arrays):
    everything, [batch] = problem(7)
    step, update = trainer("torch", everything, batch, "naive", parameters=parameters)
    update(batch)
    assert len(step.optimizer.state) == arrays


@pytest.mark.parametrize(("count", "options", "torch"), [(4, {}, True), (4, {"acting": "numpy"}, False),
                                                       (5, {"acting": "numpy"}, True)])  # fmt: skip
def test_few_boards_are_acted_on_in_numpy_by_the_newest_weights(count, options, torch):
    everything, [batch] = problem(7)
    step, update = trainer("torch", everything, batch, "naive", **options)
    args = acting(count)
    actor = step.actor(args[0])
    assert bool(dispatched(actor, *args)) == torch
    for _ in range(20):
        update(batch)
    np.testing.assert_array_equal(actor(*args), step.actor(args[0])(*args))


@pytest.mark.parametrize(("memory", "kind"), [("lists", list), ("arrays", np.ndarray), ("ring", np.ndarray)])
def test_the_memory_hands_out_boards_as_the_option_says(memory, kind):
    op = build("remember", "numpy", {"stored": transitions(np.random.default_rng(0), 9)},
               transitions(np.random.default_rng(1), 2), "naive", memory=memory)  # fmt: skip
    boards_of, *_ = op.memory.columns(np.arange(3))
    assert isinstance(boards_of, np.ndarray) == (memory == "ring")
    assert isinstance(boards_of[0], kind)


@pytest.mark.parametrize(("batches", "shared"), [("comprehension", False), ("stacked", True)])
def test_stacked_batches_share_the_memory_of_their_arrays(batches, shared):
    columns = transitions(np.random.default_rng(0), 4)
    for column, tensor in zip(columns, build("assemble", "torch", {}, (), "naive", batches=batches)(columns)):
        assert np.shares_memory(column, tensor.numpy()) == shared


@pytest.mark.parametrize(("tensors", "direct"), [("moved", False), ("direct", True)])
def test_boards_become_tensors_on_their_device_directly(tensors, direct, monkeypatch):
    import torch

    made, as_tensor = [], torch.as_tensor
    monkeypatch.setattr(torch, "as_tensor", lambda *args, **kwargs: made.append(kwargs) or as_tensor(*args, **kwargs))
    operations("act", tensors=tensors)
    assert any("device" in kwargs for kwargs in made) == direct


@pytest.mark.parametrize("form", ["full", "vectorised"])
def test_the_vectorised_form_plays_all_games_in_one_set_of_arrays(form):
    inputs = timed("vectorised", 64)
    loop = build("collect_and_learn", "torch", inputs.spec, inputs.args, form, every=4)
    assert type(loop.environment).__name__ == {"full": "PlainEnvs", "vectorised": "VectorisedEnvs"}[form]
    close(loop)


@pytest.mark.parametrize(("value", "inside"), [("one", 1), ("all", 2)])
def test_an_operation_has_one_thread_or_all_and_gives_them_back(value, inside):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for op in ("act", "train_step"):
            found = operations(op, torch.get_num_threads, threads=value).splitlines()
            assert {line.split()[-1] for line in found if "addmm" in line} == {str(inside)}
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def flags():
    """Return torch's process-wide flags: TF32 products, cuDNN's trying of algorithms."""
    import torch

    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark


@pytest.mark.parametrize(
    ("form", "options", "inside"),
    [("tf32", {}, (True, True)), ("tf32", {"cudnn_benchmark": False}, (True, False)),
     ("tf32", {"tf32": False}, (False, True)), ("full", {}, (False, False))],
)  # fmt: skip
@pytest.mark.parametrize("op", ["forward", "act", "train_step"])
def test_cuda_flags_are_set_while_a_net_computes_and_then_restored(op, form, options, inside, monkeypatch):
    from rl_impls.snake import _torch

    monkeypatch.setattr(_torch, "place", lambda compiler: "cpu")  # for want of a CUDA device
    everything, [batch] = problem(7)
    args = acting() if op == "act" else tuple(map(backends.get("torch").to_device, batch))
    args = args[:1] if op == "forward" else args
    before = flags()
    compiler = Compiler("torch-cuda", eager, "cuda", "torch-cuda")
    call = getattr(_torch, op)(everything, args, options=replace(FORMS[form], **options), compiler=compiler)
    assert flags() == before
    found = dispatched(call, *args, note=flags)
    products = [line for line in found if "addmm" in line or "linear" in line]  # the latter in inference mode
    assert {line.partition("(")[2] for line in products} == {str(inside)[1:]}
    assert flags() == before


@pytest.mark.parametrize("backend", ["numpy", "torch-compile", "onnx", "jax-cuda"])
@pytest.mark.parametrize("option", ["tf32", "cudnn_benchmark"])
def test_an_option_of_cuda_is_refused_elsewhere(backend, option):
    made = backends.get(backend)
    source = importlib.import_module(f"rl_impls.snake._{made.library}")
    everything, [batch] = problem(7)
    compiler = Compiler(backend, None, made.device, made.array_kind)
    wanted = f"^{option}: got True on {backend}, wanted False, or backend torch-cuda or torch-compile-cuda$"
    for op, args in (("forward", batch[:1]), ("act", acting()), ("train_step", batch)):
        if hasattr(source, op):
            with pytest.raises(ValueError, match=wanted):
                getattr(source, op)(everything, args, options=replace(FORMS["full"], **{option: True}), compiler=compiler)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"relu": "nonsense"}, "unknown value of option relu 'nonsense'; known: copy, inplace"),
        ({"gradient": "by_hand", "processes": 2}, "option gradient: got by_hand with precision=float32, processes=2"),
        (
            {"parameters": "flat", "zero_grad": "none"},
            "option parameters: got flat with gradient=autograd, zero_grad=none",
        ),
    ],
)
def test_impossible_options_are_refused(changed, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        replace(Options(), **changed)
