"""Stand-ins for torch-neuronx, which runs only on AWS machines: the same functions, computed by torch on the CPU.

They test the handling of batches, weights and files, but not Neuron's speed or precision. ``rl_impls`` refuses to time
them.
"""

import copy
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType, SimpleNamespace


def stand_in_module(**attributes):
    module = ModuleType("torch_neuronx", "A stand-in.")
    module.__spec__ = ModuleSpec("torch_neuronx", None)
    module.STAND_IN = True
    vars(module).update(attributes)
    return module


def install_xla(monkeypatch):
    """Install a stand-in for the XLA version; return the list of its traces."""
    import torch

    traces = []

    class OneShape(torch.nn.Module):
        """A traced model that accepts only the shape it was traced for, as on Neuron."""

        def __init__(self, traced, shape):
            super().__init__()
            self.traced = traced
            self.shape = shape

        def forward(self, x):
            if x.shape != self.shape:
                raise ValueError("stand-in: not the shape this model was traced for")
            return self.traced(x)

    def trace(
        func,
        example_inputs,
        *_,
        input_output_aliases=MappingProxyType({}),
        compiler_workdir=None,
        compiler_args=None,
        partitioner_config=None,
        inline_weights_to_neff=True,
        cpu_backend=False,
    ):
        traces.append({"shape": tuple(example_inputs.shape), "compiler_args": compiler_args})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            # a copy, because a model traced for Neuron does not share the module's weights
            traced = torch.jit.trace(copy.deepcopy(func).eval(), example_inputs)
            if inline_weights_to_neff:
                traced = torch.jit.freeze(traced)
            return torch.jit.script(OneShape(traced, list(example_inputs.shape)))

    @torch.no_grad()
    def replace_weights(neuron_model, weights):
        weights = weights if isinstance(weights, dict) else weights.state_dict()
        own = dict(neuron_model.traced.named_parameters())
        if not own:
            warnings.warn("stand-in: the model has no separate weights", stacklevel=2)
        for name, tensor in own.items():
            tensor.copy_(weights[name])

    module = stand_in_module(trace=trace, replace_weights=replace_weights)
    monkeypatch.setitem(sys.modules, "torch_neuronx", module)
    return traces


def install_native(monkeypatch):
    """Install a stand-in for the native version; return the list of its compilations."""
    import torch
    import torch._dynamo
    from torch._dynamo.backends import registry

    from rl_impls import neuron

    graphs = []

    def neuron_stand_in(graph, example_inputs):
        if not all(isinstance(value, torch.Tensor) for value in example_inputs):
            raise TypeError("stand-in: Neuron has no dynamic shapes")
        graphs.append({"shapes": [tuple(value.shape) for value in example_inputs]})
        return graph.forward

    neuron_stand_in._tags = ()
    torch._dynamo.reset()
    # like torch._dynamo.register_backend, but undone after the test
    monkeypatch.setitem(registry._BACKENDS, "neuron", None)
    monkeypatch.setitem(registry._COMPILER_FNS, "neuron", neuron_stand_in)
    namespace = SimpleNamespace(STAND_IN=True, device_count=lambda: 1, synchronize=lambda: None)
    monkeypatch.setattr(torch, "neuron", namespace, raising=False)
    monkeypatch.setattr(neuron, "DEVICE", "cpu")
    monkeypatch.setitem(sys.modules, "torch_neuronx", stand_in_module())
    return graphs


INSTALL = {"xla": install_xla, "native": install_native}
