"""A cache for PyTorch's ONNX exporter: parsing its 500 operators takes two thirds of exporting a small net."""

from __future__ import annotations

import functools


@functools.cache
def parse_once() -> None:
    """Cache the parsed operators for this process; do nothing if this PyTorch version has no such registry."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:
        return
    if hasattr(ONNXRegistry, "from_torchlib"):
        ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
