"""PPO, A2C and IMPALA in torch: advantages, losses and updates; the nets are in :mod:`.torch_net`.

Builders take the arguments that :mod:`._numpy` describes.
"""

import functools

import torch
from torch import nn

from ..common.torch_learner import AT_ONCE, FOREACH, Trained, autocast
from . import group
from ._numpy import STD_EPS
from .net import net_of
from .torch_net import IMAGES, Policy, acting_net, compile_net, make_net, to_device

SMALL_PASS = {"nature": 128, "residual": 32}  # images per part; in bfloat16, twice as many take the same memory
RMSPROP = {"loop": {"foreach": False}, "fused": {"foreach": True}}  # torch has no fused RMSProp


def log_probs_and_entropy(logits, actions):
    """Log-probabilities f[B] of ``actions`` i[B], and mean entropy f, from logits f[B, A]."""
    log_probs = logits.log_softmax(dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
    return log_probs.gather(1, actions.long()[:, None])[:, 0], entropy


def value_loss(values, returns):
    """Mean of ``(values - returns)^2 / 2``.  f[B], f[B] -> f"""
    return 0.5 * (values - returns).square().mean()


def with_parts(policy_loss, value_loss, entropy, value_weight, entropy_weight):
    """Combine three scalars.  -> the loss f, and the scalars without a gradient f[3]"""
    loss = policy_loss + value_weight * value_loss - entropy_weight * entropy
    return loss, torch.stack([policy_loss, value_loss, entropy]).detach()


def backward_sum(terms, decays):
    """:func:`._numpy.backward_sum` as one ``addcmul`` per step."""
    sums = [torch.zeros_like(terms[0])]
    for term, decay in zip(reversed(terms.unbind()), reversed(decays.unbind())):
        sums.append(torch.addcmul(term, decay, sums[-1]))
    return torch.stack(sums[:0:-1])


def compute_gae(rewards, values, next_values, terminated, truncated, *, gamma, gae_lambda):
    """Generalised advantages and returns, see :func:`._numpy.compute_gae`.  -> f[T, ...], f[T, ...]"""
    deltas = rewards + gamma * (next_values * ~terminated) - values
    decays = torch.full_like(deltas, gamma * gae_lambda) * ~(terminated | truncated)
    advantages = backward_sum(deltas, decays)
    return advantages, advantages + values


def mean_and_std(x):
    """Mean and population standard deviation.  f[B] -> f, f"""
    return x.mean(), x.std(correction=0)


def ppo_loss(
    logits, values, actions, log_probs, advantages, returns, *, clip, value_weight, entropy_weight
):  # fmt: skip
    """PPO's loss (Schulman et al. 2017) from the net's outputs; see :func:`._numpy.ppo_loss`.  -> f, and parts f[3]

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``log_probs`` f[B] under the policy that acted, normalised
    ``advantages`` f[B], ``returns`` f[B].
    """
    new_log_probs, entropy = log_probs_and_entropy(logits, actions)
    ratios = (new_log_probs - log_probs).exp()
    policy_loss = torch.maximum(-advantages * ratios, -advantages * ratios.clamp(1 - clip, 1 + clip)).mean()
    return with_parts(policy_loss, value_loss(values, returns), entropy, value_weight, entropy_weight)


def a2c_loss(logits, values, actions, advantages, returns, *, value_weight, entropy_weight):
    """A2C's loss (Mnih et al. 2016) from the net's outputs; see :func:`._numpy.a2c_loss`.  -> f, and parts f[3]

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``advantages`` f[B], ``returns`` f[B].
    """
    log_probs, entropy = log_probs_and_entropy(logits, actions)
    policy_loss = -(log_probs * advantages).mean()
    return with_parts(policy_loss, value_loss(values, returns), entropy, value_weight, entropy_weight)


def compute_vtrace(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """V-trace value targets and advantages, see :func:`._numpy.compute_vtrace`.  -> f[T, ...], f[T, ...]"""
    ratios, ended = log_ratios.exp(), terminated | truncated
    rhos, cs = ratios.clamp(max=rho_bar), ratios.clamp(max=c_bar)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    next_vs = torch.cat([torch.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * next_vs - values)


class Update(Trained):
    """Gradient step on a batch: forward pass, loss, backward pass, clipping of the gradient norm, optimiser step.

    With several processes, gradients are averaged over all before they are clipped.

    ``config`` has ``params``, ``max_grad_norm`` and optionally ``processes``. ``obs`` are example images
    u8[B, 64, 64, 3], a tensor. ``loss(logits, values, *rest)`` takes the rest of the batch and returns the results of
    :func:`with_parts`; ``optimizer`` is the result of :func:`adam` or :func:`rmsprop`.

    Attributes:
        parts: policy loss, value loss and entropy of the last batch, f32[3].
    """

    def __init__(self, config, obs, loss, optimizer, options, compiler):
        super().__init__(config["params"], lambda params: make_net(params, options, compiler), *optimizer)
        self.options, self.compiler, self.loss, self.to_images = options, compiler, loss, IMAGES[options.images]
        self.compiled = compiler.compile(self.net, (self.to_images(obs),))
        self.small_pass = SMALL_PASS[net_of(config["params"])] * (1 if options.precision == "float32" else 2)
        self.in_passes = options.passes == "small" and compiler.backend == "torch"
        self.max_grad_norm, self.foreach = config["max_grad_norm"], FOREACH[options.optimizer]
        self.set_to_none = options.zero_grad == "none"
        self.distributed = config.get("processes", 1) > 1

    def __call__(self, obs, *rest):
        """Update on obs u8[B, 64, 64, 3] and the loss's other arguments; return the loss before the step, f32[]."""
        return self.step(self.losses(obs, *rest))

    def losses(self, *batch):
        """Yield the loss f32[] of each part of a batch, weighted so that their sum is the batch's mean."""
        self.parts = 0.0
        for obs, *rest in zip(*map(self.split, batch)):
            share = len(obs) / len(batch[0])
            loss, parts = self.loss(*self.run(self.compiled, obs), *rest)
            self.parts = self.parts + share * parts
            yield share * loss

    def split(self, column):
        """Split a batch's column [B, ...] for small passes through the net, if that makes more than two parts."""
        small = self.in_passes and len(column) > 2 * self.small_pass
        return column.split(self.small_pass if small else len(column))

    def run(self, net, obs):
        """Run a net with the option ``precision``.  [B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
        with autocast(self.options, self.compiler):
            return net(self.to_images(obs))

    def step(self, losses):
        """Backpropagate losses f32[] one by one, clip the gradient and step; return the detached sum of the losses.

        If ``losses`` is an iterator, the graph of each loss is freed before the next one is computed.
        """
        self.optimizer.zero_grad(set_to_none=self.set_to_none)
        total = 0.0
        for loss in losses:
            loss.backward()
            total = total + loss.detach()
        if self.distributed:
            group.average_gradients(self.parameters)
        nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm, foreach=self.foreach)
        self.optimizer.step()
        return total

    def to_device(self, *columns):
        """Copy NumPy arrays, images first, to the backend's device."""
        return to_device(columns, self.options, self.compiler)

    def load(self, params):
        """Replace the weights, NumPy arrays by name; the optimiser keeps its moments."""
        self.net.load(params)

    def policy(self, obs):
        """Return a :class:`.torch_net.Policy` with this net; ``obs`` u8[N, 64, 64, 3] is an example."""
        return Policy(self.net, obs, self.options, self.compiler)

    def values(self, obs):
        """Return V(s), f32[N], of images u8[N, 64, 64, 3]; takes and returns NumPy arrays."""
        with torch.no_grad():
            return self.run(self.net, *self.to_device(obs))[1].cpu().numpy()


class PpoUpdate(Update):
    """Gradient step of PPO; with several processes, advantages are normalised over the batches of all."""

    def __call__(self, obs, actions, log_probs, advantages, returns):
        """Update on images and :func:`ppo_loss`'s arguments after ``values``; normalise ``advantages`` first."""
        mean, std = (group.mean_and_std if self.distributed else mean_and_std)(advantages)
        return super().__call__(obs, actions, log_probs, (advantages - mean) / (std + STD_EPS), returns)


def ppo_update(config, example, *, options, compiler):
    """Build PPO's update: Adam with a clipped gradient norm (Schulman et al. 2017).

    obs u8[B, 64, 64, 3], actions i32[B], log_probs f32[B], advantages f32[B], returns f32[B] -> f32[], the loss before
    the update
    """
    constants = select(config, "clip", "value_weight", "entropy_weight")
    loss = compiler.compile(functools.partial(ppo_loss, **constants), example)
    return PpoUpdate(config, example[0], loss, adam(config, options), options, compiler)


def a2c_update(config, example, *, options, compiler):
    """Build A2C's update: RMSProp with a clipped gradient norm (Mnih et al. 2016).

    obs u8[B, 64, 64, 3], actions i32[B], advantages f32[B], returns f32[B] -> f32[], the loss before the update
    """
    constants = select(config, "value_weight", "entropy_weight")
    loss = compiler.compile(functools.partial(a2c_loss, **constants), example)
    return Update(config, example[0], loss, rmsprop(config, options), options, compiler)


class ImpalaUpdate(Update):
    """Gradient step on a rollout: the A2C loss, summed over steps, with V-trace targets and advantages.

    ``config`` also has ``gamma``, ``rho_bar`` and ``c_bar``; ``obs`` is u8[T + 1, N, 64, 64, 3]; ``loss`` is like
    :func:`a2c_loss`. The option ``advantages`` selects the V-trace loop.
    """

    def __init__(self, config, obs, loss, optimizer, options, compiler):
        super().__init__(config, obs.flatten(0, 1), loss, optimizer, options, compiler)
        constants = select(config, "gamma", "rho_bar", "c_bar")
        self.vtrace = ADVANTAGES[options.advantages](functools.partial(compute_vtrace, **constants))

    def __call__(self, obs, actions, log_probs, rewards, terminated, truncated):
        """Update on one rollout; return the loss before the step, f32[].

        obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N] under the policy that acted, rewards
        f32[T, N], terminated bool[T, N], truncated bool[T, N].
        """
        passes = [self.run(self.compiled, part) for part in self.split(obs.flatten(0, 1))]
        logits, values = map(torch.cat, zip(*passes))
        steps, flat_actions = actions.numel(), actions.flatten()
        with torch.no_grad():
            log_ratios = log_probs_and_entropy(logits[:steps], flat_actions)[0].view_as(log_probs) - log_probs
            all_values = values.view(obs.shape[:2])
            vs, advantages = self.vtrace(log_ratios, rewards, all_values[:-1], all_values[1:], terminated, truncated)
        rest = flat_actions, advantages.flatten(), vs.flatten()
        loss, self.parts = self.loss(logits[:steps], values[:steps], *rest)
        return self.step([steps * loss])  # sum over steps, see _numpy.impala_loss


def impala_update(config, example, *, options, compiler):
    """Build IMPALA's update: RMSProp with a clipped gradient norm (Espeholt et al. 2018).

    obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N], rewards f32[T, N], terminated bool[T, N],
    truncated bool[T, N] -> f32[], the loss before the update
    """
    constants = select(config, "value_weight", "entropy_weight")
    loss = compiler.compile(functools.partial(a2c_loss, **constants), example)
    return ImpalaUpdate(config, example[0], loss, rmsprop(config, options), options, compiler)


def adam(config, options):
    """Return ``optimizer(tensors)``, PPO's Adam (Kingma and Ba 2015), and torch's names of its moments."""
    make = functools.partial(
        torch.optim.Adam, lr=config["learning_rate"], eps=config["eps"], **AT_ONCE[options.optimizer]
    )
    return make, {"first": "exp_avg", "second": "exp_avg_sq"}


def rmsprop(config, options):
    """Return ``optimizer(tensors)``, the RMSProp of A2C and IMPALA, and torch's name of its moment.

    ``v <- decay v + (1 - decay) g^2``, ``w <- w - learning_rate g / (sqrt(v) + eps)``
    """
    make = functools.partial(
        torch.optim.RMSprop, lr=config["learning_rate"], alpha=config["decay"], eps=config["eps"],
        **RMSPROP[options.optimizer],
    )  # fmt: skip
    return make, {"second": "square_avg"}


def select(config, *names):
    """Return the entries of a configuration with these names."""
    return {name: config[name] for name in names}


def forward(config, example, *, options, compiler):
    """Build the net that acts.  u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
    net = make_net(config["params"], options, compiler)
    return compile_net(acting_net(net, options), example, options, compiler)


def policy(config, example, *, options, compiler):
    """Build a :class:`.torch_net.Policy` with weights of its own; ``example`` are NumPy images u8[N, 64, 64, 3]."""
    return Policy(make_net(config["params"], options, compiler), *example, options, compiler)


def env_by_env(function):
    """Make a function of columns f[T] run once per environment of [T, N] tensors, and stack the results."""

    def call(*columns):
        results = [function(*of_one) for of_one in zip(*(column.unbind(1) for column in columns))]
        return tuple(torch.stack(each, dim=1) for each in zip(*results))

    return call


ADVANTAGES = {"loop": env_by_env, "vector": lambda function: function}  # by the option ``advantages``


def gae(config, example, *, options, compiler):
    """Build :func:`compute_gae` for f32[T, N] rollouts, one environment after the other or all at once."""
    function = functools.partial(compute_gae, **select(config, "gamma", "gae_lambda"))
    return compiler.compile(ADVANTAGES[options.advantages](function), example)


def vtrace(config, example, *, options, compiler):
    """Build :func:`compute_vtrace` for f32[T, N] rollouts, like :func:`gae`."""
    function = functools.partial(compute_vtrace, **select(config, "gamma", "rho_bar", "c_bar"))
    return compiler.compile(ADVANTAGES[options.advantages](function), example)
