"""PPO, A2C and IMPALA in JAX: the nets, advantages, losses and updates.

The arguments of builders are explained in :mod:`._numpy`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..common.jax_learner import DTYPES, LAYOUT, Net, Trained, to_device
from ._numpy import STD_EPS, sample_actions
from .net import BLOCKS, STAGES, STRIDES, net_of

BORDER = ((0, 0), (1, 1), (1, 1), (0, 0))  # padding of one pixel


def logits_and_values(params, obs, dtype=jnp.float32):
    """Forward pass of either net; see :func:`._numpy.logits_and_values`.  [B, 64, 64, 3] -> f32[B, A], f32[B]

    ``dtype`` is the compute dtype, ``jnp.float32`` or ``jnp.bfloat16``.
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

    ``w`` are the weights, cast to the dtype of the computation.
    """

    def conv(name, h):
        return (
            jax.lax.conv_general_dilated(h, w[f"w_{name}"], (1, 1), "SAME", dimension_numbers=LAYOUT) + w[f"b_{name}"]
        )

    for stage in range(len(STAGES)):
        h = jax.lax.reduce_window(conv(f"stage{stage}", h), -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), BORDER)
        for block in range(BLOCKS):
            name = f"stage{stage}_block{block}"
            h = h + conv(f"{name}_conv1", jax.nn.relu(conv(f"{name}_conv0", jax.nn.relu(h))))
    h = jax.nn.relu(jax.nn.relu(h).reshape(len(h), -1) @ w["w_hidden"] + w["b_hidden"])
    logits, values = h @ w["w_logits"] + w["b_logits"], (h @ w["w_return"] + w["b_return"])[:, 0]
    return logits.astype(jnp.float32), values.astype(jnp.float32)


def in_dtype(options):
    """Return the forward pass with the option ``precision``."""
    return functools.partial(logits_and_values, dtype=DTYPES[options.precision])


def forward(config, example, *, options, compiler):
    """Build the compiled forward pass.  u8[B, 64, 64, 3] -> logits f32[B, A], values f32[B]"""
    return Net(in_dtype(options), config["params"], example, compiler)


def policy(config, example, *, options, compiler):
    """Build a :class:`Policy` with weights of its own; ``example`` are NumPy images u8[N, 64, 64, 3]."""
    return Policy(forward(config, example, options=options, compiler=compiler))


class Policy:
    """Samples actions by ``net(obs) -> logits, values``; takes and returns NumPy arrays."""

    def __init__(self, net):
        self.net = net

    def load(self, params):
        self.net.load(params)

    def refresh(self):
        """Do nothing: every call reads the current weights."""

    def __call__(self, obs, uniforms):
        """Return actions i32[N], their log-probabilities f32[N] and state values f32[N].

        ``obs`` u8[N, 64, 64, 3]; ``uniforms`` f32[N], see :func:`._numpy.sample_actions`.
        """
        logits, values = map(np.asarray, self.net(obs))
        return *sample_actions(logits, uniforms), values


class Update(Trained):
    """Gradient step on a batch; the buffers of weights and moments are donated to the compiled step.

    ``config`` has ``params``, ``max_grad_norm`` and the loss's constants. ``loss(net, config, *batch)`` returns the
    results of :func:`with_parts`; ``moments`` gives optax's name of each moment by its name in a state.

    Attributes:
        parts: policy loss, value loss and entropy of the last batch, f32[3].
    """

    def __init__(self, config, example, loss, optimizer, moments, options, compiler):
        optimizer = optax.chain(optax.clip_by_global_norm(config["max_grad_norm"]), optimizer)
        super().__init__(config["params"], optimizer, compiler, moments)
        self.net = in_dtype(options)
        self.evaluate = jax.jit(self.net)

        def loss_of(params, *batch):
            return loss(functools.partial(self.net, params), config, *batch)

        def update(params, moments, *batch):
            (value, parts), gradient = jax.value_and_grad(loss_of, has_aux=True)(params, *batch)
            updates, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(params, updates), moments, value, parts

        self.update = compiler.compile(update, (self.weights, self.moments, *example), donate_argnums=(0, 1))

    def __call__(self, *batch):
        """Update on one batch, the loss's arguments after ``config``; return the loss before the step, f32[]."""
        self.weights, self.moments, value, self.parts = self.update(self.weights, self.moments, *batch)
        return value

    def to_device(self, *columns):
        """Copy NumPy arrays to the backend's device."""
        return to_device(columns, self.compiler)

    def policy(self, obs):
        """Return a :class:`Policy` with the current weights, for images shaped like ``obs`` u8[N, 64, 64, 3]."""
        net = self.compiler.compile(self.net, (self.weights, obs))
        return Policy(lambda obs: net(self.weights, obs))

    def values(self, obs):
        """State values f32[N] of images u8[N, 64, 64, 3], as NumPy."""
        return np.asarray(self.evaluate(self.weights, obs)[1])


