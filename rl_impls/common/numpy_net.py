"""Layers of nets on pictures in NumPy, as precise as the arrays they are given.

Axes: B pictures, of Y rows and X columns of pixels.
"""

from __future__ import annotations

import numpy as np


def convolution(h, w, b, stride):
    """Return the output of a convolution without padding.  f[B, Y, X, I] -> f[B, Y', X', O]

    ``out[y, x, o] = sum_ijc h[stride y + i, stride x + j, c] w[i, j, c, o] + b[o]``, as one matrix product.

    Args:
        h: input f[B, Y, X, I].
        w: weights f[K, K, I, O].
        b: biases f[O].
        stride: pixels from one place of the weights to the next.
    """
    rows, columns, inputs, outputs = w.shape
    windows = np.lib.stride_tricks.sliding_window_view(h, (rows, columns), axis=(1, 2))[:, ::stride, ::stride]
    patches = windows.transpose(0, 1, 2, 4, 5, 3)
    flat = patches.reshape(-1, rows * columns * inputs) @ w.reshape(-1, outputs)
    return (flat + b).reshape(*patches.shape[:3], outputs)


def linear(h, w, b):
    """Return the output of a layer, ``h w + b``.  f[B, I] -> f[B, O]

    Args:
        h: input f[B, I].
        w: weights f[I, O].
        b: biases f[O].
    """
    return h @ w + b


def relu(h):
    """Return ``max(h, 0)``.

    Args:
        h: f[...].
    """
    return np.maximum(h, 0)
