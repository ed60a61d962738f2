"""PPO, A2C and IMPALA in torch: advantages, losses and updates; the nets are in :mod:`.torch_net`.

Axes: T steps, N environments, B images, A = 15 actions. Builders take the arguments that :mod:`._numpy` describes.
"""

from __future__ import annotations

import functools

import torch
from torch import nn

from ..common.torch_learner import AT_ONCE, FOREACH, Trained, autocast
from ._numpy import STD_EPS
from .group import moments_of_all
from .spec import A2C_EPS, ADAM_EPS, IMPALA_EPS, RMS_DECAY, check_rollout
from .torch_net import IMAGES, Actor, lower_net, make_net, to_device, to_act

RMSPROP = {"loop": {"foreach": False}, "default": {}, "fused": {"foreach": True}}  # torch has no fused RMSProp


def forward(spec, example, *, options, compiler):
    """Build the net that acts.  u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
    return lower_net(to_act(make_net(spec["params"], options, compiler), options), example, options, compiler)


def backward_sum(terms, decays):
    """:func:`._numpy.backward_sum` as one ``addcmul`` per step."""
    sums = [torch.zeros_like(terms[0])]
    for term, decay in zip(reversed(terms.unbind()), reversed(decays.unbind())):
        sums.append(torch.addcmul(term, decay, sums[-1]))
    return torch.stack(sums[:0:-1])


def gae_of(rewards, values, next_values, terminated, truncated, *, gamma, lam):
    """Generalised advantages and returns, see :func:`._numpy.gae_of`.  -> f[T, ...], f[T, ...]"""
    deltas = rewards + gamma * (next_values * ~terminated) - values
    decays = torch.full_like(deltas, gamma * lam) * ~(terminated | truncated)
    advantages = backward_sum(deltas, decays)
    return advantages, advantages + values


def vtrace_of(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """V-trace value targets and advantages, see :func:`._numpy.vtrace_of`.  -> f[T, ...], f[T, ...]"""
    ratios, ended = log_ratios.exp(), terminated | truncated
    rhos, cs = ratios.clamp(max=rho_bar), ratios.clamp(max=c_bar)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    after = torch.cat([torch.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * after - values)


def env_by_env(function):
    """Make a function of columns f[T] run once per environment of [T, N] tensors, and stack the results."""

    def call(*columns):
        results = [function(*of_one) for of_one in zip(*(column.unbind(1) for column in columns))]
        return tuple(torch.stack(each, dim=1) for each in zip(*results))

    return call


ADVANTAGES = {"loop": env_by_env, "vector": lambda function: function}


def gae(spec, example, *, options, compiler):
    """Build :func:`gae_of` for f32[T, N] rollouts; the option ``advantages`` picks the loop or the vectorised form."""
    function = functools.partial(gae_of, gamma=spec["gamma"], lam=spec["lam"])
    return compiler.compile(ADVANTAGES[options.advantages](function), example)


def vtrace(spec, example, *, options, compiler):
    """Build :func:`vtrace_of` for f32[T, N] rollouts, with the same choice as :func:`gae`."""
    return compiler.compile(ADVANTAGES[options.advantages](vtrace_with(spec)), example)


def vtrace_with(spec):
    """Bind gamma, rho_bar and c_bar of the spec to :func:`vtrace_of`."""
    return functools.partial(vtrace_of, **{name: spec[name] for name in ("gamma", "rho_bar", "c_bar")})


def taken(logits, actions):
    """Log-probabilities f[B] of ``actions`` i[B], and mean entropy f, from logits f[B, A]."""
    log_probs = logits.log_softmax(dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
    return log_probs.gather(1, actions.long()[:, None])[:, 0], entropy


def critic_loss(values, returns):
    """Mean of ``(values - returns)^2 / 2``.  f[B], f[B] -> f"""
    return 0.5 * (values - returns).square().mean()


def moments_of(x):
    """Mean and population standard deviation.  f[B] -> f, f"""
    return x.mean(), x.std(correction=0)


def ppo_loss(
    logits, values, actions, log_probs, advantages, returns, *, clip, value_weight, entropy_weight, moments=moments_of
):
    """Loss of PPO (Schulman et al. 2017) from the net's outputs; see :func:`._numpy.ppo_loss`.  -> f

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``log_probs`` f[B] under the policy that acted,
    ``advantages`` f[B], ``returns`` f[B]. ``moments(advantages)`` returns the mean and deviation to normalise with.
    """
    new_log_probs, entropy = taken(logits, actions)
    ratios = (new_log_probs - log_probs).exp()
    mean, deviation = moments(advantages)
    advantages = (advantages - mean) / (deviation + STD_EPS)
    policy = torch.maximum(-advantages * ratios, -advantages * ratios.clamp(1 - clip, 1 + clip)).mean()
    return policy + value_weight * critic_loss(values, returns) - entropy_weight * entropy


def a2c_loss(logits, values, actions, advantages, returns, *, value_weight, entropy_weight):
    """Loss of A2C (Mnih et al. 2016) from the net's outputs; see :func:`._numpy.a2c_loss`.  -> f

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``advantages`` f[B], ``returns`` f[B].
    """
    log_probs, entropy = taken(logits, actions)
    policy = -(log_probs * advantages).mean()
    return policy + value_weight * critic_loss(values, returns) - entropy_weight * entropy


def adam(spec, options):
    """Return ``optimizer(tensors)``, PPO's Adam (Kingma and Ba 2015), and torch's names of its moments."""
    options = {"lr": spec["learning_rate"], "eps": spec.get("epsilon", ADAM_EPS), **AT_ONCE[options.optimizer]}
    return functools.partial(torch.optim.Adam, **options), {"first": "exp_avg", "second": "exp_avg_sq"}


def rmsprop(spec, options, eps):
    """Return ``optimizer(tensors)``, the RMSProp of A2C and IMPALA, and torch's name of its moment.

    ``v <- decay v + (1 - decay) g^2``, ``w <- w - learning_rate g / (sqrt(v) + epsilon)``

    ``eps`` is the epsilon for a spec that has none.
    """
    options = {"lr": spec["learning_rate"], **RMSPROP[options.optimizer]}
    options |= {"alpha": spec.get("decay", RMS_DECAY), "eps": spec.get("epsilon", eps)}
    return functools.partial(torch.optim.RMSprop, **options), {"second": "square_avg"}


class Update(Trained):
    """Gradient step on a batch: forward, loss, backward, clipping of the gradient norm, optimiser step.

    Args:
        spec: configuration; ``params`` and ``gradient_norm`` are read.
        obs: example images u8[B, 64, 64, 3] for lowering, a tensor.
        loss: ``loss(logits, values, *rest of the batch) -> f32[]``.
        optimizer: result of :func:`adam` or :func:`rmsprop`.
        options: optimisations of the net and the update.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, obs, loss, optimizer, options, compiler):
        super().__init__(spec["params"], lambda params: make_net(params, options, compiler), *optimizer)
        self.options, self.compiler, self.loss, self.as_held = options, compiler, loss, IMAGES[options.images]
        self.evaluate = compiler.compile(self.net, (self.as_held(obs),))
        foreach = FOREACH[options.optimizer]
        self.clip = functools.partial(nn.utils.clip_grad_norm_, self.parameters, spec["gradient_norm"], foreach=foreach)
        self.set_to_none = options.zero_grad == "none"

    def to_device(self, *columns):
        """Copy NumPy arrays, images first, to the backend's device."""
        return to_device(columns, self.options, self.compiler)

    def load(self, params):
        """Replace the weights, NumPy arrays by name; the optimiser keeps its moments."""
        self.net.load(params)

    def actor(self, obs):
        """Return an :class:`.torch_net.Actor` for this net; ``obs`` u8[N, 64, 64, 3] is an example."""
        return Actor(self.net, obs, self.options, self.compiler)

    def values(self, obs):
        """Return V(s), f32[N], of images u8[N, 64, 64, 3]; takes and returns NumPy arrays."""
        with torch.no_grad():
            return self.see(*self.put(obs), self.net)[1].cpu().numpy()

    def see(self, obs, net):
        """Run a net under the option ``precision``.  [B, 64, 64, 3] -> logits f32[B, A], values f32[B]

        ``net`` is ``self.net`` or its lowered form ``self.evaluate``.
        """
        with autocast(self.options, self.compiler):
            return net(self.as_held(obs))

    def learn(self, loss):
        """Backpropagate a loss f32[], clip the gradient and step; return the detached loss."""
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        loss.backward()
        self.clip()
        self.optimizer.step()
        return loss.detach()

    def __call__(self, obs, *rest):
        """Update on obs u8[B, 64, 64, 3] and the loss's other arguments; return the loss before the step, f32[]."""
        return self.learn(self.loss(*self.see(obs, self.evaluate), *rest))


