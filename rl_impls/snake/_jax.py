"""The DQN on JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import SingleDeviceSharding

from ..common.jax_learner import Learner, Net, device_of, put
from ..common.op import Op
from ..params import layers
from ._numpy import Remember, assemble
from .jax_env import State, step
from .knobs import check_supported
from .spec import geometry_of, has_target_net

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


def q_values(params, obs, dtype=jnp.float32):
    """Value of each move, computed in ``dtype``.  f32[B, O] -> f32[B, A]"""
    h = obs.astype(dtype)
    last = layers(params) - 1
    for k in range(last + 1):
        h = h @ params[f"w{k}"].astype(dtype) + params[f"b{k}"].astype(dtype)
        h = h if k == last else jax.nn.relu(h)
    return h.astype(obs.dtype) if dtype == jnp.bfloat16 else h


def forward(spec, example, *, knobs, target):
    """Q-values of a batch of boards.  f32[N, O] -> f32[N, A]"""
    check_supported("quantised", knobs, target)
    return Net(functools.partial(q_values, dtype=DTYPES[knobs.precision]), spec["params"], example, target)


def choose_moves(params, obs, explore, random_actions, dtype):
    """The greedy move, or the drawn one where ``explore``.  -> i32[N]"""
    return jnp.where(explore, random_actions, q_values(params, obs, dtype).argmax(axis=1).astype(jnp.int32))


def act(spec, example, *, knobs, target):
    """The greedy move, or the drawn one where ``explore``.  f32[N, O], bool[N], i32[N] -> i32[N]"""
    check_supported("quantised", knobs, target)
    net = Net(functools.partial(choose_moves, dtype=DTYPES[knobs.precision]), spec["params"], example, target)
    return lambda obs, explore, random_actions: np.asarray(net(obs, explore, random_actions))


def env_step(spec, example, *, knobs, target):
    """T steps of N environments.  i32[T, N], i32[T, N, 3] -> f32[N, O], f32[T, N], bool[T, N]"""
    return EnvStep(spec, example, target)


class EnvStep(Op):
    """T steps of N environments from the same start, in one program."""

    def __init__(self, spec, example, target):
        self.target, self.start, geometry = target, spec["env_state"], geometry_of(spec)
        self.reset()

        def steps(state, actions, draws):
            def one(carry, drawn):
                state, obs, reward, terminated, truncated, _ = step(geometry, carry[0], *drawn)
                return (state, obs), (reward, terminated | truncated)

            obs = jnp.zeros((actions.shape[1], geometry.dim, geometry.dim))
            (state, obs), (rewards, ended) = jax.lax.scan(one, (state, obs), (actions, draws))
            return state, (obs.reshape(len(obs), -1), rewards, ended)

        self.call = target.lower(steps, (self.state, *example), donate_argnums=0)

    def reset(self):
        """Put the environments back to the start."""
        self.state = put(as_state(self.start), self.target)

    def __call__(self, actions, draws):
        """Step T times; return the last boards, all rewards and where episodes ended."""
        self.state, out = self.call(self.state, actions, draws)
        return out


def as_state(arrays):
    """Return the state of the vectorised environments as JAX's, which counts in 32 bits."""
    return State(**{k: v if v.dtype == np.float32 else v.astype(np.int32) for k, v in arrays.items()})


def as_arrays(state):
    """Return JAX's state as that of the vectorised environments."""
    return {k: np.array(v, np.float32 if v.dtype == np.float32 else np.intp) for k, v in state._asdict().items()}


def make_update(spec, knobs):
    """Return ``update(params, moments, target_params, *batch) -> params, moments, loss`` and the optimiser.

    No flat vector of all weights: gathering the gradients into it was at times slower than all the rest together.
    """
    dtype, has_target = DTYPES[knobs.precision], has_target_net(spec)
    optimizer = optax.chain(optax.clip_by_global_norm(spec["gradient_norm"]), optax.adam(spec["learning_rate"]))

    def loss(params, target_params, obs, actions, rewards, next_obs, terminated):
        bootstrap = target_params if has_target else params
        td_target = rewards + spec["gamma"] * (1 - terminated) * q_values(bootstrap, next_obs, dtype).max(axis=1)
        q = q_values(params, obs, dtype)
        taken = jnp.sum(jax.nn.one_hot(actions, q.shape[1], dtype=q.dtype) * q, axis=1)
        return optax.huber_loss(taken, jax.lax.stop_gradient(td_target)).mean()

    def update(params, moments, target_params, *batch):
        value, gradient = jax.value_and_grad(loss)(params, target_params, *batch)
        updates, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(params, updates), moments, value

    return update, optimizer


class Actor:
    """Plays by the weights of a :class:`TrainStep`, or by its ``own`` copy of them; from and to NumPy."""

    def __init__(self, train, call, own):
        self.train, self.call = train, call
        self.weights = None
        self.own = own

    def refresh(self):
        """Copy the online weights; donated arrays do not outlive the next update."""
        self.weights = jax.tree.map(jnp.copy, self.train.weights)

    def __call__(self, *args):
        """Return a move for each board.  f32[N, O], bool[N], i32[N] -> i32[N]"""
        return np.asarray(self.call(self.weights if self.own else self.train.weights, *args))


class TrainStep(Learner):
    """One update of the online net; weights and moments are donated from step to step."""

    def __init__(self, spec, example, knobs, target):
        update, optimizer = make_update(spec, knobs)
        super().__init__(spec, optimizer, target)
        self.knobs = knobs
        self.update = target.lower(
            update, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1)
        )

    def actor(self, obs, own=False):
        """Return an actor that plays by the online weights, whatever they become; or by its ``own`` copy of them."""
        check_supported("quantised", self.knobs, self.target)
        flags = np.zeros(len(obs), bool), np.zeros(len(obs), np.int32)
        moves = functools.partial(choose_moves, dtype=DTYPES[self.knobs.precision])
        return Actor(self, self.target.lower(moves, (self.weights, obs, *flags)), own)

    def __call__(self, *batch):
        """Update on one batch; return its loss."""
        self.weights, self.moments, value = self.update(self.weights, self.moments, self.target_weights, *batch)
        return value


def train_step(spec, example, *, knobs, target):
    """One Adam update of the Huber loss, the gradient's norm clipped; returns the loss before it."""
    check_supported("processes", knobs, target)
    return TrainStep(spec, example, knobs, target)


def sample(spec, example, *, knobs, target):
    """Take rows out of the memory as a batch.  i64[B] -> f32[B, O], i32[B], f32[B], f32[B, O], f32[B]

    The batch is copied to the device once, by a compiled program, as an update copies what it is called with.
    """
    memory, batch_of = Remember(spec, knobs).memory, assemble(spec, example, knobs=knobs, target=target)
    batch = batch_of(memory.columns(np.asarray(example[0])))
    copy = target.lower(
        functools.partial(jax.tree.map, jnp.copy), (batch,), out_shardings=SingleDeviceSharding(device_of(target))
    )
    return lambda rows: jax.block_until_ready(copy(batch_of(memory.columns(rows))))
