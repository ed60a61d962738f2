"""Compilers: turn a function or module into a callable that runs eagerly, traced, compiled or exported.

Each entry of ``COMPILERS`` takes a function (or a module with ``load(params)``), example arguments, and optionally
``guard``, which makes a context for torch to compute in, such as ``torch.inference_mode``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]


class Compiled:
    """A compiled model whose weights can be replaced without tracing again.

    ``load(params)`` replaces the weights and returns the new callable, or None to keep the current one.
    """

    def __init__(self, call: Function, load: Callable[[Any], Function | None]) -> None:
        self.call, self._load = call, load

    def __call__(self, *args: Any) -> Any:
        """Call the model with arguments like those it was compiled for."""
        return self.call(*args)

    def load(self, params: Any) -> None:
        """Replace the weights by a flat dict of NumPy arrays."""
        self.call = self._load(params) or self.call


@dataclass
class Compiler:
    """Compiles functions for a backend's device, and records them.

    Attributes:
        backend: name of the backend.
        transform: one of ``COMPILERS``.
        device: cpu, cuda or neuron.
        arrays: array library of the callables: numpy, torch, torch-cuda or jax.
        compiled: compiled callables and their example arguments.
    """

    backend: str
    transform: Callable[..., Any]
    device: str
    arrays: str
    compiled: list[tuple[Function, tuple[Any, ...]]] = field(default_factory=list)

    def compile(self, function: Any, example: tuple[Any, ...], **options: Any) -> Any:
        """Compile a function, or a module with ``load(params)``, for arguments like `example`.

        `options` belong to the compiler, such as ``guard``, or ``donate_argnums`` of ``jax.jit``.
        """
        result = self.transform(function, example, **options)
        self.compiled.append((result, example))
        return result


def eager(function: Any, example: tuple[Any, ...], guard: Any = None) -> Any:
    """Return a function unchanged; wrap a module so that it runs under ``guard`` and can load weights."""
    if not hasattr(function, "load"):
        return function
    return Compiled(guard()(function.forward) if guard else function, function.load)


def check_module(backend: str, module: Any) -> None:
    """Raise ValueError unless `module` is a torch module."""
    import torch

    if not isinstance(module, torch.nn.Module):
        name = getattr(module, "__name__", None)
        raise ValueError(f"{backend} compiles torch modules, not {f'the function {name}' if name else repr(module)}")


def trace(module: Any, example: tuple[Any, ...], guard: Any = None) -> Compiled:
    """Trace a torch module with ``torch.jit.trace`` and freeze it; new weights freeze it again.

    The weights become constants. The model is called with `example`, torch tensors, until torch has specialised it.
    """
    import torch

    check_module("torch-trace", module)

    with warnings.catch_warnings(action="ignore", category=DeprecationWarning), torch.no_grad():
        traced = torch.jit.trace(module.eval(), example)

    def freeze() -> Function:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            frozen = torch.jit.freeze(traced)
            call: Function = guard()(lambda *args: frozen(*args)) if guard else frozen
            for _ in range(3):  # the profiling executor specialises during the first calls
                call(*example)
        return call

    def load(params: Any) -> Function:
        module.load(params)  # the traced module shares its parameters
        return freeze()

    return Compiled(freeze(), load)


def compile_(function: Any, example: tuple[Any, ...], guard: Any = None, **options: Any) -> Any:
    """Compile with ``torch.compile`` into one graph for one shape; graph breaks and recompilation are errors.

    `options` are passed to ``torch.compile``, which compiles for the arguments of the first call.
    """
    import inspect

    import torch

    # Keep graphs separate: otherwise the ninth prepared shape of a function would exceed torch's limit.
    apart = {"isolate_recompiles": True, "recompile_limit": 1}
    if not apart.keys() <= inspect.signature(torch.compile).parameters.keys():  # before torch 2.13
        apart = {}
        torch._dynamo.config.recompile_limit = 256  # of all functions with the same code together
    compiled = torch.compile(function, dynamic=False, fullgraph=True, **apart, **options)
    if not hasattr(function, "load"):
        return compiled
    return Compiled(guard()(lambda *args: compiled(*args)) if guard else compiled, function.load)


def int8(model: Any) -> Any:
    """Quantise the weights of a float32 ``onnx.ModelProto`` to int8.

    Activations are quantised in each call, by their range in that call.

    Weights use 7 of the 8 bits, so that all processors give the same results: those without VNNI add pairs of byte
    products in 16 bits, which larger weights overflow. Deletes the model's intermediate shapes.
    """
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quant_utils, quantize_dynamic

    quant_utils.add_pre_process_metadata(model)  # suppresses a warning that advises optimising the graph
    del model.graph.value_info[:]  # shapes that are wrong once weights are transposed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QInt8, reduce_range=True)
        return onnx.load(path)


def onnx(module: Any, example: tuple[Any, ...], guard: Any = None, quantised: bool = False) -> Compiled:
    """Export a torch module to ONNX and run it with onnxruntime on NumPy arrays.

    New weights replace those in the graph. `example` are tensors or NumPy arrays; `quantised` computes in int8, see
    :func:`int8`.
    """
    import io
    import logging

    import numpy as np
    import onnx
    import onnxruntime
    import torch

    check_module("onnx", module)
    buffer = io.BytesIO()
    inputs = tuple(torch.as_tensor(value) for value in example)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(module.eval(), inputs, buffer, dynamo=True, verbose=False, optimize=False)
    model = onnx.load_from_string(buffer.getvalue())
    names = [value.name for value in model.graph.input]

    def session() -> Function:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        graph = (int8(model) if quantised else model).SerializeToString()
        run = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"]).run
        return lambda *args: run(None, dict(zip(names, args, strict=True)))[0]

    def load(params: Any) -> Function:
        module.load(params)
        state = module.state_dict()
        for tensor in model.graph.initializer:
            if tensor.name in state:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(state[tensor.name]), tensor.name))
        return session()

    return Compiled(session(), load)


def neuron(module: Any, example: tuple[Any, ...], guard: Any = None, autocast: bool = False) -> Any:
    """Return a :class:`.neuron.NeuronModel` that pads batches to the next of ``neuron.SIZES``.

    It is compiled now for the size that fits the example, f[B, S], and for other sizes when a batch first needs them.
    """
    from .neuron import SIZES, NeuronModel

    model = NeuronModel(module, example[0], SIZES, autocast, lazy=True)
    model(example[0])
    return model


def jit(function: Function, example: tuple[Any, ...], **options: Any) -> Function:
    """Compile a pure function of arrays with ``jax.jit``."""
    import jax

    compiled: Function = jax.jit(function, **options)
    return compiled


COMPILERS: dict[str, Callable[..., Any]] = {
    "eager": eager,
    "trace": trace,
    "compile": compile_,
    "onnx": onnx,
    "neuron": neuron,
    "jit": jit,
}
