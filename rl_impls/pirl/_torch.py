"""The physics-informed Q-agent in torch; :mod:`._numpy` has the equations.

The plain update comes first. Faster forms of its parts follow: a residual without nested differentiation, and an update
with gradients written by hand.
"""

import functools

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import GUARDS, Learner, Mlp, place
from .physics import dynamics_of


class Net(Mlp):
    """The probability of staying safe for each action, with tanh layers and a final sigmoid.  f32[B, S] -> f32[B, A]"""

    def __init__(self, params):
        super().__init__(params, nn.Tanh, nn.Sigmoid)


def make_net(params, compiler):
    """Return a :class:`Net` on the backend's device."""
    return Net(params).to(place(compiler))


def drift_by_row(dynamics, states, actions):
    """Return the drift, computed row by row in NumPy.  f32[P, S], i64[P] -> f32[P, S]"""
    rows = [dynamics.drift(state, action) for state, action in zip(states.cpu().numpy(), actions.cpu().numpy())]
    return torch.tensor(np.stack(rows), dtype=states.dtype, device=states.device)


def pde_residual(net, interior, dynamics, order):
    """Return the residual of the PDE by nested differentiation.  f32[P, S] -> f32[P]"""
    points = interior.clone().requires_grad_()
    value, greedy = net(points).max(dim=1)
    (gradient,) = torch.autograd.grad(value.sum(), points, create_graph=True)
    residual = (gradient * drift_by_row(dynamics, interior, greedy)).sum(dim=1)
    if order == 2:
        for i in range(dynamics.noisy):
            (row,) = torch.autograd.grad(gradient[:, i].sum(), points, create_graph=True)
            residual = residual + dynamics.sigma**2 / 2 * row[:, i]
    return residual


