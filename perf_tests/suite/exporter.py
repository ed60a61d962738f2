"""PyTorch's ONNX exporter parses all its 500 operators anew at each export, two thirds of a small net's export."""

from __future__ import annotations

import functools


@functools.cache
def parse_once() -> None:
    """Have it parse them once in this process; where another PyTorch has no such place, leave it as it is."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:
        return
    if hasattr(ONNXRegistry, "from_torchlib"):
        ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
