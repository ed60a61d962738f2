"""The DQN in torch."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..params import layers
from ._numpy import Remember
from .knobs import check_supported
from .memory import DTYPES

GUARDS = {"grad": lambda: lambda call: call, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
TORCH_DTYPES = torch.float32, torch.int32, torch.float32, torch.float32, torch.float32


class Net(nn.Sequential):
    """Value of each move.  f32[B, O] -> f32[B, A]"""

    def __init__(self, params, inplace=False):
        weights = [torch.from_numpy(params[f"w{k}"]) for k in range(layers(params))]
        linears = [nn.Linear(*weight.shape, dtype=weight.dtype) for weight in weights]
        hidden = [layer for linear in linears[:-1] for layer in (linear, nn.ReLU(inplace))]
        super().__init__(*hidden, linears[-1])
        self.linears = linears
        self.load(params)

    @torch.no_grad()
    def load(self, params):
        """Take new weights, in place."""
        for k, linear in enumerate(self.linears):
            linear.weight.copy_(torch.from_numpy(params[f"w{k}"].T))
            linear.bias.copy_(torch.from_numpy(params[f"b{k}"]))

    def views(self):
        """Return the weights by name, [I, O], sharing their memory."""
        views = {}
        for k, linear in enumerate(self.linears):
            views[f"w{k}"], views[f"b{k}"] = linear.weight.detach().T, linear.bias.detach()
        return views

    def numpy(self):
        """Return a copy of the weights as NumPy."""
        return {name: view.cpu().numpy().copy() for name, view in self.views().items()}


def make_net(params, knobs, lower):
    """Return a net with these weights on the backend's device."""
    if lower.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = knobs.tf32
        torch.backends.cudnn.benchmark = knobs.cudnn_benchmark
    return Net(params, knobs.relu == "inplace").to("cuda" if lower.device == "cuda" else "cpu")


def autocast(knobs, lower):
    """Return the context in which the net computes: bfloat16 where the knob says so."""
    if knobs.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast("cuda" if lower.device == "cuda" else "cpu", torch.bfloat16)


