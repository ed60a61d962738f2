"""Shapes as text, as in ``f32[B, O]``: what is said of an op's arguments is checked when it is built."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

KINDS = {"float": "f", "bfloat": "f", "int": "i", "uint": "u", "bool": "bool"}


def sizes(shapes: Mapping[str, str], values: Sequence[Any], **known: int) -> dict[str, int]:
    """Return the size of each axis that has a name, ``{"B": 32, "O": 100}`` for the example below.

    Args:
        shapes: what each value is, by its name: ``{"obs": "f32[B, O]", "actions": "i32[B]", "epsilon": "f32"}``. An
            axis is a number or a name; one name means one size. Of a dtype its kind counts, f, i, u or bool: what
            computes in float32 is tested in float64.
        values: arrays of NumPy, torch or JAX, or numbers, in the order of ``shapes``.
        known: sizes of axes that are known before.

    Raises:
        ValueError: a value of another shape or kind, or not as many values as shapes.
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
    """Return the kind, f, i, u or bool, and the axes of a shape like ``f32[B, 16]``; a number, ``f32``, has no axes.

    Args:
        shape: the text.
    """
    dtype, _, axes = shape.partition("[")
    return dtype.rstrip("0123456789"), re.findall(r"\w+", axes)


def kind_of(value: Any) -> str:
    """Return f, i, u or bool, of an array or of a number.

    Args:
        value: an array of NumPy, torch or JAX, or a number.
    """
    name = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.").rstrip("0123456789")
    return KINDS.get(name, name)


def count(shapes: Iterable[str], axes: Mapping[str, int] = MappingProxyType({})) -> int:
    """Return the number of elements of arrays in all.

    Args:
        shapes: of the arrays, such as ``f32[N, 64, H]``.
        axes: size of each axis that has a name.
    """
    return sum(math.prod(int(axes.get(name, name)) for name in parse(shape)[1]) for shape in shapes)


def described(value: Any) -> str:
    """Return dtype and shape, as in ``float32[32, 100]``, or the type of what is no array.

    Args:
        value: anything.
    """
    if not hasattr(value, "dtype"):
        return f"{value!r}" if isinstance(value, int | float) else type(value).__name__
    return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")


def check_op(described: Any, op: str, spec: Mapping[str, Any], example: Sequence[Any]) -> dict[str, int]:
    """Return the size of each axis of what an op is built from and called with: ``{"B": 32, "O": 100}``.

    Args:
        described: the ``spec`` module of a workload. Its ``Spec`` names all that a spec may have, ``NEEDED[op]`` what
            this op needs of it, ``ARGUMENTS[op]`` the shapes of what it is called with, and ``axes(op, spec)`` returns
            the sizes that the spec gives.
        op: name of the op.
        spec: what it is built from, by name.
        example: what it is called with.

    Raises:
        ValueError: a name that is unknown or lacking, shapes that do not fit each other, a target net of other shapes
            than the online net.
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
    """Check that a net has the shapes of another.

    Args:
        name: what its weights are, for the message.
        params: its weights, arrays by name.
        like: those of the other.

    Raises:
        ValueError: an array that one of them lacks, or another shape.
    """
    found, wanted = ({key: list(value.shape) for key, value in net.items()} for net in (params, like))
    if found != wanted:
        key = next(key for key in {**wanted, **found} if found.get(key) != wanted.get(key))
        raise ValueError(f"{name}: {key}: got {found.get(key)}, wanted {wanted.get(key)}, as in params")


def check_mlp(name: str, params: Mapping[str, Any]) -> tuple[int, int]:
    """Return the inputs and outputs of a net of fully connected layers, ``w{k}`` f32[I, O] and ``b{k}`` f32[O].

    Args:
        name: what these weights are, for the message.
        params: the weights.

    Raises:
        ValueError: layers that do not fit each other, or an array that is no layer's.
    """
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
