"""Parts shared by the torch workloads: MLPs, nets updated by an optimiser, and target nets."""

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..params import layers
from .op import Op

GUARDS = {"grad": lambda: lambda call: call, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}  # torch's names of Adam's moments
AT_ONCE = {"loop": {"foreach": False}, "default": {}, "fused": {"fused": True}}  # by the ``optimizer`` option
FOREACH = {"loop": False, "default": None, "fused": True}  # of gradient clipping, by the same option
PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def place(compiler):
    """Return the torch device of a compiler, cpu or cuda."""
    return "cuda" if compiler.device == "cuda" else "cpu"


def autocast(options, compiler):
    """Return the autocast context of the ``precision`` option, a null context for float32."""
    if options.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(place(compiler), PRECISIONS[options.precision])


@contextlib.contextmanager
def threads(count):
    """Limit torch to `count` intra-op threads within the context; None changes nothing."""
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
    """Return a copy of a net's weights as NumPy, by name."""
    return {name: view.cpu().numpy().copy() for name, view in net.views().items()}


class Mlp(nn.Sequential):
    """Fully connected layers with an activation in between: f[B, I] -> f[B, O].

    Args:
        params: weights ``w{k}`` f[I, O] and biases ``b{k}`` f[O] of each layer k.
        activation: makes the module between two layers, such as ``nn.Tanh``.
        output: makes the module after the last layer, if any.
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
        for k, linear in enumerate(self.linears):
            linear.weight.copy_(torch.from_numpy(params[f"w{k}"].T))
            linear.bias.copy_(torch.from_numpy(params[f"b{k}"]))

    def views(self):
        """Return the weights by name, as [I, O], in parameter order; they share memory with the parameters."""
        views = {}
        for k, linear in enumerate(self.linears):
            views[f"w{k}"], views[f"b{k}"] = linear.weight.detach().T, linear.bias.detach()
        return views

    to_params_layout = staticmethod(np.transpose)


def as_one_vector(parameters):
    """Move all parameters into one vector; parameters and gradients become views of it and of its gradient."""
    vector = nn.Parameter(nn.utils.parameters_to_vector(parameters).detach())
    vector.grad = torch.zeros_like(vector)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, data, grad in zip(parameters, vector.detach().split(sizes), vector.grad.split(sizes)):
        parameter.data, parameter.grad = data.view_as(parameter), grad.view_as(parameter)
    return vector


class Trained(Op):
    """A net updated by an optimiser, with the optimiser's moments and step count.

    The optimiser updates ``updated``: the parameters or, if ``flat``, one vector that they are views of.

    A net has ``load(params)``, ``views()`` by name in the order of ``parameters()``, and ``to_params_layout``, which
    takes an array in a parameter's layout and returns a view in the layout of the NumPy weight.

    Args:
        params: initial weights by name.
        make: ``make(params)`` returns a net.
        optimizer: ``optimizer(tensors)`` returns a torch optimiser.
        moments: moments to save, from the name in :meth:`state` to torch's name.
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
        """The optimiser, created on first use: a process that only acts need not import its dependencies."""
        return self.make_optimizer(self.updated)

    def reset(self):
        for part, net in self.nets.items():
            net.load(self.start[part])
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    @property
    def params(self):
        return numpy(self.net)

    def state(self):
        """Return weights, moments and step count as NumPy arrays by name: all that the next update depends on."""
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
        """Split tensors shaped like ``updated`` into tensors shaped like the parameters."""
        if self.updated is self.parameters:
            return tensors
        parts = tensors[0].split([parameter.numel() for parameter in self.parameters])
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters)]

    def load_state(self, state):
        """Restore a state of :meth:`state`, from any backend."""
        names = list(self.net.views())
        for part, net in self.nets.items():
            net.load({name: state[f"{part}.{name}"] for name in names})
        kept, step = self.optimizer.state_dict(), float(state["step"])
        kept["state"] = {k: {"step": torch.tensor(step)} for k in range(len(self.updated))}
        for part, key in self.moments.items():
            # fused Adam iterates over memory: moments need the memory layout of the weights
            found = [torch.empty_like(tensor, device="cpu") for tensor in self.updated]
            for name, moment in zip(names, self.one_by_one(found)):
                self.net.to_params_layout(moment.detach().numpy())[...] = state[f"{part}.{name}"]
            for k, moment in enumerate(found):
                kept["state"][k][key] = moment
        self.optimizer.load_state_dict(kept)


class Learner(Trained):
    """An online net updated by Adam (Kingma and Ba 2015), and a target net.

    `config` has ``params``, ``target`` and ``learning_rate``; `make` and `flat` are those of :class:`Trained`. Adam
    iterates over the arrays one by one if `optimizer` is ``loop``, as torch chooses if ``default``, or all at once if
    ``fused``. If `scaled`, ``scaler`` scales the loss on the torch device `device` (Micikevicius et al. 2018), which
    float16 needs; otherwise it changes nothing.
    """

    def __init__(self, config, optimizer, make, flat=False, scaled=False, device="cpu"):
        adam = functools.partial(torch.optim.Adam, lr=config["learning_rate"], **AT_ONCE[optimizer])
        super().__init__(config["params"], make, adam, flat=flat)
        self.target_net = make(config["target"])
        self.nets["target"], self.start["target"] = self.target_net, config["target"]
        self.new_scaler = functools.partial(torch.amp.GradScaler, device, enabled=scaled)
        self.scaler = self.new_scaler()

    def sync_target(self):
        """Copy the online weights to the target net."""
        self.target_net.load_state_dict(self.net.state_dict())

    def clip_and_step(self):
        """Clip the gradient by the subclass's ``clip`` and update the weights, unless a scaled gradient overflowed."""
        self.scaler.unscale_(self.optimizer)
        self.clip()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def reset(self):
        super().reset()
        self.scaler = self.new_scaler()

    def state(self):
        """Return the state of :class:`Trained` and, if scaled, the loss scale and its updates since it changed."""
        scaling = self.scaler.state_dict()
        kept = {"loss_scale": np.array([scaling["scale"], scaling["_growth_tracker"]])} if scaling else {}
        return super().state() | kept

    def load_state(self, state):
        """Restore a state, from any backend and precision."""
        super().load_state(state)
        self.scaler = self.new_scaler()
        if self.scaler.is_enabled() and "loss_scale" in state:
            scale, updates = state["loss_scale"].tolist()
            scaling = self.scaler.state_dict() | {"scale": scale, "_growth_tracker": int(updates)}
            self.scaler.load_state_dict(scaling)