@contextlib.contextmanager
def threads_of(knobs):
    """Give torch's operations one thread, or all that there are, shared among the processes."""
    if knobs.threads == "all" and knobs.processes == 1:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if knobs.threads == "one" else max(1, threads // knobs.processes))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def forward(fixed, example, *, knobs, lower):
    """Q-values of a batch of boards.  f32[N, O] -> f32[N, A]"""
    return lower_net(make_net(fixed["params"], knobs, lower), example[0], knobs, lower)


def lower_net(net, example, knobs, lower):
    """Return the net as the backend calls it, recording what the knob says."""
    check_supported("quantised", knobs, lower)
    options = {"quantised": knobs.quantised == "int8"} if lower.backend == "onnx" else {}
    return lower(net, (example,), guard=GUARDS[knobs.inference], **options)


class Actor:
    """Plays by a net: greedy moves, or the drawn ones where ``explore``; from and to NumPy."""

    def __init__(self, net, example, knobs, lower):
        self.host = lower.backend == "onnx"
        self.device = "cuda" if lower.device == "cuda" else "cpu"
        self.direct = knobs.tensors == "direct"
        self.call = lower_net(net, example if self.host else self.tensor(example), knobs, lower)
        self.precision = functools.partial(autocast, knobs, lower)
        self.low = knobs.precision != "float32"

    def tensor(self, obs):
        """Return boards as a tensor, made on the CPU and moved, or sharing NumPy's memory where that is possible."""
        return torch.as_tensor(obs, device=self.device) if self.direct else torch.tensor(obs).to(self.device)

    def greedy(self, obs):
        """Return the best move of each board.  f32[N, O] -> i64[N]"""
        if self.host:
            return self.call(obs).argmax(axis=1)
        if self.low:
            with self.precision():
                return self.call(self.tensor(obs)).argmax(dim=1).cpu().numpy()
        return self.call(self.tensor(obs)).argmax(dim=1).cpu().numpy()

    def __call__(self, obs, explore, random_actions):
        """Return a move for each board.  f32[N, O], bool[N], i32[N] -> i32[N]"""
        if explore.all():
            return random_actions
        return np.where(explore, random_actions, self.greedy(obs)).astype(np.int32)


def act(fixed, example, *, knobs, lower):
    """The greedy move, or the drawn one where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    actor = Actor(make_net(fixed["params"], knobs, lower), np.asarray(example[0]), knobs, lower)
    if knobs.threads == "all":
        return actor

    def call(*args):
        with threads_of(knobs):
            return actor(*args)

    return call


def make_loss(net, target, gamma):
    """Return ``loss(*batch)``, the equations of the reference."""

    def loss(obs, actions, rewards, next_obs, terminated):
        with torch.no_grad():
            td_target = rewards + gamma * (1 - terminated) * target(next_obs).amax(dim=1)
        taken = net(obs).gather(1, actions.long()[:, None])[:, 0]
        return nn.functional.smooth_l1_loss(taken, td_target)

    return loss


MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


class TrainStep:
    """One update of the online net; the target net stands still."""

    def __init__(self, fixed, example, knobs, lower):
        self.start, self.knobs, self.lower = (fixed["params"], fixed["target"]), knobs, lower
        self.net, self.target = (make_net(params, knobs, lower) for params in self.start)
        self.loss = lower(make_loss(self.net, self.target, fixed["gamma"]), example)
        self.parameters = list(self.net.parameters())
        fused = knobs.optimizer == "fused"
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=fixed["learning_rate"], **({"fused": True} if fused else {"foreach": False})
        )
        self.clip = functools.partial(nn.utils.clip_grad_norm_, self.parameters, fixed["gradient_norm"], foreach=fused)
        self.set_to_none = knobs.zero_grad == "none"

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
        return self.net.numpy()

    def sync_target(self):
        """Copy the online weights over the target's."""
        self.target.load_state_dict(self.net.state_dict())

    def actor(self, obs, own=False):
        """Return an actor that plays by the online weights, whatever they become; or by its ``own`` copy of them."""
        net = make_net(self.start[0], self.knobs, self.lower) if own else self.net
        actor = Actor(net, obs, self.knobs, self.lower)
        actor.refresh = torch.no_grad()(
            lambda: torch._foreach_copy_(list(net.parameters()), self.parameters) if own else None
        )
        return actor

    def state(self):
        """Return all that the next update depends on as NumPy: both nets, Adam's moments and step."""
        state = {"step": np.array(0, np.int32)}
        for name, parameter in zip(self.net.views(), self.parameters):
            adam = self.optimizer.state.get(parameter)
            for part, key in MOMENTS.items():
                moment = adam[key] if adam else torch.zeros_like(parameter)
                state[f"{part}.{name}"] = moment.cpu().numpy().T.copy()
            state["step"] = np.array(int(adam["step"]) if adam else 0, np.int32)
        for part, net in (("online", self.net), ("target", self.target)):
            state |= {f"{part}.{name}": value for name, value in net.numpy().items()}
        return state

    def load_state(self, state):
        """Take what ``state`` returned, here or on another backend."""
        names = list(self.net.views())
        self.net.load({name: state[f"online.{name}"] for name in names})
        self.target.load({name: state[f"target.{name}"] for name in names})
        adam = self.optimizer.state_dict()
        adam["state"] = {
            k: {"step": torch.tensor(float(state["step"]))}
            | {key: torch.tensor(state[f"{part}.{name}"].T.copy()) for part, key in MOMENTS.items()}
            for k, name in enumerate(names)
        }
        self.optimizer.load_state_dict(adam)

    def __call__(self, *batch):
        """Update on one batch; return its loss."""
        with threads_of(self.knobs):
            if self.knobs.precision == "float32":
                loss = self.loss(*batch)
            else:
                with autocast(self.knobs, self.lower):
                    loss = self.loss(*batch)
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
            loss.backward()
            self.clip()
            self.optimizer.step()
        return loss.detach()


def train_step(fixed, example, *, knobs, lower):
    """One Adam update of the Huber loss, the gradient's norm clipped; returns the loss before it."""
    check_supported("processes", knobs, lower)
    if knobs.processes == 1:
        return TrainStep(fixed, example, knobs, lower)
    from .ddp import DistributedTrainStep

    return DistributedTrainStep(fixed, example, knobs, lower)


def tensor_of_list(column, dtype):
    """Return one tensor of a list of numbers, of lists or of arrays."""
    if isinstance(column[0], np.ndarray):  # torch.tensor of a list of arrays warns that it is extremely slow
        return torch.stack([torch.from_numpy(array) for array in column])
    return torch.tensor(column, dtype=dtype)


def assembler(knobs, lower):
    """Return ``assemble(columns)``: a batch of tensors on the device from the columns of a memory."""
    device = "cuda" if lower.device == "cuda" else "cpu"
    place = {"moved": {}, "direct": {"device": device}}[knobs.tensors]

    def one_by_one(columns):
        """Make a tensor of a list of numbers, or of a list of arrays, element by element."""
        return [tensor_of_list(column, dtype).to(device) for column, dtype in zip(columns, TORCH_DTYPES)]

    def stacked(columns):
        """Make one array of each field and a tensor of that, sharing its memory where that is possible."""
        arrays = [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]
        return [torch.as_tensor(array, **place).to(device) for array in arrays]

    return {"comprehension": one_by_one, "stacked": stacked}[knobs.batches]


def sample(fixed, example, *, knobs, lower):
    """Take rows out of the memory as a batch.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    memory = Remember(fixed, knobs).memory
    assemble = assembler(knobs, lower)
    return lambda rows: assemble(memory.columns(rows))
