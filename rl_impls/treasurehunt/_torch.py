"""IQN in torch: one agent's net, or those of all agents at once on weights [N, ...]."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import GUARDS, Learner, place
from ._numpy import COSINES, NOISY
from .per_agent import Learners, for_agents


def factors(noise):
    """``sgn(x) sqrt(|x|)`` of normal draws."""
    return noise.sign() * noise.abs().sqrt()


def noisy(params, noise):
    """Return weights and biases of the noisy layers; without noise their means."""
    layers, start = {}, 0
    for layer in NOISY:
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        if noise is not None:
            rows, columns = w.shape[-2:]
            eps_in, eps_out = factors(noise[..., start : start + rows + columns]).split([rows, columns], dim=-1)
            start += rows + columns
            w = torch.addcmul(w, params[f"sw_{layer}"], eps_in[..., :, None] * eps_out[..., None, :])
            b = torch.addcmul(b, params[f"sb_{layer}"], eps_out)
        layers[layer] = w, b
    return layers


def linear(h, w, b):
    """f[B, I], f[I, O], f[O] -> f[B, O], or the same for N agents at once"""
    return torch.addmm(b, h, w) if w.dim() == 2 else torch.baddbmm(b[:, None], h, w)


def cosines(taus):
    """``cos(pi i tau)``, i = 1..64.  f[..., Q] -> f[..., Q, 64]"""
    return torch.cos(taus[..., None] * (torch.pi * torch.arange(1, COSINES + 1, dtype=taus.dtype, device=taus.device)))


def quantiles(params, states, taus, noise=None):
    """Return of each action at each quantile.  f[..., B, S], f[..., B, Q] -> f[..., B, Q, A]"""
    layers = noisy(params, noise)
    embedded = torch.relu(linear(states, params["w_state"], params["b_state"]))
    phi = torch.relu(linear(cosines(taus).flatten(-3, -2), params["w_cos"], params["b_cos"]))
    h = (phi.unflatten(-2, taus.shape[-2:]) * embedded[..., :, None, :]).flatten(-3, -2)
    h = torch.relu(linear(h, *layers["hidden"]))
    heads = linear(h, *layers["heads"]).to(taus.dtype).unflatten(-2, taus.shape[-2:])
    value, advantage = heads.tensor_split([1], dim=-1)
    return value + advantage - advantage.mean(dim=-1, keepdim=True)


def take_action(z, actions):
    """Return the quantiles of these actions.  f[..., B, Q, A], i[..., B] -> f[..., B, Q]"""
    index = actions.long()[..., None, None].expand(*z.shape[:-1], 1)
    return z.gather(-1, index)[..., 0]


def quantile_huber_loss(online, targets, taus):
    """``mean_B sum_i mean_j |tau_i - 1{delta_ij < 0}| Huber(delta_ij)``.  -> f[...]"""
    delta = targets[..., None, :] - online[..., :, None]
    weight = (taus[..., :, None] - (delta.detach() < 0).to(delta.dtype)).abs()
    huber = nn.functional.smooth_l1_loss(delta, torch.zeros_like(delta), reduction="none")
    return (weight * huber).mean(dim=-1).sum(dim=-1).mean(dim=-1)


class Iqn(nn.Module):
    """Weights of one agent, [I, O], or of N agents, [N, I, O], by name."""

    def __init__(self, params):
        super().__init__()
        self.weights = nn.ParameterDict({name: torch.from_numpy(value.copy()) for name, value in params.items()})

    @torch.no_grad()
    def load(self, params):
        """Take new weights, in place."""
        for name, weight in self.weights.items():
            weight.copy_(torch.from_numpy(params[name]))

    def views(self):
        """Return the weights by name, sharing their memory."""
        return {name: weight.detach() for name, weight in self.weights.items()}

    to_params_layout = staticmethod(np.asarray)

    def forward(self, *args):
        """Quantiles of each action."""
        return quantiles(self.weights, *args)


def autocast(knobs, target):
    """Return the context in which a net computes: bfloat16 where the knob says so."""
    if knobs.precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(place(target), torch.bfloat16)


def make_net(params, target):
    """Return the net with these weights on the backend's device."""
    return Iqn(params).to(place(target))


def lower_net(net, example, knobs, target):
    """Return a net, or what plays by one, as the backend calls it, computing in the precision of the knob."""
    call = target.lower(net, example, guard=GUARDS[knobs.inference])
    if knobs.precision == "float32":
        return call

    def cast(*args):
        with autocast(knobs, target):
            return call(*args)

    return cast


