"""What nets on pictures share in torch: how their weights lie in memory, and what becomes of bytes.

Weights are named, shaped and laid out as in NumPy, those of a convolution f32[K, K, I, O]; a bias is a vector.
"""

from __future__ import annotations

import torch
from torch import nn

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
HWIO, OIHW = (2, 3, 1, 0), (3, 2, 0, 1)  # axes that lead from the other layout of a convolution's weights to this one


def divided_images(planes, kernel):
    """Return colours from 0 to 1, and weights as they are.

    Args:
        planes: pictures f[B, C, Y, X], colours from 0 to 255.
        kernel: weights of the first layer.
    """
    return planes / 255, kernel


def divided_weights(planes, kernel):
    """Return colours as they are, and weights that make up for it: they are fewer.

    Args:
        planes: pictures f[B, C, Y, X], colours from 0 to 255.
        kernel: weights of the first layer.
    """
    return planes, kernel / 255


DIVIDED = {"float": divided_images, "uint8": divided_weights}  # by the knob ``images``


class PictureNet(nn.Module):
    """A net's weights by name, as :class:`~rl_impls.common.torch_learner.Trained` wants them; a subclass has layers.

    Args:
        params: NumPy arrays by name.
        knobs: ``memory_format``, ``images`` and ``precision`` are read.
    """

    def __init__(self, params, knobs):
        super().__init__()
        self.memory_format, of_bytes = FORMATS[knobs.memory_format], knobs.images == "uint8"
        self.weights = nn.ParameterDict()
        for name, value in params.items():
            weight = torch.from_numpy(value).clone()
            if weight.dim() == 4:
                weight = weight.permute(OIHW).contiguous(memory_format=self.memory_format)
            self.weights[name] = weight
        self.dtype = weight.dtype
        # bfloat16 holds every byte exactly
        self.first_dtype = torch.bfloat16 if of_bytes and knobs.precision == "bfloat16" else self.dtype
        self.divided = DIVIDED[knobs.images]

    @torch.no_grad()
    def load(self, params):
        """Take new weights, in place.

        Args:
            params: NumPy arrays by name, of the shapes of those before.
        """
        for name, view in self.views().items():
            view.copy_(torch.from_numpy(params[name]))

    def views(self):
        """Return the weights by name, as in NumPy, which share the memory of the parameters."""
        plain = {name: weight.detach() for name, weight in self.weights.items()}
        return {name: weight.permute(HWIO) if weight.dim() == 4 else weight for name, weight in plain.items()}

    @staticmethod
    def to_params_layout(array):
        """Return a view of an array in the layout of a parameter, in that of its weight in NumPy.

        Args:
            array: of NumPy.
        """
        return array.transpose(HWIO) if array.ndim == 4 else array
