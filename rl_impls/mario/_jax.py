"""Double Q-learning from stacked frames in JAX: network and update.

Axes: B transitions, S pixels along a side, A = 15 actions. Builders are those of :mod:`._numpy`, for JAX arrays.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax

from ..common.jax_learner import Learner, to_device
from .net import STRIDES, has_norm
from .options import check_supported

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of input, kernel and output


def q_values(params, obs, dtype=jnp.float32):
    """Return Q-values f32[B, A] of observations u8[B, 4, S, S] as :func:`._numpy.q_values`, without batch norm.

    ``dtype`` is that of the computation, ``jnp.float32`` or ``jnp.bfloat16``.
    """
    w = {name: weight.astype(dtype) for name, weight in params.items()}
    h = obs.transpose(0, 2, 3, 1).astype(dtype) / 255
    for k, stride in enumerate(STRIDES):
        h = jax.lax.conv_general_dilated(h, w[f"w_conv{k}"], (stride, stride), "VALID", dimension_numbers=LAYOUT)
        h = jax.nn.relu(h + w[f"b_conv{k}"])
    h = jax.nn.relu(h.reshape(len(h), -1) @ w["w_hidden"] + w["b_hidden"])
    return (h @ w["w_value"] + w["b_value"]).astype(jnp.float32)


def of_actions(values, actions):
    """Return the value of the action in each row.  f[B, A], i[B] -> f[B]"""
    return jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]


def td_loss(params, target, obs, actions, rewards, next_obs, terminated, weights, *, gamma, dtype):
    """Return the loss f32[] and the TD errors f32[B] of :func:`._numpy.td_targets` and :func:`._numpy.td_loss`.

    ``params`` and ``target`` are the weights of the online and the target network; ``dtype`` is that of the nets'
    computation.
    """
    best = q_values(params, next_obs, dtype).argmax(axis=1)
    td_targets = rewards + gamma * (1 - terminated) * of_actions(q_values(target, next_obs, dtype), best)
    errors = of_actions(q_values(params, obs, dtype), actions) - jax.lax.stop_gradient(td_targets)
    return jnp.mean(weights * optax.losses.huber_loss(errors)), errors


class TrainStep(Learner):
    """Trains the online network with one Adam update per call, without changing the target network.

    Raises:
        ValueError: ``accumulate`` does not divide the batch, the net has batch norm, or an option is not supported.
    """

    def __init__(self, config, example, options, compiler):
        check_supported(options, compiler)
        parts = options.accumulate
        if len(example[0]) % parts:
            raise ValueError(f"accumulate={parts} should divide the batch size, {len(example[0])}")
        if has_norm(config["params"]):
            raise ValueError(f"norm='batch' is not available on {compiler.backend}, only on torch")
        optimizer = optax.chain(optax.clip_by_global_norm(config["max_grad_norm"]), optax.adam(config["learning_rate"]))
        super().__init__(config, optimizer, compiler)
        loss = functools.partial(td_loss, gamma=config["gamma"], dtype=DTYPES[options.precision])
        differentiated = jax.value_and_grad(loss, has_aux=True)

        def update(weights, moments, target_weights, *batch):
            def one(part):
                return differentiated(weights, target_weights, *part)

            if parts == 1:
                (loss, errors), gradient = one(batch)
            else:
                split = tuple(column.reshape(parts, -1, *column.shape[1:]) for column in batch)
                (losses, errors), gradients = jax.lax.map(one, split)
                loss, gradient = losses.mean(), jax.tree.map(lambda of_parts: of_parts.mean(axis=0), gradients)
            change, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(weights, change), moments, loss, errors.reshape(-1)

        self.update = compiler.compile(update, (self.weights, self.moments, self.target_weights, *example))

    def batch(self, *columns):
        """Put a NumPy batch on the backend's device."""
        return to_device(columns, self.compiler)

    def __call__(self, *batch):
        """Update on a batch; return the loss f32[] before the update, and the TD errors f32[B]."""
        self.weights, self.moments, loss, errors = self.update(self.weights, self.moments, self.target_weights, *batch)
        return loss, errors


def train_step(config, example, *, options, compiler):
    """Make one Adam update of double Q-learning (van Hasselt et al. 2016), its gradient clipped by global norm.

    obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B], weights f32[B] ->
    loss f32[] before the update, TD errors f32[B]
    """
    return TrainStep(config, example, options, compiler)
