"""The two nets: shapes of their weights, and orthogonal initial weights.

A layer has weights ``w_{layer}`` f32[height, width, inputs, outputs] if it is a convolution, f32[inputs, outputs] if it
is fully connected, and biases ``b_{layer}`` f32[outputs].
"""

import math

import numpy as np

from ..common.procgen_env import ACTIONS

STRIDES = (4, 2, 1)  # of nature's convolutions
SEEN = 60  # pixels per side that affect nature's output: conv2 reads 6 x 6 pixels of conv1, and those 14 x 14 of conv0
STAGES, BLOCKS = ((3, 16), (16, 32), (32, 32)), 2  # input and output channels of each stage; residual blocks per stage


def residual_layers():
    """Return the shapes of the residual net's weights, in the order of the layers."""
    shapes = {}
    for stage, (inputs, outputs) in enumerate(STAGES):
        shapes[f"stage{stage}"] = (3, 3, inputs, outputs)
        for block in range(BLOCKS):
            for conv in range(2):
                shapes[f"stage{stage}_block{block}_conv{conv}"] = (3, 3, outputs, outputs)
    return shapes | {"hidden": (2048, 256), "logits": (256, ACTIONS), "return": (256, 1)}


NETS = {
    "nature": {
        "conv0": (8, 8, 3, 32), "conv1": (4, 4, 32, 64), "conv2": (3, 3, 64, 64),
        "policy": (1024, 512), "logits": (512, ACTIONS), "value": (1024, 512), "return": (512, 1),
    },
    "residual": residual_layers(),
}  # fmt: skip
HEADS = {"logits": 0.01, "return": 1.0}  # gains of the output layers
GAINS = {"nature": 2**0.5, "residual": 3**-0.5}  # of other layers; smaller in the residual net, whose blocks add up


def net_of(params):
    """Return the net's name, nature or residual, from the names of its weights."""
    return "residual" if "w_stage0" in params else "nature"


def num_weights(net):
    """Return the number of weights and biases of a net."""
    return sum(math.prod(shape) + shape[-1] for shape in NETS[net].values())


def init_net(rng, net="nature"):
    """Return initial weights by name: orthogonal matrices, and biases of 0.

    Each layer is scaled by its gain: 0.01 for the logits, so that all actions start about equally likely, 1 for the
    value, and ``GAINS[net]`` for the others.
    """
    params = {}
    for name, shape in NETS[net].items():
        weight = HEADS.get(name, GAINS[net]) * orthogonal(rng, math.prod(shape[:-1]), shape[-1])
        params[f"w_{name}"] = weight.reshape(shape).astype(np.float32)
        params[f"b_{name}"] = np.zeros(shape[-1], np.float32)
    return params


def orthogonal(rng, rows, columns):
    """Sample a matrix, f64[rows, columns], with orthonormal columns, or orthonormal rows if it has fewer of those."""
    normals = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(normals)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return q if rows >= columns else q.T
