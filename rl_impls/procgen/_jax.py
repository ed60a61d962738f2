"""PPO, A2C and IMPALA in JAX: the nets, advantages, losses and updates.

Axes: T steps, N environments, B images, A = 15 actions. The arguments of builders are explained in :mod:`._numpy`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..common.jax_learner import Net, Trained, to_device
from ._numpy import STD_EPS, sample_actions
from .spec import A2C_EPS, ADAM_EPS, BLOCKS, IMPALA_EPS, RMS_DECAY, STAGES, STRIDES, check_rollout, net_of

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
BORDER = ((0, 0), (1, 1), (1, 1), (0, 0))  # padding of one pixel
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of images, kernel and output


def logits_and_values(params, obs, dtype=jnp.float32):
    """Forward pass of either net; see :func:`._numpy.logits_and_values`.  [B, 64, 64, 3] -> f32[B, A], f32[B]

    ``dtype`` is that of the computation, ``jnp.float32`` or ``jnp.bfloat16``.
    """
    w = {name: weight.astype(dtype) for name, weight in params.items()}
    h = obs.astype(dtype) / 255
    if net_of(params) == "residual":
        return residual(w, h)
    for k, stride in enumerate(STRIDES):
        h = jax.lax.conv_general_dilated(h, w[f"w_conv{k}"], (stride, stride), "VALID", dimension_numbers=LAYOUT)
        h = jax.nn.relu(h + w[f"b_conv{k}"])
    h = h.reshape(len(h), -1)
    policy = jax.nn.relu(h @ w["w_policy"] + w["b_policy"])
    value = jax.nn.relu(h @ w["w_value"] + w["b_value"])
    logits, values = policy @ w["w_logits"] + w["b_logits"], (value @ w["w_return"] + w["b_return"])[:, 0]
    return logits.astype(jnp.float32), values.astype(jnp.float32)


def residual(w, h):
    """Residual net, see :func:`._numpy.residual`.  h [B, 64, 64, 3] from 0 to 1 -> f32[B, A], f32[B]

    ``w`` are the weights of :data:`.spec.RESIDUAL`, cast to the dtype of the computation.
    """

    def convolved(name, h):
        return (
            jax.lax.conv_general_dilated(h, w[f"w_{name}"], (1, 1), "SAME", dimension_numbers=LAYOUT) + w[f"b_{name}"]
        )

    for stage in range(len(STAGES)):
        h = jax.lax.reduce_window(
            convolved(f"stage{stage}", h), -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), BORDER
        )
        for block in range(BLOCKS):
            name = f"stage{stage}_block{block}"
            h = h + convolved(f"{name}_conv1", jax.nn.relu(convolved(f"{name}_conv0", jax.nn.relu(h))))
    h = jax.nn.relu(jax.nn.relu(h).reshape(len(h), -1) @ w["w_hidden"] + w["b_hidden"])
    logits, values = h @ w["w_logits"] + w["b_logits"], (h @ w["w_return"] + w["b_return"])[:, 0]
    return logits.astype(jnp.float32), values.astype(jnp.float32)


def forward(spec, example, *, options, compiler):
    """Build the compiled forward pass.  u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
    return Net(functools.partial(logits_and_values, dtype=DTYPES[options.precision]), spec["params"], example, compiler)


def backward_sum(terms, decays):
    """:func:`._numpy.backward_sum` as a reversed ``lax.scan``."""

    def one(later, of_step):
        term, decay = of_step
        summed = term + decay * later
        return summed, summed

    return jax.lax.scan(one, jnp.zeros_like(terms[0]), (terms, decays), reverse=True)[1]


def gae_of(rewards, values, next_values, terminated, truncated, *, gamma, lam):
    """Advantages and returns by GAE; equations and shapes in :func:`._numpy.gae_of`."""
    deltas = rewards + gamma * (next_values * ~terminated) - values
    advantages = backward_sum(deltas, jnp.where(terminated | truncated, 0, jnp.full_like(deltas, gamma * lam)))
    return advantages, advantages + values


