"""NumPy reference of IQN (Dabney et al. 2018, arXiv 1806.06923), in equation order and in its inputs' dtype.

Weights are dicts of arrays [N, ...], one slice per agent; every function accepts them with or without that axis.

Op builders take ``config``, the configuration of the op; ``example``, example arguments; ``options``, a
:class:`.options.Options`; and ``compiler``, a :class:`~rl_impls.compilers.Compiler`. Their docstrings describe the
arguments and the result of the op that they return.
"""

import numpy as np

from ..common.numpy_net import relu
from .memory import Fields, gather
from .memory import stack as stack_frames
from .one_by_one import for_agents
from .vector_env import ACTIONS, WORLDS, Settings

COSINES = 64  # features of a quantile fraction tau
QUANTILES = 12  # fractions per state: the paper's N, N' and K
KAPPA = 1.0  # threshold between the quadratic and the linear part of the Huber loss
NOISY = "hidden", "heads"  # layers with factorised Gaussian noise
SIGMA = 0.5  # initial sigma of a noisy layer, times 1 / sqrt(fan_in)


def layer_sizes(size, hidden):
    """Return the numbers of inputs and outputs of each layer, for states of `size` numbers; the heads are V and A."""
    return {
        "state": (size, hidden),
        "cos": (COSINES, hidden),
        "hidden": (hidden, hidden),
        "heads": (hidden, 1 + ACTIONS),
    }


def init_params(rng, num_agents, size, hidden):
    """Return weights of every agent, uniform in +-1/sqrt(fan_in).

    A layer has ``w_*`` f32[N, inputs, outputs] and ``b_*`` f32[N, outputs]; a noisy one also has ``sw_*`` and ``sb_*``
    of these shapes.
    """
    params = {}
    for layer, (rows, columns) in layer_sizes(size, hidden).items():
        bound = rows**-0.5
        params[f"w_{layer}"] = rng.uniform(-bound, bound, (num_agents, rows, columns)).astype(np.float32)
        params[f"b_{layer}"] = rng.uniform(-bound, bound, (num_agents, columns)).astype(np.float32)
        if layer in NOISY:
            params[f"sw_{layer}"] = np.full((num_agents, rows, columns), SIGMA * bound, np.float32)
            params[f"sb_{layer}"] = np.full((num_agents, columns), SIGMA * bound, np.float32)
    return params


def noise_size(params):
    """Return M, the total number of inputs and outputs of the noisy layers."""
    return sum(sum(params[f"w_{layer}"].shape[-2:]) for layer in NOISY)


def factors(noise):
    """Return the factors of factorised Gaussian noise, ``sgn(x) sqrt(|x|)`` (Fortunato et al. 2018)."""
    return np.sign(noise) * np.sqrt(np.abs(noise))


def noisy(params, noise):
    """Return weight and bias of each noisy layer by name, ``w = mu + sigma eps`` (Fortunato et al. 2018).

    eps is the outer product of input and output factors; a bias uses the output factors.

    Of the weights, ``w_*``, ``b_*`` are mu and ``sw_*``, ``sb_*`` sigma. `noise` are standard normal samples f[..., M];
    None gives ``w = mu``.
    """
    layers, start = {}, 0
    for layer in NOISY:
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        if noise is not None:
            rows, columns = w.shape[-2:]
            eps = factors(noise[..., start : start + rows + columns])
            start += rows + columns
            eps_in, eps_out = eps[..., :rows], eps[..., rows:]
            w = w + params[f"sw_{layer}"] * eps_in[..., :, None] * eps_out[..., None, :]
            b = b + params[f"sb_{layer}"] * eps_out
        layers[layer] = w, b
    return layers


def linear(h, w, b):
    """Fully connected layer, ``h w + b``: f[..., B, I], f[..., I, O], f[..., O] -> f[..., B, O]."""
    return h @ w + b[..., None, :]


def quantiles(params, states, taus, noise=None):
    """Return Z_tau(s, a), the return at each quantile of each action: f[..., B, S], f[..., B, Q] -> f[..., B, Q, A].

    ``phi(tau) = relu(sum_i cos(pi i tau) w_i + b)`` multiplies the embedded state (Dabney et al. 2018, Eq. 4, where i
    is 0..63; here it is 1..64). The heads are dueling, ``Z = V + A - mean_a A`` (Wang et al. 2016).

    `noise` are standard normal samples f[..., M] for the noisy layers, or None.
    """
    layers = noisy(params, noise)
    embedded = relu(linear(states, params["w_state"], params["b_state"]))
    cosines = np.cos(taus[..., None] * (np.pi * np.arange(1, COSINES + 1)).astype(taus.dtype))
    rows = *taus.shape[:-2], taus.shape[-2] * taus.shape[-1]
    phi = relu(linear(cosines.reshape(*rows, COSINES), params["w_cos"], params["b_cos"]))
    h = phi.reshape(*taus.shape, -1) * embedded[..., :, None, :]
    h = relu(linear(h.reshape(*rows, -1), *layers["hidden"]))
    heads = linear(h, *layers["heads"]).reshape(*taus.shape, -1)
    value, advantage = heads[..., :1], heads[..., 1:]
    return value + advantage - advantage.mean(axis=-1, keepdims=True)


def take_action(z, actions):
    """Select the quantiles of the chosen actions: f[..., B, Q, A], i[..., B] -> f[..., B, Q]."""
    return np.take_along_axis(z, actions[..., None, None], axis=-1)[..., 0]


