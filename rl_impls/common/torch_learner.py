"""What the torch workloads share: nets of linear layers, nets that an optimiser updates, and a target net beside."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..params import layers
from .op import Op

GUARDS = {"grad": lambda: lambda call: call, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}  # Adam's names of them
AT_ONCE = {"loop": {"foreach": False}, "default": {}, "fused": {"fused": True}}  # by the knob ``optimizer``
FOREACH = {"loop": False, "default": None, "fused": True}  # of clipping, by the same
PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def place(target):
    """Return the name of the torch device of a backend, cpu or cuda.

    Args:
        target: device and lowering of the backend, a :class:`~rl_impls.lowering.Target`.
    """
    return "cuda" if target.device == "cuda" else "cpu"


def autocast(knobs, target):
    """Return the context in which a net computes: less precisely than in 32 bits where ``precision`` says so.

    Args:
        knobs: ``precision`` is read.
        target: device and lowering of the backend.
    """
    if knobs.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(place(target), PRECISIONS[knobs.precision])


@contextlib.contextmanager
def threads(count):
    """Return a context in which torch's operations have so many threads.

    Args:
        count: of the threads; None for as many as they have.
    """
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def numpy(net):
    """Return a copy of a net's weights as NumPy, by name.

    Args:
        net: with ``views()``, see :class:`Mlp`.
    """
    return {name: view.cpu().numpy().copy() for name, view in net.views().items()}


class Mlp(nn.Sequential):
    """Fully connected layers with an activation between them.  f[B, I] -> f[B, O]

    Args:
        params: weights ``w{k}`` f[I, O] and biases ``b{k}`` f[O] of each layer k.
        activation: makes the module between two layers, as ``nn.Tanh``.
        output: makes the module after the last layer; None for none.
    """

    def __init__(self, params, activation, output=None):
        weights = [torch.from_numpy(params[f"w{k}"]) for k in range(layers(params))]
        linears = [nn.Linear(*weight.shape, dtype=weight.dtype) for weight in weights]
        hidden = [layer for linear in linears[:-1] for layer in (linear, activation())]
        super().__init__(*hidden, linears[-1], *([output()] if output else []))
        self.linears = linears
        self.load(params)

    @torch.no_grad()
    def load(self, params):
        """Take new weights, in place.

        Args:
            params: NumPy arrays by name, of the shapes of those before.
        """
        for k, linear in enumerate(self.linears):
            linear.weight.copy_(torch.from_numpy(params[f"w{k}"].T))
            linear.bias.copy_(torch.from_numpy(params[f"b{k}"]))

    def views(self):
        """Return the weights by name, [I, O], which share the memory of the parameters and come in their order."""
        views = {}
        for k, linear in enumerate(self.linears):
            views[f"w{k}"], views[f"b{k}"] = linear.weight.detach().T, linear.bias.detach()
        return views

    to_params_layout = staticmethod(np.transpose)


def as_one_vector(parameters):
    """Return one vector that holds all parameters; they become views of it, and their gradients views of its gradient.

    Args:
        parameters: a list of tensors, changed in place.
    """
    vector = nn.Parameter(nn.utils.parameters_to_vector(parameters).detach())
    vector.grad = torch.zeros_like(vector)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, data, grad in zip(parameters, vector.detach().split(sizes), vector.grad.split(sizes)):
        parameter.data, parameter.grad = data.view_as(parameter), grad.view_as(parameter)
    return vector


class Trained(Op):
    """A net that an optimiser updates: its weights, the optimiser's moments and its steps.

    The optimiser sees ``updated``: the parameters one by one or, where ``flat``, one vector of which they are views.

    A net has ``load(params)``, ``views()`` by name in the order of ``parameters()``, and ``to_params_layout``, which
    takes an array in the layout of a parameter to a view of it in the layout of the weight of that name.

    Args:
        params: weights of the net at the start, by name.
        make: ``make(params)``, returns a net.
        optimizer: ``optimizer(tensors)``, returns an optimiser of torch.
        moments: what the optimiser keeps of each tensor, its name in torch by its name in :meth:`state`.
        flat: give the optimiser one vector in place of all parameters.
    """

    def __init__(self, params, make, optimizer, moments=MOMENTS, flat=False):
        self.start, self.net = {"online": params}, make(params)
        self.nets = {"online": self.net}
        self.parameters = list(self.net.parameters())
        self.updated = [as_one_vector(self.parameters)] if flat else self.parameters
        self.make_optimizer, self.moments = optimizer, moments

    @functools.cached_property
    def optimizer(self):
        """The optimiser, made when it is first asked for: a process that only acts does not import what it needs."""
        return self.make_optimizer(self.updated)

    def reset(self):
        """Put all weights and the moments back to the start."""
        for part, net in self.nets.items():
            net.load(self.start[part])
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return numpy(self.net)

    def state(self):
        """Return all that the next update depends on as NumPy: the weights, the optimiser's moments and step."""
        kept = [self.optimizer.state.get(tensor) for tensor in self.updated]
        state = {"step": np.array(int(kept[-1]["step"]) if kept[-1] else 0, np.int32)}
        for part, key in self.moments.items():
            found = [of[key] if of else torch.zeros_like(tensor) for of, tensor in zip(kept, self.updated)]
            for name, moment in zip(self.net.views(), self.one_by_one(found)):
                state[f"{part}.{name}"] = self.net.to_params_layout(moment.cpu().numpy()).copy()
        for part, net in self.nets.items():
            state |= {f"{part}.{name}": value for name, value in numpy(net).items()}
        return state

    def one_by_one(self, tensors):
        """Return tensors like ``updated`` as tensors like the parameters.

        Args:
            tensors: a list of them.
        """
        if self.updated is self.parameters:
            return tensors
        parts = tensors[0].split([parameter.numel() for parameter in self.parameters])
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters)]

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        names = list(self.net.views())
        for part, net in self.nets.items():
            net.load({name: state[f"{part}.{name}"] for name in names})
        kept, step = self.optimizer.state_dict(), float(state["step"])
        kept["state"] = {k: {"step": torch.tensor(step)} for k in range(len(self.updated))}
        for part, key in self.moments.items():
            # fused Adam walks through memory: moments have to lie there as the weights do
            found = [torch.empty_like(tensor, device="cpu") for tensor in self.updated]
            for name, moment in zip(names, self.one_by_one(found)):
                self.net.to_params_layout(moment.detach().numpy())[...] = state[f"{part}.{name}"]
            for k, moment in enumerate(found):
                kept["state"][k][key] = moment
        self.optimizer.load_state_dict(kept)


class Learner(Trained):
    """An online net that Adam (Kingma and Ba 2015) updates, and a target net.

    Args:
        spec: what an update is built from; ``params``, ``target`` (weights of both nets, by name) and ``learning_rate``
            are taken.
        optimizer: value of the knob: how Adam goes through the arrays, one by one (``loop``), as torch chooses
            (``default``) or all at once (``fused``).
        make: ``make(params)``, returns a net, see :class:`Trained`.
        flat: give Adam one vector in place of all parameters.
    """

    def __init__(self, spec, optimizer, make, flat=False):
        adam = functools.partial(torch.optim.Adam, lr=spec["learning_rate"], **AT_ONCE[optimizer])
        super().__init__(spec["params"], make, adam, flat=flat)
        self.target_net = make(spec["target"])
        self.nets["target"], self.start["target"] = self.target_net, spec["target"]

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.target_net.load_state_dict(self.net.state_dict())
