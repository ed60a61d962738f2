"""IQN (Dabney et al. 2018) in JAX, written for one agent and mapped over agents by ``vmap`` if they are batched.

:mod:`._numpy` describes the arguments of the builders.
"""

import functools

import jax
import jax.numpy as jnp
import optax

from ..common.jax_learner import DTYPES, Learner, Net, to_device
from . import jax_env
from ._numpy import COSINES, NOISY, stored_fields
from .memory import FRAMES, gather
from .memory import stack as stack_frames
from .one_by_one import Learners, for_agents
from .vector_env import KINDS, Settings


def noisy(params, noise):
    """Return weight and bias of each noisy layer of one agent, from noise f[M] or None; see :func:`._numpy.noisy`."""
    layers, start = {}, 0
    for layer in NOISY:
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        if noise is not None:
            rows, columns = w.shape
            x = noise[start : start + rows + columns]
            eps = jnp.sign(x) * jnp.sqrt(jnp.abs(x))
            start += rows + columns
            w = w + params[f"sw_{layer}"] * jnp.outer(eps[:rows], eps[rows:])
            b = b + params[f"sb_{layer}"] * eps[rows:]
        layers[layer] = w, b
    return layers


def cosines_direct(taus):
    """Return ``cos(pi i tau)``, i = 1..64: f[R] -> f[64, R]."""
    return jnp.cos(jnp.pi * jnp.arange(1, COSINES + 1, dtype=taus.dtype)[:, None] * taus)


def quantiles(params, states, taus, noise=None, *, cosines=cosines_direct, dtype=jnp.float32, first=jnp.matmul):
    """Return Z_tau(s, a) of one agent, f[B, S], f[B, Q] -> f[B, Q, A]; equations in :func:`._numpy.quantiles`.

    `noise` is f[M] or None, `cosines` a function f[R] -> f[64, R], and `first` multiplies states and weights in the
    first layer. `dtype` is the compute dtype, ``jnp.float32`` or ``jnp.bfloat16``.
    """
    batch, count = taus.shape
    layers = noisy(params, noise)

    def cast(x):
        return x.astype(dtype) if dtype == jnp.bfloat16 else x  # float64 stays float64

    def linear(h, w, b):
        return h @ cast(w) + cast(b)

    embedded = jax.nn.relu(first(cast(states), cast(params["w_state"])) + cast(params["b_state"]))
    phi = jax.nn.relu(linear(cast(cosines(taus.reshape(-1))).T, params["w_cos"], params["b_cos"]))
    h = (phi.reshape(batch, count, -1) * embedded[:, None]).reshape(batch * count, -1)
    h = jax.nn.relu(linear(h, *layers["hidden"]))
    heads = linear(h, *layers["heads"]).reshape(batch, count, -1).astype(taus.dtype)
    value, advantage = heads[..., :1], heads[..., 1:]
    return value + advantage - advantage.mean(axis=-1, keepdims=True)


def take_action(z, actions):
    """Select the quantiles of `actions` by a one-hot product: f[B, Q, A], i[B] -> f[B, Q]."""
    return jnp.sum(z * jax.nn.one_hot(actions, z.shape[-1], dtype=z.dtype)[:, None], axis=-1)


def quantile_huber_loss(online, targets, taus, reduction="sum"):
    """Return one agent's loss, f[B, Q], f[B, Q'], f[B, Q] -> f; see :func:`._numpy.quantile_huber_loss`."""
    delta = targets[:, None, :] - online[:, :, None]
    weight = jnp.abs(taus[:, :, None] - (delta < 0))
    losses = (weight * optax.huber_loss(delta)).mean(axis=2)
    return getattr(losses, reduction)(axis=1).mean()


def choose_actions(net, params, states, taus, explore, random_actions):
    """Return one agent's epsilon-greedy actions, i32[K]: greedy without noise, random where `explore`.

    `net(params, states, taus)` is one of :func:`net_of`; shapes as in :func:`._torch.choose_actions`.
    """
    greedy = net(params, states, taus).mean(axis=1).argmax(axis=1)
    return jnp.where(explore, random_actions, greedy.astype(jnp.int32))


