"""Compiling torch modules and functions."""

import functools
import os

import numpy as np
import pytest

from correctness_tests.pirl.problem import small_net
from perf_tests.counters import graphs_compiled
from rl_impls import backends, compilers

COMPILERS = {
    "eager": compilers.eager,
    "trace": compilers.trace,
    "compile": functools.partial(compilers.compile_, backend="eager"),
}


@pytest.mark.parametrize("compiler", COMPILERS.values(), ids=COMPILERS)
def test_net_computes_under_its_guard_with_new_weights_too(compiler):
    import torch

    from rl_impls.common.torch_learner import GUARDS
    from rl_impls.pirl._torch import Net

    params, states = small_net(np.random.default_rng(0)), torch.zeros(2, 16)
    for name, guard in GUARDS.items():
        net = compiler(Net(params), (states,), guard=guard)
        assert net(states).is_inference() == (name == "inference_mode")
        net.load(params)
        assert net(states).is_inference() == (name == "inference_mode")


@pytest.mark.parametrize(("backend", "compiler"), [("torch-trace", compilers.trace), ("onnx", compilers.onnx)])
def test_function_instead_of_a_module_is_an_error(backend, compiler):
    def loss_of(x):
        return x

    with pytest.raises(ValueError, match=f"^{backend} compiles torch modules, not the function loss_of$"):
        compiler(loss_of, (np.zeros(1),))


def test_onnxruntime_gets_as_many_threads_as_torch_has():
    import torch

    from rl_impls.pirl._torch import Net

    params, before = small_net(np.random.default_rng(0)), torch.get_num_threads()
    net = compilers.onnx(Net(params), (torch.zeros(2, 16),))
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            others = set(os.listdir("/proc/self/task"))
            net.load(params)  # starts another session
            assert len(set(os.listdir("/proc/self/task")) - others) == count - 1  # the calling thread computes too
    finally:
        torch.set_num_threads(before)


def test_ten_shapes_of_one_function_stay_compiled():
    import torch

    def function(x):
        return 2 * x

    compiler, inputs = backends.get("torch-compile").new_compiler(), [torch.ones(size) for size in range(1, 11)]
    before = graphs_compiled()
    compiled = [compiler.compile(function, (x,), backend="eager") for x in inputs]
    for _ in range(2):
        for call, x in zip(compiled, inputs):
            call(x)
        assert graphs_compiled() - before == len(inputs)
