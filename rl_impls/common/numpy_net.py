"""Layers in NumPy; they compute in the dtype of their inputs.

Axes: B images of Y rows and X columns of pixels.
"""

import numpy as np


def convolution(h, w, b, stride):
    """Convolution without padding, f[B, Y, X, I] -> f[B, Y', X', O], as one matrix product.

    ``out[y, x, o] = sum_ijc h[stride y + i, stride x + j, c] w[i, j, c, o] + b[o]``

    `w` is f[K, K, I, O], `b` f[O], `stride` is in pixels.
    """
    rows, columns, inputs, outputs = w.shape
    windows = np.lib.stride_tricks.sliding_window_view(h, (rows, columns), axis=(1, 2))[:, ::stride, ::stride]
    patches = windows.transpose(0, 1, 2, 4, 5, 3)
    flat = patches.reshape(-1, rows * columns * inputs) @ w.reshape(-1, outputs)
    return (flat + b).reshape(*patches.shape[:3], outputs)


def linear(h, w, b):
    """Fully connected layer, ``h w + b``: f[B, I], f[I, O], f[O] -> f[B, O]."""
    return h @ w + b


def relu(h):
    """Rectified linear unit, ``max(h, 0)``."""
    return np.maximum(h, 0)
