"""IQN (Dabney et al. 2018) on JAX: written for one agent, mapped over agents by ``vmap`` where the knob says so.

Axes: N agents, K worlds, B transitions, S numbers a state, Q quantiles, A = 4 actions, M numbers of noise, F numbers a
frame.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import optax

from ..common.jax_learner import Learner, Net, put
from . import jax_env
from ._numpy import COSINES, NOISY, stored_fields
from .memory import FRAMES, gather
from .memory import stack as stack_frames
from .per_agent import Learners, for_agents
from .spec import KINDS, settings_of

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
stack_agents = jax.jit(jnp.stack)  # one program: by itself it is a call for every array, as long as a small net's


def noisy(params, noise):
    """Return weights and biases of the noisy layers by name; in each ``w = mu + sigma eps`` (Fortunato et al. 2018).

    Args:
        params: weights of one agent, see :data:`.spec.NETS`: ``w_*``, ``b_*`` are mu and ``sw_*``, ``sb_*`` sigma.
        noise: draws f[M]; None for none, then ``w = mu``.
    """
    layers, start = {}, 0
    for layer in NOISY:
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        if noise is not None:
            rows, columns = w.shape
            drawn = noise[start : start + rows + columns]
            eps = jnp.sign(drawn) * jnp.sqrt(jnp.abs(drawn))
            start += rows + columns
            w = w + params[f"sw_{layer}"] * jnp.outer(eps[:rows], eps[rows:])
            b = b + params[f"sb_{layer}"] * eps[rows:]
        layers[layer] = w, b
    return layers


def cosines_direct(taus):
    """Return ``cos(pi i tau)``, i = 1..64.  f[R] -> f[64, R]

    Args:
        taus: f[R].
    """
    return jnp.cos(jnp.pi * jnp.arange(1, COSINES + 1, dtype=taus.dtype)[:, None] * taus)


def cosines_by_doubling(taus):
    """Return the same from one cosine and one sine of each tau: ``e^{i (n + k) x} = e^{i n x} e^{i k x}`` for k = 1..n.

    Args:
        taus: f[R].
    """
    cos, sin = jnp.cos(jnp.pi * taus)[None], jnp.sin(jnp.pi * taus)[None]
    for _ in range(COSINES.bit_length() - 1):
        # without the barrier each row computes all it is made of again
        cos, sin = jax.lax.optimization_barrier((cos, sin))
        doubled = cos * cos[-1] - sin * sin[-1], sin * cos[-1] + cos * sin[-1]
        cos, sin = (jnp.concatenate(pair) for pair in zip((cos, sin), doubled))
    return cos


COSINES_OF = {"direct": cosines_direct, "doubling": cosines_by_doubling}


def onehot_matmul(states, w):
    """Return ``states @ w``, states being one-hot frames, or zeros.  f[B, FRAMES KINDS C], f[..., H] -> f[B, H]

    It is the sum of one row of w for each cell, that of the cell's kind. One state needs a sixth of w; many share all
    of it, and are multiplied.

    Args:
        states: f[B, FRAMES KINDS C], C cells a frame.
        w: f[FRAMES KINDS C, H].
    """
    if len(states) > 1:
        return states @ w
    frames = states.reshape(FRAMES, KINDS, -1)
    kind = (frames * jnp.arange(KINDS, dtype=frames.dtype)[:, None]).sum(1).astype(jnp.int32)
    by_kind = w.reshape(*frames.shape, -1)
    rows = jnp.take_along_axis(by_kind, kind[:, None, :, None], axis=1, mode="promise_in_bounds")
    return frames.sum(1).reshape(1, -1) @ rows.reshape(-1, w.shape[1])


def quantiles(params, states, taus, noise=None, *, cosines=cosines_direct, dtype=jnp.float32, first=jnp.matmul):
    """Return Z_tau(s, a), the return at each quantile of each action.  f[B, S], f[B, Q] -> f[B, Q, A]

    The equations are those of :func:`._numpy.quantiles`.

    Args:
        params: weights of one agent, see :data:`.spec.NETS`.
        states: f[B, S].
        taus: f[B, Q] from 0 to 1.
        noise: draws f[M] for the noisy layers; None for none.
        cosines: :func:`cosines_direct` or :func:`cosines_by_doubling`.
        dtype: in which it is computed, ``jnp.float32`` or ``jnp.bfloat16``.
        first: ``first(states, w)``, their product in the first layer.
    """
    batch, count = taus.shape
    layers = noisy(params, noise)

    def cast(x):
        return x.astype(dtype) if dtype == jnp.bfloat16 else x  # float64 stays what it is

    def linear(h, w, b):
        return h @ cast(w) + cast(b)

    embedded = jax.nn.relu(first(cast(states), cast(params["w_state"])) + cast(params["b_state"]))
    phi = jax.nn.relu(linear(cast(cosines(taus.reshape(-1))).T, params["w_cos"], params["b_cos"]))
    h = (phi.reshape(batch, count, -1) * embedded[:, None]).reshape(batch * count, -1)
    h = jax.nn.relu(linear(h, *layers["hidden"]))
    heads = linear(h, *layers["heads"]).reshape(batch, count, -1).astype(taus.dtype)
    value, advantage = heads[..., :1], heads[..., 1:]
    return value + advantage - advantage.mean(axis=-1, keepdims=True)


def net_of(knobs, first=jnp.matmul):
    """Return :func:`quantiles` as the knobs have it, ``net(params, states, taus, noise)``.

    Args:
        knobs: ``cosines`` and ``precision`` are read.
        first: ``first(states, w)``, their product in the first layer.
    """
    return functools.partial(quantiles, cosines=COSINES_OF[knobs.cosines], dtype=DTYPES[knobs.precision], first=first)


def take_action(z, actions):
    """Return the quantiles of some actions.  f[B, Q, A], i[B] -> f[B, Q]

    Args:
        z: quantiles f[B, Q, A].
        actions: i[B].
    """
    return jnp.sum(z * jax.nn.one_hot(actions, z.shape[-1], dtype=z.dtype)[:, None], axis=-1)


def quantile_huber_loss(online, targets, taus):
    """Return ``mean_B sum_i mean_j |tau_i - 1{delta_ij < 0}| Huber(delta_ij)``; :func:`._numpy.quantile_huber_loss`.

    f[B, Q], f[B, Q'] -> f (Dabney et al. 2018, Eq. 3 and Algorithm 1)

    Args:
        online: quantiles of the actions that were taken, f[B, Q].
        targets: their TD targets, f[B, Q'].
        taus: at which ``online`` was computed, f[B, Q].
    """
    delta = targets[:, None, :] - online[:, :, None]
    weight = jnp.abs(taus[:, :, None] - (delta < 0))
    return (weight * optax.huber_loss(delta)).mean(axis=2).sum(axis=1).mean()


def over_agents(function, params):
    """Return a function of one agent's weights and the rest, mapped over N agents where the weights are f32[N, ...].

    Args:
        function: ``function(params, *rest)`` of one agent.
        params: weights of one, or of N.
    """
    return jax.vmap(function) if params["w_state"].ndim == 3 else function


def nets_of(function, spec, example, knobs, target):
    """Return the compiled function of arrays [N, ...], with the weights in it: all agents at once, or one by one.

    Args:
        function: ``function(params, *rest)`` of one agent.
        spec: what the agents are built from.
        example: the rest, arrays [N, ...].
        knobs: of the op.
        target: device and lowering of the backend.
    """

    def make(spec, example):
        return Net(over_agents(function, spec["params"]), spec["params"], example, target)

    return for_agents(make, spec, example, knobs, stack_agents)


def forward(spec, example, *, knobs, target):
    """Return all agents' quantiles.  states f32[N, B, S], taus f32[N, B, Q], noise f32[N, M] -> f32[N, B, Q, A]"""
    return nets_of(net_of(knobs), spec, example, knobs, target)


def choose_actions(net, params, states, taus, explore, random_actions):
    """Return greedy actions without noise, and drawn ones where ``explore``.  -> i32[K]

    Args:
        net: ``net(params, states, taus)``, see :func:`net_of`.
        params: weights of one agent, see :data:`.spec.NETS`.
        states: f32[K, S].
        taus: f32[K, Q]; the mean over them is the value of an action.
        explore: bool[K], where the drawn action is taken.
        random_actions: i32[K], the drawn actions.
    """
    greedy = net(params, states, taus).mean(axis=1).argmax(axis=1)
    return jnp.where(explore, random_actions, greedy.astype(jnp.int32))


def act(spec, example, *, knobs, target):
    """Return greedy actions without noise, and drawn ones where ``explore``.  -> i32[N, K]

    states f32[N, K, S], taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K]
    """
    return nets_of(functools.partial(choose_actions, net_of(knobs)), spec, example, knobs, target)


def quantile_huber(spec, example, *, knobs, target):
    """Return the quantile Huber loss.  online f32[B, Q], targets f32[B, Q], taus f32[B, Q] -> f32"""
    return target.lower(quantile_huber_loss, example)


def make_loss(knobs):
    """Return ``loss(params, target_params, *batch) -> f32`` of one agent; its equations are in :func:`._numpy.loss`.

    The batch is states f32[B, S], actions i32[B], returns f32[B], next_states f32[B, S], discounts f32[B], taus
    f32[3, B, Q], noise f32[2, M].

    Args:
        knobs: ``cosines`` and ``precision`` are read.
    """
    net = net_of(knobs)

    def loss(params, target_params, states, actions, returns, next_states, discounts, taus, noise):
        greedy = net(params, next_states, taus[1], noise[0]).mean(axis=1).argmax(axis=1)
        next_z = take_action(net(target_params, next_states, taus[2], noise[1]), greedy)
        targets = jax.lax.stop_gradient(returns[:, None] + discounts[:, None] * next_z)
        online = take_action(net(params, states, taus[0], noise[0]), actions)
        return quantile_huber_loss(online, targets, taus[0])

    return loss


def make_update(spec, knobs):
    """Return ``update(params, moments, target_params, *batch) -> params, moments, target_params, losses``, and Adam.

    The gradient's norm is clipped for each agent, then Adam (Kingma and Ba 2015) moves the online net, then the target
    net moves towards it: ``target += soft_update (online - target)``.

    Args:
        spec: ``params``, whose shapes say whether it is of one agent or of N, ``learning_rate``, ``gradient_norm`` and
            ``soft_update`` are taken.
        knobs: ``cosines`` and ``precision`` are read.
    """
    clip, adam = optax.clip_by_global_norm(spec["gradient_norm"]), optax.adam(spec["learning_rate"])
    loss = make_loss(knobs)

    def gradient_of(params, target_params, *batch):
        value, gradient = jax.value_and_grad(loss)(params, target_params, *batch)
        return value, clip.update(gradient, clip.init(params))[0]

    gradients_of = over_agents(gradient_of, spec["params"])

    def update(params, moments, target_params, *batch):
        value, gradient = gradients_of(params, target_params, *batch)
        updates, moments = adam.update(gradient, moments)
        params = optax.apply_updates(params, updates)
        target_params = optax.incremental_update(params, target_params, spec["soft_update"])
        return params, moments, target_params, value

    return update, adam


class TrainStep(Learner):
    """One update of one agent, or of all N at once; all that an update changes is donated from step to step.

    Args:
        spec: weights of both nets and what :func:`make_update` takes.
        example: a batch, see :func:`make_loss`.
        knobs: ``cosines`` and ``precision`` are read.
        target: device and lowering of the backend.
    """

    def __init__(self, spec, example, knobs, target):
        update, optimizer = make_update(spec, knobs)
        super().__init__(spec, optimizer, target)
        self.knobs = knobs
        self.update = target.lower(
            update, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1, 2)
        )

    def actor(self, example):
        """Return ``actor(states, taus, explore, random_actions)``, which acts by the online weights of each moment.

        Args:
            example: arguments of a call, states, taus, explore and random_actions.
        """
        function = over_agents(functools.partial(choose_actions, net_of(self.knobs)), self.weights)
        call = self.target.lower(function, (self.weights, *example))
        return lambda *args: call(self.weights, *args)

    def __call__(self, *batch):
        """Make an update on one batch; return the loss before it, f32[], or that of each agent, f32[N].

        Args:
            batch: see :func:`make_loss`.
        """
        self.weights, self.moments, self.target_weights, value = self.update(
            self.weights, self.moments, self.target_weights, *batch
        )
        return value


def gradient(spec, example, *, knobs, target):
    """Return the loss of one agent, and its gradient by name; what it takes is in :func:`make_loss`."""
    nets = put((dict(spec["params"]), dict(spec["target"])), target)
    return functools.partial(target.lower(jax.value_and_grad(make_loss(knobs)), (*nets, *example)), *nets)


def draw(spec, example, *, knobs, target):
    """Return different rows of the replay memory.  -> i32[B]"""

    def split_and_draw(key):
        key, drawn = jax.random.split(key)
        return key, jax.random.choice(drawn, spec["capacity"], (spec["batch"],), replace=False)

    key = jax.random.key(spec["seed"])
    lowered = target.lower(split_and_draw, (key,))

    def rows():
        nonlocal key
        key, found = lowered(key)
        return found

    return rows


def train_step(spec, example, *, knobs, target):
    """Make one Adam update of every agent (Kingma and Ba 2015).  -> f32[N], the losses before it

    states f32[N, B, S], actions i32[N, B], returns f32[N, B], next_states f32[N, B, S], discounts f32[N, B], taus
    f32[N, 3, B, Q], noise f32[N, 2, M]
    """
    return for_agents(lambda *of: TrainStep(*of, knobs, target), spec, example, knobs, stack_agents, Learners)


def observe(spec, example, *, knobs, target):
    """Return what all agents see.  -> f32[N, K, F]"""
    world = put(jax_env.World(**spec["world_state"]), target)
    return functools.partial(target.lower(functools.partial(jax_env.observe, settings_of(spec)), (world,)), world)


def stack(spec, example, *, knobs, target):
    """Return states, the present frame after those before.  f32[N, K, FRAMES - 1, F], f32[N, K, F] -> f32[N, K, S]"""
    return target.lower(functools.partial(stack_frames, xp=jnp), example)


def sample(spec, example, *, knobs, target):
    """Return the transitions that begin in these rows, see :func:`.memory.gather`.  i64[N, B] -> arrays [N, B, ...]"""
    fields = put(stored_fields(spec), target)
    call = target.lower(functools.partial(gather, gamma=spec["gamma"], xp=jnp), (fields, *example))
    return functools.partial(call, fields)
