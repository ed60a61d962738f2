"""The physics-informed Q-agent in JAX; :mod:`._numpy` has the equations.

The plain functions come first. Faster forms follow: one pass of the network for all rows and for the PDE's
derivatives.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from ..common.jax_learner import Learner, Net, identity, to_device
from ..params import layers
from .physics import dynamics_of


def linear(params, k, h, product=jnp.matmul):
    """Return layer k applied to `h`, ``h w_k + b_k``; `product` multiplies the matrices.  f32[B, I] -> f32[B, O]"""
    return product(h, params[f"w{k}"]) + params[f"b{k}"]


def logits(params, states):
    """Return the output of the last layer, before the sigmoid.  f32[B, S] -> f32[B, A]"""
    h = states
    last = layers(params) - 1
    for k in range(last):
        h = jnp.tanh(linear(params, k, h))
    return linear(params, last, h)


def q_values(params, states):
    """Return the probability of staying safe for each action.  f32[B, S] -> f32[B, A]"""
    return jax.nn.sigmoid(logits(params, states))


def largest_q(z):
    """Return the Q-value of the best action from the logits; the sigmoid is monotonic.  f32[B, A] -> f32[B]"""
    return jax.nn.sigmoid(z.max(axis=1))


def pde_residual(params, interior, dynamics, order):
    """Return the residual of the PDE by nested differentiation.  f32[P, S] -> f32[P]"""

    def value(state):
        return largest_q(logits(params, state[None]))[0]

    greedy = logits(params, interior).argmax(axis=1)
    drift = jax.lax.map(lambda row: dynamics.drift(*row, xp=jnp), (interior, greedy))  # row by row
    residual = jnp.sum(jax.vmap(jax.grad(value))(interior) * drift, axis=1)
    if order == 2:
        noisy = dynamics.noisy

        def value_of_noisy(part, rest):
            return value(jnp.concatenate([part, rest]))

        hessian = jax.vmap(jax.hessian(value_of_noisy))(interior[:, :noisy], interior[:, noisy:])
        residual = residual + dynamics.sigma**2 / 2 * jnp.trace(hessian, axis1=1, axis2=2)
    return residual


def evaluate_separately(params, states, expired, unsafe, interior, *args):
    """Return the logits of `states`, `expired` and `unsafe`, and the residual of `interior`, each in its own pass."""
    residual = pde_residual(params, interior, *args)
    return logits(params, states), logits(params, expired), logits(params, unsafe), residual


def make_loss(config, options):
    """Return ``loss(params, target_params, *batch) -> f32, f32``: that of :func:`._numpy.loss`, and its TD term."""
    dynamics, evaluate = dynamics_of(config), EVALUATE[options.derivatives]

    def loss(params, target_params, states, actions, rewards, next_states, terminated, interior, expired, unsafe):
        td_target = rewards + (1 - terminated) * largest_q(logits(target_params, next_states))
        z, z_expired, z_unsafe, residual = evaluate(params, states, expired, unsafe, interior, dynamics, options.order)
        taken = jax.nn.sigmoid(jnp.sum(jax.nn.one_hot(actions, z.shape[1], dtype=z.dtype) * z, axis=1))
        td_loss = jnp.mean((taken - td_target) ** 2)
        boundary = jnp.mean((largest_q(z_expired) - 1) ** 2) + jnp.mean(largest_q(z_unsafe) ** 2)
        pde = config["pde_weight"] * jnp.mean(residual**2)
        return td_loss + pde + config["boundary_weight"] * boundary, td_loss

    return loss


def forward(config, example, *, options, compiler):
    """Return the Q-values of states.  f32[B, S] -> f32[B, A]"""
    return Net(q_values, config["params"], example, compiler)


def act(config, example, *, options, compiler):
    """Return the epsilon-greedy action, ``random_action`` if ``u < epsilon``.  state f32[1, S], u f32, i32 -> int"""
    net, epsilon = Net(q_values, config["params"], example[:1], compiler), config["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(np.asarray(net(state)).argmax())

    return call


def pde_loss(config, example, *, options, compiler):
    """Return the mean squared PDE residual of interior points.  f32[P, S] -> f32"""
    dynamics, residual = dynamics_of(config), RESIDUALS[options.derivatives]
    params = to_device(dict(config["params"]), compiler)

    def loss(params, interior):
        return jnp.mean(residual(params, interior, dynamics, options.order) ** 2)

    return functools.partial(compiler.compile(loss, (params, *example)), params)


class TrainStep(Learner):
    """One Adam update (Kingma and Ba 2015) of the online network, which donates the buffers of weights and moments.

    Attributes:
        td_loss: TD term of the last loss, f32[].
    """

    def __init__(self, config, example, *, options, compiler):
        flatten = {"loop": identity, "fused": ravel_pytree}[options.optimizer]
        loss, optimizer = make_loss(config, options), optax.adam(config["learning_rate"])
        super().__init__(config, optimizer, compiler, flatten)
        unflatten = self.unflatten

        def step(flat, moments, target_params, *batch):
            losses, gradient = jax.value_and_grad(
                lambda flat: loss(unflatten(flat), target_params, *batch), has_aux=True
            )(flat)
            updates, moments = optimizer.update(gradient, moments)
            return optax.apply_updates(flat, updates), moments, losses

        self.step = compiler.compile(
            step, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1)
        )

    def __call__(self, *batch):
        """Update on one batch of :func:`make_loss`; return the loss before the update, f32[]."""
        self.weights, self.moments, losses = self.step(self.weights, self.moments, self.target_weights, *batch)
        loss, self.td_loss = losses
        return loss


train_step = TrainStep


def loss_and_backward(config, example, *, options, compiler):
    """Return the loss, its TD term and the gradients, without an update.  -> (f32, f32), gradients by weight's name"""
    weights = tuple(to_device(dict(config[part]), compiler) for part in ("params", "target"))
    gradient = jax.value_and_grad(make_loss(config, options), has_aux=True)
    return functools.partial(compiler.compile(gradient, (*weights, *example)), *weights)


