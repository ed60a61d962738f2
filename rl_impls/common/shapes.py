"""Shapes as text, such as ``f32[B, O]``, for checking an op's arguments when it is built."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

KINDS = {"float": "f", "bfloat": "f", "int": "i", "uint": "u", "bool": "bool"}


def sizes(shapes: Mapping[str, str], values: Sequence[Any], **known: int) -> dict[str, int]:
    """Check values against their shapes and return the size of each named axis, such as ``{"B": 32, "O": 100}``.

    Args:
        shapes: shape of each value by name: ``{"obs": "f32[B, O]", "actions": "i32[B]", "epsilon": "f32"}``. An axis is
            a number or a name, and a name always has the same size. Of a dtype only the kind matters (f, i, u or bool),
            because float32 ops are tested in float64.
        values: NumPy, torch or JAX arrays, or numbers, in the order of ``shapes``.
        known: axis sizes that are already known.

    Raises:
        ValueError: a value of another shape or kind, or the wrong number of values.
    """
    if len(values) != len(shapes):
        raise ValueError(f"arguments: got {len(values)}, wanted {len(shapes)}: {', '.join(shapes)}")
    for (name, wanted), value in zip(shapes.items(), values, strict=True):
        kind, axes = parse(wanted)
        shape = tuple(getattr(value, "shape", ()))
        right = kind_of(value) == kind and len(shape) == len(axes)
        if right:
            found = {axis: size for axis, size in zip(axes, shape, strict=True) if not axis.isdecimal()}
            known = found | known
            right = all(int(known.get(axis, axis)) == size for axis, size in zip(axes, shape, strict=True))
        if not right:
            given = "".join(f", {axis} = {known[axis]}" for axis in axes if axis in known)
            raise ValueError(f"{name}: got {described(value)}, wanted {wanted}{given}")
    return known


def parse(shape: str) -> tuple[str, list[str]]:
    """Return the kind (f, i, u or bool) and the axes of a shape like ``f32[B, 16]``; ``f32`` has no axes."""
    dtype, _, axes = shape.partition("[")
    return dtype.rstrip("0123456789"), re.findall(r"\w+", axes)


def kind_of(value: Any) -> str:
    """Return f, i, u or bool for an array or a number."""
    name = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.").rstrip("0123456789")
    return KINDS.get(name, name)


def count(shapes: Iterable[str], axes: Mapping[str, int] = MappingProxyType({})) -> int:
    """Return the total number of elements of arrays with these shapes."""
    return sum(math.prod(int(axes.get(name, name)) for name in parse(shape)[1]) for shape in shapes)


def described(value: Any) -> str:
    """Return dtype and shape, as in ``float32[32, 100]``, or else the value or the name of its type."""
    if not hasattr(value, "dtype"):
        return f"{value!r}" if isinstance(value, int | float) else type(value).__name__
    return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")


def check_op(described: Any, op: str, spec: Mapping[str, Any], example: Sequence[Any]) -> dict[str, int]:
    """Check an op's configuration and example arguments; return the size of each axis.

    Args:
        described: the ``spec`` module of a workload: ``Spec`` declares all configuration entries, ``NEEDED[op]`` those
            of this op, ``ARGUMENTS[op]`` the shapes of its arguments; ``axes(op, spec)`` returns the sizes that the
            configuration determines.
        op: name of the op.
        spec: configuration by name.
        example: example arguments.

    Raises:
        ValueError: unknown or missing entries, inconsistent shapes, or a target net whose shapes differ from the online
            net's.
    """
    known, needed = described.Spec.__annotations__, described.NEEDED[op]
    for name in spec:
        if name not in known:
            raise ValueError(f"spec of {op}: got the unknown name {name!r}; known: {', '.join(known)}")
    lacking = [name for name in needed if name not in spec]
    if lacking:
        raise ValueError(f"spec of {op}: got no {', '.join(lacking)}; wanted {', '.join(needed)}")
    given = described.axes(op, spec)
    if {"params", "target"} <= set(needed):
        check_alike("target", spec["target"], spec["params"])
    return sizes(described.ARGUMENTS[op], example, **given)


def check_alike(name: str, params: Mapping[str, Any], like: Mapping[str, Any]) -> None:
    """Raise ValueError unless two nets have the same names and shapes."""
    found, wanted = ({key: list(value.shape) for key, value in net.items()} for net in (params, like))
    if found != wanted:
        key = next(key for key in {**wanted, **found} if found.get(key) != wanted.get(key))
        raise ValueError(f"{name}: {key}: got {found.get(key)}, wanted {wanted.get(key)}, as in params")


def check_mlp(name: str, params: Mapping[str, Any]) -> tuple[int, int]:
    """Check the layers ``w{k}`` f32[I, O], ``b{k}`` f32[O] of an MLP; return its input and output size."""
    layers = [name for name in params if name.startswith("w")]
    wanted: dict[str, str] = {}
    for k in range(len(layers)):
        wanted |= {f"w{k}": f"f32[H{k}, H{k + 1}]", f"b{k}": f"f32[H{k + 1}]"}
    if not layers or params.keys() != wanted.keys():
        raise ValueError(f"{name}: got {', '.join(sorted(params))}, wanted w0, b0, w1, b1, ...")
    try:
        widths = sizes(wanted, [params[layer] for layer in wanted])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return widths["H0"], widths[f"H{len(layers)}"]
