"""The DQN in torch."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import GUARDS, Learner, Mlp, place
from ..lowering import eager
from ._numpy import Remember, q_values
from .ddp import DistributedTrainStep
from .knobs import check_supported
from .memory import DTYPES
from .spec import has_target_net

FEW = 4  # boards, for which torch takes longer to come to each operation than NumPy takes for it
TORCH_DTYPES = torch.float32, torch.int32, torch.float32, torch.float32, torch.float32


class Net(Mlp):
    """Value of each move.  f32[B, O] -> f32[B, A]"""

    def __init__(self, params, inplace=False):
        super().__init__(params, functools.partial(nn.ReLU, inplace))


def make_net(params, knobs, target):
    """Return a net with these weights on the backend's device."""
    return Net(params, knobs.relu == "inplace").to(place(target))


def autocast(knobs, target):
    """Return the context in which the net computes: bfloat16 where the knob says so."""
    if knobs.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(place(target), torch.bfloat16)


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


@contextlib.contextmanager
def cuda_flags(knobs):
    """Let CUDA round matrix products to TF32, and cuDNN try its algorithms, where the knobs say so."""
    if not (knobs.tf32 or knobs.cudnn_benchmark):
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.benchmark
    matmul.allow_tf32, cudnn.benchmark = knobs.tf32, knobs.cudnn_benchmark
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.benchmark = before


def forward(spec, example, *, knobs, target):
    """Q-values of a batch of boards.  f32[N, O] -> f32[N, A]"""
    return lower_net(make_net(spec["params"], knobs, target), example[0], knobs, target)


def lower_net(net, example, knobs, target):
    """Return the net as the backend calls it, recording what the knob says."""
    check_supported("quantised", knobs, target)
    options = {"quantised": True} if knobs.quantised == "int8" else {}
    call = target.lower(net, (example,), guard=GUARDS[knobs.inference], **options)
    return cuda_flags(knobs)(call) if target.device == "cuda" else call


class Actor:
    """Plays by a net: greedy moves, or the drawn ones where ``explore``; from and to NumPy.

    ``refresh`` copies the parameters ``newest`` over the net's, where it has its own.
    """

    def __init__(self, net, example, knobs, target, newest=()):
        self.copies = list(zip(net.parameters(), newest))
        self.host = target.arrays == "numpy"
        self.device = place(target)
        self.direct = knobs.tensors == "direct"
        self.call = lower_net(net, example if self.host else self.tensor(example), knobs, target)
        self.autocast = functools.partial(autocast, knobs, target)
        plain = target.lowering is eager and (target.device, knobs.precision) == ("cpu", "float32")
        numpy = knobs.acting == "numpy" and plain and len(example) <= FEW
        self.weights = {name: view.numpy() for name, view in net.views().items()} if numpy else {}
        self.greedy = self.greedy_in_numpy if numpy else self.greedy_in_torch

    @torch.no_grad()
    def refresh(self):
        """Take the newest weights."""
        for mine, newest in self.copies:
            mine.copy_(newest)

    def tensor(self, obs):
        """Return boards as a tensor, made on the CPU and moved, or sharing NumPy's memory where that is possible."""
        return torch.as_tensor(obs, device=self.device) if self.direct else torch.tensor(obs).to(self.device)

    def greedy_in_numpy(self, obs):
        """Return the best move of each board, by the memory of the net's weights.  f32[N, O] -> i64[N]"""
        return q_values(self.weights, obs).argmax(axis=1)

    def greedy_in_torch(self, obs):
        """Return the best move of each board.  f32[N, O] -> i64[N]"""
        if self.host:
            return self.call(obs).argmax(axis=1)
        with self.autocast():
            return self.call(self.tensor(obs)).argmax(dim=1).cpu().numpy()

    def __call__(self, obs, explore, random_actions):
        """Return a move for each board.  f32[N, O], bool[N], i32[N] -> i32[N]"""
        if explore.all():
            return random_actions
        return np.where(explore, random_actions, self.greedy(obs)).astype(np.int32)