class ImpalaUpdate(Update):
    """Gradient step on a rollout: the A2C loss, summed over steps, with V-trace targets and advantages.

    ``spec`` also has ``gamma``, ``rho_bar`` and ``c_bar``; ``obs`` is u8[T + 1, N, 64, 64, 3]; ``loss`` is like
    :func:`a2c_loss`. The option ``advantages`` selects the V-trace loop.
    """

    def __init__(self, spec, obs, loss, optimizer, options, compiler):
        super().__init__(spec, obs.flatten(0, 1), loss, optimizer, options, compiler)
        self.vtrace = ADVANTAGES[options.advantages](vtrace_with(spec))

    def __call__(self, obs, actions, log_probs, rewards, terminated, truncated):
        """Update on one rollout; return the loss before the step, f32[].

        obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N] under the policy that acted, rewards
        f32[T, N], terminated bool[T, N], truncated bool[T, N].
        """
        logits, values = self.see(obs.flatten(0, 1), self.evaluate)
        steps, played = actions.numel(), actions.flatten()
        with torch.no_grad():
            log_ratios = taken(logits[:steps], played)[0].view_as(log_probs) - log_probs
            of_steps = values.view(obs.shape[:2])
            vs, advantages = self.vtrace(log_ratios, rewards, of_steps[:-1], of_steps[1:], terminated, truncated)
        loss = self.loss(logits[:steps], values[:steps], played, advantages.flatten(), vs.flatten())
        return self.learn(steps * loss)  # sum over steps, see _numpy.impala_loss


