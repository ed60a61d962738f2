"""The reference of IQN (Dabney et al. 2018, arXiv 1806.06923), in equation order; as precise as its arrays.

Weights are dicts of arrays [N, ...], one slice for each of N agents; every function takes them with or without that
leading axis.

Axes: N agents, K worlds, B transitions, S numbers a state, Q quantiles, A = 4 actions, M numbers of noise, F numbers a
frame.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import numpy as np

from .memory import Fields, gather
from .memory import stack as stack_frames
from .per_agent import for_agents
from .spec import settings_of
from .vector_env import WORLDS

COSINES = 64
KAPPA = 1.0  # where the Huber loss turns from a square into a line
NOISY = "hidden", "heads"


def noise_size(params):
    """Return how many numbers of noise the noisy layers need, M: one for each of their inputs and outputs.

    Args:
        params: weights, see :data:`.spec.NETS`.
    """
    return sum(sum(params[f"w_{layer}"].shape[-2:]) for layer in NOISY)


def factors(noise):
    """Return the factors of factorised noise, ``sgn(x) sqrt(|x|)`` (Fortunato et al. 2018).  f[...] -> f[...]

    Args:
        noise: draws of a standard normal distribution, f[...].
    """
    return np.sign(noise) * np.sqrt(np.abs(noise))


def noisy(params, noise):
    """Return weights and biases of the noisy layers by name; in each ``w = mu + sigma eps`` (Fortunato et al. 2018).

    eps is the outer product of one factor for each input and one for each output; for a bias it is that of the output.

    Args:
        params: weights, see :data:`.spec.NETS`: ``w_*``, ``b_*`` are mu and ``sw_*``, ``sb_*`` sigma.
        noise: draws f[..., M]; None for none, then ``w = mu``.
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
    """Return the output of a layer, ``h w + b``.  f[..., B, I] -> f[..., B, O]

    Args:
        h: input f[..., B, I].
        w: weights f[..., I, O].
        b: biases f[..., O].
    """
    return h @ w + b[..., None, :]


def relu(h):
    """Return ``max(h, 0)``.

    Args:
        h: f[...].
    """
    return np.maximum(h, 0)


