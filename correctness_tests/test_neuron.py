"""The Neuron backend: the reasons why it cannot run here."""

import importlib.abc
import importlib.machinery
import sys
from types import SimpleNamespace

import pytest

from rl_impls import backends, neuron

from .neuron_standin import stand_in_module


class FailingImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An installed torch_neuronx whose import raises an error."""

    def __init__(self, error):
        self.error = error

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch_neuronx" else None

    def exec_module(self, module):
        raise self.error


@pytest.fixture
def installed(monkeypatch):
    """Return a function that makes the import of torch_neuronx raise an error."""

    def install(error):
        monkeypatch.delitem(sys.modules, "torch_neuronx", raising=False)
        monkeypatch.setattr(sys, "meta_path", [FailingImport(error), *sys.meta_path])

    return install


def install_real(monkeypatch, **attributes):
    module = stand_in_module(**attributes)
    del module.STAND_IN
    monkeypatch.setitem(sys.modules, "torch_neuronx", module)


def test_absent_package_is_reported_as_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_neuronx", None)
    assert neuron.missing() == "torch_neuronx is not installed"


def test_placeholder_is_found_but_reported_as_a_placeholder(installed):
    installed(ImportError("WRONG PACKAGE. Please install the package from AWS's own index."))
    assert importlib.util.find_spec("torch_neuronx") is not None
    assert neuron.missing() == "the installed torch_neuronx is a placeholder, not AWS's package"


def test_xla_line_without_device_files_is_reported_as_without_a_device(monkeypatch, tmp_path):
    install_real(monkeypatch, trace=lambda: None)
    monkeypatch.setattr(neuron, "DEVICE_FILES", str(tmp_path / "neuron*"))
    assert neuron.missing() == "torch_neuronx is installed but finds no Neuron device"
    (tmp_path / "neuron0").touch()
    assert neuron.missing() is None


def test_native_line_is_available_with_a_device_only(monkeypatch):
    import torch

    install_real(monkeypatch)
    for devices, reason in ((0, "torch_neuronx is installed but finds no Neuron device"), (1, None)):
        monkeypatch.setattr(torch, "neuron", SimpleNamespace(device_count=lambda count=devices: count), raising=False)
        assert neuron.missing() == reason


def test_broken_install_raises_its_own_error(installed):
    error = ModuleNotFoundError(name="torch_xla")
    installed(error)
    with pytest.raises(ImportError) as caught:
        neuron.missing()
    assert caught.value is error


@pytest.mark.usefixtures("stand_in")
def test_stand_in_is_never_used_for_timing():
    with pytest.raises(backends.BackendUnavailable, match="stand-in: its timings mean nothing"):
        backends.get("neuron").require()
