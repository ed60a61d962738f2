"""Double Q-learning from stacked frames in JAX: the net and its update.

Axes: B transitions, S pixels along a side, A = 15 actions.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax

from ..common.jax_learner import Learner, put
from .knobs import check_target
from .spec import STRIDES, has_norm

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
LAYOUT = ("NHWC", "HWIO", "NHWC")  # of pictures, weights and the result


def q_values(params, states, dtype=jnp.float32):
    """Return the value of each action; :func:`._numpy.q_values`, without batch norm.  u8[B, 4, S, S] -> f32[B, A]

    Args:
        params: weights by name, see :func:`.spec.shapes`.
        states: four frames each.
        dtype: in which it is computed, ``jnp.float32`` or ``jnp.bfloat16``.
    """
    w = {name: weight.astype(dtype) for name, weight in params.items()}
    h = states.transpose(0, 2, 3, 1).astype(dtype) / 255
    for k, stride in enumerate(STRIDES):
        h = jax.lax.conv_general_dilated(h, w[f"w_conv{k}"], (stride, stride), "VALID", dimension_numbers=LAYOUT)
        h = jax.nn.relu(h + w[f"b_conv{k}"])
    h = jax.nn.relu(h.reshape(len(h), -1) @ w["w_hidden"] + w["b_hidden"])
    return (h @ w["w_value"] + w["b_value"]).astype(jnp.float32)


def of_actions(values, actions):
    """Return the value of one action of each row.  f[B, A], i[B] -> f[B]

    Args:
        values: f[B, A].
        actions: i[B].
    """
    return jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]


def td_loss(params, target, states, actions, rewards, next_states, ends, weights, *, gamma, dtype):
    """Return the loss f32[] and the TD errors f32[B]; :func:`._numpy.td_targets` and :func:`._numpy.td_loss`.

    Args:
        params: weights of the online net.
        target: weights of the target net.
        states: u8[B, 4, S, S].
        actions: i32[B].
        rewards: f32[B].
        next_states: u8[B, 4, S, S].
        ends: 1 where the episode ended, f32[B].
        weights: of the experiences, f32[B].
        gamma: discount of one step.
        dtype: in which the nets are computed.
    """
    best = q_values(params, next_states, dtype).argmax(axis=1)
    td_targets = rewards + gamma * (1 - ends) * of_actions(q_values(target, next_states, dtype), best)
    errors = of_actions(q_values(params, states, dtype), actions) - jax.lax.stop_gradient(td_targets)
    return jnp.mean(weights * optax.losses.huber_loss(errors)), errors


class TrainStep(Learner):
    """One update of the online net by Adam; the target net is not changed.

    Args:
        spec: weights of both nets, ``learning_rate``, ``gamma`` and ``gradient_norm`` are taken.
        example: a batch, see :func:`td_loss`.
        knobs: ``precision`` and ``accumulate`` are read.
        target: device and lowering of the backend.

    Raises:
        ValueError: a batch that ``accumulate`` does not divide, batch norm, or a precision that there is not.
    """

    def __init__(self, spec, example, knobs, target):
        check_target(knobs, target)
        parts = knobs.accumulate
        if len(example[0]) % parts:
            raise ValueError(f"batch: got {len(example[0])}, wanted a multiple of accumulate, {parts}")
        if has_norm(spec["params"]):
            raise ValueError(f"params: got batch norm on {target.backend}, wanted torch, or a net without it")
        optimizer = optax.chain(optax.clip_by_global_norm(spec["gradient_norm"]), optax.adam(spec["learning_rate"]))
        super().__init__(spec, optimizer, target)
        loss = functools.partial(td_loss, gamma=spec["gamma"], dtype=DTYPES[knobs.precision])
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

        self.update = target.lower(update, (self.weights, self.moments, self.target_weights, *example))

    def batch(self, *columns):
        """Return a batch of NumPy arrays as a call takes it, on the backend's device.

        Args:
            columns: see :func:`td_loss`.
        """
        return put(columns, self.target)

    def __call__(self, *batch):
        """Make an update on one batch; return the loss before it, f32[], and the TD errors, f32[B].

        Args:
            batch: see :func:`td_loss`.
        """
        self.weights, self.moments, loss, errors = self.update(self.weights, self.moments, self.target_weights, *batch)
        return loss, errors


def train_step(spec, example, *, knobs, target):
    """Make one Adam update of double Q-learning's Huber loss (van Hasselt et al. 2016), its gradient's norm clipped.

    states u8[B, 4, S, S], actions i32[B], rewards f32[B], next_states u8[B, 4, S, S], ends f32[B], weights f32[B] ->
    f32[], the loss before the update, and f32[B], the TD errors
    """
    return TrainStep(spec, example, knobs, target)
