"""How a function as written becomes the function that is called: eagerly, traced, compiled, exported."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]


class Lowered:
    """A model ready to be called, which can take new weights without being traced again."""

    def __init__(self, call: Function, load: Callable[[Any], Function | None]) -> None:
        self.call, self._load = call, load

    def __call__(self, *args: Any) -> Any:
        """Call the model."""
        return self.call(*args)

    def load(self, params: Any) -> None:
        """Take new weights: a flat dict of NumPy arrays."""
        self.call = self._load(params) or self.call


@dataclass
class Target:
    """What a builder builds for: a backend's device and its way of lowering, with a record of what was lowered.

    Attributes:
        backend: its name.
        lowering: makes of a function, or a module, and an example of its arguments what is called.
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
        """Return a function (or a module) as this backend calls it, for arguments like ``example``."""
        result = self.lowering(function, example, **options)
        self.lowered.append((result, example))
        return result


def eager(function: Any, example: tuple[Any, ...], guard: Any = None) -> Any:
    """Call the function as it is, under ``guard`` (``torch.inference_mode``, say)."""
    if not hasattr(function, "load"):
        return function
    return Lowered(guard()(function.forward) if guard else function, function.load)


def trace(module: Any, example: tuple[Any, ...], guard: Any = None) -> Lowered:
    """``torch.jit.trace`` and freeze: the weights become constants, new ones are frozen in again."""
    import torch

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
    """``torch.compile``: one graph for one shape; a second graph, or a fall back to eager, is an error."""
    import torch

    # Graphs are kept apart: otherwise the ninth prepared shape of one function silently runs eagerly.
    compiled = torch.compile(
        function, dynamic=False, fullgraph=True, isolate_recompiles=True, recompile_limit=1, **options
    )
    if not hasattr(function, "load"):
        return compiled
    return Lowered(guard()(lambda *args: compiled(*args)) if guard else compiled, function.load)


def int8(model: Any) -> Any:
    """Return an ONNX model with weights of 8 bits, its activations quantised as they come."""
    import tempfile
    from pathlib import Path

    import onnx
    from onnxruntime.quantization import QuantType, quant_utils, quantize_dynamic

    quant_utils.add_pre_process_metadata(model)  # otherwise it logs the advice to optimise the graph before
    del model.graph.value_info[:]  # shapes of weights, which are transposed on the way
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(model, path, weight_type=QuantType.QInt8)
        return onnx.load(path)


def onnx(module: Any, example: tuple[Any, ...], guard: Any = None, quantised: bool = False) -> Lowered:
    """Export to ONNX and run in onnxruntime, from and to NumPy; new weights replace the graph's initialisers."""
    import io
    import logging

    import numpy as np
    import onnx
    import onnxruntime
    import torch

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
    """Compile for AWS Neuron, for exactly the example's batch size."""
    from .neuron import NeuronModel

    return NeuronModel(module, example[0], sizes=(example[0].shape[0],), autocast=autocast)


def jit(function: Function, example: tuple[Any, ...], **options: Any) -> Function:
    """``jax.jit``."""
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
