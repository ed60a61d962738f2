"""Actors and critics on pictures in JAX: the net, advantages, and the updates of PPO, A2C and IMPALA.

Axes: T steps, N environments, B pictures, A = 15 actions.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..common.jax_learner import Net, Trained, put
from ._numpy import STD_EPS, sample_actions
from .spec import A2C_EPS, ADAM_EPS, BLOCKS, IMPALA_EPS, RMS_DECAY, STAGES, STRIDES, check_rollout, net_of

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
BORDER = ((0, 0), (1, 1), (1, 1), (0, 0))  # of one pixel
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of pictures, weights and the result


def logits_and_values(params, obs, dtype=jnp.float32):
    """Return what the net makes of pictures; :func:`._numpy.logits_and_values`.  [B, 64, 64, 3] -> f32[B, A], f32[B]

    Args:
        params: weights, see :data:`.spec.NETS`.
        obs: pictures, colours from 0 to 255.
        dtype: in which it is computed, ``jnp.float32`` or ``jnp.bfloat16``.
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
    """Return what the residual net makes of colours from 0 to 1; :func:`._numpy.residual`.  -> f32[B, A], f32[B]

    Args:
        w: weights, see :data:`.spec.RESIDUAL`, as precise as is computed.
        h: [B, 64, 64, 3].
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


def forward(spec, example, *, knobs, target):
    """Return the logits of all actions and the values.  u8[B, 64, 64, 3] -> f32[B, A], f32[B]"""
    return Net(functools.partial(logits_and_values, dtype=DTYPES[knobs.precision]), spec["params"], example, target)


def backward_sum(terms, decays):
    """Return ``s_t = terms_t + decays_t s_{t+1}``, 0 after the last step.  f[T, ...] -> f[T, ...]

    Args:
        terms: f[T, ...].
        decays: f[T, ...].
    """

    def one(later, of_step):
        term, decay = of_step
        summed = term + decay * later
        return summed, summed

    return jax.lax.scan(one, jnp.zeros_like(terms[0]), (terms, decays), reverse=True)[1]


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
    advantages = backward_sum(deltas, jnp.where(terminated | truncated, 0, jnp.full_like(deltas, gamma * lam)))
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
    ratios, ended = jnp.exp(log_ratios), terminated | truncated
    rhos, cs = jnp.minimum(rho_bar, ratios), jnp.minimum(c_bar, ratios)
    bootstraps = next_values * ~terminated
    deltas = rhos * (rewards + gamma * bootstraps - values)
    vs = values + backward_sum(deltas, gamma * cs * ~ended)
    after = jnp.concatenate([jnp.where(ended[:-1], bootstraps[:-1], vs[1:]), bootstraps[-1:]])
    return vs, rhos * (rewards + gamma * after - values)


def gae(spec, example, *, knobs, target):
    """Return generalised advantages and returns.  -> f32[T, N], f32[T, N]

    rewards f32[T, N], values f32[T, N], next_values f32[T, N], terminated bool[T, N], truncated bool[T, N]
    """
    return target.lower(functools.partial(gae_of, gamma=spec["gamma"], lam=spec["lam"]), example)


def vtrace(spec, example, *, knobs, target):
    """Return V-trace's targets of the values and its advantages.  -> f32[T, N], f32[T, N]

    log_ratios f32[T, N], rewards f32[T, N], values f32[T, N], next_values f32[T, N], terminated bool[T, N], truncated
    bool[T, N]
    """
    return target.lower(vtrace_with(spec), example)


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
    log_probs = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1).mean()
    return jnp.take_along_axis(log_probs, actions[:, None], axis=1)[:, 0], entropy


def critic_loss(values, returns):
    """Return half the mean squared error of values.  f[B], f[B] -> f

    Args:
        values: f[B].
        returns: what they should be, f[B].
    """
    return 0.5 * jnp.mean((values - returns) ** 2)


def ppo_loss(net, spec, obs, actions, log_probs, advantages, returns):
    """Return the loss of PPO (Schulman et al. 2017); its equations are in :func:`._numpy.ppo_loss`.  -> f

    Args:
        net: ``net(obs) -> logits, values``.
        spec: ``clip`` and the weights of the terms are taken.
        obs: u8[B, 64, 64, 3].
        actions: i[B].
        log_probs: of the actions by the policy that acted, f[B].
        advantages: f[B].
        returns: f[B].
    """
    logits, values = net(obs)
    new_log_probs, entropy = taken(logits, actions)
    ratios, clip = jnp.exp(new_log_probs - log_probs), spec["clip"]
    advantages = (advantages - advantages.mean()) / (advantages.std() + STD_EPS)
    policy = jnp.maximum(-advantages * ratios, -advantages * jnp.clip(ratios, 1 - clip, 1 + clip)).mean()
    return policy + spec["value_weight"] * critic_loss(values, returns) - spec["entropy_weight"] * entropy


def actor_critic_loss(logits, values, spec, actions, advantages, returns):
    """Return the loss of advantage actor-critic (Mnih et al. 2016); :func:`._numpy.a2c_loss`.  -> f

    Args:
        logits: by the weights that learn, f[B, A].
        values: by the weights that learn, f[B].
        spec: the weights of the terms are taken.
        actions: i[B].
        advantages: f[B].
        returns: f[B].
    """
    log_probs, entropy = taken(logits, actions)
    policy = -jnp.mean(log_probs * advantages)
    return policy + spec["value_weight"] * critic_loss(values, returns) - spec["entropy_weight"] * entropy


def a2c_loss(net, spec, obs, *rest):
    """Return the loss of advantage actor-critic of a batch.  -> f

    Args:
        net: ``net(obs) -> logits, values``.
        spec: the weights of the terms are taken.
        obs: u8[B, 64, 64, 3].
        rest: actions i[B], advantages f[B], returns f[B].
    """
    return actor_critic_loss(*net(obs), spec, *rest)


def impala_loss(net, spec, obs, actions, log_probs, rewards, terminated, truncated):
    """Return the loss of IMPALA (Espeholt et al. 2018); :func:`._numpy.impala_loss`.  -> f

    Args:
        net: ``net(obs) -> logits, values``.
        spec: the constants of V-trace and the weights of the terms are taken.
        obs: u8[T + 1, N, 64, 64, 3].
        actions: i[T, N].
        log_probs: of the actions by the policy that acted, f[T, N].
        rewards: f[T, N].
        terminated: bool[T, N].
        truncated: bool[T, N].
    """
    logits, values = net(obs.reshape(-1, *obs.shape[2:]))
    steps, played = actions.size, actions.ravel()
    log_ratios = taken(logits[:steps], played)[0].reshape(actions.shape) - log_probs
    of_steps = values.reshape(obs.shape[:2])
    given = log_ratios, rewards, of_steps[:-1], of_steps[1:], terminated, truncated
    vs, advantages = vtrace_with(spec)(*jax.lax.stop_gradient(given))
    return steps * actor_critic_loss(logits[:steps], values[:steps], spec, played, advantages.ravel(), vs.ravel())


def rmsprop(spec, eps):
    """Return the optimiser of A2C and IMPALA, as :func:`._torch.rmsprop`; it counts its steps, as Adam does.

    Args:
        spec: ``learning_rate``, ``decay`` and ``epsilon`` are taken.
        eps: epsilon, where the spec has none.
    """
    scale = optax.scale_by_rms(spec.get("decay", RMS_DECAY), spec.get("epsilon", eps), eps_in_sqrt=False)
    return optax.chain(scale, optax.scale_by_schedule(lambda step: -spec["learning_rate"]))


class Actor:
    """Draws actions by the weights of an :class:`Update`; from and to NumPy.

    Args:
        update: the update whose weights are played by.
        obs: u8[N, 64, 64, 3] like those to come.
    """

    def __init__(self, update, obs):
        self.update, self.call = update, update.target.lower(update.net, (update.weights, obs))

    def begin(self):
        """Do nothing: it acts by the weights as they are at each call."""

    def __call__(self, obs, uniforms):
        """Return actions i32[N], the logarithms of their probabilities f32[N] and the values of the states f32[N].

        Args:
            obs: u8[N, 64, 64, 3].
            uniforms: f32[N] from 0 to 1, one for each action that is drawn, see :func:`._numpy.sample_actions`.
        """
        logits, values = map(np.asarray, self.call(self.update.weights, obs))
        return *sample_actions(logits, uniforms), values


class Update(Trained):
    """One update of the net on a batch; weights and moments are donated from step to step.

    Args:
        spec: ``params`` and what the loss takes.
        example: a batch.
        loss: ``loss(net, spec, *batch) -> f32[]``.
        optimizer: of optax.
        moments: what it keeps of each array, its name in optax by its name in a state.
        knobs: ``precision`` is read.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, example, loss, optimizer, moments, knobs, target):
        optimizer = optax.chain(optax.clip_by_global_norm(spec["gradient_norm"]), optimizer)
        super().__init__(spec["params"], optimizer, target, moments)
        self.net = functools.partial(logits_and_values, dtype=DTYPES[knobs.precision])
        self.evaluate = jax.jit(self.net)

        def loss_of(params, *batch):
            return loss(functools.partial(self.net, params), spec, *batch)

        def update(params, moments, *batch):
            value, gradient = jax.value_and_grad(loss_of)(params, *batch)
            updates, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(params, updates), moments, value

        self.update = target.lower(update, (self.weights, self.moments, *example), donate_argnums=(0, 1))

    def put(self, *columns):
        """Return a batch of NumPy arrays as a call takes it, on the backend's device.

        Args:
            columns: the arrays, pictures first.
        """
        return put(columns, self.target)

    def load(self, params):
        """Take new weights; the optimiser's moments stay.

        Args:
            params: NumPy arrays by name.
        """
        self.weights = put(dict(params), self.target)

    def actor(self, obs):
        """Return an :class:`Actor` that plays by the weights that learn.

        Args:
            obs: pictures u8[N, 64, 64, 3] like those to come, an array.
        """
        return Actor(self, obs)

    def values(self, obs):
        """Return the values of states, f32[N].

        Args:
            obs: u8[N, 64, 64, 3], an array.
        """
        return np.asarray(self.evaluate(self.weights, obs)[1])

    def __call__(self, *batch):
        """Make an update on one batch; return the loss before it, f32[].

        Args:
            batch: as the loss takes it.
        """
        self.weights, self.moments, value = self.update(self.weights, self.moments, *batch)
        return value


