"""IQN (Dabney et al. 2018) in torch, for one agent or batched over agents with weights [N, ...].

Builders take the arguments of those in :mod:`._numpy`.
"""

import functools

import numpy as np
import torch
from torch import nn

from ..common.matrix_products import addmm_of, by_mkl
from ..common.torch_learner import GUARDS, Learner, autocast, place
from ._numpy import COSINES, NOISY
from .one_by_one import Learners, for_agents


def factors(noise):
    """Return the factors of factorised Gaussian noise, ``sgn(x) sqrt(|x|)`` (Fortunato et al. 2018)."""
    return noise.sign() * noise.abs().sqrt()


def noisy(params, noise):
    """Return weight and bias of each noisy layer by name; see :func:`._numpy.noisy`."""
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


def product(a, b):
    """Compute ``a b``, in the memory of ``a`` unless autograd needs it."""
    return a * b if torch.is_grad_enabled() else a.mul_(b)


def cosines(taus):
    """Return ``cos(pi i tau)``, i = 1..64: f[..., Q] -> f[..., Q, 64]."""
    return torch.cos(taus[..., None] * (torch.pi * torch.arange(1, COSINES + 1, dtype=taus.dtype, device=taus.device)))


def quantiles(params, addmm, states, taus, noise=None):
    """Return Z_tau(s, a), f[..., B, Q, A]; arguments and equations are those of :func:`._numpy.quantiles`.

    ``addmm`` is a result of :func:`addmm_of`.
    """
    layers = noisy(params, noise)
    embedded = addmm(params["b_state"], states, params["w_state"]).relu_()  # in place: no gradient needs the input
    phi = addmm(params["b_cos"], cosines(taus).flatten(-3, -2), params["w_cos"]).relu_()
    h = product(phi.unflatten(-2, taus.shape[-2:]), embedded[..., :, None, :]).flatten(-3, -2)
    (w_hidden, b_hidden), (w_heads, b_heads) = layers["hidden"], layers["heads"]
    h = addmm(b_hidden, h, w_hidden).relu_()
    heads = addmm(b_heads, h, w_heads).to(taus.dtype).unflatten(-2, taus.shape[-2:])
    value, advantage = heads.tensor_split([1], dim=-1)
    return value + advantage - advantage.mean(dim=-1, keepdim=True)


def take_action(z, actions):
    """Select the quantiles of `actions`: f[..., B, Q, A], i[..., B] -> f[..., B, Q]."""
    index = actions.long()[..., None, None].expand(*z.shape[:-1], 1)
    return z.gather(-1, index)[..., 0]


def quantile_huber_loss(online, targets, taus, reduction="sum"):
    """Quantile Huber loss (Dabney et al. 2018, Eq. 3 and Algorithm 1); see :func:`._numpy.quantile_huber_loss`."""
    delta = targets[..., None, :] - online[..., :, None]
    weight = (taus[..., :, None] - (delta.detach() < 0).to(delta.dtype)).abs()
    huber = nn.functional.smooth_l1_loss(delta, torch.zeros_like(delta), reduction="none")
    losses = (weight * huber).mean(dim=-1)
    return getattr(losses, reduction)(dim=-1).mean(dim=-1)


def make_loss(net, target_net, reduction="sum"):
    """Return ``loss(*batch)`` of one agent, f32[], or of N, f32[N]; equations in :func:`._numpy.loss`.

    Both nets are an :class:`Iqn`. The batch of one agent is states f32[B, S], actions i32[B], returns f32[B],
    next_states f32[B, S], discounts f32[B], taus f32[3, B, Q], noise f32[2, M].
    """

    def loss(states, actions, returns, next_states, discounts, taus, noise):
        online_taus, choosing_taus, target_taus = taus.unbind(-3)
        online_noise, target_noise = noise.unbind(-2)
        with torch.no_grad():
            greedy = net(next_states, choosing_taus, online_noise).mean(dim=-2).argmax(dim=-1)
            next_z = take_action(target_net(next_states, target_taus, target_noise), greedy)
            targets = returns[..., None] + discounts[..., None] * next_z
        online = take_action(net(states, online_taus, online_noise), actions)
        return quantile_huber_loss(online, targets, online_taus, reduction)

    return loss


def choose_actions(net, states, taus, explore, random_actions):
    """Return epsilon-greedy actions, i32[..., K]: greedy without noise, random where `explore`.

    states f32[..., K, S], taus f32[..., K, Q] (an action's value is the mean over them), explore bool[..., K],
    random_actions i32[..., K]; `net(states, taus)` is an :class:`Iqn`.
    """
    greedy = net(states, taus).mean(dim=-2).argmax(dim=-1)
    return torch.where(explore, random_actions, greedy.to(random_actions.dtype))


class Iqn(nn.Module):
    """The net of one agent, weights [I, O], or of N agents, [N, I, O]; `params` as in :func:`._numpy.init_params`."""

    def __init__(self, params, addmm=by_mkl):
        super().__init__()
        self.weights = nn.ParameterDict({name: torch.from_numpy(value.copy()) for name, value in params.items()})
        self.addmm = addmm

    @torch.no_grad()
    def load(self, params):
        for name, weight in self.weights.items():
            weight.copy_(torch.from_numpy(params[name]))

    def views(self):
        """Return the detached weights by name; they share memory with the parameters."""
        return {name: weight.detach() for name, weight in self.weights.items()}

    to_params_layout = staticmethod(np.asarray)

    def forward(self, *args):
        """Return :func:`quantiles` of states, taus and optional noise."""
        return quantiles(self.weights, self.addmm, *args)


