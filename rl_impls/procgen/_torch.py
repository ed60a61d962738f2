"""Actors and critics on pictures in torch: the net, advantages, and the updates of PPO, A2C and IMPALA.

Axes: T steps, N environments, B pictures, A = 15 actions.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import functools

import torch
from torch import nn

from ..common.torch_learner import AT_ONCE, FOREACH, Trained, autocast
from ._numpy import STD_EPS
from .group import moments_of_all
from .spec import A2C_EPS, ADAM_EPS, IMPALA_EPS, RMS_DECAY, check_rollout
from .torch_net import IMAGES, Actor, lower_net, make_net, put, to_act

RMSPROP = {"loop": {"foreach": False}, "default": {}, "fused": {"foreach": True}}  # torch has no fused one


def forward(spec, example, *, knobs, target):
    """Return the logits of all actions and the values.  u8[B, 64, 64, 3] -> f32[B, A], f32[B]"""
    return lower_net(to_act(make_net(spec["params"], knobs, target), knobs), example, knobs, target)


def backward_sum(terms, decays):
    """Return ``s_t = terms_t + decays_t s_{t+1}``, 0 after the last step.  f[T, ...] -> f[T, ...]

    Args:
        terms: f[T, ...].
        decays: f[T, ...].
    """
    sums = [torch.zeros_like(terms[0])]
    for term, decay in zip(reversed(terms.unbind()), reversed(decays.unbind())):
        sums.append(torch.addcmul(term, decay, sums[-1]))
    return torch.stack(sums[:0:-1])


def gae_of(rewards, values, next_values, terminated, truncated, *, gamma, lam):
    """Return generalised advantages, and returns; :func:`._numpy.gae_of`.  -> f[T, ...], f[T, ...]

    Args:
        rewards: f[T, ...].
        values: of the states that were acted in, f[T, ...].
        next_values: of those after each step, before any reset, f[T, ...].
        terminated: bool[T, ...].
        truncated: bool[T, ...].
        gamma: discount of one step.
        lam: discount of one step, beside gamma, of later errors.
    """
    deltas = rewards + gamma * (next_values * ~terminated) - values
    decays = torch.full_like(deltas, gamma * lam) * ~(terminated | truncated)
    advantages = backward_sum(deltas, decays)
    return advantages, advantages + values


def vtrace_of(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """Return V-trace's targets of the values and its advantages; :func:`._numpy.vtrace_of`.  -> f[T, ...], f[T, ...]

    Args:
        log_ratios: logarithm of the probability of the action by the policy that learns, over that by the policy that
            acted, f[T, ...].
        rewards: f[T, ...].
        values: of the states that were acted in, f[T, ...].
        next_values: of those after each step, before any reset, f[T, ...].
        terminated: bool[T, ...].
        truncated: bool[T, ...].
        gamma: discount of one step.
        rho_bar: largest weight of an error.
        c_bar: largest weight of what comes after a step.
    """
    ratios, ended = log_ratios.exp(), terminated | truncated
    rhos, cs = ratios.clamp(max=rho_bar), ratios.clamp(max=c_bar)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    after = torch.cat([torch.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * after - values)


def env_by_env(function):
    """Return what computes the results of all environments one after the other.  f[T, N], ... -> f[T, N], ...

    Args:
        function: of columns f[T], returns several of them.
    """

    def call(*columns):
        results = [function(*of_one) for of_one in zip(*(column.unbind(1) for column in columns))]
        return tuple(torch.stack(each, dim=1) for each in zip(*results))

    return call


ADVANTAGES = {"loop": env_by_env, "vector": lambda function: function}


def gae(spec, example, *, knobs, target):
    """Return generalised advantages and returns.  -> f32[T, N], f32[T, N]

    rewards f32[T, N], values f32[T, N], next_values f32[T, N], terminated bool[T, N], truncated bool[T, N]
    """
    function = functools.partial(gae_of, gamma=spec["gamma"], lam=spec["lam"])
    return target.lower(ADVANTAGES[knobs.advantages](function), example)


def vtrace(spec, example, *, knobs, target):
    """Return V-trace's targets of the values and its advantages.  -> f32[T, N], f32[T, N]

    log_ratios f32[T, N], rewards f32[T, N], values f32[T, N], next_values f32[T, N], terminated bool[T, N], truncated
    bool[T, N]
    """
    return target.lower(ADVANTAGES[knobs.advantages](vtrace_with(spec)), example)


def vtrace_with(spec):
    """Return :func:`vtrace_of` with its constants.

    Args:
        spec: ``gamma``, ``rho_bar`` and ``c_bar`` are taken.
    """
    return functools.partial(vtrace_of, **{name: spec[name] for name in ("gamma", "rho_bar", "c_bar")})


def taken(logits, actions):
    """Return the logarithm of the probability of some actions, and the mean entropy.  f[B, A], i[B] -> f[B], f

    Args:
        logits: f[B, A].
        actions: i[B].
    """
    log_probs = logits.log_softmax(dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
    return log_probs.gather(1, actions.long()[:, None])[:, 0], entropy


def critic_loss(values, returns):
    """Return half the mean squared error of values.  f[B], f[B] -> f

    Args:
        values: f[B].
        returns: what they should be, f[B].
    """
    return 0.5 * (values - returns).square().mean()


def moments_of(x):
    """Return mean and standard deviation.  f[B] -> f, f

    Args:
        x: f[B].
    """
    return x.mean(), x.std(correction=0)


def ppo_loss(
    logits, values, actions, log_probs, advantages, returns, *, clip, value_weight, entropy_weight, moments=moments_of
):
    """Return the loss of PPO (Schulman et al. 2017); its equations are in :func:`._numpy.ppo_loss`.  -> f

    Args:
        logits: by the weights that learn, f[B, A].
        values: by the weights that learn, f[B].
        actions: i[B].
        log_probs: of the actions by the policy that acted, f[B].
        advantages: f[B].
        returns: f[B].
        clip: how far from 1 a ratio is rewarded to go.
        value_weight: of the values' error.
        entropy_weight: of the entropy.
        moments: ``moments(advantages)``, mean and standard deviation, by which they are normalised.
    """
    new_log_probs, entropy = taken(logits, actions)
    ratios = (new_log_probs - log_probs).exp()
    mean, deviation = moments(advantages)
    advantages = (advantages - mean) / (deviation + STD_EPS)
    policy = torch.maximum(-advantages * ratios, -advantages * ratios.clamp(1 - clip, 1 + clip)).mean()
    return policy + value_weight * critic_loss(values, returns) - entropy_weight * entropy


def a2c_loss(logits, values, actions, advantages, returns, *, value_weight, entropy_weight):
    """Return the loss of advantage actor-critic (Mnih et al. 2016); :func:`._numpy.a2c_loss`.  -> f

    Args:
        logits: by the weights that learn, f[B, A].
        values: by the weights that learn, f[B].
        actions: i[B].
        advantages: f[B].
        returns: f[B].
        value_weight: of the values' error.
        entropy_weight: of the entropy.
    """
    log_probs, entropy = taken(logits, actions)
    policy = -(log_probs * advantages).mean()
    return policy + value_weight * critic_loss(values, returns) - entropy_weight * entropy


def adam(spec, knobs):
    """Return ``optimizer(tensors)`` of PPO, and what it keeps of each tensor (Kingma and Ba 2015).

    Args:
        spec: ``learning_rate`` and ``epsilon`` are taken.
        knobs: ``optimizer`` is read.
    """
    options = {"lr": spec["learning_rate"], "eps": spec.get("epsilon", ADAM_EPS), **AT_ONCE[knobs.optimizer]}
    return functools.partial(torch.optim.Adam, **options), {"first": "exp_avg", "second": "exp_avg_sq"}


def rmsprop(spec, knobs, eps):
    """Return ``optimizer(tensors)`` of A2C and IMPALA, and what it keeps of each tensor.

    ``v <- decay v + (1 - decay) g^2``, ``w <- w - learning_rate g / (sqrt(v) + epsilon)``

    Args:
        spec: ``learning_rate``, ``decay`` and ``epsilon`` are taken.
        knobs: ``optimizer`` is read.
        eps: epsilon, where the spec has none.
    """
    options = {"lr": spec["learning_rate"], **RMSPROP[knobs.optimizer]}
    options |= {"alpha": spec.get("decay", RMS_DECAY), "eps": spec.get("epsilon", eps)}
    return functools.partial(torch.optim.RMSprop, **options), {"second": "square_avg"}


class Update(Trained):
    """One update of the net on a batch.

    Args:
        spec: ``params``, ``learning_rate`` and ``gradient_norm`` are taken.
        obs: pictures u8[B, 64, 64, 3] like those to come, a tensor.
        loss: ``loss(logits, values, *rest of the batch) -> f32[]``.
        optimizer: ``optimizer(tensors)`` and what it keeps of each, see :func:`adam`.
        knobs: those of an update are read.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, obs, loss, optimizer, knobs, target):
        super().__init__(spec["params"], lambda params: make_net(params, knobs, target), *optimizer)
        self.knobs, self.target, self.loss, self.as_held = knobs, target, loss, IMAGES[knobs.images]
        self.evaluate = target.lower(self.net, (self.as_held(obs),))
        foreach = FOREACH[knobs.optimizer]
        self.clip = functools.partial(nn.utils.clip_grad_norm_, self.parameters, spec["gradient_norm"], foreach=foreach)
        self.set_to_none = knobs.zero_grad == "none"

    def put(self, *columns):
        """Return a batch of NumPy arrays as a call takes it, tensors on the backend's device.

        Args:
            columns: the arrays, pictures first.
        """
        return put(columns, self.knobs, self.target)

    def load(self, params):
        """Take new weights; the optimiser's moments stay.

        Args:
            params: NumPy arrays by name.
        """
        self.net.load(params)

    def actor(self, obs):
        """Return an :class:`.torch_net.Actor` that plays by the weights that learn.

        Args:
            obs: pictures u8[N, 64, 64, 3] like those to come, an array.
        """
        return Actor(self.net, obs, self.knobs, self.target)

    def values(self, obs):
        """Return the values of states, f32[N].

        Args:
            obs: u8[N, 64, 64, 3], an array.
        """
        with torch.no_grad():
            return self.see(*self.put(obs), self.net)[1].cpu().numpy()

    def see(self, obs, net):
        """Return logits f32[B, A] and values f32[B], computed as precisely as the knob ``precision`` says.

        Args:
            obs: pictures [B, 64, 64, 3], a tensor.
            net: the net, as it is or as the backend calls it.
        """
        with autocast(self.knobs, self.target):
            return net(self.as_held(obs))

    def learn(self, loss):
        """Go one step down the slope of a loss; return the loss.

        Args:
            loss: f32[], which autograd can differentiate.
        """
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss.backward()
        self.clip()
        self.optimizer.step()
        return loss.detach()

    def __call__(self, obs, *rest):
        """Make an update on one batch; return the loss before it, f32[].

        Args:
            obs: u8[B, 64, 64, 3].
            rest: of the batch, as the loss takes it.
        """
        return self.learn(self.loss(*self.see(obs, self.evaluate), *rest))