def weights_of_losses(spec, *more):
    """Return the loss coefficients of the spec, and the entries named in ``more``, as keyword arguments."""
    return {name: spec[name] for name in ("value_weight", "entropy_weight", *more)}


def ppo_update(spec, example, *, options, compiler):
    """Build PPO's update: Adam with a clipped gradient norm (Schulman et al. 2017).

    obs u8[B, 64, 64, 3], actions i32[B], log_probs f32[B], advantages f32[B], returns f32[B] -> f32[], the loss before
    the update. With several processes, advantages are normalised over the batches of all.
    """
    options = weights_of_losses(spec, "clip")
    if spec.get("processes", 1) > 1:
        options["moments"] = moments_of_all
    loss = compiler.compile(functools.partial(ppo_loss, **options), example)
    return Update(spec, example[0], loss, adam(spec, options), options, compiler)


def a2c_update(spec, example, *, options, compiler):
    """Build A2C's update: RMSProp with a clipped gradient norm (Mnih et al. 2016).

    obs u8[B, 64, 64, 3], actions i32[B], advantages f32[B], returns f32[B] -> f32[], the loss before the update
    """
    loss = compiler.compile(functools.partial(a2c_loss, **weights_of_losses(spec)), example)
    return Update(spec, example[0], loss, rmsprop(spec, options, A2C_EPS), options, compiler)


def impala_update(spec, example, *, options, compiler):
    """Build IMPALA's update: RMSProp with a clipped gradient norm (Espeholt et al. 2018).

    obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N], rewards f32[T, N], terminated bool[T, N],
    truncated bool[T, N] -> f32[], the loss before the update
    """
    check_rollout(*example[:2])
    loss = compiler.compile(functools.partial(a2c_loss, **weights_of_losses(spec)), example)
    return ImpalaUpdate(spec, example[0], loss, rmsprop(spec, options, IMPALA_EPS), options, compiler)
