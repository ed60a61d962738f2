"""How a function, or a module, becomes what is called: eagerly, traced, compiled, exported.

Each of ``LOWERINGS`` takes ``function`` (or a module with ``load(params)``), ``example``, arguments like those of the
calls to come, and ``guard``, which makes a context in which torch computes, as ``torch.inference_mode``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]


class Lowered:
    """A model ready to be called, which can take new weights without being traced again.

    Args:
        call: the model.
        load: ``load(params)``, takes new weights and returns what is called from then on; None: what was called before.
    """

    def __init__(self, call: Function, load: Callable[[Any], Function | None]) -> None:
        self.call, self._load = call, load

    def __call__(self, *args: Any) -> Any:
        """Return the model's output.

        Args:
            args: as in the example that it was lowered for.
        """
        return self.call(*args)

    def load(self, params: Any) -> None:
        """Take new weights.

        Args:
            params: a flat dict of NumPy arrays.
        """
        self.call = self._load(params) or self.call


@dataclass
class Target:
    """What a builder builds for: a backend's device and its lowering, with a record of what was lowered.

    Attributes:
        backend: its name.
        lowering: one of ``LOWERINGS``, makes what is called of a function or a module.
        device: cpu, cuda or neuron.
        arrays: whose arrays the callables take: numpy, torch, torch-cuda or jax.
        lowered: what was lowered, and for which arguments.
    """

    backend: str
    lowering: Callable[..., Any]
    device: str
    arrays: str
    lowered: list[tuple[Function, tuple[Any, ...]]] = field(default_factory=list)

    def lower(self, function: Any, example: tuple[Any, ...], **options: Any) -> Any:
        """Return what this backend calls in place of a function or a module.

        Args:
            function: a function, or a module with ``load(params)``.
            example: arguments like those of the calls to come.
            options: more arguments of the lowering, as ``guard``, or ``donate_argnums`` of ``jax.jit``.
        """
        result = self.lowering(function, example, **options)
        self.lowered.append((result, example))
        return result


def eager(function: Any, example: tuple[Any, ...], guard: Any = None) -> Any:
    """Return the function unchanged; a module is called under ``guard`` and can take new weights.

    Args:
        function: a function, or a module.
        example: unused: nothing depends on shapes.
        guard: makes the context of each call of a module; None for none.
    """
    if not hasattr(function, "load"):
        return function
    return Lowered(guard()(function.forward) if guard else function, function.load)


def check_module(backend: str, module: Any) -> None:
    """Check that what is to be lowered is a torch module.

    Args:
        backend: its name, for the error.
        module: what was given.

    Raises:
        ValueError: it is none, as a function is.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        name = getattr(module, "__name__", None)
        raise ValueError(f"{backend}: got {f'the function {name}' if name else repr(module)}, wanted a torch module")


def trace(module: Any, example: tuple[Any, ...], guard: Any = None) -> Lowered:
    """Return a module traced by ``torch.jit.trace`` and frozen: its weights are constants; new ones are frozen again.

    Args:
        module: a torch module.
        example: its arguments, torch tensors; it is called with them until torch has specialised it.
        guard: makes the context of each call; None for none.

    Raises:
        ValueError: it is no torch module.
    """
    import torch

    check_module("torch-trace", module)

    def freeze(traced: Any) -> Function:
        frozen = torch.jit.freeze(traced)
        call: Function = guard()(lambda *args: frozen(*args)) if guard else frozen
        for _ in range(3):  # the profiling executor specialises on the first calls
            call(*example)
        return call

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", DeprecationWarning)
        traced = torch.jit.trace(module.eval(), example)

    def load(params: Any) -> Function:
        module.load(params)  # the traced module shares its parameters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return freeze(traced)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return Lowered(freeze(traced), load)


def compile_(function: Any, example: tuple[Any, ...], guard: Any = None, **options: Any) -> Any:
    """Return what ``torch.compile`` makes: one graph for one shape; a second graph or a fall back to eager is an error.

    Args:
        function: a function, or a module.
        example: unused: torch compiles for the arguments of the first call.
        guard: makes the context of each call of a module; None for none.
        options: of ``torch.compile``.
    """
    import inspect

    import torch

    # Graphs are kept apart: otherwise the ninth prepared shape of one function silently runs eagerly.
    apart = {"isolate_recompiles": True, "recompile_limit": 1}
    known = inspect.signature(torch.compile).parameters  # torch 2.11 has neither
    apart = {name: value for name, value in apart.items() if name in known}
    compiled = torch.compile(function, dynamic=False, fullgraph=True, **apart, **options)
    if not hasattr(function, "load"):
        return compiled
    return Lowered(guard()(lambda *args: compiled(*args)) if guard else compiled, function.load)


def int8(model: Any) -> Any:
    """Return an ONNX model with int8 weights; its activations are quantised in each call, by their own range.

    Weights use 7 of the 8 bits: processors without VNNI add pairs of products of bytes in 16 bits, which larger ones
    overflow, and all are to compute the same.

    Args:
        model: an ``onnx.ModelProto`` in float32; its intermediate shapes are deleted.
    """
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quant_utils, quantize_dynamic

    quant_utils.add_pre_process_metadata(model)  # otherwise it logs the advice to optimise the graph before
    del model.graph.value_info[:]  # shapes of weights, which are transposed on the way
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QInt8, reduce_range=True)
        return onnx.load(path)


def onnx(module: Any, example: tuple[Any, ...], guard: Any = None, quantised: bool = False) -> Lowered:
    """Return a module exported to ONNX and run by onnxruntime, from and to NumPy; new weights replace the graph's.

    Args:
        module: a torch module.
        example: its arguments, tensors or NumPy arrays.
        guard: unused: onnxruntime keeps no gradients.
        quantised: compute in int8, see :func:`int8`.

    Raises:
        ValueError: it is no torch module.
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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

    return Lowered(session(), load)


def neuron(module: Any, example: tuple[Any, ...], guard: Any = None, autocast: bool = False) -> Any:
    """Return a :class:`.neuron.NeuronModel`, compiled for AWS Neuron for exactly the batch size of the example.

    Args:
        module: a torch module, f[B, S] -> f[B, A].
        example: its one argument, f[B, S].
        guard: unused: the model has its own.
        autocast: let the compiler compute float32 matrix products in bfloat16.
    """
    from .neuron import NeuronModel

    return NeuronModel(module, example[0], sizes=(example[0].shape[0],), autocast=autocast)


def jit(function: Function, example: tuple[Any, ...], **options: Any) -> Function:
    """Return a function compiled by ``jax.jit``.

    Args:
        function: a pure function of arrays.
        example: unused: JAX compiles for the arguments of the first call.
        options: of ``jax.jit``.
    """
    import jax

    compiled: Function = jax.jit(function, **options)
    return compiled


LOWERINGS: dict[str, Callable[..., Any]] = {
    "eager": eager,
    "trace": trace,
    "compile": compile_,
    "onnx": onnx,
    "neuron": neuron,
    "jit": jit,
}