def sync_target(config, example, *, options, compiler):
    """Copy the online weights to the target network in one compiled program.  -> weights by name"""
    online = to_device(dict(config["params"]), compiler)
    copy = compiler.compile(lambda tree: jax.tree.map(jnp.copy, tree), (online,))
    return functools.partial(copy, online)


def evaluate_generator(params, rows, interior, dynamics, order, product=jnp.matmul):
    """Return the logits of `rows` f32[R, A] and the residual of `interior` f32[P], in one forward pass.

    Nested differentiation takes many. The equations are those of :func:`._torch.generator_residual`; `product`
    multiplies the matrices of every layer.
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
    streams = jnp.concatenate([dynamics.drift(interior, greedy, xp=jnp)[None], g])
    for k, y in enumerate(hidden):
        streams = product(streams, params[f"w{k}"])
        d, g = streams[:1], streams[1:]
        streams = (1 - y**2) * jnp.concatenate([d - y * jnp.sum(g**2, axis=0), g])
    streams = jnp.sum(pick * product(streams, params[f"w{last}"]), axis=2)
    return z[: len(rows)], v * (1 - v) * (streams[0] + (0.5 - v) * jnp.sum(streams[1:] ** 2, axis=0))


def generator_residual(params, interior, *args):
    """Like :func:`pde_residual`, by :func:`evaluate_generator`."""
    return evaluate_generator(params, interior[:0], interior, *args)[1]


@jax.custom_vjp
def copying_product(h, w):
    """Return ``h @ w`` with a backward pass that copies h^T before it multiplies.

    f32[..., I], f32[I, O] -> f32[..., O]. XLA's fast matrix product cannot contract over the first axis; without the
    copy, XLA calls a library that can, but that waits for its threads.
    """
    return h @ w


def copying_product_forward(h, w):
    """Return the product f32[..., O] and the operands as residuals."""
    return h @ w, (h, w)


def copying_product_backward(operands, d):
    """Return ``dloss/dh = d w^T`` f32[..., I] and ``dloss/dw = h^T d`` f32[I, O], for d = dloss/d(h w) f32[..., O]."""
    h, w = operands
    rows, d_rows = h.reshape(-1, h.shape[-1]), d.reshape(-1, d.shape[-1])
    return d @ w.T, jax.lax.optimization_barrier(rows.T) @ d_rows  # without the barrier XLA drops the copy


copying_product.defvjp(copying_product_forward, copying_product_backward)


def evaluate_jointly(params, states, expired, unsafe, interior, *args):
    """Like :func:`evaluate_separately`, in a single pass of the network."""
    rows = jnp.concatenate([states, expired, unsafe])
    z, residual = evaluate_generator(params, rows, interior, *args, product=copying_product)
    return *jnp.split(z, [len(states), len(states) + len(expired)]), residual


RESIDUALS = {"autograd": pde_residual, "generator": generator_residual}
EVALUATE = {"autograd": evaluate_separately, "generator": evaluate_jointly}
