"""The ``check`` command, which lists the ops that each backend supports."""

import sys
from types import ModuleType

import pytest

from perf_tests.recorded import benchmarks
from rl_impls import backends
from rl_impls.pirl.__main__ import main
from rl_impls.pirl.check import OPS, check, missing_ops


def test_check_says_what_would_run_and_why_it_does_not(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    main(["check", "--backend", "neuron"])
    assert capsys.readouterr().out.splitlines() == [
        "net 16-32-32-32-25: 3,481 parameters, 13.60 KiB",
        f"neuron: cannot run here: torch_neuronx is not installed ({backends.HINTS['neuron']})",
        "  has forward, act, sustained, serve",
        "  lacks pde_loss, loss_and_backward, train_step: it computes no gradients; "
        "train with --backend torch --serve neuron",
    ]


def test_check_computes_on_the_backend():
    assert "torch: runs here; Q-values differ from NumPy's by at most " in check("torch")


def test_missing_device_is_named_with_how_to_install_it():
    if backends.get("torch-cuda").missing():
        assert f" ({backends.HINTS['cuda']})" in check("torch-cuda")


def test_broken_installation_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_neuronx", ModuleType("torch_neuronx"))
    assert "neuron: cannot run here: module 'torch' has no attribute 'neuron'" in check("neuron")


@pytest.mark.parametrize("name", ["numpy", "torch", "torch-trace", "onnx", "jax"])
def test_missing_ops_are_those_without_a_benchmark(name):
    timed = {one.op for one in benchmarks(("pirl",)) if one.params["backend"] == name}
    assert missing_ops(backends.get(name)) == tuple(op for op in OPS if op not in timed)


@pytest.mark.slow
def test_check_without_a_backend_names_all(capsys):
    main(["check"])
    text = capsys.readouterr().out
    assert all(f"\n{name}: " in text for name in backends.backends_of("pirl"))
