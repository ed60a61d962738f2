"""Shapes as text, such as ``f32[B, O]``, which document the arrays of a workload and count their elements."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType


def axes(shape: str) -> list[str]:
    """Return the axes of a shape: ``["B", "16"]`` for ``f32[B, 16]``, none for ``f32``."""
    return re.findall(r"\w+", shape.partition("[")[2])


def count(shapes: Iterable[str], sizes: Mapping[str, int] = MappingProxyType({})) -> int:
    """Return the total number of elements of arrays with these shapes; `sizes` are those of named axes."""
    return sum(math.prod(int(sizes.get(axis, axis)) for axis in axes(shape)) for shape in shapes)
