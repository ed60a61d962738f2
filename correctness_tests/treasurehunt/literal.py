"""The nets and the loss of one agent, written as plain loops."""

import itertools
import math

import numpy as np

from rl_impls.treasurehunt.vector_env import ACTIONS


def literal_quantiles(params, states, taus, noise):
    """Return one agent's return quantiles Z for each action, and the output of its value head."""
    layers, start = {}, 0
    for layer in ("hidden", "heads"):
        w, b = params[f"w_{layer}"], params[f"b_{layer}"]
        eps = [math.copysign(math.sqrt(abs(x)), x) for x in noise[start : start + sum(w.shape)]]
        eps_in, eps_out = eps[: len(w)], eps[len(w) :]
        layers[layer] = w + params[f"sw_{layer}"] * np.outer(eps_in, eps_out), b + params[f"sb_{layer}"] * eps_out
        start += sum(w.shape)
    assert start == len(noise)

    def linear(h, w, b):
        return np.array([sum(h[i] * w[i, j] for i in range(len(h))) + b[j] for j in range(len(b))])

    z, values = np.zeros((*taus.shape, ACTIONS)), np.zeros(taus.shape)
    for b, q in itertools.product(*map(range, taus.shape)):
        embedded = np.maximum(linear(states[b], params["w_state"], params["b_state"]), 0)
        cosines = [math.cos(math.pi * i * taus[b, q]) for i in range(1, 65)]
        h = np.maximum(linear(cosines, params["w_cos"], params["b_cos"]), 0) * embedded
        value, *advantages = linear(np.maximum(linear(h, *layers["hidden"]), 0), *layers["heads"])
        values[b, q] = value
        z[b, q] = [value + advantage - sum(advantages) / ACTIONS for advantage in advantages]
    return z, values


def literal_huber_loss(online, targets, taus):
    """Return one agent's quantile Huber loss, given the quantiles, their targets and their fractions tau."""
    total = 0.0
    for b in range(len(online)):
        for i in range(online.shape[1]):
            for j in range(targets.shape[1]):
                delta = targets[b, j] - online[b, i]
                huber = delta**2 / 2 if abs(delta) <= 1 else abs(delta) - 0.5
                weight = 1 - taus[b, i] if delta < 0 else taus[b, i]
                total += weight * huber / targets.shape[1] / len(online)
    return total


def literal_loss(params, target, states, actions, returns, next_states, discounts, taus, noise):
    """Return one agent's loss, using :func:`literal_quantiles` for its nets."""
    each = range(len(actions))
    online, _ = literal_quantiles(params, states, taus[0], noise[0])
    choosing, _ = literal_quantiles(params, next_states, taus[1], noise[0])
    following, _ = literal_quantiles(target, next_states, taus[2], noise[1])
    greedy = choosing.mean(axis=1).argmax(axis=1)
    targets = np.array([returns[b] + discounts[b] * following[b, :, greedy[b]] for b in each])
    return literal_huber_loss(np.array([online[b, :, actions[b]] for b in each]), targets, taus[0])