def forward(spec, example, *, knobs, target):
    """Quantiles of every agent.  f32[N, B, S], f32[N, B, Q], f32[N, M] -> f32[N, B, Q, A]"""

    def make(spec, example):
        return lower_net(make_net(spec["params"], target), example, knobs, target)

    return for_agents(make, spec, example, knobs, torch.stack)


def choose_actions(net, states, taus, explore, random_actions):
    """Return the greedy action, or the drawn one where ``explore``.  -> i32[...]"""
    greedy = net(states, taus).mean(dim=-2).argmax(dim=-1)
    return torch.where(explore, random_actions, greedy.to(random_actions.dtype))


class Actor(nn.Module):
    """Chooses the actions of an :class:`Iqn`; as a module, so that it can be lowered with its weights."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def load(self, params):
        """Take new weights, in place."""
        self.net.load(params)

    def forward(self, *args):
        """Return the greedy action, or the drawn one where ``explore``.  -> i32[...]"""
        return choose_actions(self.net, *args)


def act(spec, example, *, knobs, target):
    """Greedy action without noise, or the drawn one.  f[N, K, S], f[N, K, Q], bool[N, K], i32[N, K] -> i32[N, K]"""

    def make(spec, example):
        return lower_net(Actor(make_net(spec["params"], target)), example, knobs, target)

    return for_agents(make, spec, example, knobs, torch.stack)


def quantile_huber(spec, example, *, knobs, target):
    """Quantile Huber loss.  online f32[B, Q], targets f32[B, Q], taus f32[B, Q] -> f32"""
    return target.lower(quantile_huber_loss, example)


def make_loss(net, target_net):
    """Return ``loss(*batch)`` of an agent, or of each of N: the equations of the reference."""

    def loss(states, actions, returns, next_states, discounts, taus, noise):
        online_taus, choosing_taus, target_taus = taus.unbind(-3)
        online_noise, target_noise = noise.unbind(-2)
        with torch.no_grad():
            greedy = net(next_states, choosing_taus, online_noise).mean(dim=-2).argmax(dim=-1)
            next_z = take_action(target_net(next_states, target_taus, target_noise), greedy)
            targets = returns[..., None] + discounts[..., None] * next_z
        online = take_action(net(states, online_taus, online_noise), actions)
        return quantile_huber_loss(online, targets, online_taus)

    return loss


@torch.no_grad()
def clip_each(parameters, norm):
    """Scale the gradients [N, ...] of each agent to a norm of at most ``norm``."""
    gradients = [parameter.grad for parameter in parameters]
    norms = sum(gradient.flatten(1).square().sum(dim=1) for gradient in gradients).sqrt()
    scale = (norm / (norms + 1e-6)).clamp(max=1)
    torch._foreach_mul_(gradients, [scale.view(-1, *[1] * (gradient.dim() - 1)) for gradient in gradients])


class TrainStep(Learner):
    """One update of the online net of an agent, or of those of N; the target net follows softly."""

    def __init__(self, spec, example, knobs, target):
        super().__init__(spec, knobs.optimizer, functools.partial(make_net, target=target))
        self.knobs, self.target, self.tau = knobs, target, spec["soft_update"]
        self.loss = target.lower(make_loss(self.net, self.target_net), example)
        fused, norm = knobs.optimizer == "fused", spec["gradient_norm"]
        self.clip = (
            functools.partial(clip_each, self.parameters, norm)
            if self.net.weights["w_state"].dim() == 3
            else functools.partial(nn.utils.clip_grad_norm_, self.parameters, norm, foreach=fused)
        )
        self.followers = list(self.target_net.parameters())
        self.follow = {"loop": self.follow_one_by_one, "fused": self.follow_at_once}[knobs.optimizer]
        self.set_to_none = knobs.zero_grad == "none"

    def follow_one_by_one(self):
        """``target += tau (online - target)``, array after array."""
        for follower, parameter in zip(self.followers, self.parameters):
            follower.copy_(self.tau * parameter + (1 - self.tau) * follower)

    def follow_at_once(self):
        """The same for all arrays in one call."""
        torch._foreach_lerp_(self.followers, self.parameters, self.tau)

    def __call__(self, *batch):
        """Update on one batch; return its loss, of each agent."""
        with autocast(self.knobs, self.target):
            loss = self.loss(*batch)
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss.sum().backward()
        self.clip()
        self.optimizer.step()
        with torch.no_grad():
            self.follow()
        return loss.detach()

    def actor(self, example):
        """Return what plays by the online weights, whatever they become."""
        return lower_net(Actor(self.net), example, self.knobs, self.target)


def train_step(spec, example, *, knobs, target):
    """One update of every agent; returns the losses before it.  -> f32[N]"""
    return for_agents(lambda *of: TrainStep(*of, knobs, target), spec, example, knobs, torch.stack, Learners)
