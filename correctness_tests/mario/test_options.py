"""Each option changes what it names, so an option that is never read fails here or, if of processes, in test_loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from correctness_tests.mario.problem import BATCH, SIDE, build, problem
from rl_impls import backends
from rl_impls.mario._numpy import RESIZE
from rl_impls.mario.shared_ops import steps
from rl_impls.mario.options import Options
from rl_impls.mario.loop import make_replay
from rl_impls.mario.problem import PRIORITIES, STACK, net, pictures
from rl_impls.mario.sum_tree import LiteralSumTree, SumTree

pytestmark = pytest.mark.usefixtures("one_thread")

ENVS = 2
REPLAY = {"side": SIDE, "capacity": 200, "stored": 200, "seed": 0}


class Operation(NamedTuple):
    """An operation that torch dispatched."""

    name: str
    args: tuple[Any, ...]
    threads: int


def operations(call, *args):
    """Return the operations that torch dispatches in a call."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found.append(Operation(str(function), args, torch.get_num_threads()))
            return function(*args, **(kwargs or {}))

    with Recorder():
        call(*args)
    return found


def update(**options):
    """Return an update that is naive but for these options, and its batch."""
    spec, [batch, *_] = problem()
    step = build("train_step", "torch", spec, batch, "naive", **options)
    return step, step.batch(*batch)


def actor(**options):
    """Return an actor that is naive but for these options, and states."""
    from rl_impls.mario._torch import Actor

    rng = np.random.default_rng(0)
    params, states = net(rng, SIDE), pictures(rng, ENVS, STACK, SIDE, SIDE)
    return Actor(params, states, Options(**options), backends.get("torch").new_compiler()), states


def computed(**options):
    """Return the operations of an update, and those of acting."""
    (step, batch), (act, states) = update(**options), actor(**options)
    return operations(step, *batch), operations(act, states)


def convolutions(found):
    """Return the convolutions among operations."""
    return [one for one in found if one.name == "aten.convolution.default"]


def first_inputs(found):
    """Return the pictures that the first convolution of a net was given, one for each forward pass."""
    return [one.args[0] for one in convolutions(found) if one.args[1].shape[1] == STACK]


@pytest.mark.parametrize("resize", ["dense", "sparse"])
def test_resize_chooses_the_method(resize):
    frames = np.zeros((1, 240, 256, 3), np.uint8)
    assert isinstance(build("preprocess", "numpy", {"side": 84}, (frames,), "naive", resize=resize), RESIZE[resize])


@pytest.mark.parametrize(("push", "at_once"), [("item", False), ("batch", True)])
def test_push_stores_one_by_one_or_all_at_once(push, at_once):
    example = steps(np.random.default_rng(0), 4, SIDE)
    op = build("push", "numpy", {"side": SIDE, "capacity": 200}, example, "naive", push=push)
    assert (op.push == op.replay.push_batch) == at_once


@pytest.mark.parametrize(("stacks", "kept"), [("item", False), ("indexed", True)])
def test_indexed_stacks_reuse_their_memory(stacks, kept):
    call = build("sample", "numpy", REPLAY | {"batch": 3}, (np.int64(1),), "naive", stacks=stacks)
    first, second = (call(np.int64(1))[0] for _ in range(2))
    assert np.shares_memory(first, second) == kept


@pytest.mark.parametrize(("tree", "kind"), [("literal", LiteralSumTree), ("vectorised", SumTree)])
def test_tree_chooses_the_sum_tree(tree, kind):
    example = np.arange(3), np.ones(3, np.float32)
    assert type(build("per_update", "numpy", REPLAY | PRIORITIES, example, "naive", tree=tree).replay.tree) is kind
    spec = REPLAY | PRIORITIES | {"collectors": 2, "envs": 1, "prioritised": True}
    assert type(make_replay(spec, Options(tree=tree)).tree) is kind


@pytest.mark.parametrize(("acting", "sizes"), [("each", [1] * ENVS), ("together", [ENVS])])
def test_acting_together_is_one_forward_pass(acting, sizes):
    act, states = actor(acting=acting)
    assert [len(given) for given in first_inputs(operations(act, states))] == sizes


