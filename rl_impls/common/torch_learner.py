"""What the torch workloads share: nets of linear layers, and an online and a target net under Adam."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ..params import layers

GUARDS = {"grad": lambda: lambda call: call, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


def place(lower):
    """Return the name of the device that a lowering is for."""
    return "cuda" if lower.device == "cuda" else "cpu"


def numpy(net):
    """Return a copy of a net's weights as NumPy."""
    return {name: view.cpu().numpy().copy() for name, view in net.views().items()}


class Mlp(nn.Sequential):
    """Linear layers with ``activation()`` between them and, it may be, ``output()`` after them.  f[B, I] -> f[B, O]"""

    def __init__(self, params, activation, output=None):
        weights = [torch.from_numpy(params[f"w{k}"]) for k in range(layers(params))]
        linears = [nn.Linear(*weight.shape, dtype=weight.dtype) for weight in weights]
        hidden = [layer for linear in linears[:-1] for layer in (linear, activation())]
        super().__init__(*hidden, linears[-1], *([output()] if output else []))
        self.linears = linears
        self.load(params)

    @torch.no_grad()
    def load(self, params):
        """Take new weights, in place."""
        for k, linear in enumerate(self.linears):
            linear.weight.copy_(torch.from_numpy(params[f"w{k}"].T))
            linear.bias.copy_(torch.from_numpy(params[f"b{k}"]))

    def views(self):
        """Return the weights by name, [I, O], sharing their memory, in the order of ``parameters``."""
        views = {}
        for k, linear in enumerate(self.linears):
            views[f"w{k}"], views[f"b{k}"] = linear.weight.detach().T, linear.bias.detach()
        return views

    turned = staticmethod(np.transpose)


class Learner:
    """An online net that Adam updates and a target net; one knob says how Adam runs.

    A net has ``load(params)``, ``views()`` by name in the order of ``parameters()``, and ``turned``, which takes an
    array that lies as a parameter does to one that lies as its view does, and back.
    """

    def __init__(self, fixed, optimizer, make):
        self.start = fixed["params"], fixed["target"]
        self.net, self.target = map(make, self.start)
        self.parameters = list(self.net.parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=fixed["learning_rate"],
            **{"loop": {"foreach": False}, "fused": {"fused": True}}[optimizer],
        )

    def reset(self):
        """Put weights and moments back."""
        for net, params in zip((self.net, self.target), self.start):
            net.load(params)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    @property
    def params(self):
        """The online weights as NumPy."""
        return numpy(self.net)

    def sync_target(self):
        """Copy the online weights over the target's."""
        self.target.load_state_dict(self.net.state_dict())

    def state(self):
        """Return all that the next update depends on as NumPy: both nets, Adam's moments and step."""
        state = {"step": np.array(0, np.int32)}
        for name, parameter in zip(self.net.views(), self.parameters):
            adam = self.optimizer.state.get(parameter)
            for part, key in MOMENTS.items():
                moment = adam[key] if adam else torch.zeros_like(parameter)
                state[f"{part}.{name}"] = self.net.turned(moment.cpu().numpy()).copy()
            state["step"] = np.array(int(adam["step"]) if adam else 0, np.int32)
        for part, net in (("online", self.net), ("target", self.target)):
            state |= {f"{part}.{name}": value for name, value in numpy(net).items()}
        return state

    def load_state(self, state):
        """Take what ``state`` returned, here or on another backend."""
        names = list(self.net.views())
        self.net.load({name: state[f"online.{name}"] for name in names})
        self.target.load({name: state[f"target.{name}"] for name in names})
        adam = self.optimizer.state_dict()
        # fused Adam walks through memory: moments have to lie there as the weights do
        adam["state"] = {
            k: {"step": torch.tensor(float(state["step"]))}
            | {key: torch.tensor(self.net.turned(state[f"{part}.{name}"]).copy()) for part, key in MOMENTS.items()}
            for k, name in enumerate(names)
        }
        self.optimizer.load_state_dict(adam)
