"""What all correctness tests share."""

from __future__ import annotations

import functools

import pytest

from .neuron_standin import INSTALL, install_xla


@pytest.fixture(scope="session", autouse=True)
def exporter_parses_its_operators_once():
    """PyTorch's ONNX exporter parses all its 500 operators anew at each export, two thirds of a small net's export."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    parse = ONNXRegistry.from_torchlib
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(parse)))
        yield


@pytest.fixture(params=INSTALL)
def stand_in(request, monkeypatch):
    """A stand-in for each line of torch-neuronx. -> what it has compiled"""
    return INSTALL[request.param](monkeypatch)


@pytest.fixture
def xla(monkeypatch):
    """The stand-in for the XLA line of torch-neuronx. -> what it has traced"""
    return install_xla(monkeypatch)


@pytest.fixture(scope="module")
def one_thread():
    """Two threads of so small a product wait for each other most of the time where others use the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
