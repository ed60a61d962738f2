"""The reference in equation order: frames made small and grey, the net, and the loss of double Q-learning.

As precise as the arrays it is given. Axes: B transitions, S pixels along a side, A = 15 actions.

Builders take ``spec``, what an op is built from, see :class:`.spec.Spec`; ``example``, the arguments of its first call;
``knobs``, a setting of :class:`.knobs.Knobs`; ``target``, device and lowering, see :class:`~rl_impls.lowering.Target`.
They return the op; its arguments and its result are what their docstrings describe.
"""

from __future__ import annotations

import numpy as np

from ..common.numpy_net import convolution, linear, relu
from .spec import NORM_EPS, STRIDES, has_norm

GREY = np.array([0.299, 0.587, 0.114], np.float32)  # shares of red, green and blue (ITU-R BT.601)


def area_weights(pixels, side):
    """Return the share of each pixel in each pixel of a line that is made longer or shorter, f32[side, pixels].

    ``w[i, j] = |[i r, (i + 1) r] and [j, j + 1]| / r``, with ``r = pixels / side``: each new pixel is the mean over the
    stretch that it covers.

    Args:
        pixels: of the line.
        side: pixels that it is to have.
    """
    ratio, j = pixels / side, np.arange(pixels)
    start = ratio * np.arange(side)[:, None]
    overlap = np.minimum(start + ratio, j + 1) - np.maximum(start, j)
    return (overlap.clip(0) / ratio).astype(np.float32)


class Dense:
    """Frames made grey and small one by one: grey values first, then two products with all weights.

    Args:
        height: of the frames, in pixels.
        width: of the frames, in pixels.
        side: pixels along a side of the result, S.
    """

    def __init__(self, height, width, side):
        self.rows, self.columns, self.side = area_weights(height, side), area_weights(width, side).T, side

    def __call__(self, frames):
        """Return grey frames.  u8[B, H, W, 3] -> u8[B, S, S]

        Args:
            frames: height, width, colour.
        """
        return np.stack([np.rint(self.rows @ (frame @ GREY) @ self.columns).astype(np.uint8) for frame in frames])


class Sparse:
    """The same by less work: each row of the result is made of the few rows it covers, then one product does the rest.

    The columns' weights and those of the colours are one matrix, as both are sums over a row.

    Args:
        height: of the frames, in pixels.
        width: of the frames, in pixels.
        side: pixels along a side of the result, S.
    """

    def __init__(self, height, width, side):
        rows, columns = area_weights(height, side), area_weights(width, side).T
        most = int((rows > 0).sum(axis=1).max())
        first = np.minimum((rows > 0).argmax(axis=1), height - most)
        self.covered = [(first + k, rows[np.arange(side), first + k, None]) for k in range(most)]
        self.columns = (columns[:, None] * GREY[:, None]).reshape(width * 3, side)
        self.shape, self.side = (height, width * 3), side

    def __call__(self, frames):
        """Return grey frames.  u8[B, H, W, 3] -> u8[B, S, S]

        Args:
            frames: height, width, colour.
        """
        grey = np.empty((len(frames), self.side, self.side), np.uint8)
        for frame, out in zip(frames, grey):
            lines = frame.reshape(self.shape)
            summed = sum(lines[rows] * weights for rows, weights in self.covered)
            np.rint(summed @ self.columns, out=out, casting="unsafe")
        return grey


RESIZE = {"dense": Dense, "sparse": Sparse}  # by the knob ``resize``


def preprocess(spec, example, *, knobs, target):
    """Return frames made grey, and S x S pixels large, each the mean of what it covers.  -> u8[B, S, S]

    frames u8[B, H, W, 3]
    """
    return RESIZE[knobs.resize](*example[0].shape[1:3], spec["side"])


def normalised(params, k, h, learning):
    """Return the outputs of a convolution with batch norm (Ioffe and Szegedy 2015).  f[B, Y, X, O] -> f[B, Y, X, O]

    ``g (h - mean) / sqrt(variance + 1e-5) + b``

    Args:
        params: weights by name, see :func:`.spec.shapes`.
        k: number of the convolution.
        h: f[B, Y, X, O].
        learning: whether mean and variance are those of this batch; the running ones otherwise.
    """
    mean, variance = params[f"m_conv{k}"], params[f"v_conv{k}"]
    if learning:
        mean, variance = h.mean(axis=(0, 1, 2)), h.var(axis=(0, 1, 2))
    return params[f"g_conv{k}"] * (h - mean) / np.sqrt(variance + NORM_EPS) + params[f"b_conv{k}"]


def q_values(params, states, learning=False):
    """Return the value of each action.  u8[B, 4, S, S] -> f[B, A]

    Three convolutions and a hidden layer (Mnih et al. 2015).

    Args:
        params: weights by name, see :func:`.spec.shapes`.
        states: four frames each.
        learning: whether batch norm goes by this batch, rather than by the running statistics.
    """
    h = states.transpose(0, 2, 3, 1).astype(params["w_hidden"].dtype) / 255
    for k, stride in enumerate(STRIDES):
        if has_norm(params):
            h = convolution(h, params[f"w_conv{k}"], 0, stride)
            h = relu(normalised(params, k, h, learning))
        else:
            h = relu(convolution(h, params[f"w_conv{k}"], params[f"b_conv{k}"], stride))
    h = relu(linear(h.reshape(len(h), -1), params["w_hidden"], params["b_hidden"]))
    return linear(h, params["w_value"], params["b_value"])


def td_targets(params, target, rewards, next_states, ends, gamma):
    """Return what values of actions should be, by double Q-learning (van Hasselt et al. 2016).  -> f[B]

    ``r + gamma (1 - end) Q'(s', argmax_a Q(s', a))``; batch norm goes by running statistics.

    Args:
        params: weights of the online net Q.
        target: weights of the target net Q'.
        rewards: f[B].
        next_states: u8[B, 4, S, S].
        ends: 1 where the episode ended, else 0, f[B].
        gamma: discount of one step.
    """
    best = q_values(params, next_states).argmax(axis=1)
    return rewards + gamma * (1 - ends) * q_values(target, next_states)[np.arange(len(best)), best]


def td_loss(params, states, actions, td_targets, weights):
    """Return the loss, and the TD errors f[B].

    ``mean_B w huber(Q(s, a) - target)``, with ``huber(e) = e^2 / 2`` where ``|e| < 1``, else ``|e| - 1 / 2``.

    Args:
        params: weights of the online net Q, which learns.
        states: u8[B, 4, S, S].
        actions: i[B].
        td_targets: f[B], see :func:`td_targets`.
        weights: of the experiences, by which priorities are made up for, f[B].
    """
    errors = q_values(params, states, learning=True)[np.arange(len(actions)), actions] - td_targets
    size = np.abs(errors)
    return np.mean(weights * np.where(size < 1, errors**2 / 2, size - 0.5)), errors
