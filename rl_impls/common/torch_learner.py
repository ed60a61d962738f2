"""What the torch workloads share: nets of linear layers, and an online and a target net under Adam."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ..params import layers
from .op import Op

GUARDS = {"grad": lambda: lambda call: call, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


def place(target):
    """Return the name of the torch device of a backend, cpu or cuda.

    Args:
        target: device and lowering of the backend, a :class:`~rl_impls.lowering.Target`.
    """
    return "cuda" if target.device == "cuda" else "cpu"


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


class Learner(Op):
    """An online net that Adam (Kingma and Ba 2015) updates, and a target net.

    Adam sees ``updated``: the parameters one by one or, where ``flat``, one vector of which they are views.

    A net has ``load(params)``, ``views()`` by name in the order of ``parameters()``, and ``to_params_layout``, which
    takes an array in the layout of a parameter to one in the layout of its view, and back.

    Args:
        spec: what an update is built from; ``params``, ``target`` (weights of both nets, by name) and ``learning_rate``
            are taken.
        optimizer: value of the knob: how Adam goes through the arrays, one by one (``loop``), as torch chooses
            (``default``) or all at once (``fused``).
        make: ``make(params)``, returns a net.
        flat: give Adam one vector in place of all parameters.
    """

    def __init__(self, spec, optimizer, make, flat=False):
        self.start = spec["params"], spec["target"]
        self.net, self.target_net = map(make, self.start)
        self.parameters = list(self.net.parameters())
        self.updated = [as_one_vector(self.parameters)] if flat else self.parameters
        self.optimizer = torch.optim.Adam(
            self.updated,
            lr=spec["learning_rate"],
            **{"loop": {"foreach": False}, "default": {}, "fused": {"fused": True}}[optimizer],
        )

    def reset(self):
        """Put both nets' weights and the moments back to the start."""
        for net, params in zip((self.net, self.target_net), self.start):
            net.load(params)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    @property
    def params(self):
        """The online weights as NumPy, by name."""
        return numpy(self.net)

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.target_net.load_state_dict(self.net.state_dict())

    def state(self):
        """Return all that the next update depends on as NumPy: both nets, Adam's moments and step."""
        adam = [self.optimizer.state.get(tensor) for tensor in self.updated]
        state = {"step": np.array(int(adam[-1]["step"]) if adam[-1] else 0, np.int32)}
        sizes = [parameter.numel() for parameter in self.parameters]
        for part, key in MOMENTS.items():
            found = [of[key] if of else torch.zeros_like(tensor) for of, tensor in zip(adam, self.updated)]
            split = nn.utils.parameters_to_vector(found).split(sizes)
            for name, moment, parameter in zip(self.net.views(), split, self.parameters):
                state[f"{part}.{name}"] = self.net.to_params_layout(moment.view_as(parameter).cpu().numpy()).copy()
        for part, net in (("online", self.net), ("target", self.target_net)):
            state |= {f"{part}.{name}": value for name, value in numpy(net).items()}
        return state

    def load_state(self, state):
        """Go on from a state, of this backend or another.

        Args:
            state: arrays by name, as :meth:`state` returned them.
        """
        names = list(self.net.views())
        self.net.load({name: state[f"online.{name}"] for name in names})
        self.target_net.load({name: state[f"target.{name}"] for name in names})
        adam = self.optimizer.state_dict()
        # fused Adam walks through memory: moments have to lie there as the weights do
        moments = {
            key: [torch.tensor(self.net.to_params_layout(state[f"{part}.{name}"]).copy()) for name in names]
            for part, key in MOMENTS.items()
        }
        if self.updated is not self.parameters:
            moments = {key: [nn.utils.parameters_to_vector(found)] for key, found in moments.items()}
        step = float(state["step"])
        adam["state"] = {
            k: {"step": torch.tensor(step)} | {key: found[k] for key, found in moments.items()}
            for k in range(len(self.updated))
        }
        self.optimizer.load_state_dict(adam)
