"""The reference of IQN (Dabney et al. 2018, arXiv 1806.06923), in equation order; as precise as its arrays.

Weights are dicts of arrays [N, ...], one slice for each of N agents; every function takes them with or without that
leading axis.
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
    """Return how many numbers the noisy layers need: one for each of their inputs and outputs."""
    return sum(sum(params[f"w_{layer}"].shape[-2:]) for layer in NOISY)


def factors(noise):
    """``sgn(x) sqrt(|x|)`` of normal draws (Fortunato et al. 2018, factorised noise)."""
    return np.sign(noise) * np.sqrt(np.abs(noise))


def noisy(params, noise):
    """Return weights and biases of the noisy layers, ``mu + sigma eps``; without noise ``mu``.  f[..., M]"""
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
    """f[..., B, I], f[..., I, O], f[..., O] -> f[..., B, O]"""
    return h @ w + b[..., None, :]


def relu(h):
    """``max(h, 0)``."""
    return np.maximum(h, 0)


def quantiles(params, states, taus, noise=None):
    """Return of each action at each quantile; heads are dueling.  f[..., B, S], f[..., B, Q] -> f[..., B, Q, A]"""
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
    """Return the quantiles of the actions that were taken.  f[..., B, Q, A], i[..., B] -> f[..., B, Q]"""
    return np.take_along_axis(z, actions[..., None, None], axis=-1)[..., 0]


def huber(delta):
    """``delta^2 / 2`` where |delta| <= 1, else ``|delta| - 1/2``."""
    size = np.abs(delta)
    return np.where(size <= KAPPA, delta**2 / 2, KAPPA * (size - KAPPA / 2))


def quantile_huber_loss(online, targets, taus):
    """``mean_B sum_i mean_j |tau_i - 1{delta_ij < 0}| Huber(delta_ij)``.  f[..., B, Q], f[..., B, Q'] -> f[...]"""
    delta = targets[..., None, :] - online[..., :, None]
    weight = np.abs(taus[..., :, None] - (delta < 0))
    return (weight * huber(delta)).mean(axis=-1).sum(axis=-1).mean(axis=-1)


def targets_of(params, target_params, returns, next_states, discounts, taus, noise):
    """``R + discount Z'(s', tau')[argmax_a mean Z(s', tau'')]``: double DQN.  -> f[..., B, Q]"""
    greedy = quantiles(params, next_states, taus[..., 1, :, :], noise[..., 0, :]).mean(axis=-2).argmax(axis=-1)
    z = quantiles(target_params, next_states, taus[..., 2, :, :], noise[..., 1, :])
    return returns[..., None] + discounts[..., None] * take_action(z, greedy)


def loss(params, target_params, states, actions, returns, next_states, discounts, taus, noise):
    """Quantile Huber loss of a batch.  taus f[..., 3, B, Q]: online, choosing, target; noise f[..., 2, M] -> f[...]"""
    online = take_action(quantiles(params, states, taus[..., 0, :, :], noise[..., 0, :]), actions)
    targets = targets_of(params, target_params, returns, next_states, discounts, taus, noise)
    return quantile_huber_loss(online, targets, taus[..., 0, :, :])


def forward(spec, example, *, knobs, target):
    """Quantiles of every agent.  f[N, B, S], f[N, B, Q], f[N, M] -> f[N, B, Q, A]"""
    params = spec["params"]
    return lambda states, taus, noise: quantiles(params, states, taus, noise)


def act(spec, example, *, knobs, target):
    """Greedy action without noise, or the drawn one.  f[N, K, S], f[N, K, Q], bool[N, K], i32[N, K] -> i32[N, K]"""
    params = spec["params"]

    def call(states, taus, explore, random_actions):
        greedy = quantiles(params, states, taus).mean(axis=-2).argmax(axis=-1)
        return np.where(explore, random_actions, greedy).astype(np.int32)

    return call


def quantile_huber(spec, example, *, knobs, target):
    """Quantile Huber loss.  online f[B, Q], targets f[B, Q], taus f[B, Q] -> f"""
    return quantile_huber_loss


def observe(spec, example, *, knobs, target):
    """What all agents see.  -> f32[N, K, F]"""
    worlds = WORLDS[knobs.world](settings_of(spec), len(spec["world_state"]["grid"]))
    worlds.set_state(spec["world_state"])
    return worlds.observe


def stack_agent(recent, frame):
    """The state of one agent, as the source has it: stack the rows, then make one of them.  -> f32[K, S]"""
    return np.array([np.vstack((seen, now)).reshape(-1) for seen, now in zip(recent, frame)])


def stack(spec, example, *, knobs, target):
    """Put the present frame on those before it.  f32[N, K, FRAMES - 1, F], f32[N, K, F] -> f32[N, K, FRAMES F]"""

    def make(spec, example):
        return stack_frames if example[0].ndim == 4 else stack_agent

    return for_agents(make, spec, example, knobs, np.array)


def stored_fields(spec):
    """Return what the memory of a builder holds."""
    return Fields(**{name: spec["stored"][name] for name in Fields._fields})


def sample(spec, example, *, knobs, target):
    """Transitions that begin in these rows, one agent after the other or all at once.  i64[N, B] -> see ``gather``"""

    def make(spec, example):
        fields, gamma = stored_fields(spec), spec["gamma"]
        if example[0].ndim == 2:
            return lambda rows: gather(fields, rows, gamma)
        return lambda rows: [column[0] for column in gather(fields, rows[None], gamma)]

    def join(columns):
        return tuple(map(np.array, zip(*columns, strict=True)))

    return for_agents(make, spec, example, knobs, join)