def act(spec, example, *, knobs, target):
    """The greedy move, or the drawn one where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    actor = Actor(make_net(spec["params"], knobs, target), np.asarray(example[0]), knobs, target)
    if knobs.threads == "all":
        return actor

    def call(*args):
        with threads_of(knobs):
            return actor(*args)

    return call


def make_loss(net, bootstrap, gamma):
    """Return ``loss(*batch)``, the equations of the reference; the values of ``bootstrap`` give the TD target."""

    def loss(obs, actions, rewards, next_obs, terminated):
        with torch.no_grad():
            td_target = rewards + gamma * (1 - terminated) * bootstrap(next_obs).amax(dim=1)
        taken = net(obs).gather(1, actions.long()[:, None])[:, 0]
        return nn.functional.smooth_l1_loss(taken, td_target)

    return loss


def make_gradient(net, target_net, gamma):
    """Return ``gradient(*batch)``: the same loss; its gradient, written out, is left where the parameters have theirs.

    Half of the time of an update of 32 is autograd's: what it notes down, and gradients in new memory each time.
    """
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad

    @torch.no_grad()
    def gradient(obs, actions, rewards, next_obs, terminated):
        td_target = rewards + gamma * (1 - terminated) * target_net(next_obs).amax(dim=1)
        h = [obs]
        for linear in net.linears[:-1]:
            h.append(linear(h[-1]).relu_())
        q, chosen = net.linears[-1](h[-1]), actions.long()[:, None]
        taken = q.gather(1, chosen)[:, 0]
        slope = (taken - td_target).clamp_(-1, 1) / len(obs)

        d_z = torch.zeros_like(q).scatter_(1, chosen, slope[:, None])
        for k in reversed(range(len(h))):
            linear = net.linears[k]
            torch.mm(d_z.T, h[k], out=linear.weight.grad)
            torch.sum(d_z, 0, out=linear.bias.grad)
            if k:
                d_z = (d_z @ linear.weight).masked_fill_(h[k] == 0, 0)
        return nn.functional.smooth_l1_loss(taken, td_target)

    return gradient


@torch.no_grad()
def clip_vector(vector, norm):
    """Clip the gradient of one vector as ``clip_grad_norm_`` does, without its search for devices and dtypes."""
    vector.grad.mul_((norm / (torch.linalg.vector_norm(vector.grad) + 1e-6)).clamp_(max=1))


class TrainStep(Learner):
    """One update of the online net; the target net stands still."""

    def __init__(self, spec, example, knobs, target):
        make, flat = functools.partial(make_net, knobs=knobs, target=target), knobs.parameters == "flat"
        super().__init__(spec, knobs.optimizer, make, flat)
        self.knobs, self.target = knobs, target
        self.bootstrap = self.target_net if has_target_net(spec) else self.net
        make, self.differentiate = {
            "autograd": (make_loss, self.autograd),
            "by_hand": (make_gradient, lambda *batch: self.loss(*batch)),
        }[knobs.gradient]
        self.loss = target.lower(make(self.net, self.bootstrap, spec["gamma"]), example)
        self.clip = self.clip_with(spec["gradient_norm"])
        self.set_to_none = knobs.zero_grad == "none"

    def actor(self, obs, own=False):
        """Return an actor that plays by the online weights, whatever they become; or by its ``own`` copy of them."""
        net = make_net(self.start[0], self.knobs, self.target) if own else self.net
        return Actor(net, obs, self.knobs, self.target, self.parameters if own else ())

    def clip_with(self, norm):
        """Return what clips the gradient to ``norm``."""
        if self.knobs.parameters == "flat":
            return functools.partial(clip_vector, *self.updated, norm)
        foreach = {"loop": False, "default": None, "fused": True}[self.knobs.optimizer]
        return functools.partial(nn.utils.clip_grad_norm_, self.parameters, norm, foreach=foreach)

    def autograd(self, *batch):
        """Leave the gradient of the loss in the parameters; return the loss."""
        with autocast(self.knobs, self.target):
            loss = self.loss(*batch)
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss.backward()
        return loss.detach()

    def __call__(self, *batch):
        """Update on one batch; return its loss."""
        with threads_of(self.knobs), cuda_flags(self.knobs):
            loss = self.differentiate(*batch)
            self.clip()
            self.optimizer.step()
        return loss


def train_step(spec, example, *, knobs, target):
    """One Adam update of the Huber loss, the gradient's norm clipped; returns the loss before it."""
    check_supported("processes", knobs, target)
    if knobs.processes == 1:
        return TrainStep(spec, example, knobs, target)
    return DistributedTrainStep(TrainStep, make_loss, spec, example, knobs, target)


def tensor_of_list(column, dtype):
    """Return one tensor of a list of numbers, of lists or of arrays."""
    if isinstance(column[0], np.ndarray):  # torch.tensor of a list of arrays warns that it is extremely slow
        return torch.stack([torch.from_numpy(array) for array in column])
    return torch.tensor(column, dtype=dtype)


def assemble(spec, example, *, knobs, target):
    """Make a batch of tensors on the device from the columns of a memory."""
    device = place(target)
    made_on = {"moved": {}, "direct": {"device": device}}[knobs.tensors]

    def one_by_one(columns):
        """Make a tensor of a list of numbers, or of a list of arrays, element by element."""
        return [tensor_of_list(column, dtype).to(device) for column, dtype in zip(columns, TORCH_DTYPES)]

    def stacked(columns):
        """Make one array of each field and a tensor of that, sharing its memory where that is possible."""
        arrays = [np.asarray(column, dtype) for column, dtype in zip(columns, DTYPES)]
        return [torch.as_tensor(array, **made_on).to(device) for array in arrays]

    return {"comprehension": one_by_one, "stacked": stacked}[knobs.batches]


def sample(spec, example, *, knobs, target):
    """Take rows out of the memory as a batch.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]"""
    memory = Remember(spec, knobs).memory
    batch_of = assemble(spec, example, knobs=knobs, target=target)
    return lambda rows: batch_of(memory.columns(rows))