ADAM, RMSPROP = {"first": "mu", "second": "nu"}, {"second": "nu"}  # what an optimiser keeps


def ppo_update(spec, example, *, knobs, target):
    """Make one update of PPO by Adam, its gradient's norm clipped (Schulman et al. 2017).

    obs u8[B, 64, 64, 3], actions i32[B], log_probs f32[B], advantages f32[B], returns f32[B] -> f32[], the loss before
    the update
    """
    adam = optax.adam(spec["learning_rate"], eps=spec.get("epsilon", ADAM_EPS))
    return Update(spec, example, ppo_loss, adam, ADAM, knobs, target)


def a2c_update(spec, example, *, knobs, target):
    """Make one update of A2C by RMSProp, its gradient's norm clipped (Mnih et al. 2016).

    obs u8[B, 64, 64, 3], actions i32[B], advantages f32[B], returns f32[B] -> f32[], the loss before the update
    """
    return Update(spec, example, a2c_loss, rmsprop(spec, A2C_EPS), RMSPROP, knobs, target)


def impala_update(spec, example, *, knobs, target):
    """Make one update of IMPALA by RMSProp, its gradient's norm clipped (Espeholt et al. 2018).

    obs u8[T + 1, N, 64, 64, 3], actions i32[T, N], log_probs f32[T, N], rewards f32[T, N], terminated bool[T, N],
    truncated bool[T, N] -> f32[], the loss before the update

    Raises:
        ValueError: not one picture more than steps.
    """
    check_rollout(*example[:2])
    return Update(spec, example, impala_loss, rmsprop(spec, IMPALA_EPS), RMSPROP, knobs, target)
