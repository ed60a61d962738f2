"""Reference implementation of the physics-informed Q-agent in NumPy; it computes in the precision of its inputs.

The value ``V(s) = max_a Q(s, a)`` is the probability that the state ``s = (x, tau)`` stays in the safe set over the
horizon tau. Under the greedy policy, ``dx = f dt + sigma dW``, it satisfies the backward Kolmogorov equation

``dV/dtau = f . grad_x V + 1/2 tr(sigma sigma^T Hess V)``,

with V = 1 at tau = 0 and V = 0 on the edge of the safe set. Here tau is the last component of the state, with drift
-1, so the equation becomes ``L V = 0``, where L is the infinitesimal generator of the process. A physics-informed loss
(Raissi et al. 2019) adds the squared residuals of these equations to the TD error.

Each op has a function that builds it from a configuration, ``example`` arguments, ``options`` and a ``compiler``
(:class:`~rl_impls.compilers.Compiler`). The function's docstring describes the op's arguments and result. The
configuration is a dict of the weights of both nets (``params`` and ``target``), ``dynamics`` (a key of
:data:`.physics.DYNAMICS`), optionally another ``sigma``, ``learning_rate``, ``pde_weight``, ``boundary_weight`` and
``epsilon``; an op reads those it needs. :mod:`._torch` and :mod:`._jax` build the same ops, and
``train_step`` and ``loss_and_backward``.
"""

import numpy as np

from ..params import layers
from .physics import dynamics_of


def q_values(params, states):
    """Return the probability of staying safe for each action.  f[B, S] -> f[B, A]

    ``h_{k+1} = tanh(h_k w_k + b_k)``, with a sigmoid after the last layer; weights are ``w{k}`` f[I, O], ``b{k}`` f[O].
    """
    h = states
    last = layers(params) - 1
    for k in range(last):
        h = np.tanh(h @ params[f"w{k}"] + params[f"b{k}"])
    return 1 / (1 + np.exp(-(h @ params[f"w{last}"] + params[f"b{last}"])))


def derivatives(params, states, noisy):
    """Return Q-values f[B, A], their gradient f[B, S, A] and the diagonal of their Hessian f[B, noisy, A].

    The chain rule is applied layer by layer to the Jacobian J and the second derivatives H with respect to the first
    `noisy` components: ``J' = y' J`` and ``H' = y' H + y'' J^2``.
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
    """Return the residual ``grad V . f + 1/2 tr(sigma sigma^T Hess V)`` at points in the safe set.  f[P, S] -> f[P]

    V = max_a Q and f is the drift under the greedy action. The residual is 0 where V satisfies the backward Kolmogorov
    equation. `order` 1 leaves out the second term.
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
    """Return the mean squared TD error plus weighted mean squares of the PDE residual and boundary errors.  -> f

    ``mean (Q(s, a) - r - (1 - terminated) max_a' Q'(s', a'))^2 + pde_weight mean residual^2
    + boundary_weight (mean (V(expired) - 1)^2 + mean V(unsafe)^2)``

    The batch is states[B, S], actions[B], rewards[B], next_states[B, S], terminated[B], interior[P, S], expired[P, S]
    with tau = 0, unsafe[P, S] on the edge of the safe set. `order` is 1 or 2, see :func:`pde_residual`.
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
    """A network whose weights can be replaced."""

    def __init__(self, params):
        self.load(params)

    def load(self, params):
        self.weights = {name: value.copy() for name, value in params.items()}

    def __call__(self, states):
        """Return the Q-values.  f32[B, S] -> f32[B, A]"""
        return q_values(self.weights, states)


def forward(config, example, *, options, compiler):
    """Return the Q-values of states.  f32[B, S] -> f32[B, A]"""
    return Net(config["params"])


def act(config, example, *, options, compiler):
    """Return the epsilon-greedy action, ``random_action`` if ``u < epsilon``.  state f32[1, S], u f32, i32 -> int"""
    net, epsilon = Net(config["params"]), config["epsilon"]

    def call(state, u, random_action):
        return int(random_action) if u < epsilon else int(net(state).argmax())

    return call


def pde_loss(config, example, *, options, compiler):
    """Return the mean squared PDE residual of interior points.  f[P, S] -> f"""
    dynamics = dynamics_of(config)
    return lambda interior: np.mean(pde_residual(config["params"], interior, dynamics, options.order) ** 2)


def sync_target(config, example, *, options, compiler):
    """Copy the online weights to the target network, array by array.  -> the target's weights by name"""
    online = config["params"]
    follower = {name: value.copy() for name, value in config["target"].items()}

    def call():
        for name, value in online.items():
            np.copyto(follower[name], value)
        return follower

    return call
