"""The physics-informed Q-agent in torch."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import GUARDS, Learner, Mlp, place
from .physics import dynamics_of
from .torch_gradient import make_gradient


class Net(Mlp):
    """Probability of staying safe for each action.  f32[B, S] -> f32[B, A]"""

    def __init__(self, params):
        super().__init__(params, nn.Tanh, nn.Sigmoid)


def make_net(params, target):
    """Return a net with these weights on the backend's device."""
    return Net(params).to(place(target))


def drift_by_row(dynamics, states, actions):
    """Drift, one row after the other.  f32[P, S], i64[P] -> f32[P, S]"""
    rows = [dynamics.drift(state, action) for state, action in zip(states.cpu().numpy(), actions.cpu().numpy())]
    return torch.tensor(np.stack(rows), dtype=states.dtype, device=states.device)


def drift_vectorised(dynamics, states, actions):
    """Drift of all rows at once.  f32[P, S], i64[P] -> f32[P, S]"""
    if states.is_cuda or torch.compiler.is_compiling():
        return dynamics.drift(states, actions, xp=torch)
    # forty operations on a few numbers each: a call of NumPy costs a third of one of torch
    return torch.from_numpy(dynamics.drift(states.numpy(), actions.numpy())).to(states.dtype)


DRIFTS = {"rows": drift_by_row, "vectorised": drift_vectorised}


def evaluate_autograd(net, rows, interior, dynamics, order, drift):
    """Q-values of ``rows`` and the PDE residual of ``interior``, by nested differentiation."""
    points = interior.clone().requires_grad_()
    value, greedy = net(points).max(dim=1)
    (gradient,) = torch.autograd.grad(value.sum(), points, create_graph=True)
    residual = (gradient * drift(dynamics, interior, greedy)).sum(dim=1)
    if order == 2:
        for i in range(dynamics.noisy):
            (row,) = torch.autograd.grad(gradient[:, i].sum(), points, create_graph=True)
            residual = residual + dynamics.sigma**2 / 2 * row[:, i]
    return net(rows), residual


def evaluate_generator(net, rows, interior, dynamics, order, drift):
    """The same in one pass that carries the generator of the process, L = f . grad + 1/2 sigma^2 Laplacian.

    After the hidden values y come ``d = L y`` and ``g_i = sigma dy/ds_i`` for each noisy component; through ``y(z)``:
    ``L y = y' L z + 1/2 y'' sum_i (g_i z)^2``.
    """
    points = len(interior)
    h = torch.cat([rows, interior])
    hidden = []
    for linear in net.linears[:-1]:
        h = torch.tanh(linear(h))
        hidden.append(h[len(rows) :])
    q = torch.sigmoid(net.linears[-1](h))
    v, greedy = q[len(rows) :].max(dim=1)

    d = drift(dynamics, interior, greedy)
    if order == 1:
        for y, linear in zip(hidden, net.linears):
            d = (1 - y * y) * (d @ linear.weight.T)
        d = (d @ net.linears[-1].weight.T).gather(1, greedy[:, None])[:, 0]
        return q[: len(rows)], v * (1 - v) * d

    g = dynamics.sigma * torch.eye(dynamics.noisy, interior.shape[1], dtype=d.dtype, device=d.device)
    streams = torch.cat([d[None], g[:, None].expand(-1, points, -1)])
    for y, linear in zip(hidden, net.linears):
        d, g = (streams @ linear.weight.T).split([1, dynamics.noisy])
        slope = 1 - y * y
        streams = slope * torch.cat([d - y * (g * g).sum(dim=0), g])
    d, g = (streams * net.linears[-1].weight[greedy]).sum(dim=2).split([1, dynamics.noisy])
    return q[: len(rows)], v * (1 - v) * (d[0] + (0.5 - v) * (g * g).sum(dim=0))


EVALUATE = {"autograd": evaluate_autograd, "generator": evaluate_generator}


def evaluate_separately(evaluate, net, states, expired, unsafe, interior, *args):
    """Q-values of the three sets of rows, and the residual: a pass for each."""
    _, residual = evaluate(net, states[:0], interior, *args)
    return net(states), net(expired), net(unsafe), residual


def evaluate_jointly(evaluate, net, states, expired, unsafe, interior, *args):
    """The same in one pass."""
    q, residual = evaluate(net, torch.cat([states, expired, unsafe]), interior, *args)
    return *q.split([len(states), len(expired), len(unsafe)]), residual


