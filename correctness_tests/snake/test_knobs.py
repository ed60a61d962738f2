"""What each knob promises: the same bits, close results, or something else that is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from correctness_tests.snake.loops import timed
from correctness_tests.snake.problem import assert_trained_alike, build, differences, problem
from rl_impls import backends
from rl_impls.snake.knobs import CHOICES, FORMS, HELPFUL, SOURCES, Knobs
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


def done(backend, knobs):
    """What ``knobs`` make of the same updates, boards and rows: losses and weights, moves, batch."""
    made = backends.get(backend)
    everything, batches = problem(7, batches=UPDATES)
    rng = np.random.default_rng(8)
    stored, obs, explore = transitions(rng, 100), boards(rng, 64), rng.random(64) < 0.1
    acting = obs, explore, rng.integers(0, 4, 64).astype(np.int32)
    rows = rng.choice(100, 32, replace=False)

    def op(name, spec, example):
        return made.build("snake", name, spec, tuple(map(made.to_device, example)), knobs)

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
        NAIVE[backend] = done(backend, Knobs())
    return NAIVE[backend]


@pytest.mark.parametrize(("knob", "value"), SAME)
def test_knob_leaves_every_bit_the_same(knob, value):
    (losses, params, moves), wanted = done("torch", replace(Knobs(), **{knob: value})), naive("torch")
    np.testing.assert_array_equal(losses, wanted[0])
    np.testing.assert_array_equal(moves, wanted[2])
    assert differences(params, wanted[1]).max() == 0


@pytest.mark.parametrize(
    ("backend", "knob", "value"), [*(("torch", *knob) for knob in CLOSE), ("jax", "optimizer", "fused")]
)
def test_knob_changes_the_order_of_sums_only(backend, knob, value):
    (losses, params, moves), wanted = done(backend, replace(Knobs(), **{knob: value})), naive(backend)
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


@pytest.mark.parametrize("form", ["naive", "full"])
def test_a_sample_on_jax_is_copied_to_the_device_once_by_one_program(form, monkeypatch):
    import jax

    rng = np.random.default_rng(9)
    stored, rows = transitions(rng, 100), rng.choice(100, 32, replace=False)
    target = backends.get("jax").lowering_here()
    sample = backends.get("jax").build("snake", "sample", {"stored": stored}, (rows,), FORMS[form], target)
    [(copy, _)] = target.lowered
    monkeypatch.setattr(jax, "device_put", None)  # the other way to the device
    for wanted in (rows, rows[::-1]):
        for column, got in zip(stored, sample(wanted), strict=True):
            assert isinstance(got, jax.Array)
            np.testing.assert_array_equal(got, column[wanted])
    assert copy._cache_size() == 1


def test_each_helpful_knob_is_in_a_table_of_promises_and_in_the_full_form():
    assert HELPFUL.keys() == {knob for knob, _ in SAME + CLOSE}
    for knob, value in HELPFUL.items():
        assert getattr(FORMS["full"], knob) == value != getattr(FORMS["naive"], knob)
        assert FORMS[f"only_{knob}"] == replace(Knobs(), **{knob: value})
    assert FORMS["naive"] == Knobs()


@pytest.mark.parametrize("knob", CHOICES)
def test_unknown_value_is_refused_with_the_known_ones(knob):
    with pytest.raises(ValueError, match=f"unknown value of knob {knob} 'nonsense'; known: ") as caught:
        replace(Knobs(), **{knob: "nonsense"})
    assert all(str(choice) in str(caught.value) for choice in CHOICES[knob])
    for choice in CHOICES[knob]:
        assert getattr(replace(Knobs(), **{knob: choice}), knob) == choice
    assert getattr(Knobs(), knob) == CHOICES[knob][0]


@pytest.mark.parametrize("every", [1, 4, 8, 16])
@pytest.mark.parametrize("batch", [32, 256])
def test_every_and_batch_say_how_many_updates_there_are_and_of_what(every, batch):
    inputs = timed("full", 1, batch=batch)
    explore, actions, draws, rows = inputs.args
    count = len(explore) // every
    rows = np.resize(rows[:1], (count, batch))  # of what is stored at the start
    loop = build(
        "collect_and_learn",
        "torch",
        inputs.spec,
        (explore, actions, draws, rows),
        every=every,
        batch=batch,
        threads="one",
    )
    taken = []
    loop.assemble = lambda columns, make=loop.assemble: taken.append(make(columns)) or taken[-1]
    *_, losses = loop(explore, actions, draws, rows)
    assert len(losses) == count == loop.train.state()["step"]
    assert {len(column) for columns in taken for column in columns} == {batch}


def flags():
    """What torch's process-wide flags say: TF32 products, cuDNN's trying of algorithms."""
    import torch

    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark


@pytest.mark.parametrize(
    ("form", "knobs", "inside"),
    [("tf32", {}, (True, True)), ("tf32", {"cudnn_benchmark": False}, (True, False)),
     ("tf32", {"tf32": False}, (False, True)), ("full", {}, (False, False))],
)  # fmt: skip
@pytest.mark.parametrize("op", ["forward", "act", "train_step"])
def test_cuda_flags_are_set_while_a_net_computes_and_then_put_back(op, form, knobs, inside, monkeypatch):
    from torch import nn

    from rl_impls.lowering import Target, eager
    from rl_impls.snake import _torch

    monkeypatch.setattr(_torch, "place", lambda target: "cpu")  # for want of a CUDA device
    seen = []
    monkeypatch.setattr(nn.Linear, "forward", spied(seen, nn.Linear.forward))
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", spied(seen, nn.utils.clip_grad_norm_))
    everything, [batch] = problem(7)
    args = {
        "forward": batch[:1],
        "act": (batch[0], np.zeros(32, bool), np.zeros(32, np.int32)),
        "train_step": batch,
    }[op]
    if op != "act":
        args = tuple(map(backends.get("torch").to_device, args))
    target = Target("torch-cuda", eager, "cuda", "torch-cuda")
    before = flags()
    built = getattr(_torch, op)(everything, args, knobs=replace(FORMS[form], **knobs), target=target)
    assert flags() == before
    built(*args)
    assert flags() == before
    assert set(seen) == {inside}


def spied(seen, function):
    """Return the function, which notes the flags that it is called under."""

    def call(*args, **kwargs):
        seen.append(flags())
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-compile", "onnx", "jax", "jax-cuda"])
@pytest.mark.parametrize("knob", ["tf32", "cudnn_benchmark"])
def test_a_knob_of_one_device_is_refused_elsewhere(backend, knob):
    import importlib

    from rl_impls.lowering import Target

    made = backends.get(backend)
    source = importlib.import_module(f"rl_impls.snake._{made.source}")
    everything, [batch] = problem(7)
    knobs = replace(FORMS["full"], **{knob: True})
    target = Target(backend, None, made.device, made.array_kind)
    wanted = f"^{knob}: got True on {backend}, wanted False, or backend torch-cuda or torch-compile-cuda$"
    acting = batch[0], np.zeros(32, bool), np.zeros(32, np.int32)
    for op, args in (("forward", batch[:1]), ("act", acting), ("train_step", batch)):
        if hasattr(source, op):
            with pytest.raises(ValueError, match=wanted):
                getattr(source, op)(everything, args, knobs=knobs, target=target)


def test_a_knob_of_one_device_is_refused_in_the_loop():
    inputs = timed("compiled", 1)
    for backend, form in (("jax", "compiled"), ("torch", "full")):
        with pytest.raises(ValueError, match=rf"^tf32: got True on {backend}, wanted False"):
            build("collect_and_learn", backend, inputs.spec, inputs.args, form, every=4, tf32=True)


@pytest.mark.parametrize(("value", "inside"), [("one", 1), ("all", 2)])
def test_threads_are_given_back(value, inside):
    import torch

    from rl_impls.snake._torch import threads_of

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_of(Knobs(threads=value)):
            assert torch.get_num_threads() == inside
        assert torch.get_num_threads() == 2
        with pytest.raises(KeyError), threads_of(Knobs(threads=value)):
            raise KeyError
        assert torch.get_num_threads() == 2
        done("torch", Knobs(threads=value))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gradient": "by_hand", "precision": "bfloat16"}, "knob gradient: got by_hand with precision=bfloat16"),
        ({"gradient": "by_hand", "processes": 2}, "knob gradient: got by_hand with precision=float32, processes=2"),
        (
            {"parameters": "flat", "zero_grad": "none"},
            "knob parameters: got flat with gradient=autograd, zero_grad=none",
        ),
    ],
)
def test_knobs_that_do_not_go_together_are_refused(changed, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        replace(Knobs(), **changed)


def trained(**knobs):
    """A step of torch that has made an update."""
    everything, [batch] = problem(7)
    step = build("train_step", "torch", everything, batch, "naive", **knobs)
    step(*map(backends.get("torch").to_device, batch))
    return step


def test_flat_parameters_are_one_vector_to_adam_and_others_are_six():
    flat, separate = trained(parameters="flat"), trained()
    assert (len(flat.optimizer.state), len(separate.optimizer.state)) == (1, 6)
    [vector] = flat.updated
    for whole, parts in ((vector, flat.parameters), (vector.grad, [parameter.grad for parameter in flat.parameters])):
        end = whole.data_ptr() + 4 * whole.numel()
        assert all(whole.data_ptr() <= part.data_ptr() < end for part in parts)


@pytest.mark.parametrize(("gradient", "recorded"), [("autograd", True), ("by_hand", False)])
def test_autograd_records_what_is_not_differentiated_by_hand(gradient, recorded):
    step = trained(gradient=gradient)
    _, [batch] = problem(7)
    loss = step.loss(*map(backends.get("torch").to_device, batch))
    assert loss.requires_grad == recorded


@pytest.mark.parametrize(("count", "numpy"), [(1, True), (4, True), (5, False)])
def test_few_boards_are_acted_on_in_numpy_by_the_weights_as_they_are(count, numpy):
    step = trained(acting="numpy")
    actor, obs = step.actor(np.zeros((count, 100), np.float32)), boards(np.random.default_rng(1), count)
    assert (actor.greedy == actor.greedy_in_numpy) == numpy
    for _ in range(2):
        np.testing.assert_array_equal(actor.greedy(obs), actor.greedy_in_torch(obs))
        _, [batch] = problem(7)
        for _ in range(20):
            step(*map(backends.get("torch").to_device, batch))


def test_the_default_optimizer_is_torchs_own_choice():
    assert [trained(optimizer=value).optimizer.defaults["fused"] for value in ("default", "fused")] == [None, True]
    assert [trained(optimizer=value).optimizer.defaults["foreach"] for value in ("default", "loop")] == [None, False]


def test_the_plain_form_learns_what_the_naive_one_does():
    (losses, params, moves), wanted = done("torch", FORMS["plain"]), naive("torch")
    np.testing.assert_allclose(losses, wanted[0], rtol=1e-6)
    np.testing.assert_array_equal(moves, wanted[2])
    assert_trained_alike(params, wanted[1], 1e-3, UPDATES)


def test_each_baseline_names_its_source():
    assert SOURCES.keys() == {"naive", "plain"} <= FORMS.keys()