class ImpalaUpdate(Update):
    """One update of the net on a rollout, by the loss of A2C, summed, with V-trace's targets and advantages.

    Args:
        spec: what :class:`Update` takes, ``gamma``, ``rho_bar`` and ``c_bar``.
        obs: pictures u8[T + 1, N, 64, 64, 3] like those to come, a tensor.
        loss: as :func:`a2c_loss`.
        optimizer: ``optimizer(tensors)`` and what it keeps of each.
        knobs: those of an update are read, and ``advantages``.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, obs, loss, optimizer, knobs, target):
        super().__init__(spec, obs.flatten(0, 1), loss, optimizer, knobs, target)
        self.vtrace = ADVANTAGES[knobs.advantages](vtrace_with(spec))

    def __call__(self, obs, actions, log_probs, rewards, terminated, truncated):
        """Make an update on one rollout; return the loss before it, f32[].

        Args:
            obs: u8[T + 1, N, 64, 64, 3].
            actions: i32[T, N].
            log_probs: of the actions by the policy that acted, f32[T, N].
            rewards: f32[T, N].
            terminated: bool[T, N].
            truncated: bool[T, N].
        """
        logits, values = self.see(obs.flatten(0, 1), self.evaluate)
        steps, played = actions.numel(), actions.flatten()
        with torch.no_grad():
            log_ratios = taken(logits[:steps], played)[0].view_as(log_probs) - log_probs
            of_steps = values.view(obs.shape[:2])
            vs, advantages = self.vtrace(log_ratios, rewards, of_steps[:-1], of_steps[1:], terminated, truncated)
        loss = self.loss(logits[:steps], values[:steps], played, advantages.flatten(), vs.flatten())
        return self.learn(steps * loss)  # the sum over all steps


def weights_of_losses(spec, *more):
    """Return the constants of a loss by name.

    Args:
        spec: ``value_weight`` and ``entropy_weight`` are taken.
        more: names of others that are.
    """
    return {name: spec[name] for name in ("value_weight", "entropy_weight", *more)}


def ppo_update(spec, example, *, knobs, target):
    """Make one update of PPO by Adam, its gradient's norm clipped (Schulman et al. 2017).

    obs u8[B, 64, 64, 3], actions i32[B], log_probs f32[B], advantages f32[B], returns f32[B] -> f32[], the loss before
    the update
    """
    options = weights_of_losses(spec, "clip")
    if spec.get("processes", 1) > 1:
        options["moments"] = moments_of_all
    loss = target.lower(functools.partial(ppo_loss, **options), example)
    return Update(spec, example[0], loss, adam(spec, knobs), knobs, target)


def a2c_update(spec, example, *, knobs, target):
    """Make one update of A2C by RMSProp, its gradient's norm clipped (Mnih et al. 2016).

    obs u8[B, 64, 64, 3], actions i32[B], advantages f32[B], returns f32[B] -> f32[], the loss before the update
    """
    loss = target.lower(functools.partial(a2c_loss, **weights_of_losses(spec)), example)
    return Update(spec, example[0], loss, rmsprop(spec, knobs, A2C_EPS), knobs, target)


def impala_update(spec, example, *, knobs, target):
    """Make one update of IMPALA by RMSProp, its gradient's norm clipped (Espeholt et al. 2018).

    obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N], rewards f32[T, N], terminated bool[T, N],
    truncated bool[T, N] -> f32[], the loss before the update

    Raises:
        ValueError: not one picture more than steps.
    """
    check_rollout(*example[:2])
    loss = target.lower(functools.partial(a2c_loss, **weights_of_losses(spec)), example)
    return ImpalaUpdate(spec, example[0], loss, rmsprop(spec, knobs, IMPALA_EPS), knobs, target)