def make_loss(net, target_net, config, options):
    """Return ``loss(*batch) -> f32, f32``, the loss of :func:`._numpy.loss` and its TD term, for autograd.

    The batch is states f32[B, S], actions i32[B], rewards f32[B], next_states f32[B, S], terminated f32[B], interior
    f32[P, S], expired f32[P, S], unsafe f32[P, S].
    """
    dynamics = dynamics_of(config)

    def loss(states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        with torch.no_grad():
            td_target = rewards + (1 - terminated) * target_net(next_states).amax(dim=1)
        residual = pde_residual(net, interior, dynamics, options.order)
        q, q_expired, q_unsafe = net(states), net(expired), net(unsafe)
        taken = q.gather(1, actions.long()[:, None])[:, 0]
        boundary = (q_expired.max(dim=1).values - 1).square().mean() + q_unsafe.max(dim=1).values.square().mean()
        td_loss = (taken - td_target).square().mean()
        return td_loss + config["pde_weight"] * residual.square().mean() + config["boundary_weight"] * boundary, td_loss

    return loss


def forward(config, example, *, options, compiler):
    """Return the Q-values of states.  f32[B, S] -> f32[B, A]"""
    neuron = {"autocast": True} if options.autocast else {}
    return compiler.compile(make_net(config["params"], compiler), example, guard=GUARDS[options.inference], **neuron)


def act(config, example, *, options, compiler):
    """Return the epsilon-greedy action, ``random_action`` if ``u < epsilon``.  state f32[1, S], u f32, i32 -> int"""
    net, epsilon = forward(config, example[:1], options=options, compiler=compiler), config["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(net(state).argmax())

    return call


def pde_loss(config, example, *, options, compiler):
    """Return the mean squared PDE residual of interior points.  f32[P, S] -> f32"""
    net, dynamics = make_net(config["params"], compiler), dynamics_of(config)
    residual, order = RESIDUALS[options.derivatives], options.order

    def loss(interior):
        return residual(net, interior, dynamics, order).square().mean()

    return GUARDS[options.inference]()(compiler.compile(loss, example))


class TrainStep(Learner):
    """One Adam update (Kingma and Ba 2015) of the online network, by autograd.

    Attributes:
        td_loss: TD term of the last loss, f32[].
    """

    def __init__(self, config, example, options, compiler):
        super().__init__(config, options.optimizer, functools.partial(make_net, compiler=compiler))
        self.function = compiler.compile(self.make_function(self.net, self.target_net, config, options), example)

    make_function = staticmethod(make_loss)

    def backward(self, *batch):
        """Set the gradients for one batch of :func:`make_loss`; return the loss and its TD term, f32[] each."""
        loss, td_loss = self.function(*batch)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        return loss.detach(), td_loss.detach()

    def __call__(self, *batch):
        """Update on one batch of :func:`make_loss`; return the loss before the update, f32[]."""
        loss, self.td_loss = self.backward(*batch)
        self.optimizer.step()
        return loss


def train_step(config, example, *, options, compiler):
    """Build a :class:`TrainStep` or :class:`TrainStepByHand`."""
    return STEPS[options.derivatives](config, example, options, compiler)


def loss_and_backward(config, example, *, options, compiler):
    """Return the loss, its TD term and the gradients, without an update.  -> (f32, f32), gradients by weight's name"""
    step = train_step(config, example, options=options, compiler=compiler)

    def call(*batch):
        losses, gradients = step.backward(*batch), {}
        for k, linear in enumerate(step.net.linears):
            gradients[f"w{k}"], gradients[f"b{k}"] = linear.weight.grad.T, linear.bias.grad
        return losses, gradients

    return call


def sync_target(config, example, *, options, compiler):
    """Copy the online weights to the target network, by ``load_state_dict`` or one foreach copy.  -> weights by name"""
    net, target_net = make_net(config["params"], compiler), make_net(config["target"], compiler)
    sources, destinations = list(net.parameters()), list(target_net.parameters())
    views = target_net.views()

    def load_state_dict():
        target_net.load_state_dict(net.state_dict())
        return views

    @torch.no_grad()
    def copy_all():
        torch._foreach_copy_(destinations, sources)
        return views

    return {"loop": load_state_dict, "fused": copy_all}[options.optimizer]


def drift_vectorised(dynamics, states, actions):
    """Return the drift of all rows at once.  f32[P, S], i64[P] -> f32[P, S]"""
    if states.is_cuda or torch.compiler.is_compiling():
        return dynamics.drift(states, actions, xp=torch)
    # about forty tiny operations, and a NumPy call costs a third of a torch call
    return torch.from_numpy(dynamics.drift(states.numpy(), actions.numpy())).to(states.dtype)


def generator_residual(net, interior, dynamics, order):
    """Like :func:`pde_residual`, in one forward pass: nested differentiation takes many.

    It propagates the process's infinitesimal generator, ``L = f . grad + 1/2 sigma^2 Laplacian``. Each hidden layer
    ``y(z)`` carries ``d = L y`` and ``g_i = sigma dy/ds_i`` for each noisy component i:
    ``L y = y' L z + 1/2 y'' sum_i (sigma dz/ds_i)^2``.
    """
    h, hidden = interior, []
    for linear in net.linears[:-1]:
        h = torch.tanh(linear(h))
        hidden.append(h)
    v, greedy = torch.sigmoid(net.linears[-1](h)).max(dim=1)

    d = drift_vectorised(dynamics, interior, greedy)
    if order == 1:
        for y, linear in zip(hidden, net.linears):
            d = (1 - y * y) * (d @ linear.weight.T)
        d = (d @ net.linears[-1].weight.T).gather(1, greedy[:, None])[:, 0]
        return v * (1 - v) * d

    g = dynamics.sigma * torch.eye(dynamics.noisy, interior.shape[1], dtype=d.dtype, device=d.device)
    streams = torch.cat([d[None], g[:, None].expand(-1, len(interior), -1)])
    for y, linear in zip(hidden, net.linears):
        d, g = (streams @ linear.weight.T).split([1, dynamics.noisy])
        slope = 1 - y * y
        streams = slope * torch.cat([d - y * (g * g).sum(dim=0), g])
    d, g = (streams * net.linears[-1].weight[greedy]).sum(dim=2).split([1, dynamics.noisy])
    return v * (1 - v) * (d[0] + (0.5 - v) * (g * g).sum(dim=0))


def make_gradient(net, target_net, config, options):
    """Return ``gradient(*batch) -> loss, its TD term, [dw0, db0, dw1, ...]``, the gradients in torch's layout [O, I].

    It differentiates the loss of :func:`make_loss` by hand: autograd's bookkeeping takes half of a small update's time.

    The forward pass computes the values h of all rows, then the streams ``x = (d, g_1, ..., g_n)`` of
    :func:`generator_residual` at the interior points. The backward pass reverses these steps; ``d_z`` is dloss/dz.
    """
    dynamics = dynamics_of(config)
    noisy = dynamics.noisy if options.order == 2 else 0
    *hidden, last = net.linears
    logits = torch.nn.Sequential(*list(target_net)[:-1])  # the sigmoid is monotonic: apply it to the maximum only

    @torch.no_grad()
    def gradient(states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        batch, points = len(states), len(interior)
        td_target = rewards + (1 - terminated) * torch.sigmoid(logits(next_states).amax(dim=1))

        h = [torch.cat([states, expired, unsafe, interior])]
        for linear in hidden:
            h.append(torch.tanh(linear(h[-1])))
        one = h[0].new_ones(())  # a Python number would be converted on every use
        slopes = [torch.addcmul(one, y, y, value=-1) for y in h[1:]]  # 1 - y^2
        z = last(h[-1])
        pick = torch.cat([actions.long(), z[batch:].argmax(dim=1)])[:, None]
        v = torch.sigmoid(z.gather(1, pick)[:, 0])
        greedy, value = pick[-points:, 0], v[-points:]

        basis = dynamics.sigma * torch.eye(noisy, interior.shape[1], dtype=v.dtype, device=v.device)
        x = [torch.cat([drift_vectorised(dynamics, interior, greedy)[None], basis[:, None].expand(-1, points, -1)])]
        ahead = []  # per layer: y, 1 - y^2, the factor it multiplies, g, sum_i g_i^2
        for y, slope, linear in zip(h[1:], slopes, hidden):
            y, slope, stream = y[-points:], slope[-points:], x[-1] @ linear.weight.T
            g = stream[1:]
            squares = (g * g).sum(dim=0)
            inner = torch.cat([stream[:1] - y * squares, g]) if noisy else stream
            ahead.append((y, slope, inner, g, squares))
            x.append(slope * inner)
        chosen = last.weight[greedy]
        out = (x[-1] * chosen).sum(dim=2)
        d, g = out[0], out[1:]
        squares, flat = (g * g).sum(dim=0), value * (1 - value)
        inner = d + (0.5 - value) * squares
        residual = flat * inner

        errors = v[:-points] - torch.cat([td_target, v.new_ones(points), v.new_zeros(points)])
        boundary = config["boundary_weight"] / points
        weights = torch.cat([v.new_full((batch,), 1 / batch), v.new_full((2 * points,), boundary)])
        pde = config["pde_weight"] / points
        terms = weights * errors * errors
        loss = terms.sum() + pde * residual.square().sum()

        d_residual = 2 * pde * residual
        d_value = d_residual * ((1 - 2 * value) * inner - flat * squares)
        d_inner = (d_residual * flat)[None]
        d_out = torch.cat([d_inner, d_inner * (1 - 2 * value) * g])
        d_v = torch.cat([2 * weights * errors, d_value])

        d_z = torch.zeros_like(z).scatter_(1, pick, (d_v * v * (1 - v))[:, None])
        d_last = (d_z.T @ h[-1]).index_add_(0, greedy, (d_out[:, :, None] * x[-1]).sum(dim=0))
        gradients = [(d_last, d_z.sum(dim=0))]
        d_h, d_x = d_z @ last.weight, d_out[:, :, None] * chosen
        for k in reversed(range(len(hidden))):
            y, slope, inner, g, squares = ahead[k]
            d_stream, d_y = slope * d_x, d_h[-points:]
            d_y.addcmul_(y, (d_x * inner).sum(dim=0), value=-2)
            if noisy:
                d_y.addcmul_(d_stream[0], squares, value=-1)
                d_stream[1:].addcmul_(y * d_stream[0], g, value=-2)
            d_z = d_h * slopes[k]
            rows = d_stream.flatten(0, 1)
            gradients.append((torch.addmm(d_z.T @ h[k], rows.T, x[k].flatten(0, 1)), d_z.sum(dim=0)))
            if k:
                d_h, d_x = d_z @ hidden[k].weight, d_stream @ hidden[k].weight
        return loss, terms[:batch].sum(), [part for pair in reversed(gradients) for part in pair]

    return gradient


class TrainStepByHand(TrainStep):
    """One Adam update of the online network, with the gradients of :func:`make_gradient`."""

    make_function = staticmethod(make_gradient)

    def backward(self, *batch):
        loss, td_loss, gradients = self.function(*batch)
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient
        return loss, td_loss


RESIDUALS = {"autograd": pde_residual, "generator": generator_residual}
STEPS = {"autograd": TrainStep, "generator": TrainStepByHand}