@pytest.mark.parametrize(
    ("inference", "wanted"), [("grad", (True, False)), ("no_grad", (False, False)), ("inference_mode", (False, True))]
)
def test_inference_chooses_what_autograd_records(inference, wanted):
    act, states = actor(inference=inference, acting="together")
    values = act.call(backends.get("torch").to_device(states))
    assert (values.requires_grad, values.is_inference()) == wanted


@pytest.mark.parametrize(("images", "largest"), [("float", 1), ("uint8", 255)])
def test_float_images_are_divided_before_the_net_and_bytes_in_its_weights(images, largest):
    act, states = actor(images=images)
    step, batch = update(images=images)
    for call, args in (
        (act, (np.full_like(states, 255),)),
        (step, [batch[0].new_full(batch[0].shape, 255), *batch[1:]]),
    ):
        assert max(float(given.max()) for given in first_inputs(operations(call, *args))) == largest


@pytest.mark.parametrize(("tensors", "kept"), [("new", False), ("kept", True)])
def test_kept_tensors_reuse_their_memory(tensors, kept):
    step, batch = update(tensors=tensors)
    first, second = (step.pictures("states", batch[0]) for _ in range(2))
    assert (first.data_ptr() == second.data_ptr()) == kept


@pytest.mark.parametrize(("memory_format", "last"), [("contiguous", False), ("channels_last", True)])
def test_memory_format_is_that_of_pictures_and_weights(memory_format, last):
    import torch

    for found in computed(memory_format=memory_format):
        tensors = [tensor for one in convolutions(found) for tensor in one.args[:2]]
        assert {tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors} == {last}


@pytest.mark.parametrize(("relu", "name"), [("copy", "aten.relu.default"), ("inplace", "aten.relu_.default")])
def test_relu_is_in_place_or_not(relu, name):
    for found in computed(relu=relu):
        assert {one.name for one in found if one.name.startswith("aten.relu")} == {name}


@pytest.mark.parametrize(("zero_grad", "kept"), [("fill", True), ("none", False)])
def test_gradients_that_are_filled_with_zeros_stay_where_they_are(zero_grad, kept):
    step, batch = update(zero_grad=zero_grad)
    step(*batch)
    before = [parameter.grad for parameter in step.parameters]
    step(*batch)
    assert {parameter.grad is grad for parameter, grad in zip(step.parameters, before)} == {kept}


@pytest.mark.parametrize(
    ("optimizer", "wanted"), [("loop", (False, False)), ("default", (False, True)), ("fused", (True, True))]
)
def test_optimizer_updates_one_by_one_or_all_at_once(optimizer, wanted):
    step, batch = update(optimizer=optimizer)
    names = "\n".join(one.name for one in operations(step, *batch))
    assert ("_fused_adam_" in names, "_foreach_norm" in names) == wanted


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision_is_that_of_the_convolutions(precision):
    for found in computed(precision=precision):
        assert {str(one.args[0].dtype) for one in convolutions(found)} == {f"torch.{precision}"}


@pytest.mark.parametrize("accumulate", [1, 4])
def test_accumulate_passes_a_batch_through_the_net_in_parts(accumulate):
    step, batch = update(accumulate=accumulate)
    assert {len(given) for given in first_inputs(operations(step, *batch))} == {BATCH // accumulate}


@pytest.mark.parametrize(("threads", "count"), [("one", 1), ("all", 2)])
def test_threads_of_an_update(threads, count):
    import torch

    step, batch = update(threads=threads)
    torch.set_num_threads(2)
    try:
        assert {one.threads for one in convolutions(operations(step, *batch))} == {count}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("form", "backend", "error"),
    [
        ("float16", "torch", r"^precision: got 'float16' on torch, wanted torch on CUDA, or 'bfloat16'$"),
        ("float16", "jax", r"^precision: got 'float16' on jax, "),
        ("cache_cleared", "torch", r"^gpu_cache: got 'cleared' on torch, wanted torch on CUDA, or 'kept'$"),
        ("reduce_overhead", "torch-compile", r"^compile_mode: got 'reduce_overhead' on torch-compile, "),
    ],
)
def test_options_of_cuda_are_refused_elsewhere(form, backend, error):
    spec, [batch, *_] = problem()
    with pytest.raises(ValueError, match=error):
        build("train_step", backend, spec, batch, form)
