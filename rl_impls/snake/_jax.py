"""The DQN in JAX; builders take the arguments of those in :mod:`._numpy`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import SingleDeviceSharding

from ..common.jax_learner import DTYPES, Learner, Net, device_of, to_device
from ..common.op import Op
from ..params import layers
from ._numpy import Remember, assemble
from .env import Geometry
from .jax_env import State, step
from .options import check_supported


def q_values(params, obs, dtype=jnp.float32):
    """Return the Q-values of each action, computed in `dtype` (float32 or bfloat16).  f32[B, O] -> f32[B, A]

    ``h_{k+1} = max(h_k w_k + b_k, 0)``, without ``max`` after the last layer.
    """
    h = obs.astype(dtype)
    last = layers(params) - 1
    for k in range(last + 1):
        h = h @ params[f"w{k}"].astype(dtype) + params[f"b{k}"].astype(dtype)
        h = h if k == last else jax.nn.relu(h)
    return h.astype(obs.dtype) if dtype == jnp.bfloat16 else h


def select_actions(params, obs, explore, random_actions, dtype):
    """Return greedy actions i32[N], and random ones where ``explore`` bool[N]; `dtype` is that of :func:`q_values`."""
    return jnp.where(explore, random_actions, q_values(params, obs, dtype).argmax(axis=1).astype(jnp.int32))


def make_update(config, options):
    """Return ``update(params, moments, target_params, *batch) -> params, moments, loss`` and its optimiser.

    One Adam update (Kingma and Ba 2015) of ``mean_B huber(Q(s, a) - r - gamma (1 - terminated) max_a' Q'(s', a'))``
    (Mnih et al. 2015), with the gradient's norm clipped. Q' is the target network, or the online network if
    ``target_frequency`` is 0. The batch is obs f32[B, O], actions i32[B], rewards f32[B], next_obs f32[B, O],
    terminated f32[B].

    The weights stay separate arrays: gathering gradients into one vector sometimes took longer than all the rest.
    """
    dtype, has_target = DTYPES[options.precision], config.get("target_frequency") != 0
    optimizer = optax.chain(optax.clip_by_global_norm(config["max_grad_norm"]), optax.adam(config["learning_rate"]))

    def loss(params, target_params, obs, actions, rewards, next_obs, terminated):
        bootstrap = target_params if has_target else params
        td_target = rewards + config["gamma"] * (1 - terminated) * q_values(bootstrap, next_obs, dtype).max(axis=1)
        q = q_values(params, obs, dtype)
        taken = jnp.sum(jax.nn.one_hot(actions, q.shape[1], dtype=q.dtype) * q, axis=1)
        return optax.huber_loss(taken, jax.lax.stop_gradient(td_target)).mean()

    def update(params, moments, target_params, *batch):
        value, gradient = jax.value_and_grad(loss)(params, target_params, *batch)
        updates, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(params, updates), moments, value

    return update, optimizer


def forward(config, example, *, options, compiler):
    """Return the Q-values of boards.  f32[N, O] -> f32[N, A]"""
    check_supported("quantised", options, compiler)
    return Net(functools.partial(q_values, dtype=DTYPES[options.precision]), config["params"], example, compiler)


def act(config, example, *, options, compiler):
    """Return greedy actions, and random ones where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    check_supported("quantised", options, compiler)
    select = functools.partial(select_actions, dtype=DTYPES[options.precision])
    net = Net(select, config["params"], example, compiler)
    return lambda obs, explore, random_actions: np.asarray(net(obs, explore, random_actions))


class TrainStep(Learner):
    """One update of :func:`make_update`, which donates the buffers of weights and moments."""

    def __init__(self, config, example, *, options, compiler):
        check_supported("processes", options, compiler)
        update, optimizer = make_update(config, options)
        super().__init__(config, optimizer, compiler)
        self.options = options
        self.update = compiler.compile(
            update, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1)
        )

    def __call__(self, *batch):
        """Update on one batch of :func:`make_update`; return the loss before the update, f32[]."""
        self.weights, self.moments, value = self.update(self.weights, self.moments, self.target_weights, *batch)
        return value

    def actor(self, obs, own=False):
        """Return an :class:`Actor` for boards like `obs` f32[N, O] that plays by the online weights."""
        check_supported("quantised", self.options, self.compiler)
        flags = np.zeros(len(obs), bool), np.zeros(len(obs), np.int32)
        select = functools.partial(select_actions, dtype=DTYPES[self.options.precision])
        return Actor(self, self.compiler.compile(select, (self.weights, obs, *flags)), own)


train_step = TrainStep


class Actor:
    """Plays by the weights of a :class:`TrainStep`, or by a copy of them if `own`; from and to NumPy.

    ``call(params, obs, explore, random_actions)`` is the compiled :func:`select_actions`.
    """

    def __init__(self, learner, call, own):
        self.learner, self.call, self.own = learner, call, own
        self.weights = None

    def refresh(self):
        """Copy the online weights, whose own buffers are donated to the next update."""
        self.weights = jax.tree.map(jnp.copy, self.learner.weights)

    def __call__(self, *args):
        """Return an action for each board, i32[N], from obs f32[N, O], explore bool[N] and random_actions i32[N]."""
        return np.asarray(self.call(self.weights if self.own else self.learner.weights, *args))


class EnvStep(Op):
    """The T steps of :class:`._numpy.EnvStep` in one compiled program."""

    def __init__(self, config, example, *, options, compiler):
        self.compiler, self.start, geometry = compiler, config["env_state"], config.get("geometry", Geometry())
        self.reset()

        def steps(state, actions, draws):
            def one(carry, drawn):
                state, obs, reward, terminated, truncated, _ = step(geometry, carry[0], *drawn)
                return (state, obs), (reward, terminated | truncated)

            obs = jnp.zeros((actions.shape[1], geometry.dim, geometry.dim))
            (state, obs), (rewards, ended) = jax.lax.scan(one, (state, obs), (actions, draws))
            return state, (obs.reshape(len(obs), -1), rewards, ended)

        self.call = compiler.compile(steps, (self.state, *example), donate_argnums=0)

    def reset(self):
        self.state = to_device(as_state(self.start), self.compiler)

    def __call__(self, actions, draws):
        self.state, out = self.call(self.state, actions, draws)
        return out


env_step = EnvStep


def as_state(arrays):
    """Convert games from :meth:`.vector_env.SnakeVectorEnv.get_state` to a :class:`.jax_env.State` (i32)."""
    return State(**{k: v if v.dtype == np.float32 else v.astype(np.int32) for k, v in arrays.items()})


def as_arrays(state):
    """Convert a :class:`.jax_env.State` to the format of :meth:`.vector_env.SnakeVectorEnv.get_state`."""
    return {k: np.array(v, np.float32 if v.dtype == np.float32 else np.intp) for k, v in state._asdict().items()}


def sample(config, example, *, options, compiler):
    """Return stored rows as a batch on the device, row 0 the oldest.

    i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]. A compiled program copies the batch to the device once, as
    an update does with its arguments.
    """
    replay_buffer = Remember(config, example, options=options, compiler=compiler).replay_buffer
    batch_of = assemble(config, example, options=options, compiler=compiler)
    batch = batch_of(replay_buffer.sample(np.asarray(example[0])))
    copy = compiler.compile(
        functools.partial(jax.tree.map, jnp.copy), (batch,), out_shardings=SingleDeviceSharding(device_of(compiler))
    )
    return lambda rows: jax.block_until_ready(copy(batch_of(replay_buffer.sample(rows))))
