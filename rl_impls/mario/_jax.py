"""Double Q-learning from stacked frames in JAX: network and update.

Builders take the arguments of those in :mod:`._numpy`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..common.jax_learner import DTYPES, LAYOUT, Learner, to_device
from .net import NORM_EPS, NORM_RATE, STRIDES, has_norm, is_running
from .options import check_supported


def normalised(params, k, h, learning):
    """Return what :func:`._numpy.normalised` does, f32[B, Y, X, O], and with ``learning`` new running statistics.

    The running variance moves towards the unbiased one of the batch, as in torch.
    """
    mean, variance, moved = params[f"m_conv{k}"], params[f"v_conv{k}"], {}
    if learning:
        old, count = (mean, variance), h.size // h.shape[-1]
        mean, variance = h.mean(axis=(0, 1, 2)), h.var(axis=(0, 1, 2))
        for name, before, now in zip("mv", old, (mean, variance * count / (count - 1))):
            moved[f"{name}_conv{k}"] = (1 - NORM_RATE) * before + NORM_RATE * now
    return params[f"g_conv{k}"] * (h - mean) / jnp.sqrt(variance + NORM_EPS) + params[f"b_conv{k}"], moved


def q_values(params, obs, dtype=jnp.float32, learning=False):
    """Return Q-values f32[B, A] of observations u8[B, 4, S, S] as :func:`._numpy.q_values`, and new running statistics.

    There are new statistics, by name, only for batch norm with ``learning``. ``dtype`` is the dtype of the
    computation, ``jnp.float32`` or ``jnp.bfloat16``; batch norm computes in float32.
    """
    w = {name: weight.astype(dtype) for name, weight in params.items()}
    h, moved = obs.transpose(0, 2, 3, 1).astype(dtype) / 255, {}
    for k, stride in enumerate(STRIDES):
        h = jax.lax.conv_general_dilated(h, w[f"w_conv{k}"], (stride, stride), "VALID", dimension_numbers=LAYOUT)
        if has_norm(params):
            h, statistics = normalised(params, k, h.astype(jnp.float32), learning)
            h, moved = h.astype(dtype), moved | statistics
        else:
            h = h + w[f"b_conv{k}"]
        h = jax.nn.relu(h)
    h = jax.nn.relu(h.reshape(len(h), -1) @ w["w_hidden"] + w["b_hidden"])
    return (h @ w["w_value"] + w["b_value"]).astype(jnp.float32), moved


def of_actions(values, actions):
    """Return the value of the action in each row.  f[B, A], i[B] -> f[B]"""
    return jnp.take_along_axis(values, actions[:, None], axis=1)[:, 0]


def td_loss(params, target, obs, actions, rewards, next_obs, terminated, weights, *, gamma, dtype):
    """Return the loss of :func:`._numpy.td_targets` and :func:`._numpy.td_loss`, TD errors, and running statistics.

    -> f32[], (f32[B], the online network's new statistics by name). ``params`` and ``target`` are the weights of the
    online and the target network; ``dtype`` is the nets' compute dtype.
    """
    best = q_values(params, next_obs, dtype)[0].argmax(axis=1)
    td_targets = rewards + gamma * (1 - terminated) * of_actions(q_values(target, next_obs, dtype)[0], best)
    values, moved = q_values(params, obs, dtype, learning=True)
    errors = of_actions(values, actions) - jax.lax.stop_gradient(td_targets)
    return jnp.mean(weights * optax.losses.huber_loss(errors)), (errors, moved)


class TrainStep(Learner):
    """One Adam update of the online network on double Q-learning's Huber loss (van Hasselt et al. 2016).

    obs u8[B, 4, S, S], actions i32[B], rewards f32[B], next_obs u8[B, 4, S, S], terminated f32[B], weights f32[B] ->
    loss f32[] before the update, TD errors f32[B]

    The gradient is clipped by its norm. The target network is not changed. Adam leaves the running statistics of batch
    norm as they are, because their gradient is 0.

    Raises:
        ValueError: ``accumulate`` does not divide the batch, or an option is not supported.
    """

    def __init__(self, config, example, *, options, compiler):
        check_supported(options, compiler)
        parts = options.accumulate
        if len(example[0]) % parts:
            raise ValueError(f"accumulate={parts} should divide the batch size, {len(example[0])}")
        optimizer = optax.chain(optax.clip_by_global_norm(config["max_grad_norm"]), optax.adam(config["learning_rate"]))
        super().__init__(config, optimizer, compiler)
        loss = functools.partial(td_loss, gamma=config["gamma"], dtype=DTYPES[options.precision])
        differentiated = jax.value_and_grad(loss, has_aux=True)

        def update(weights, moments, target_weights, *batch):
            def one(running, part):
                (loss, (errors, moved)), gradient = differentiated(weights | running, target_weights, *part)
                return moved, (loss, errors, gradient)

            running = {name: value for name, value in weights.items() if is_running(name)}
            if parts == 1:
                running, (loss, errors, gradient) = one(running, batch)
            else:
                split = tuple(column.reshape(parts, -1, *column.shape[1:]) for column in batch)
                running, (losses, errors, gradients) = jax.lax.scan(one, running, split)
                loss, gradient = losses.mean(), jax.tree.map(lambda of_parts: of_parts.mean(axis=0), gradients)
            change, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(weights, change) | running, moments, loss, errors.reshape(-1)

        self.update = compiler.compile(update, (self.weights, self.moments, self.target_weights, *example))

    def batch(self, *columns):
        """Copy a NumPy batch to the backend's device."""
        return to_device(columns, self.compiler)

    def __call__(self, *batch):
        """Update on a batch; return the loss f32[] before the update, and the TD errors f32[B]."""
        self.weights, self.moments, loss, errors = self.update(self.weights, self.moments, self.target_weights, *batch)
        return loss, errors

    def state(self):
        """Return the same arrays as torch's learner: both networks, Adam's moments of trained weights, and the step."""
        untrained = self.untrained()
        return {name: value for name, value in super().state().items() if name not in untrained}

    def load_state(self, state):
        super().load_state(self.untrained() | state)

    def untrained(self):
        """Return Adam's moments of running statistics, which stay 0, by their names in the state of a learner."""
        running = {name: np.zeros(value.shape, np.float32) for name, value in self.weights.items() if is_running(name)}
        return {f"{part}.{name}": value for part in self.names for name, value in running.items()}


train_step = TrainStep