def log_probs_and_entropy(logits, actions):
    """Return log pi(a) of the actions and the mean entropy.  f[B, A], i[B] -> f[B], f"""
    log_probs = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1).mean()
    return jnp.take_along_axis(log_probs, actions[:, None], axis=1)[:, 0], entropy


def value_loss(values, returns):
    """Half the mean squared difference of values and returns.  f[B], f[B] -> f"""
    return 0.5 * jnp.mean((values - returns) ** 2)


def with_parts(policy_loss, value_loss, entropy, config):
    """Combine scalars into a loss by the coefficients in ``config``; return it, f, and the scalars, f[3]."""
    loss = policy_loss + config["value_weight"] * value_loss - config["entropy_weight"] * entropy
    return loss, jnp.stack([policy_loss, value_loss, entropy])


def backward_sum(terms, decays):
    """:func:`._numpy.backward_sum` as a reversed ``lax.scan``."""

    def one(later, of_step):
        term, decay = of_step
        summed = term + decay * later
        return summed, summed

    return jax.lax.scan(one, jnp.zeros_like(terms[0]), (terms, decays), reverse=True)[1]


def compute_gae(rewards, values, next_values, terminated, truncated, *, gamma, gae_lambda):
    """Advantages and returns by GAE; equations and shapes in :func:`._numpy.compute_gae`."""
    deltas = rewards + gamma * (next_values * ~terminated) - values
    advantages = backward_sum(deltas, jnp.where(terminated | truncated, 0, jnp.full_like(deltas, gamma * gae_lambda)))
    return advantages, advantages + values


def gae(config, example, *, options, compiler):
    """Build :func:`compute_gae` for [T, N] arrays."""
    constants = {name: config[name] for name in ("gamma", "gae_lambda")}
    return compiler.compile(functools.partial(compute_gae, **constants), example)


def ppo_loss(net, config, obs, actions, log_probs, advantages, returns):
    """Loss of PPO (Schulman et al. 2017), and its parts; equations as in :func:`._numpy.ppo_loss`.  -> f, f[3]

    ``net(obs)`` returns logits and values. The batch: obs u8[B, 64, 64, 3], actions i[B], log_probs f[B] of the policy
    that acted, advantages f[B], returns f[B].
    """
    logits, values = net(obs)
    new_log_probs, entropy = log_probs_and_entropy(logits, actions)
    ratios, clip = jnp.exp(new_log_probs - log_probs), config["clip"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + STD_EPS)
    policy_loss = jnp.maximum(-advantages * ratios, -advantages * jnp.clip(ratios, 1 - clip, 1 + clip)).mean()
    return with_parts(policy_loss, value_loss(values, returns), entropy, config)


def ppo_update(config, example, *, options, compiler):
    """Build PPO's update by optax's Adam; see :func:`._torch.ppo_update`."""
    adam = optax.adam(config["learning_rate"], eps=config["eps"])
    return Update(config, example, ppo_loss, adam, {"first": "mu", "second": "nu"}, options, compiler)