def quantiles(params, states, taus, noise=None):
    """Return Z_tau(s, a), the return at each quantile of each action.  f[..., B, S], f[..., B, Q] -> f[..., B, Q, A]

    ``phi(tau) = relu(sum_i cos(pi i tau) w_i + b)``, i = 1..64, multiplies the embedded state (Dabney et al. 2018). The
    heads are dueling, ``Z = V + A - mean_a A`` (Wang et al. 2016).

    Args:
        params: weights, see :data:`.spec.NETS`.
        states: f[..., B, S].
        taus: f[..., B, Q] from 0 to 1.
        noise: draws f[..., M] for the noisy layers; None for none.
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
    """Return the quantiles of the actions that were taken.  f[..., B, Q, A], i[..., B] -> f[..., B, Q]

    Args:
        z: quantiles f[..., B, Q, A].
        actions: i[..., B].
    """
    return np.take_along_axis(z, actions[..., None, None], axis=-1)[..., 0]


def huber(delta):
    """Return the Huber loss of each error, ``delta^2 / 2`` where |delta| <= 1, else ``|delta| - 1/2``.

    Args:
        delta: TD errors f[...].
    """
    size = np.abs(delta)
    return np.where(size <= KAPPA, delta**2 / 2, KAPPA * (size - KAPPA / 2))


def quantile_huber_loss(online, targets, taus):
    """Return ``mean_B sum_i mean_j |tau_i - 1{delta_ij < 0}| Huber(delta_ij)``, ``delta_ij = targets_j - online_i``.

    f[..., B, Q], f[..., B, Q'] -> f[...]: the quantile Huber loss with kappa = 1, summed over the online quantiles and
    averaged over those of the target (Dabney et al. 2018, Eq. 3 and Algorithm 1).

    Args:
        online: quantiles of the actions that were taken, f[..., B, Q].
        targets: their TD targets, f[..., B, Q'].
        taus: at which ``online`` was computed, f[..., B, Q].
    """
    delta = targets[..., None, :] - online[..., :, None]
    weight = np.abs(taus[..., :, None] - (delta < 0))
    return (weight * huber(delta)).mean(axis=-1).sum(axis=-1).mean(axis=-1)


def targets_of(params, target_params, returns, next_states, discounts, taus, noise):
    """Return the TD targets, ``R + discount Z'_tau'(s', a*)``, ``a* = argmax_a mean Z_tau''(s', a)``.  -> f[..., B, Q]

    The online net chooses the action and the target net says what it returns: double DQN (van Hasselt et al. 2016).

    Args:
        params: weights of the online nets, see :data:`.spec.NETS`.
        target_params: weights of the target nets.
        returns: R, discounted sums of rewards, f[..., B].
        next_states: s', f[..., B, S].
        discounts: of what follows s', f[..., B]; 0 where it is terminal.
        taus: f[..., 3, B, Q], of which the second chooses and the third gives the target.
        noise: f[..., 2, M], of the online net and of the target net.
    """
    greedy = quantiles(params, next_states, taus[..., 1, :, :], noise[..., 0, :]).mean(axis=-2).argmax(axis=-1)
    z = quantiles(target_params, next_states, taus[..., 2, :, :], noise[..., 1, :])
    return returns[..., None] + discounts[..., None] * take_action(z, greedy)


def loss(params, target_params, states, actions, returns, next_states, discounts, taus, noise):
    """Return the quantile Huber loss of a batch, for each agent.  -> f[...]

    Args:
        params: weights of the online nets, see :data:`.spec.NETS`.
        target_params: weights of the target nets.
        states: f[..., B, S].
        actions: i[..., B].
        returns: discounted sums of rewards, f[..., B].
        next_states: f[..., B, S].
        discounts: of what follows the next state, f[..., B].
        taus: f[..., 3, B, Q]: of the online net, of the choice of the next action, of the target net.
        noise: f[..., 2, M], of the online net and of the target net.
    """
    online = take_action(quantiles(params, states, taus[..., 0, :, :], noise[..., 0, :]), actions)
    targets = targets_of(params, target_params, returns, next_states, discounts, taus, noise)
    return quantile_huber_loss(online, targets, taus[..., 0, :, :])


def forward(spec, example, *, knobs, target):
    """Return all agents' quantiles.  states f[N, B, S], taus f[N, B, Q], noise f[N, M] -> f[N, B, Q, A]"""
    params = spec["params"]
    return lambda states, taus, noise: quantiles(params, states, taus, noise)


def act(spec, example, *, knobs, target):
    """Return greedy actions without noise, and drawn ones where ``explore``.  -> i32[N, K]

    states f32[N, K, S], taus f32[N, K, Q], explore bool[N, K], random_actions i32[N, K]
    """
    params = spec["params"]

    def call(states, taus, explore, random_actions):
        greedy = quantiles(params, states, taus).mean(axis=-2).argmax(axis=-1)
        return np.where(explore, random_actions, greedy).astype(np.int32)

    return call


def quantile_huber(spec, example, *, knobs, target):
    """Return the quantile Huber loss.  online f[B, Q], targets f[B, Q], taus f[B, Q] -> f"""
    return quantile_huber_loss


def observe(spec, example, *, knobs, target):
    """Return what all agents see.  -> f32[N, K, F]"""
    worlds = WORLDS[knobs.world](settings_of(spec), len(spec["world_state"]["grid"]))
    worlds.set_state(spec["world_state"])
    return worlds.observe


def stack_agent(recent, frame):
    """Return the states of one agent, world by world, as the source of this workload makes them.  -> f32[K, S]

    Args:
        recent: the frames before, f32[K, FRAMES - 1, F].
        frame: the present ones, f32[K, F].
    """
    return np.array([np.vstack((seen, now)).reshape(-1) for seen, now in zip(recent, frame)])


def stack(spec, example, *, knobs, target):
    """Return states, the present frame after those before.  f32[N, K, FRAMES - 1, F], f32[N, K, F] -> f32[N, K, S]"""

    def make(spec, example):
        return stack_frames if example[0].ndim == 4 else stack_agent

    return for_agents(make, spec, example, knobs, np.array)


def stored_fields(spec):
    """Return what the memory of an op holds, a :class:`.memory.Fields`.

    Args:
        spec: what the op is built from; ``stored`` is taken.
    """
    return Fields(**{name: spec["stored"][name] for name in Fields._fields})


def sample(spec, example, *, knobs, target):
    """Return the transitions that begin in these rows, see :func:`.memory.gather`.  i64[N, B] -> arrays [N, B, ...]"""

    def make(spec, example):
        fields, gamma = stored_fields(spec), spec["gamma"]
        if example[0].ndim == 2:
            return lambda rows: gather(fields, rows, gamma)
        return lambda rows: [column[0] for column in gather(fields, rows[None], gamma)]

    def join(columns):
        return tuple(map(np.array, zip(*columns, strict=True)))

    return for_agents(make, spec, example, knobs, join)


def draw(spec, example, *, knobs, target):
    """Return different rows of the replay memory.  -> i64[B]"""
    rng = np.random.default_rng(spec["seed"])
    return lambda: rng.choice(spec["capacity"], spec["batch"], replace=False)
