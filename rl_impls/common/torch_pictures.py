"""Parts shared by image nets in torch: weight layouts, memory formats and scaling of byte images.

Weights go in and out with the names and shapes of the NumPy weights: f32[K, K, I, O] for a convolution.
"""

import torch
from torch import nn

FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
HWIO, OIHW = (2, 3, 1, 0), (3, 2, 0, 1)  # permutations of the axes of a convolution's weights from the other layout


def divided_images(planes, kernel):
    """Scale images f[B, C, Y, X] from [0, 255] to [0, 1]."""
    return planes / 255, kernel


def divided_weights(planes, kernel):
    """Scale the first layer's weights instead of the images; there are fewer of them."""
    return planes, kernel / 255


DIVIDED = {"float": divided_images, "uint8": divided_weights}  # by the ``images`` option


class PictureNet(nn.Module):
    """Base class of image nets, with the weights that :class:`~rl_impls.common.torch_learner.Trained` expects.

    The ``memory_format``, ``images`` and ``precision`` options are read; subclasses add the layers.
    """

    def __init__(self, params, options):
        super().__init__()
        self.memory_format, of_bytes = FORMATS[options.memory_format], options.images == "uint8"
        self.weights = nn.ParameterDict()
        for name, value in params.items():
            weight = torch.from_numpy(value).clone()
            if weight.dim() == 4:
                weight = weight.permute(OIHW).contiguous(memory_format=self.memory_format)
            self.weights[name] = weight
        self.dtype = weight.dtype
        # bfloat16 holds every byte exactly
        self.first_dtype = torch.bfloat16 if of_bytes and options.precision == "bfloat16" else self.dtype
        self.divided = DIVIDED[options.images]

    @torch.no_grad()
    def load(self, params):
        for name, view in self.views().items():
            view.copy_(torch.from_numpy(params[name]))

    def views(self):
        """Return the weights in NumPy's layout, by name; they share memory with the parameters."""
        plain = {name: weight.detach() for name, weight in self.weights.items()}
        return {name: weight.permute(HWIO) if weight.dim() == 4 else weight for name, weight in plain.items()}

    @staticmethod
    def to_params_layout(array):
        """Return a view, in the NumPy layout, of an array in the layout of a parameter."""
        return array.transpose(HWIO) if array.ndim == 4 else array
