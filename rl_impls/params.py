"""Weights as a flat ``dict[str, np.ndarray]``: initialise, check, save and load."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .common.files import write_whole

Params = dict[str, npt.NDArray[np.generic]]
DIGEST = "sha256"


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or that belongs to another architecture."""


def init_mlp(rng: np.random.Generator, sizes: Sequence[int]) -> Params:
    """Return random weights of a fully connected net, uniform in +-1/sqrt(fan_in).

    Layer ``k`` has ``w{k}`` f32[sizes[k], sizes[k+1]] and ``b{k}`` f32[sizes[k+1]]; `sizes` are the widths of the
    input, of each hidden layer and of the output.
    """
    if len(sizes) < 2 or any(size < 1 for size in sizes):
        raise ValueError(f"sizes={tuple(sizes)} should be at least two layer widths of 1 or more")
    params: Params = {}
    for k, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        bound = fan_in**-0.5
        params[f"w{k}"] = rng.uniform(-bound, bound, (fan_in, fan_out)).astype(np.float32)
        params[f"b{k}"] = rng.uniform(-bound, bound, fan_out).astype(np.float32)
    return params


def count_mlp(sizes: Sequence[int]) -> int:
    """Return the number of weights of an MLP with these layer widths, without biases."""
    return sum(fan_in * fan_out for fan_in, fan_out in itertools.pairwise(sizes))


def layers(params: Mapping[str, npt.NDArray[np.generic]]) -> int:
    """Return the number of fully connected layers ``w{k}``, ``b{k}``."""
    return sum(name.startswith("w") for name in params)


def save(path: str | os.PathLike[str], params: Mapping[str, npt.NDArray[np.generic]], **metadata: str) -> None:
    """Write weights and metadata atomically to a safetensors file, with a digest of its contents."""
    from safetensors.numpy import save as to_bytes

    arrays = {name: np.array(value, order="C") for name, value in params.items()}
    write_whole(Path(path), to_bytes(arrays, metadata={**metadata, DIGEST: digest(arrays, metadata)}))


def digest(params: Mapping[str, npt.NDArray[np.generic]], metadata: Mapping[str, str]) -> str:
    """Return the hexadecimal SHA-256 of names, dtypes, shapes, values and metadata."""
    head = json.dumps([sorted(signature(params).items()), sorted(metadata.items())])
    total = hashlib.sha256(head.encode())
    for name in sorted(params):
        total.update(params[name].tobytes())
    return total.hexdigest()


def load(path: str | os.PathLike[str], like: Mapping[str, npt.NDArray[np.generic]] | None = None) -> Params:
    """Return the arrays of a safetensors file by name.

    Raises:
        CheckpointError: the file is corrupt or truncated, or does not match the names, shapes and dtypes of `like`.
    """
    params, _ = load_with_metadata(path)
    return params if like is None else match(path, params, like)


def load_with_metadata(path: str | os.PathLike[str]) -> tuple[Params, dict[str, str]]:
    """Return arrays and metadata of a safetensors file, after checking its digest if it has one.

    Raises:
        CheckpointError: the file is corrupt or truncated.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    data = Path(path).read_bytes()
    try:
        params: Params = from_bytes(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file ({error}); give another file") from error
    if metadata.pop(DIGEST, None) not in (None, digest(params, metadata)):
        raise CheckpointError(f"{path}: corrupt (its contents do not match its digest); give another file")
    return params, metadata


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the metadata of a safetensors file without reading its arrays or checking its digest."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > os.fstat(file.fileno()).st_size:
            raise CheckpointError(f"{path}: not a safetensors file; give another file")
        head = file.read(length)
    try:
        metadata: dict[str, str] = json.loads(head).get("__metadata__") or {}
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a safetensors file ({error}); give another file") from error
    return metadata


def match(
    path: str | os.PathLike[str],
    params: Mapping[str, npt.NDArray[np.generic]],
    like: Mapping[str, npt.NDArray[np.generic]],
) -> Params:
    """Return `params` in the order of `like`; raise CheckpointError if names, shapes or dtypes differ."""
    found, expected = signature(params), signature(like)
    wrong = [
        f"{name} is {found.get(name, 'missing')} and should be {expected.get(name, 'left out')}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if wrong:
        raise CheckpointError(f"{path}: weights of another architecture ({'; '.join(wrong[:4])})")
    return {name: params[name] for name in like}


def signature(params: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, str]:
    """Return dtype and shape of each array by name, for example ``float32[16, 32]``."""
    return {name: f"{value.dtype}{list(value.shape)}" for name, value in params.items()}
