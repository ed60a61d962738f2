"""Procgen's alone: its net in torch, which is more than one file takes beside its updates; and how it acts.

Axes: N environments, B pictures, A = 15 actions.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ..common.torch_learner import GUARDS, PRECISIONS, autocast, place
from ..common.torch_pictures import PictureNet
from ._numpy import sample_actions
from .spec import BLOCKS, SEEN, STAGES, STRIDES, net_of

HOST_DTYPES = {"float": np.float32, "uint8": np.uint8}


def nature(w, planes, first):
    """Return logits [B, A] and values [B, 1] by three convolutions and a hidden layer for each.

    Args:
        w: weights by name, see :data:`.spec.NETS`.
        planes: pictures [B, 3, 64, 64], colours from 0 to 255.
        first: makes the first convolution, :meth:`Net.first`.
    """
    h = torch.relu(first(planes, "conv0", stride=STRIDES[0], seen=SEEN))
    for k, stride in enumerate(STRIDES[1:], start=1):
        h = torch.relu(nn.functional.conv2d(h, w[f"w_conv{k}"], w[f"b_conv{k}"], stride))
    h = h.permute(0, 2, 3, 1).flatten(1)
    policy = torch.relu(torch.addmm(w["b_policy"], h, w["w_policy"]))
    value = torch.relu(torch.addmm(w["b_value"], h, w["w_value"]))
    return torch.addmm(w["b_logits"], policy, w["w_logits"]), torch.addmm(w["b_return"], value, w["w_return"])


def residual(w, planes, first):
    """Return logits [B, A] and values [B, 1] by the residual net; :func:`._numpy.residual`.

    Args:
        w: weights by name, see :data:`.spec.RESIDUAL`.
        planes: pictures [B, 3, 64, 64], colours from 0 to 255.
        first: makes the first convolution, :meth:`Net.first`.
    """

    def convolved(name, h):
        return nn.functional.conv2d(h, w[f"w_{name}"], w[f"b_{name}"], padding=1)

    h = first(planes, "stage0", padding=1)
    for stage in range(len(STAGES)):
        if stage:
            h = convolved(f"stage{stage}", h)
        h = nn.functional.max_pool2d(h, 3, 2, 1)
        for block in range(BLOCKS):
            name = f"stage{stage}_block{block}"
            inner = convolved(f"{name}_conv0", torch.relu(h)).relu_()  # in place, as no gradient needs what was there
            h = convolved(f"{name}_conv1", inner).add_(h)
    h = torch.relu(h).permute(0, 2, 3, 1).flatten(1)
    h = torch.relu(torch.addmm(w["b_hidden"], h, w["w_hidden"]))
    return torch.addmm(w["b_logits"], h, w["w_logits"]), torch.addmm(w["b_return"], h, w["w_return"])


def in_blocks(planes, size):
    """Return pictures of blocks of pixels, which have the colours of all their pixels.

    A convolution of stride ``size`` is one of stride 1 over blocks, where its kernel is in blocks too: the same sum.
    [B, C, Y, X] -> [B, size size C, Y / size, X / size]

    Args:
        planes: pictures, or kernels, [B, C, Y, X].
        size: height and width of a block, a divisor of Y and X.
    """
    if size == 1:
        return planes
    b, c, y, x = planes.shape
    rows = planes.permute(0, 2, 3, 1).reshape(b, y // size, size, x // size, size * c)
    if rows.dtype == torch.uint8 and not size * c % 4:  # four at a time
        blocks = rows.view(torch.int32).transpose(2, 3).contiguous().view(torch.uint8)
    else:
        blocks = rows.transpose(2, 3)
    return blocks.reshape(b, y // size, x // size, size * size * c).permute(0, 3, 1, 2)


LAYERS = {"nature": nature, "residual": residual}
FIRST = {"nature": "w_conv0", "residual": "w_stage0"}


class Net(PictureNet):
    """Convolutions, a policy and a value.  pictures [B, 64, 64, 3] -> logits f[B, A], values f[B]

    The equations are those of :func:`._numpy.logits_and_values`.

    Args:
        params: weights, see :data:`.spec.SHAPES`, NumPy arrays by name; they say which of the nets it is.
        knobs: ``memory_format``, ``images``, ``precision`` and ``first_layer`` are read.
    """

    def __init__(self, params, knobs):
        super().__init__(params, knobs)
        self.layers, self.in_blocks = LAYERS[net_of(params)], knobs.first_layer == "blocks"

    def first(self, planes, name, stride=1, padding=0, seen=None):
        """Return what the first convolution makes of pictures, f[B, O, Y, X]; in blocks only what is seen later.

        Blocks are for the gradient of the kernel; without one, rearranging would only be more work.

        Args:
            planes: pictures [B, 3, 64, 64], colours from 0 to 255.
            name: of the layer.
            stride: of the convolution; a divisor of its kernel's size, and of the pixels that are seen.
            padding: of the pictures, with zeros; 0 where the stride is not 1.
            seen: pixels along a side, from the first, on which what later layers see depends; None for all.
        """
        kernel = self.weights[f"w_{name}"]
        if self.in_blocks:
            planes = planes[..., :seen, :seen]
            if torch.is_grad_enabled():
                planes, kernel, stride = in_blocks(planes, stride), in_blocks(kernel, stride), 1
        planes = planes.to(self.first_dtype, memory_format=self.memory_format)
        planes, kernel = self.divided(planes, kernel.contiguous(memory_format=self.memory_format))
        return nn.functional.conv2d(planes, kernel, self.weights[f"b_{name}"], stride, padding)

    def forward(self, obs):
        """Return logits f[B, A] and values f[B], as precise as the weights.

        Args:
            obs: pictures [B, 64, 64, 3], colours from 0 to 255.
        """
        logits, values = self.layers(self.weights, obs.permute(0, 3, 1, 2), self.first)
        return logits.to(self.dtype), values[:, 0].to(self.dtype)


class CastNet(Net):
    """A copy of a net to act by: its weights have the type of products, so that no call has to cast them.

    Args:
        net: the net.
        knobs: those of :class:`Net`.
    """

    def __init__(self, net, knobs):
        params = {name: view.cpu().numpy() for name, view in net.views().items()}
        super().__init__(params, knobs)
        self.kernel, self.divided_kernel = FIRST[net_of(params)], self.divided
        self.first_dtype = PRECISIONS.get(knobs.precision, self.dtype)
        self.to(net.weights[self.kernel].device, self.first_dtype)
        if knobs.images == "uint8":
            self.divided = lambda planes, kernel: (planes, kernel)  # as it was divided before it was cast
        self.take(net)

    @torch.no_grad()
    def take(self, net):
        """Take the weights of the net as they are now.

        Args:
            net: that was copied.
        """
        for name, weight in self.weights.items():
            weight.copy_(net.weights[name])
        self.weights[self.kernel].copy_(self.divided_kernel(0.0, net.weights[self.kernel])[1])


def make_net(params, knobs, target):
    """Return a net on the backend's device.

    Args:
        params: its weights, see :class:`Net`.
        knobs: those of :class:`Net` are read.
        target: device and lowering of the backend.
    """
    return Net(params, knobs).to(place(target))


def to_act(net, knobs):
    """Return the net that acts in the place of one that learns: that one, or a :class:`CastNet`.

    Args:
        net: a :class:`Net`.
        knobs: ``acting_weights`` and those of :class:`Net` are read.
    """
    return net if knobs.acting_weights == "learned" else CastNet(net, knobs)


def lower_net(net, example, knobs, target):
    """Return a net as the backend calls it to act; autograd records what the knob ``inference`` says.

    Args:
        net: a torch module.
        example: its arguments, tensors.
        knobs: ``inference``, ``images`` and ``precision`` are read.
        target: device and lowering of the backend.
    """
    as_held = IMAGES[knobs.images]
    call = target.lower(net, tuple(map(as_held, example)), guard=GUARDS[knobs.inference])

    def cast(obs):
        with autocast(knobs, target):
            return call(as_held(obs))

    return cast


def in_float(obs):
    """Return pictures as numbers of 32 bits; those that are floats stay as they are.

    Args:
        obs: [B, 64, 64, 3], a tensor.
    """
    return obs if obs.is_floating_point() else obs.float()


IMAGES = {"float": in_float, "uint8": lambda obs: obs}  # by the knob ``images``


def put(columns, knobs, target):
    """Return the columns of a batch as tensors on the backend's device, pictures as the knob ``images`` holds them.

    Args:
        columns: arrays of NumPy, pictures first.
        knobs: ``images`` is read.
        target: device and lowering of the backend.
    """
    obs, *others = columns
    arrays = [obs.astype(HOST_DTYPES[knobs.images], copy=False), *others]
    return tuple(torch.from_numpy(array).to(place(target)) for array in arrays)


class Actor:
    """Draws actions by a net; from and to NumPy.

    Args:
        net: the :class:`Net` by whose weights it acts.
        example: pictures u8[N, 64, 64, 3] like those to come.
        knobs: ``inference``, ``images``, ``precision`` and ``acting_weights`` are read.
        target: device and lowering of the backend.
    """

    def __init__(self, net, example, knobs, target):
        self.knobs, self.target, self.learned, self.net = knobs, target, net, to_act(net, knobs)
        self.call = lower_net(self.net, put((example,), knobs, target), knobs, target)

    def begin(self):
        """Act by the weights as they are now, until this is called again, or an update changes those that act."""
        if self.net is not self.learned:
            self.net.take(self.learned)

    def __call__(self, obs, uniforms):
        """Return actions i32[N], the logarithms of their probabilities f32[N] and the values of the states f32[N].

        Args:
            obs: u8[N, 64, 64, 3].
            uniforms: f32[N] from 0 to 1, one for each action that is drawn, see :func:`._numpy.sample_actions`.
        """
        logits, values = (out.detach().cpu().numpy() for out in self.call(*put((obs,), self.knobs, self.target)))
        return *sample_actions(logits, uniforms), values