PASSES = {"separate": evaluate_separately, "joint": evaluate_jointly}


def make_loss(net, target_net, spec, knobs):
    """Return ``loss(*batch)``, the equations of the reference."""
    dynamics, drift = dynamics_of(spec), DRIFTS[knobs.drift]
    evaluate = functools.partial(PASSES[knobs.passes], EVALUATE[knobs.derivatives])

    def loss(states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        with torch.no_grad():
            td_target = rewards + (1 - terminated) * target_net(next_states).amax(dim=1)
        q, q_expired, q_unsafe, residual = evaluate(
            net, states, expired, unsafe, interior, dynamics, knobs.order, drift
        )
        taken = q.gather(1, actions.long()[:, None])[:, 0]
        boundary = (q_expired.max(dim=1).values - 1).square().mean() + q_unsafe.max(dim=1).values.square().mean()
        return (
            (taken - td_target).square().mean()
            + spec["pde_weight"] * residual.square().mean()
            + spec["boundary_weight"] * boundary
        )

    return loss


def forward(spec, example, *, knobs, target):
    """Q-values of a batch of states.  f32[B, S] -> f32[B, A]"""
    options = {"autocast": knobs.autocast} if target.device == "neuron" else {}
    return target.lower(make_net(spec["params"], target), example, guard=GUARDS[knobs.inference], **options)


def act(spec, example, *, knobs, target):
    """Epsilon-greedy action: ``random_action`` where ``u < epsilon``.  f32[1, S], f32, int -> int"""
    net, epsilon = forward(spec, example[:1], knobs=knobs, target=target), spec["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(net(state).argmax())

    return call


def pde_loss(spec, example, *, knobs, target):
    """Mean squared PDE residual.  f32[P, S] -> f32"""
    dynamics, drift, evaluate = dynamics_of(spec), DRIFTS[knobs.drift], EVALUATE[knobs.derivatives]
    net = make_net(spec["params"], target)

    def loss(interior):
        _, residual = evaluate(net, interior[:0], interior, dynamics, knobs.order, drift)
        return residual.square().mean()

    # nested differentiation needs autograd; the generator does not, and nothing here is trained
    guard = {"autograd": GUARDS["grad"], "generator": GUARDS[knobs.inference]}[knobs.derivatives]
    return guard()(target.lower(loss, example))


class TrainStep(Learner):
    """One update of the online net; the target net stands still."""

    def __init__(self, spec, example, knobs, target):
        super().__init__(spec, knobs.optimizer, functools.partial(make_net, target=target))
        make = {"autograd": self._autograd, "by_hand": self._by_hand}[knobs.gradient]
        self.differentiate = make(spec, example, knobs, target)

    def _autograd(self, spec, example, knobs, target):
        loss = target.lower(make_loss(self.net, self.target_net, spec, knobs), example)
        set_to_none = {"fill": False, "none": True}[knobs.zero_grad]

        def differentiate(*batch):
            value = loss(*batch)
            self.optimizer.zero_grad(set_to_none=set_to_none)
            value.backward()
            return value.detach()

        return differentiate

    def _by_hand(self, spec, example, knobs, target):
        gradient = target.lower(make_gradient(self.net, self.target_net, spec, knobs, DRIFTS[knobs.drift]), example)

        def differentiate(*batch):
            value, gradients = gradient(*batch)
            for parameter, found in zip(self.parameters, gradients):
                parameter.grad = found
            return value

        return differentiate

    def __call__(self, *batch):
        """Update on one batch; return its loss."""
        loss = self.differentiate(*batch)
        self.optimizer.step()
        return loss


def train_step(spec, example, *, knobs, target):
    """One Adam update of the loss in the reference; returns the loss before it."""
    return TrainStep(spec, example, knobs, target)


def sync_target(spec, example, *, knobs, target):
    """Copy the online weights over the target's.  -> the target's weights"""
    online, follower = make_net(spec["params"], target), make_net(spec["target"], target)
    sources, destinations = list(online.parameters()), list(follower.parameters())
    views = follower.views()

    def load_state_dict():
        follower.load_state_dict(online.state_dict())
        return views

    @torch.no_grad()
    def copy_all():
        torch._foreach_copy_(destinations, sources)
        return views

    return {"loop": load_state_dict, "fused": copy_all}[knobs.optimizer]