def huber(delta):
    """Huber loss with kappa = 1: ``delta^2 / 2`` where |delta| <= 1, else ``|delta| - 1/2``."""
    size = np.abs(delta)
    return np.where(size <= KAPPA, delta**2 / 2, KAPPA * (size - KAPPA / 2))


def quantile_huber_loss(online, targets, taus, reduction="sum"):
    """Return ``mean_B sum_i mean_j |tau_i - 1{delta_ij < 0}| Huber(delta_ij)``, ``delta_ij = targets_j - online_i``.

    Quantile Huber loss with kappa = 1, summed over online quantiles and averaged over target quantiles (Dabney et al.
    2018, Eq. 3 and Algorithm 1).

    `online` are the quantiles f[..., B, Q] of the actions taken, at the fractions `taus` f[..., B, Q]; `targets` are
    TD targets f[..., B, Q']. `reduction` is the ``sum`` over online quantiles, or their ``mean`` as in sorrel, which
    divides loss and gradient by Q, so that ``max_grad_norm`` clips only gradients that are Q times as large.  -> f[...]
    """
    delta = targets[..., None, :] - online[..., :, None]
    weight = np.abs(taus[..., :, None] - (delta < 0))
    losses = (weight * huber(delta)).mean(axis=-1)
    return getattr(losses, reduction)(axis=-1).mean(axis=-1)


def targets_of(params, target_params, returns, next_states, discounts, taus, noise):
    """Return the TD targets, ``R + discount Z'_tau'(s', a*)``, ``a* = argmax_a mean Z_tau''(s', a)``, f[..., B, Q].

    The online net chooses the action and the target net evaluates it: double DQN (van Hasselt et al. 2016). Of `taus`,
    index 1 chooses the action (tau'') and index 2 gives the target (tau'); other arguments as in :func:`loss`.
    """
    greedy = quantiles(params, next_states, taus[..., 1, :, :], noise[..., 0, :]).mean(axis=-2).argmax(axis=-1)
    z = quantiles(target_params, next_states, taus[..., 2, :, :], noise[..., 1, :])
    return returns[..., None] + discounts[..., None] * take_action(z, greedy)


def loss(params, target_params, states, actions, returns, next_states, discounts, taus, noise):
    """Return each agent's quantile Huber loss of a batch, f[...].

    states f[..., B, S], actions i[..., B], n-step returns f[..., B], next_states f[..., B, S], discounts f[..., B] of
    the next states' values, taus f[..., 3, B, Q] for the online net, the choice of the next action and the target net,
    noise f[..., 2, M] for the online net and the target net
    """
    online = take_action(quantiles(params, states, taus[..., 0, :, :], noise[..., 0, :]), actions)
    targets = targets_of(params, target_params, returns, next_states, discounts, taus, noise)
    return quantile_huber_loss(online, targets, taus[..., 0, :, :])


def forward(config, example, *, options, compiler):
    """Build ``forward``: states f32[N, B, S], taus f32[N, B, Q], noise f32[N, M] -> quantiles f32[N, B, Q, A]."""
    params = config["params"]
    return lambda states, taus, noise: quantiles(params, states, taus, noise)


def act(config, example, *, options, compiler):
    """Build ``act``: greedy actions without noise, or random ones where ``explore``, i32[N, K].

    Arguments: states f32[N, K, S], taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K].
    """
    params = config["params"]

    def call(states, taus, explore, random_actions):
        greedy = quantiles(params, states, taus).mean(axis=-2).argmax(axis=-1)
        return np.where(explore, random_actions, greedy).astype(np.int32)

    return call


def quantile_huber(config, example, *, options, compiler):
    """Build ``quantile_huber``: online f[B, Q], targets f[B, Q], taus f[B, Q] -> f."""
    return quantile_huber_loss


def observe(config, example, *, options, compiler):
    """Build ``observe``: what all agents see, f32[N, K, F]."""
    worlds = WORLDS[options.world](Settings(**config["settings"]), len(config["world_state"]["grid"]))
    worlds.set_state(config["world_state"])
    return worlds.observe


def stack_agent(recent, frame):
    """Return the states of one agent, built world by world as sorrel does.

    recent f32[K, FRAMES - 1, F], frame f32[K, F] -> f32[K, S]
    """
    return np.array([np.vstack((seen, now)).reshape(-1) for seen, now in zip(recent, frame)])


def stack(config, example, *, options, compiler):
    """Build ``stack``: recent f32[N, K, FRAMES - 1, F], frame f32[N, K, F] -> states f32[N, K, S]."""

    def make(config, example):
        return stack_frames if example[0].ndim == 4 else stack_agent

    return for_agents(make, config, example, options, np.array)


def stored_fields(config):
    """Return the replay memory in ``config["stored"]`` as :class:`.memory.Fields`."""
    return Fields(**{name: config["stored"][name] for name in Fields._fields})


def sample(config, example, *, options, compiler):
    """Build ``sample``: rows i64[N, B] -> the transitions that start there, see :func:`.memory.gather`."""

    def make(config, example):
        fields, gamma = stored_fields(config), config["gamma"]
        if example[0].ndim == 2:
            return lambda rows: gather(fields, rows, gamma)
        return lambda rows: [column[0] for column in gather(fields, rows[None], gamma)]

    def join(columns):
        return tuple(map(np.array, zip(*columns, strict=True)))

    return for_agents(make, config, example, options, join)


def draw(config, example, *, options, compiler):
    """Build ``draw``: i64[B], distinct rows of the replay memory."""
    rng = np.random.default_rng(config["seed"])
    return lambda: rng.choice(config["capacity"], config["batch_size"], replace=False)