def vtrace_of(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """Value targets and advantages by V-trace; equations and shapes in :func:`._numpy.vtrace_of`."""
    ratios, ended = jnp.exp(log_ratios), terminated | truncated
    rhos, cs = jnp.minimum(rho_bar, ratios), jnp.minimum(c_bar, ratios)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    after = jnp.concatenate([jnp.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * after - values)


def gae(spec, example, *, options, compiler):
    """Build :func:`gae_of` with the spec's gamma and lambda, for [T, N] arrays."""
    return compiler.compile(functools.partial(gae_of, gamma=spec["gamma"], lam=spec["lam"]), example)


def vtrace(spec, example, *, options, compiler):
    """Build :func:`vtrace_of` with the spec's constants, for [T, N] arrays."""
    return compiler.compile(vtrace_with(spec), example)


def vtrace_with(spec):
    """Return :func:`vtrace_of` with gamma, rho_bar and c_bar bound."""
    return functools.partial(vtrace_of, **{name: spec[name] for name in ("gamma", "rho_bar", "c_bar")})


def taken(logits, actions):
    """Return log pi(a) of the actions and the mean entropy.  f[B, A], i[B] -> f[B], f"""
    log_probs = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1).mean()
    return jnp.take_along_axis(log_probs, actions[:, None], axis=1)[:, 0], entropy


def critic_loss(values, returns):
    """Half the mean squared difference of values and returns.  f[B], f[B] -> f"""
    return 0.5 * jnp.mean((values - returns) ** 2)


def ppo_loss(net, spec, obs, actions, log_probs, advantages, returns):
    """Loss of PPO (Schulman et al. 2017) with equations as in :func:`._numpy.ppo_loss`.  -> f

    ``net(obs)`` returns logits and values. The batch: obs u8[B, 64, 64, 3], actions i[B], log_probs f[B] of the policy
    that acted, advantages f[B], returns f[B].
    """
    logits, values = net(obs)
    new_log_probs, entropy = taken(logits, actions)
    ratios, clip = jnp.exp(new_log_probs - log_probs), spec["clip"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + STD_EPS)
    policy = jnp.maximum(-advantages * ratios, -advantages * jnp.clip(ratios, 1 - clip, 1 + clip)).mean()
    return policy + spec["value_weight"] * critic_loss(values, returns) - spec["entropy_weight"] * entropy


def actor_critic_loss(logits, values, spec, actions, advantages, returns):
    """Loss of advantage actor-critic (Mnih et al. 2016), as :func:`._numpy.a2c_loss`.  -> f

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``advantages`` f[B], ``returns`` f[B]; ``spec`` has the
    coefficients.
    """
    log_probs, entropy = taken(logits, actions)
    policy = -jnp.mean(log_probs * advantages)
    return policy + spec["value_weight"] * critic_loss(values, returns) - spec["entropy_weight"] * entropy


def a2c_loss(net, spec, obs, *rest):
    """:func:`actor_critic_loss` of ``net`` on obs u8[B, 64, 64, 3]; ``rest`` are actions, advantages and returns."""
    return actor_critic_loss(*net(obs), spec, *rest)


def impala_loss(net, spec, obs, actions, log_probs, rewards, terminated, truncated):
    """Loss of IMPALA (Espeholt et al. 2018) with equations as in :func:`._numpy.impala_loss`.  -> f

    The rollout: obs u8[T + 1, N, 64, 64, 3], actions i[T, N], log_probs f[T, N] of the policy that acted, rewards
    f[T, N], terminated and truncated bool[T, N].
    """
    logits, values = net(obs.reshape(-1, *obs.shape[2:]))
    steps, played = actions.size, actions.ravel()
    log_ratios = taken(logits[:steps], played)[0].reshape(actions.shape) - log_probs
    of_steps = values.reshape(obs.shape[:2])
    given = log_ratios, rewards, of_steps[:-1], of_steps[1:], terminated, truncated
    vs, advantages = vtrace_with(spec)(*jax.lax.stop_gradient(given))
    return steps * actor_critic_loss(logits[:steps], values[:steps], spec, played, advantages.ravel(), vs.ravel())


def rmsprop(spec, eps):
    """RMSProp by the equations of :func:`._torch.rmsprop`. The schedule adds a step count, like Adam's."""
    scale = optax.scale_by_rms(spec.get("decay", RMS_DECAY), spec.get("epsilon", eps), eps_in_sqrt=False)
    return optax.chain(scale, optax.scale_by_schedule(lambda step: -spec["learning_rate"]))


class Actor:
    """Samples actions with the current weights of an :class:`Update`; takes and returns NumPy arrays.

    ``obs`` u8[N, 64, 64, 3] is an example for lowering.
    """

    def __init__(self, update, obs):
        self.update, self.call = update, update.compiler.compile(update.net, (update.weights, obs))

    def begin(self):
        """Do nothing: every call reads the current weights."""

    def __call__(self, obs, uniforms):
        """Return actions i32[N], their log-probabilities f32[N] and state values f32[N].

        ``obs`` u8[N, 64, 64, 3]; ``uniforms`` f32[N], see :func:`._numpy.sample_actions`.
        """
        logits, values = map(np.asarray, self.call(self.update.weights, obs))
        return *sample_actions(logits, uniforms), values


class Update(Trained):
    """Gradient step on a batch; the buffers of weights and moments are donated to the compiled step.

    Args:
        spec: configuration; ``params``, ``gradient_norm`` and the entries that the loss reads.
        example: a batch, for lowering.
        loss: ``loss(net, spec, *batch) -> f32[]``.
        optimizer: optax transformation.
        moments: optax's name of each moment, by its name in a state.
        options: ``precision`` is read.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, example, loss, optimizer, moments, options, compiler):
        optimizer = optax.chain(optax.clip_by_global_norm(spec["gradient_norm"]), optimizer)
        super().__init__(spec["params"], optimizer, compiler, moments)
        self.net = functools.partial(logits_and_values, dtype=DTYPES[options.precision])
        self.evaluate = jax.jit(self.net)

        def loss_of(params, *batch):
            return loss(functools.partial(self.net, params), spec, *batch)

        def update(params, moments, *batch):
            value, gradient = jax.value_and_grad(loss_of)(params, *batch)
            updates, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(params, updates), moments, value

        self.update = compiler.compile(update, (self.weights, self.moments, *example), donate_argnums=(0, 1))

    def to_device(self, *columns):
        """Put NumPy arrays on the backend's device."""
        return to_device(columns, self.compiler)

    def load(self, params):
        """Replace the weights by ``params``, NumPy arrays by name, and keep the moments."""
        self.weights = to_device(dict(params), self.compiler)

    def actor(self, obs):
        """Return an :class:`Actor` of these weights, for images shaped like ``obs`` u8[N, 64, 64, 3]."""
        return Actor(self, obs)

    def values(self, obs):
        """State values f32[N] of images u8[N, 64, 64, 3], as NumPy."""
        return np.asarray(self.evaluate(self.weights, obs)[1])

    def __call__(self, *batch):
        """Update on one batch, the loss's arguments after ``spec``; return the loss before the step, f32[]."""
        self.weights, self.moments, value = self.update(self.weights, self.moments, *batch)
        return value


ADAM, RMSPROP = {"first": "mu", "second": "nu"}, {"second": "nu"}  # optax's names of the moments


def ppo_update(spec, example, *, options, compiler):
    """Build PPO's update by optax's Adam; see :func:`._torch.ppo_update`."""
    adam = optax.adam(spec["learning_rate"], eps=spec.get("epsilon", ADAM_EPS))
    return Update(spec, example, ppo_loss, adam, ADAM, options, compiler)


def a2c_update(spec, example, *, options, compiler):
    """Build A2C's update by :func:`rmsprop`; see :func:`._torch.a2c_update`."""
    return Update(spec, example, a2c_loss, rmsprop(spec, A2C_EPS), RMSPROP, options, compiler)


def impala_update(spec, example, *, options, compiler):
    """Build IMPALA's update by :func:`rmsprop`; see :func:`._torch.impala_update`."""
    check_rollout(*example[:2])
    return Update(spec, example, impala_loss, rmsprop(spec, IMPALA_EPS), RMSPROP, options, compiler)