def make_loss(options, reduction="sum"):
    """Return ``loss(params, target_params, *batch) -> f32`` of one agent; equations in :func:`._numpy.loss`.

    The batch is states f32[B, S], actions i32[B], returns f32[B], next_states f32[B, S], discounts f32[B], taus
    f32[3, B, Q], noise f32[2, M].
    """
    net = net_of(options)

    def loss(params, target_params, states, actions, returns, next_states, discounts, taus, noise):
        greedy = net(params, next_states, taus[1], noise[0]).mean(axis=1).argmax(axis=1)
        next_z = take_action(net(target_params, next_states, taus[2], noise[1]), greedy)
        targets = jax.lax.stop_gradient(returns[:, None] + discounts[:, None] * next_z)
        online = take_action(net(params, states, taus[0], noise[0]), actions)
        return quantile_huber_loss(online, targets, taus[0], reduction)

    return loss


def make_update(config, options):
    """Return ``update(params, moments, target_params, *batch) -> params, moments, target_params, losses``, and Adam.

    Each agent's gradient is clipped by norm, Adam (Kingma and Ba 2015) updates the online net, and the target net moves
    towards it: ``target += soft_update (online - target)``. The shapes of ``config["params"]`` show whether there is
    one agent or N.
    """
    clip, adam = optax.clip_by_global_norm(config["max_grad_norm"]), optax.adam(config["learning_rate"])
    loss = make_loss(options, config.get("loss_reduction", "sum"))

    def gradient_of(params, target_params, *batch):
        value, gradient = jax.value_and_grad(loss)(params, target_params, *batch)
        return value, clip.update(gradient, clip.init(params))[0]

    gradients_of = over_agents(gradient_of, config["params"])

    def update(params, moments, target_params, *batch):
        value, gradient = gradients_of(params, target_params, *batch)
        updates, moments = adam.update(gradient, moments)
        params = optax.apply_updates(params, updates)
        target_params = optax.incremental_update(params, target_params, config["soft_update"])
        return params, moments, target_params, value

    return update, adam


def cosines_by_doubling(taus):
    """Return what :func:`cosines_direct` does, from one sine and cosine per tau in place of 64 cosines.

    ``e^{i (n + k) x} = e^{i n x} e^{i k x}`` for k = 1..n.
    """
    cos, sin = jnp.cos(jnp.pi * taus)[None], jnp.sin(jnp.pi * taus)[None]
    for _ in range(COSINES.bit_length() - 1):
        # without the barrier, XLA recomputes all earlier terms for every row
        cos, sin = jax.lax.optimization_barrier((cos, sin))
        doubled = cos * cos[-1] - sin * sin[-1], sin * cos[-1] + cos * sin[-1]
        cos, sin = (jnp.concatenate(pair) for pair in zip((cos, sin), doubled))
    return cos


def onehot_matmul(states, w):
    """Return ``states @ w`` for one-hot (or zero) frames: f[B, FRAMES KINDS C], f[FRAMES KINDS C, H] -> f[B, H].

    The product is the sum over cells of the row of w for the cell's kind. A single state reads only a sixth of w, so it
    is looked up; larger batches touch all of w and use a matrix product.
    """
    if len(states) > 1:
        return states @ w
    frames = states.reshape(FRAMES, KINDS, -1)
    kind = (frames * jnp.arange(KINDS, dtype=frames.dtype)[:, None]).sum(1).astype(jnp.int32)
    by_kind = w.reshape(*frames.shape, -1)
    rows = jnp.take_along_axis(by_kind, kind[:, None, :, None], axis=1, mode="promise_in_bounds")
    return frames.sum(1).reshape(1, -1) @ rows.reshape(-1, w.shape[1])


COSINES_OF = {"direct": cosines_direct, "doubling": cosines_by_doubling}


def net_of(options, first=jnp.matmul):
    """Return :func:`quantiles` with the ``cosines`` and ``precision`` options applied."""
    return functools.partial(
        quantiles, cosines=COSINES_OF[options.cosines], dtype=DTYPES[options.precision], first=first
    )


def over_agents(function, params):
    """Map ``function(params, *rest)`` over agents if the weights have an agent axis."""
    return jax.vmap(function) if params["w_state"].ndim == 3 else function


