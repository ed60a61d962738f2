"""The reference of the physics-informed Q-agent, in equation order; as precise as the arrays it is given."""

from __future__ import annotations

import numpy as np

from ..params import layers
from .spec import dynamics_of


def q_values(params, states):
    """Probability of staying safe for each action.  f[B, S] -> f[B, A]"""
    h = states
    last = layers(params) - 1
    for k in range(last):
        h = np.tanh(h @ params[f"w{k}"] + params[f"b{k}"])
    return 1 / (1 + np.exp(-(h @ params[f"w{last}"] + params[f"b{last}"])))


def derivatives(params, states, noisy):
    """Q-values, their gradient and the diagonal of their Hessian.

    ``f[B, S] -> f[B, A], f[B, S, A], f[B, noisy, A]``: by the chain rule, layer by layer, for the Jacobian J and the
    second derivatives H of the first ``noisy`` components: ``J' = y' J`` and ``H' = y' H + y'' J^2``.
    """
    batch, width = states.shape
    h = states
    jacobian = np.broadcast_to(np.eye(width, dtype=states.dtype), (batch, width, width))
    hessian = np.zeros((batch, noisy, width), states.dtype)
    last = layers(params) - 1
    for k in range(last + 1):
        z = h @ params[f"w{k}"] + params[f"b{k}"]
        z_j, z_h = jacobian @ params[f"w{k}"], hessian @ params[f"w{k}"]
        if k < last:
            h = np.tanh(z)
            slope = 1 - h**2
            bend = -2 * h * slope
        else:
            h = 1 / (1 + np.exp(-z))
            slope = h * (1 - h)
            bend = slope * (1 - 2 * h)
        jacobian = slope[:, None] * z_j
        hessian = slope[:, None] * z_h + bend[:, None] * z_j[:, :noisy] ** 2
    return h, jacobian, hessian


def pde_residual(params, states, dynamics, order):
    """Residual ``grad V . f + 1/2 tr(sigma sigma^T Hess V)`` with V = max_a Q and f at the greedy action.

    ``f[B, S] -> f[B]``; order 1 leaves the second term out.
    """
    q, jacobian, hessian = derivatives(params, states, dynamics.noisy if order == 2 else 0)
    greedy = q.argmax(axis=1)
    rows = np.arange(len(states))
    drift = dynamics.drift(states, greedy)
    residual = np.sum(jacobian[rows, :, greedy] * drift, axis=1)
    if order == 2:
        residual = residual + dynamics.sigma**2 / 2 * hessian[rows, :, greedy].sum(axis=1)
    return residual


def loss(params, target_params, batch, *, dynamics, order, pde_weight, boundary_weight):
    """TD error + weighted PDE residual + weighted boundary terms, each a mean of squares.

    ``batch`` is (states[B, S], actions[B], rewards[B], next_states[B, S], terminated[B], interior[P, S],
    expired[P, S] with tau = 0, unsafe[P, S] on the edge of the safe set).
    """
    states, actions, rewards, next_states, terminated, interior, expired, unsafe = batch
    td_target = rewards + (1 - terminated) * q_values(target_params, next_states).max(axis=1)
    td_error = q_values(params, states)[np.arange(len(states)), actions] - td_target
    residual = pde_residual(params, interior, dynamics, order)
    expired_error = q_values(params, expired).max(axis=1) - 1
    unsafe_error = q_values(params, unsafe).max(axis=1)
    return (
        np.mean(td_error**2)
        + pde_weight * np.mean(residual**2)
        + boundary_weight * (np.mean(expired_error**2) + np.mean(unsafe_error**2))
    )


class Net:
    """Weights and the net that uses them."""

    def __init__(self, params):
        self.load(params)

    def load(self, params):
        """Take new weights."""
        self.weights = {name: value.copy() for name, value in params.items()}

    def __call__(self, states):
        """Q-values.  f32[B, S] -> f32[B, A]"""
        return q_values(self.weights, states)


def forward(spec, example, *, knobs, target):
    """Q-values of a batch of states.  f32[B, S] -> f32[B, A]"""
    return Net(spec["params"])


def act(spec, example, *, knobs, target):
    """Epsilon-greedy action: ``random_action`` where ``u < epsilon``.  f32[1, S], f32, int -> int"""
    net, epsilon = Net(spec["params"]), spec["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(net(state).argmax())

    return call


def pde_loss(spec, example, *, knobs, target):
    """Mean squared PDE residual.  f[P, S] -> f"""
    dynamics = dynamics_of(spec)

    def call(interior):
        return np.mean(pde_residual(spec["params"], interior, dynamics, knobs.order) ** 2)

    return call


def sync_target(spec, example, *, knobs, target):
    """Copy the online weights over the target's.  -> the target's weights"""
    online = spec["params"]
    follower = {name: value.copy() for name, value in spec["target"].items()}

    def call():
        for name, value in online.items():
            np.copyto(follower[name], value)
        return follower

    return call
