"""The physics-informed Q-agent on JAX; the equations are in :mod:`._numpy`.

Axes: B states, R rows of states, S numbers a state, A actions, P points of each kind.

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
from jax.flatten_util import ravel_pytree

from ..common.jax_learner import Learner, Net, identity, put
from ..params import layers
from .spec import dynamics_of


def linear(params, k, h, product=jnp.matmul):
    """Return the output of one layer, ``h w_k + b_k``.  f32[B, I] -> f32[B, O]

    Args:
        params: weights ``w{k}`` f32[I, O] and biases ``b{k}`` f32[O] of each layer k.
        k: index of the layer.
        h: its input f32[B, I].
        product: ``product(h, w)``, their matrix product.
    """
    return product(h, params[f"w{k}"]) + params[f"b{k}"]


def logits(params, states):
    """Return the output of the last layer; its sigmoid, in the same order, is the Q-value.  f32[B, S] -> f32[B, A]

    Args:
        params: weights, see :func:`linear`.
        states: f32[B, S].
    """
    h = states
    last = layers(params) - 1
    for k in range(last):
        h = jnp.tanh(linear(params, k, h))
    return linear(params, last, h)


def q_values(params, states):
    """Return the probability of staying safe for each action.  f32[B, S] -> f32[B, A]

    Args:
        params: weights, see :func:`linear`.
        states: f32[B, S].
    """
    return jax.nn.sigmoid(logits(params, states))


def largest_q(z):
    """Return the Q-value of the best action, the sigmoid of the largest logit.  f32[B, A] -> f32[B]

    Args:
        z: logits f32[B, A].
    """
    return jax.nn.sigmoid(z.max(axis=1))


def drift_by_row(dynamics, states, actions):
    """Return the drift, computed one row after the other.  f32[P, S], i32[P] -> f32[P, S]

    Args:
        dynamics: of the process, a :class:`.physics.Dynamics`.
        states: f32[P, S].
        actions: i32[P].
    """
    return jax.lax.map(lambda row: dynamics.drift(*row, xp=jnp), (states, actions))


def drift_vectorised(dynamics, states, actions):
    """Return the drift of all rows at once.  f32[P, S], i32[P] -> f32[P, S]

    Args:
        dynamics: of the process, a :class:`.physics.Dynamics`.
        states: f32[P, S].
        actions: i32[P].
    """
    return dynamics.drift(states, actions, xp=jnp)


DRIFTS = {"rows": drift_by_row, "vectorised": drift_vectorised}


def evaluate_autograd(params, rows, interior, dynamics, order, drift):
    """Return the logits of ``rows`` f32[R, A] and the PDE residual of ``interior`` f32[P], by nested differentiation.

    Args:
        params: weights, see :func:`linear`.
        rows: states f32[R, S].
        interior: points in the safe set, f32[P, S].
        dynamics: of the process, a :class:`.physics.Dynamics`.
        order: of the residual, 1 or 2.
        drift: :func:`drift_by_row` or :func:`drift_vectorised`.
    """

    def value(state):
        return largest_q(logits(params, state[None]))[0]

    greedy = logits(params, interior).argmax(axis=1)
    residual = jnp.sum(jax.vmap(jax.grad(value))(interior) * drift(dynamics, interior, greedy), axis=1)
    if order == 2:
        noisy = dynamics.noisy

        def value_of_noisy(part, rest):
            return value(jnp.concatenate([part, rest]))

        hessian = jax.vmap(jax.hessian(value_of_noisy))(interior[:, :noisy], interior[:, noisy:])
        residual = residual + dynamics.sigma**2 / 2 * jnp.trace(hessian, axis1=1, axis2=2)
    return logits(params, rows), residual


def evaluate_generator(params, rows, interior, dynamics, order, drift, product=jnp.matmul):
    """Return the same in one pass that carries the generator of the process, L = f . grad + 1/2 sigma^2 Laplacian.

    After the hidden values y come ``d = L y`` and ``g_i = sigma dy/ds_i`` for each noisy component; through ``y(z)``:
    ``L y = y' L z + 1/2 y'' sum_i (g_i z)^2``.

    Args:
        params: weights, see :func:`linear`.
        rows: states f32[R, S].
        interior: points in the safe set, f32[P, S].
        dynamics: of the process, a :class:`.physics.Dynamics`.
        order: of the residual, 1 or 2.
        drift: :func:`drift_by_row` or :func:`drift_vectorised`.
        product: ``product(h, w)``, the matrix product of every layer.
    """
    h = jnp.concatenate([rows, interior])
    last = layers(params) - 1
    hidden = []
    for k in range(last):
        h = jnp.tanh(linear(params, k, h, product))
        hidden.append(h[len(rows) :])
    z = linear(params, last, h, product)
    greedy = z[len(rows) :].argmax(axis=1)
    pick = jax.nn.one_hot(greedy, z.shape[1], dtype=z.dtype)
    v = jax.nn.sigmoid(jnp.sum(pick * z[len(rows) :], axis=1))

    noisy = dynamics.noisy if order == 2 else 0
    g = jnp.broadcast_to(
        dynamics.sigma * jnp.eye(noisy, interior.shape[1], dtype=z.dtype)[:, None], (noisy, *interior.shape)
    )
    streams = jnp.concatenate([drift(dynamics, interior, greedy)[None], g])
    for k, y in enumerate(hidden):
        streams = product(streams, params[f"w{k}"])
        d, g = streams[:1], streams[1:]
        streams = (1 - y**2) * jnp.concatenate([d - y * jnp.sum(g**2, axis=0), g])
    streams = jnp.sum(pick * product(streams, params[f"w{last}"]), axis=2)
    return z[: len(rows)], v * (1 - v) * (streams[0] + (0.5 - v) * jnp.sum(streams[1:] ** 2, axis=0))


@jax.custom_vjp
def copying_product(h, w):
    """Return ``h @ w``; its backward pass copies h^T before it multiplies.  f32[..., I], f32[I, O] -> f32[..., O]

    XLA's fast products take no contraction over the first axis, and the library that does waits for its threads.

    Args:
        h: f32[..., I].
        w: f32[I, O].
    """
    return h @ w


def copying_product_forward(h, w):
    """Return the product f32[..., O], and the operands, which the backward pass needs.

    Args:
        h: f32[..., I].
        w: f32[I, O].
    """
    return h @ w, (h, w)


def copying_product_backward(operands, d):
    """Return ``dloss/dh = d w^T`` f32[..., I] and ``dloss/dw = h^T d`` f32[I, O].

    Args:
        operands: h and w.
        d: dloss/d(h w), f32[..., O].
    """
    h, w = operands
    rows, d_rows = h.reshape(-1, h.shape[-1]), d.reshape(-1, d.shape[-1])
    return d @ w.T, jax.lax.optimization_barrier(rows.T) @ d_rows  # without the barrier there is no copy


copying_product.defvjp(copying_product_forward, copying_product_backward)

EVALUATE = {  # by the knobs derivatives and gradient
    ("autograd", "autograd"): evaluate_autograd,
    ("generator", "autograd"): evaluate_generator,
    ("generator", "by_hand"): functools.partial(evaluate_generator, product=copying_product),
}


def evaluate_separately(evaluate, params, states, expired, unsafe, interior, *args):
    """Return the logits of three sets of rows, f32[., A] each, and the residual f32[P]: a pass of the net for each.

    Args:
        evaluate: a value of ``EVALUATE``.
        params: weights, see :func:`linear`.
        states: f32[B, S].
        expired: points whose horizon has run out, f32[P, S].
        unsafe: points on the edge of the safe set, f32[P, S].
        interior: points in the safe set, f32[P, S].
        args: dynamics, order and drift, as ``evaluate`` takes them.
    """
    _, residual = evaluate(params, states[:0], interior, *args)
    return logits(params, states), logits(params, expired), logits(params, unsafe), residual


def evaluate_jointly(evaluate, params, states, expired, unsafe, interior, *args):
    """Return what :func:`evaluate_separately` does, from one pass of the net.

    Args:
        evaluate: a value of ``EVALUATE``.
        params: weights, see :func:`linear`.
        states: f32[B, S].
        expired: points whose horizon has run out, f32[P, S].
        unsafe: points on the edge of the safe set, f32[P, S].
        interior: points in the safe set, f32[P, S].
        args: dynamics, order and drift, as ``evaluate`` takes them.
    """
    z, residual = evaluate(params, jnp.concatenate([states, expired, unsafe]), interior, *args)
    return *jnp.split(z, [len(states), len(states) + len(expired)]), residual


PASSES = {"separate": evaluate_separately, "joint": evaluate_jointly}


def make_loss(spec, knobs):
    """Return ``loss(params, target_params, *batch) -> f32``, that of :func:`._numpy.loss`.

    The batch is states f32[B, S], actions i32[B], rewards f32[B], next_states f32[B, S], terminated f32[B], interior
    f32[P, S], expired f32[P, S], unsafe f32[P, S].

    Args:
        spec: dynamics and the weights of the terms are taken.
        knobs: ``order``, ``drift``, ``derivatives``, ``passes`` and ``gradient`` are read.
    """
    dynamics, drift = dynamics_of(spec), DRIFTS[knobs.drift]
    evaluate = functools.partial(PASSES[knobs.passes], EVALUATE[knobs.derivatives, knobs.gradient])

    def loss(params, target_params, states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        td_target = rewards + (1 - terminated) * largest_q(logits(target_params, next_states))
        z, z_expired, z_unsafe, residual = evaluate(
            params, states, expired, unsafe, interior, dynamics, knobs.order, drift
        )
        taken = jax.nn.sigmoid(jnp.sum(jax.nn.one_hot(actions, z.shape[1], dtype=z.dtype) * z, axis=1))
        return (
            jnp.mean((taken - td_target) ** 2)
            + spec["pde_weight"] * jnp.mean(residual**2)
            + spec["boundary_weight"] * (jnp.mean((largest_q(z_expired) - 1) ** 2) + jnp.mean(largest_q(z_unsafe) ** 2))
        )

    return loss


def forward(spec, example, *, knobs, target):
    """Return the Q-values of states.  f32[B, S] -> f32[B, A]"""
    return Net(q_values, spec["params"], example, target)


def act(spec, example, *, knobs, target):
    """Return the epsilon-greedy action: ``random_action`` where ``u < epsilon``.  state f32[1, S], u f32, i32 -> int"""
    net, epsilon = Net(q_values, spec["params"], example[:1], target), spec["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(np.asarray(net(state)).argmax())

    return call


def pde_loss(spec, example, *, knobs, target):
    """Return the mean squared PDE residual of points in the safe set.  f32[P, S] -> f32"""
    dynamics, drift = dynamics_of(spec), DRIFTS[knobs.drift]
    evaluate = EVALUATE[knobs.derivatives, "autograd"]  # nothing is differentiated by the weights
    params = put(dict(spec["params"]), target)

    def loss(params, interior):
        _, residual = evaluate(params, interior[:0], interior, dynamics, knobs.order, drift)
        return jnp.mean(residual**2)

    return functools.partial(target.lower(loss, (params, *example)), params)


class TrainStep(Learner):
    """One update of the online net by Adam; weights and moments are donated from step to step, the target net stays.

    Args:
        spec: weights of both nets, ``learning_rate``, dynamics and the weights of the terms are taken.
        example: a batch, see :func:`make_loss`.
        knobs: those of an update are read.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, example, knobs, target):
        flatten = {"loop": identity, "fused": ravel_pytree}[knobs.optimizer]
        loss, optimizer = make_loss(spec, knobs), optax.adam(spec["learning_rate"])
        super().__init__(spec, optimizer, target, flatten)
        unflatten = self.unflatten

        def step(flat, moments, target_params, *batch):
            value, gradient = jax.value_and_grad(lambda flat: loss(unflatten(flat), target_params, *batch))(flat)
            updates, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(flat, updates), moments, value

        self.step = target.lower(
            step, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1)
        )

    def __call__(self, *batch):
        """Make an update on one batch; return the loss before it, f32[].

        Args:
            batch: see :func:`make_loss`.
        """
        self.weights, self.moments, value = self.step(self.weights, self.moments, self.target_weights, *batch)
        return value


def train_step(spec, example, *, knobs, target):
    """Make one Adam update (Kingma and Ba 2015) of the loss of :func:`._numpy.loss`.

    What :func:`make_loss` calls a batch -> f32[], the loss before the update
    """
    return TrainStep(spec, example, knobs, target)


def sync_target(spec, example, *, knobs, target):
    """Copy the online weights to the target net.  -> the target's weights by name"""
    online = put(dict(spec["params"]), target)
    copy = target.lower(lambda tree: jax.tree.map(jnp.copy, tree), (online,))
    return functools.partial(copy, online)
