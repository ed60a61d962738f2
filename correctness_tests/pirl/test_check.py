"""The ``check`` command, which lists the ops that each backend supports."""

import sys
from types import ModuleType

import pytest

from perf_tests.recorded import benchmarks
from rl_impls import backends
from rl_impls.pirl.__main__ import main
from rl_impls.pirl.check import OPS, check, missing_ops


@pytest.mark.usefixtures("torch")
def test_check_says_what_would_run_and_why_it_does_not(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    main(["check", "--backend", "neuron"])
    assert capsys.readouterr().out.splitlines() == [
        "net 16-32-32-32-25: 3,481 parameters, 13.60 KiB",
        f"neuron: cannot run here: torch_neuronx is not installed ({backends.HINTS['neuron']})",
        "  has forward, act, sustained, serve",
        "  lacks pde_loss, loss_and_backward, train_step, hybrid: it computes no gradients; "
        "train with --backend torch --serve neuron",
    ]


@pytest.mark.usefixtures("torch")
def test_broken_installation_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_neuronx", ModuleType("torch_neuronx"))
    assert "neuron: cannot run here: module 'torch' has no attribute 'neuron'" in check("neuron")


@pytest.mark.parametrize("name", ["numpy", "torch", "onnx"])
def test_missing_ops_are_those_without_a_benchmark(name):
    timed = {one.op for one in benchmarks(("pirl",)) if one.params["backend"] == name}
    assert missing_ops(backends.get(name)) == tuple(op for op in OPS if op not in timed)
