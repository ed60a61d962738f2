"""Shapes and initial values of the Q-network's weights."""

import math

import numpy as np

from .memory import STACK

ACTIONS = 15  # of Procgen, and outputs of the network
KERNELS, STRIDES = (8, 4, 3), (4, 2, 1)  # of the convolutions
NORM_EPS, NORM_RATE = 1e-5, 0.1  # of batch norm: added to the variance; update rate of the running statistics


def shapes(side, norm=False):
    """Return the shape of each weight by name.

    Three convolutions with 32, 64 and 64 outputs, a hidden layer of 512, and a value for each action (Mnih et al.
    2015). With batch norm (Ioffe and Szegedy 2015) the convolutions have no bias; instead their outputs are normalised,
    scaled by ``g_conv{k}`` and shifted by ``b_conv{k}``. ``m_conv{k}`` and ``v_conv{k}`` are the running mean and
    variance, which are not trained.
    """
    found, inputs = {}, STACK
    for k, (kernel, stride, outputs) in enumerate(zip(KERNELS, STRIDES, (32, 64, 64))):
        found |= {f"w_conv{k}": (kernel, kernel, inputs, outputs), f"b_conv{k}": (outputs,)}
        found |= {f"{name}_conv{k}": (outputs,) for name in ("gmv" if norm else "")}
        inputs, side = outputs, (side - kernel) // stride + 1
    found |= {"w_hidden": (side * side * inputs, 512), "b_hidden": (512,)}
    return found | {"w_value": (512, ACTIONS), "b_value": (ACTIONS,)}


def has_norm(params):
    """Return whether the weights are those of a network with batch norm."""
    return "g_conv0" in params


def is_running(name):
    """Return whether an array is a running statistic, which is not trained."""
    return name.startswith(("m_", "v_"))


def init_net(rng, side, norm=False, init="he"):
    """Return the weights of a new network, f32 arrays by name; biases are 0.

    ``init`` is ``he`` (variance ``2 / fan_in``, which keeps the scale of ReLU activations, He et al. 2015) or
    ``uniform`` (within ``1 / sqrt(fan_in)``, torch's default for weights).
    """
    params = {}
    for name, shape in shapes(side, norm).items():
        fan_in = math.prod(shape[:-1])
        if not name.startswith("w_"):
            value = np.full(shape, 1.0 if name.startswith(("g_", "v_")) else 0.0)
        elif init == "he":
            value = rng.normal(0, (2 / fan_in) ** 0.5, shape)
        else:
            value = rng.uniform(-(fan_in**-0.5), fan_in**-0.5, shape)
        params[name] = value.astype(np.float32)
    return params