class TrainStep(Learner):
    """One update of one agent, or of all N at once; weights, moments and target weights are donated.

    `config` is that of :func:`._torch.train_step`, `example` a batch of :func:`make_loss`.
    """

    def __init__(self, config, example, options, compiler):
        update, optimizer = make_update(config, options)
        super().__init__(config, optimizer, compiler)
        self.options = options
        self.update = compiler.compile(
            update, (self.weights, self.moments, self.target_weights, *example), donate_argnums=(0, 1, 2)
        )

    def actor(self, example):
        """Return ``actor(states, taus, explore, random_actions)``, which acts by the latest online weights."""
        function = over_agents(functools.partial(choose_actions, net_of(self.options)), self.weights)
        call = self.compiler.compile(function, (self.weights, *example))
        return lambda *args: call(self.weights, *args)

    def __call__(self, *batch):
        """Update on one batch; return the loss of the old weights, f32[], or f32[N] for N agents."""
        self.weights, self.moments, self.target_weights, value = self.update(
            self.weights, self.moments, self.target_weights, *batch
        )
        return value


stack_agents = jax.jit(jnp.stack)  # unjitted, it dispatches a call per array, which takes as long as a small net


def nets_of(function, config, example, options, compiler):
    """Compile ``function(params, *rest)`` for all agents with the weights bound, batched or one by one."""

    def make(config, example):
        return Net(over_agents(function, config["params"]), config["params"], example, compiler)

    return for_agents(make, config, example, options, stack_agents)


def forward(config, example, *, options, compiler):
    """Build the compiled ``forward``, see :func:`._numpy.forward`."""
    return nets_of(net_of(options), config, example, options, compiler)


def act(config, example, *, options, compiler):
    """Build the compiled ``act``, see :func:`._numpy.act`."""
    return nets_of(functools.partial(choose_actions, net_of(options)), config, example, options, compiler)


def quantile_huber(config, example, *, options, compiler):
    """Build the compiled ``quantile_huber``, see :func:`quantile_huber_loss`."""
    return compiler.compile(quantile_huber_loss, example)


def gradient(config, example, *, options, compiler):
    """Build ``gradient``: a batch -> one agent's loss and gradient by name, see :func:`make_loss`."""
    nets = to_device((dict(config["params"]), dict(config["target"])), compiler)
    return functools.partial(compiler.compile(jax.value_and_grad(make_loss(options)), (*nets, *example)), *nets)


def train_step(config, example, *, options, compiler):
    """Build ``train_step``, one Adam update of every agent; shapes as in :func:`._torch.train_step`."""
    return for_agents(lambda *of: TrainStep(*of, options, compiler), config, example, options, stack_agents, Learners)


def draw(config, example, *, options, compiler):
    """Build ``draw``: distinct rows of the replay memory, i32[B]."""

    def split_and_draw(key):
        key, subkey = jax.random.split(key)
        return key, jax.random.choice(subkey, config["capacity"], (config["batch_size"],), replace=False)

    key = jax.random.key(config["seed"])
    compiled = compiler.compile(split_and_draw, (key,))

    def call():
        nonlocal key
        key, rows = compiled(key)
        return rows

    return call


def observe(config, example, *, options, compiler):
    """Build ``observe``: observations of all agents, f32[N, K, F]."""
    settings, world = Settings(**config["settings"]), to_device(jax_env.World(**config["world_state"]), compiler)
    return functools.partial(compiler.compile(functools.partial(jax_env.observe, settings), (world,)), world)


def stack(config, example, *, options, compiler):
    """Build ``stack``, see :func:`.memory.stack`."""
    return compiler.compile(functools.partial(stack_frames, xp=jnp), example)


def sample(config, example, *, options, compiler):
    """Build ``sample``: rows i64[N, B] -> a batch of transitions, arrays [N, B, ...]; see :func:`.memory.gather`."""
    fields = to_device(stored_fields(config), compiler)
    call = compiler.compile(functools.partial(gather, gamma=config["gamma"], xp=jnp), (fields, *example))
    return functools.partial(call, fields)
