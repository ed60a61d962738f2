"""What all correctness tests share."""

from __future__ import annotations

import functools

import pytest


@pytest.fixture(scope="session", autouse=True)
def exporter_parses_its_operators_once():
    """PyTorch's ONNX exporter parses all its 500 operators anew at each export, two thirds of a small net's export."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    parse = ONNXRegistry.from_torchlib
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(parse)))
        yield
