"""Reference in the order of the equations: grey downscaled frames, the network, and double Q-learning's loss.

Computes in the dtype of its arrays.

Builders take the op's configuration; ``example``, the arguments of the first call; ``options``, see
:class:`.options.Options`; and ``compiler``, see :class:`~rl_impls.compilers.Compiler`. Their docstrings describe the op
that they return.
"""

import numpy as np

from ..common.numpy_net import convolution, linear, relu
from .net import NORM_EPS, STRIDES, has_norm

GREY = np.array([0.299, 0.587, 0.114], np.float32)  # shares of red, green and blue (ITU-R BT.601)


def area_weights(pixels, side):
    """Return the weights of area interpolation along one axis, from ``pixels`` to ``side``.  -> f32[side, pixels]

    Each new pixel is the mean over the interval that it covers: ``w[i, j]`` is the length of the overlap of
    [i r, (i + 1) r] and [j, j + 1], divided by ``r = pixels / side``.
    """
    ratio, j = pixels / side, np.arange(pixels)
    start = ratio * np.arange(side)[:, None]
    overlap = np.minimum(start + ratio, j + 1) - np.maximum(start, j)
    return (overlap.clip(0) / ratio).astype(np.float32)


class Dense:
    """Resizes frames by first computing grey values, then two dense products with all weights."""

    def __init__(self, height, width, side):
        self.rows, self.columns = area_weights(height, side), area_weights(width, side).T

    def __call__(self, frames):
        """Return grey frames.  u8[B, H, W, 3] -> u8[B, S, S]"""
        return np.stack([np.rint(self.rows @ (frame @ GREY) @ self.columns).astype(np.uint8) for frame in frames])


def normalised(params, k, h, learning):
    """Apply batch norm (Ioffe and Szegedy 2015) to the outputs h f[B, Y, X, O] of convolution k.

    ``g (h - mean) / sqrt(variance + 1e-5) + b``; with ``learning``, mean and variance are those of this batch, and the
    running ones otherwise.
    """
    mean, variance = params[f"m_conv{k}"], params[f"v_conv{k}"]
    if learning:
        mean, variance = h.mean(axis=(0, 1, 2)), h.var(axis=(0, 1, 2))
    return params[f"g_conv{k}"] * (h - mean) / np.sqrt(variance + NORM_EPS) + params[f"b_conv{k}"]


def q_values(params, obs, learning=False):
    """Return the Q-values: three convolutions and a hidden layer (Mnih et al. 2015).  u8[B, 4, S, S] -> f[B, A]

    ``params`` are weights by name, see :func:`.net.shapes`. With ``learning``, batch norm uses the statistics of this
    batch instead of the running ones.
    """
    h = obs.transpose(0, 2, 3, 1).astype(params["w_hidden"].dtype) / 255
    for k, stride in enumerate(STRIDES):
        if has_norm(params):
            h = convolution(h, params[f"w_conv{k}"], 0, stride)
            h = relu(normalised(params, k, h, learning))
        else:
            h = relu(convolution(h, params[f"w_conv{k}"], params[f"b_conv{k}"], stride))
    h = relu(linear(h.reshape(len(h), -1), params["w_hidden"], params["b_hidden"]))
    return linear(h, params["w_value"], params["b_value"])


def td_targets(params, target, rewards, next_obs, terminated, gamma):
    """Return the targets of double Q-learning (van Hasselt et al. 2016), f[B].

    ``r + gamma (1 - terminated) Q'(s', argmax_a Q(s', a))``; batch norm uses the running statistics.

    ``params`` are the weights of Q, ``target`` those of the target network Q'. rewards f[B], next_obs u8[B, 4, S, S],
    terminated f[B], 1 where the episode ended, else 0.
    """
    best = q_values(params, next_obs).argmax(axis=1)
    return rewards + gamma * (1 - terminated) * q_values(target, next_obs)[np.arange(len(best)), best]


def td_loss(params, obs, actions, td_targets, weights):
    """Return the loss of double Q-learning, f[], and the TD errors, f[B].

    ``mean_B w huber(Q(s, a) - target)``, with ``huber(e) = e^2 / 2`` where ``|e| < 1``, else ``|e| - 1 / 2``.

    ``params`` are the weights of Q. obs u8[B, 4, S, S], actions i[B], td_targets f[B], importance weights f[B].
    """
    errors = q_values(params, obs, learning=True)[np.arange(len(actions)), actions] - td_targets
    size = np.abs(errors)
    return np.mean(weights * np.where(size < 1, errors**2 / 2, size - 0.5)), errors


class Sparse:
    """Resizes frames by summing only the rows that each output row covers, then one product for columns and colours.

    The weights of columns and colours form one matrix, as both are sums over a row.
    """

    def __init__(self, height, width, side):
        rows, columns = area_weights(height, side), area_weights(width, side).T
        most = int((rows > 0).sum(axis=1).max())
        first = np.minimum((rows > 0).argmax(axis=1), height - most)
        self.covered = [(first + k, rows[np.arange(side), first + k, None]) for k in range(most)]
        self.columns = (columns[:, None] * GREY[:, None]).reshape(width * 3, side)
        self.shape, self.side = (height, width * 3), side

    def __call__(self, frames):
        """Return the same as :class:`Dense`, but for rounding.  u8[B, H, W, 3] -> u8[B, S, S]"""
        grey = np.empty((len(frames), self.side, self.side), np.uint8)
        for frame, out in zip(frames, grey):
            lines = frame.reshape(self.shape)
            summed = sum(lines[rows] * weights for rows, weights in self.covered)
            np.rint(summed @ self.columns, out=out, casting="unsafe")
        return grey


RESIZE = {"dense": Dense, "sparse": Sparse}  # by the option ``resize``


def preprocess(config, example, *, options, compiler):
    """Convert frames to grey and resize them to S x S, by the mean over each area.  u8[B, H, W, 3] -> u8[B, S, S]"""
    return RESIZE[options.resize](*example[0].shape[1:3], config["side"])