def actor_critic_loss(logits, values, config, actions, advantages, returns):
    """Loss of advantage actor-critic (Mnih et al. 2016) as :func:`._numpy.a2c_loss`, and its parts.  -> f, f[3]

    ``logits`` f[B, A], ``values`` f[B], ``actions`` i[B], ``advantages`` f[B], ``returns`` f[B]; ``config`` has the
    coefficients.
    """
    log_probs, entropy = log_probs_and_entropy(logits, actions)
    policy_loss = -jnp.mean(log_probs * advantages)
    return with_parts(policy_loss, value_loss(values, returns), entropy, config)


def a2c_loss(net, config, obs, actions, advantages, returns):
    """:func:`actor_critic_loss` of ``net`` on obs u8[B, 64, 64, 3]."""
    return actor_critic_loss(*net(obs), config, actions, advantages, returns)


def rmsprop(config):
    """RMSProp by the equations of :func:`._torch.rmsprop`. The schedule adds a step count, like Adam's."""
    scale = optax.scale_by_rms(config["decay"], config["eps"], eps_in_sqrt=False)
    return optax.chain(scale, optax.scale_by_schedule(lambda step: -config["learning_rate"]))


def a2c_update(config, example, *, options, compiler):
    """Build A2C's update by :func:`rmsprop`; see :func:`._torch.a2c_update`."""
    return Update(config, example, a2c_loss, rmsprop(config), {"second": "nu"}, options, compiler)


def compute_vtrace(log_ratios, rewards, values, next_values, terminated, truncated, *, gamma, rho_bar, c_bar):
    """Value targets and advantages by V-trace; equations and shapes in :func:`._numpy.compute_vtrace`."""
    ratios, ended = jnp.exp(log_ratios), terminated | truncated
    rhos, cs = jnp.minimum(rho_bar, ratios), jnp.minimum(c_bar, ratios)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    next_vs = jnp.concatenate([jnp.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * next_vs - values)


def vtrace_with(config):
    """Return :func:`compute_vtrace` with gamma, rho_bar and c_bar bound."""
    return functools.partial(compute_vtrace, **{name: config[name] for name in ("gamma", "rho_bar", "c_bar")})


def vtrace(config, example, *, options, compiler):
    """Build :func:`compute_vtrace` for [T, N] arrays."""
    return compiler.compile(vtrace_with(config), example)


def impala_loss(net, config, obs, actions, log_probs, rewards, terminated, truncated):
    """Loss of IMPALA (Espeholt et al. 2018), and its parts; equations as in :func:`._numpy.impala_loss`.  -> f, f[3]

    The loss is summed over steps, the parts are means.

    The rollout: obs u8[T + 1, N, 64, 64, 3], actions i[T, N], log_probs f[T, N] of the policy that acted, rewards
    f[T, N], terminated and truncated bool[T, N].
    """
    logits, values = net(obs.reshape(-1, *obs.shape[2:]))
    steps, flat_actions = actions.size, actions.ravel()
    new_log_probs = log_probs_and_entropy(logits[:steps], flat_actions)[0].reshape(actions.shape)
    all_values = values.reshape(obs.shape[:2])
    given = new_log_probs - log_probs, rewards, all_values[:-1], all_values[1:], terminated, truncated
    vs, advantages = vtrace_with(config)(*jax.lax.stop_gradient(given))
    rest = flat_actions, advantages.ravel(), vs.ravel()
    loss, parts = actor_critic_loss(logits[:steps], values[:steps], config, *rest)
    return steps * loss, parts


def impala_update(config, example, *, options, compiler):
    """Build IMPALA's update by :func:`rmsprop`; see :func:`._torch.impala_update`."""
    return Update(config, example, impala_loss, rmsprop(config), {"second": "nu"}, options, compiler)