class Actor(nn.Module):
    """Epsilon-greedy actor with an :class:`Iqn`, which is not copied; a module, so that both are compiled together."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def load(self, params):
        self.net.load(params)

    def forward(self, *args):
        """Return :func:`choose_actions` of states, taus, explore and random_actions."""
        return choose_actions(self.net, *args)


def make_net(params, options, compiler):
    """Return an :class:`Iqn` on the compiler's device."""
    return Iqn(params, addmm_of(options, compiler)).to(place(compiler))


def compile_net(net, example, options, compiler):
    """Compile a net or an :class:`Actor`, applying the ``inference`` and ``precision`` options."""
    call = compiler.compile(net, example, guard=GUARDS[options.inference])
    if options.precision == "float32":
        return call

    def cast(*args):
        with autocast(options, compiler):
            return call(*args)

    return cast


@torch.no_grad()
def clip_each(parameters, norm):
    """Clip the gradient norm of each agent; torch's own clipping would take one norm over all agents."""
    gradients = [parameter.grad for parameter in parameters]
    norms = torch.stack([torch.linalg.vector_norm(gradient.flatten(1), dim=1) for gradient in gradients])
    scale = (norm / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1)
    torch._foreach_mul_(gradients, [scale.view(-1, *[1] * (gradient.dim() - 1)) for gradient in gradients])


class TrainStep(Learner):
    """One Adam update of one agent, or of all N; the target net follows the online net by ``soft_update``.

    `config` is that of :func:`train_step`, `example` a batch of :func:`make_loss`.
    """

    def __init__(self, config, example, options, compiler):
        super().__init__(config, options.optimizer, functools.partial(make_net, options=options, compiler=compiler))
        self.options, self.compiler, self.tau = options, compiler, config["soft_update"]
        loss = make_loss(self.net, self.target_net, config.get("loss_reduction", "sum"))
        self.loss = compiler.compile(loss, example)
        fused, norm = options.optimizer == "fused", config["max_grad_norm"]
        self.clip = (
            functools.partial(clip_each, self.parameters, norm)
            if self.net.weights["w_state"].dim() == 3
            else functools.partial(nn.utils.clip_grad_norm_, self.parameters, norm, foreach=fused)
        )
        self.followers = list(self.target_net.parameters())
        self.follow = {"loop": self.follow_one_by_one, "fused": self.follow_at_once}[options.optimizer]
        self.set_to_none = options.zero_grad == "none"

    def follow_one_by_one(self):
        """Update the target net, ``target += tau (online - target)``, array by array."""
        for follower, parameter in zip(self.followers, self.parameters):
            follower.copy_(self.tau * parameter + (1 - self.tau) * follower)

    def follow_at_once(self):
        """Update all arrays of the target net in one call, which saves the overhead of one call for each."""
        torch._foreach_lerp_(self.followers, self.parameters, self.tau)

    def __call__(self, *batch):
        """Update on one batch; return the loss before the update, f32[], or f32[N] for N agents."""
        with autocast(self.options, self.compiler):
            loss = self.loss(*batch)
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss.sum().backward()
        self.clip()
        self.optimizer.step()
        with torch.no_grad():
            self.follow()
        return loss.detach()

    def actor(self, example):
        """Return ``actor(states, taus, explore, random_actions)``, which always uses the current online weights."""
        return compile_net(Actor(self.net), example, self.options, self.compiler)


def forward(config, example, *, options, compiler):
    """Build ``forward``; shapes as in :func:`._numpy.forward`."""

    def make(config, example):
        return compile_net(make_net(config["params"], options, compiler), example, options, compiler)

    return for_agents(make, config, example, options, torch.stack)


def act(config, example, *, options, compiler):
    """Build ``act``; shapes as in :func:`._numpy.act`."""

    def make(config, example):
        return compile_net(Actor(make_net(config["params"], options, compiler)), example, options, compiler)

    return for_agents(make, config, example, options, torch.stack)


def quantile_huber(config, example, *, options, compiler):
    """Build ``quantile_huber``: online f32[B, Q], targets f32[B, Q], taus f32[B, Q] -> f32."""
    return compiler.compile(quantile_huber_loss, example)


def gradient(config, example, *, options, compiler):
    """Build ``gradient``: a batch of :func:`make_loss` -> one agent's loss and its gradient by name."""
    net, target_net = (make_net(config[part], options, compiler) for part in ("params", "target"))
    loss = compiler.compile(make_loss(net, target_net), example)

    def loss_and_gradient(*batch):
        net.zero_grad(set_to_none=True)
        value = loss(*batch)
        value.backward()
        return value.detach(), {name: weight.grad for name, weight in net.weights.items()}

    return loss_and_gradient


def train_step(config, example, *, options, compiler):
    """Build ``train_step``: one Adam update of every agent (Kingma and Ba 2015) -> f32[N], the losses before it.

    Arguments: states f32[N, B, S], actions i32[N, B], returns f32[N, B], next_states f32[N, B, S], discounts f32[N, B],
    taus f32[N, 3, B, Q], noise f32[N, 2, M].

    `config` has ``params`` and ``target``, the weights of the online and target nets; ``learning_rate`` of Adam;
    ``max_grad_norm`` of each agent; ``soft_update``, the fraction by which the target net moves to the online net; and
    optionally ``loss_reduction``, see :func:`._numpy.quantile_huber_loss`.
    """
    return for_agents(lambda *of: TrainStep(*of, options, compiler), config, example, options, torch.stack, Learners)
