"""The exporter's operators are parsed once in a process, and another PyTorch is left as it is."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from perf_tests.suite.exporter import parse_once

PLACE = "torch.onnx._internal.exporter._registration"


def test_operators_are_parsed_once(monkeypatch):
    parsed = []

    class Registry:
        @staticmethod
        def from_torchlib():
            parsed.append(1)
            return object()

    monkeypatch.setitem(sys.modules, PLACE, SimpleNamespace(ONNXRegistry=Registry))
    parse_once.__wrapped__()
    assert Registry.from_torchlib() is Registry().from_torchlib()
    assert parsed == [1]


@pytest.mark.parametrize("module", [None, SimpleNamespace(), SimpleNamespace(ONNXRegistry=SimpleNamespace())])
def test_where_there_is_no_such_place_nothing_is_changed(monkeypatch, module):
    monkeypatch.setitem(sys.modules, PLACE, module)
    parse_once.__wrapped__()
    assert not vars(getattr(module, "ONNXRegistry", SimpleNamespace()))
