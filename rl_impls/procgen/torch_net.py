"""Policy and value nets in torch, and the policy that samples actions with one."""

import numpy as np
import torch
from torch import nn

from ..common.matrix_products import addmm_of
from ..common.torch_learner import GUARDS, PRECISIONS, autocast, place
from ..common.torch_pictures import PictureNet
from ._numpy import sample_actions
from .net import BLOCKS, SEEN, STAGES, STRIDES, net_of

HOST_DTYPES = {"float": np.float32, "uint8": np.uint8}  # by the option ``images``


def nature(w, planes, first, addmm):
    """Three convolutions, and a hidden layer per head.  planes [B, 3, 64, 64] -> logits [B, A], values [B, 1]

    ``w`` are the weights by name; ``first`` is :meth:`Net.first`, the first convolution; ``addmm`` is a result of
    :func:`addmm_of`. Colours are from 0 to 255.
    """
    h = torch.relu(first(planes, "conv0", stride=STRIDES[0], seen=SEEN))
    for k, stride in enumerate(STRIDES[1:], start=1):
        h = torch.relu(nn.functional.conv2d(h, w[f"w_conv{k}"], w[f"b_conv{k}"], stride))
    h = h.permute(0, 2, 3, 1).flatten(1)
    policy = torch.relu(addmm(w["b_policy"], h, w["w_policy"]))
    value = torch.relu(addmm(w["b_value"], h, w["w_value"]))
    return addmm(w["b_logits"], policy, w["w_logits"]), addmm(w["b_return"], value, w["w_return"])


def residual(w, planes, first, addmm):
    """Residual net of :func:`._numpy.residual`; arguments and results as in :func:`nature`."""

    def conv(name, h):
        return nn.functional.conv2d(h, w[f"w_{name}"], w[f"b_{name}"], padding=1)

    h = first(planes, "stage0", padding=1)
    for stage in range(len(STAGES)):
        if stage:
            h = conv(f"stage{stage}", h)
        h = nn.functional.max_pool2d(h, 3, 2, 1)
        for block in range(BLOCKS):
            name = f"stage{stage}_block{block}"
            inner = conv(f"{name}_conv0", torch.relu(h)).relu_()  # in place: no gradient needs the input
            h = conv(f"{name}_conv1", inner).add_(h)
    h = torch.relu(h).permute(0, 2, 3, 1).flatten(1)
    h = torch.relu(addmm(w["b_hidden"], h, w["w_hidden"]))
    return addmm(w["b_logits"], h, w["w_logits"]), addmm(w["b_return"], h, w["w_return"])


LAYERS = {"nature": nature, "residual": residual}
FIRST = {"nature": "w_conv0", "residual": "w_stage0"}


class Net(PictureNet):
    """Convolutions with a policy and a value head, see :func:`._numpy.logits_and_values`.

    The names in ``params``, NumPy arrays, select the net, see :mod:`.net`.
    """

    def __init__(self, params, options):
        super().__init__(params, options)
        self.layers, self.in_blocks = LAYERS[net_of(params)], options.first_layer == "blocks"
        self.addmm = torch.addmm

    def first(self, planes, name, stride=1, padding=0, seen=None):
        """First convolution; in blocks, it computes only the outputs that later layers read.  -> f[B, O, Y, X]

        Blocks speed up the kernel's gradient; without a gradient, the rearrangement would only cost time. ``seen`` is
        the number of pixels per side that affect later layers, None for all; ``stride`` divides it and the kernel
        size, and is 1 if there is ``padding``.
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
        """Images [B, 64, 64, 3], colours from 0 to 255 -> logits f[B, A], values f[B], in the dtype of the weights."""
        logits, values = self.layers(self.weights, obs.permute(0, 3, 1, 2), self.first, self.addmm)
        return logits.to(self.dtype), values[:, 0].to(self.dtype)


def in_blocks(planes, size):
    """Move blocks of pixels to channels.  [B, C, Y, X] -> [B, size size C, Y / size, X / size]

    A convolution of stride ``size`` equals one of stride 1 on images and kernel in blocks. ``size`` divides Y and X.
    """
    if size == 1:
        return planes
    b, c, y, x = planes.shape
    rows = planes.permute(0, 2, 3, 1).reshape(b, y // size, size, x // size, size * c)
    if rows.dtype == torch.uint8 and not size * c % 4:  # move four bytes at a time
        blocks = rows.view(torch.int32).transpose(2, 3).contiguous().view(torch.uint8)
    else:
        blocks = rows.transpose(2, 3)
    return blocks.reshape(b, y // size, x // size, size * size * c).permute(0, 3, 1, 2)


class CastNet(Net):
    """Copy of a net for acting, whose weights already have autocast's dtype, so that no call has to cast them."""

    def __init__(self, net, options):
        params = {name: view.cpu().numpy() for name, view in net.views().items()}
        super().__init__(params, options)
        self.addmm = net.addmm
        self.kernel, self.divided_kernel = FIRST[net_of(params)], self.divided
        self.first_dtype = PRECISIONS.get(options.precision, self.dtype)
        self.to(net.weights[self.kernel].device, self.first_dtype)
        if options.images == "uint8":
            self.divided = lambda planes, kernel: (planes, kernel)  # :meth:`copy_from` divides before it casts
        self.copy_from(net)

    @torch.no_grad()
    def copy_from(self, net):
        """Copy the current weights of ``net``, the net given to the constructor."""
        for name, weight in self.weights.items():
            weight.copy_(net.weights[name])
        self.weights[self.kernel].copy_(self.divided_kernel(0.0, net.weights[self.kernel])[1])


def make_net(params, options, compiler):
    """Return a :class:`Net` on the backend's device."""
    net = Net(params, options).to(place(compiler))
    net.addmm = addmm_of(options, compiler)
    return net


def acting_net(net, options):
    """Return the net to act with: ``net``, or a :class:`CastNet` if the option ``acting_weights`` is ``cast``."""
    return net if options.acting_weights == "learned" else CastNet(net, options)


def compile_net(net, example, options, compiler):
    """Compile a net for acting, with the options' precision and autograd mode; ``example`` are its tensor arguments."""
    to_images = IMAGES[options.images]
    call = compiler.compile(net, tuple(map(to_images, example)), guard=GUARDS[options.inference])

    def forward(obs):
        with autocast(options, compiler):
            return call(to_images(obs))

    return forward


def in_float(obs):
    """Convert images to float32 unless they are floats already."""
    return obs if obs.is_floating_point() else obs.float()


IMAGES = {"float": in_float, "uint8": lambda obs: obs}  # by the option ``images``


def to_device(columns, options, compiler):
    """Return a batch, NumPy arrays with images first, as tensors on the backend's device.

    Images get the host dtype of the option ``images``.
    """
    obs, *others = columns
    arrays = [obs.astype(HOST_DTYPES[options.images], copy=False), *others]
    return tuple(torch.from_numpy(array).to(place(compiler)) for array in arrays)


class Policy:
    """Samples actions with a net; takes and returns NumPy arrays. ``example`` are images u8[N, 64, 64, 3]."""

    def __init__(self, net, example, options, compiler):
        self.options, self.compiler, self.learned, self.net = options, compiler, net, acting_net(net, options)
        self.forward = compile_net(self.net, to_device((example,), options, compiler), options, compiler)

    def load(self, params):
        """Replace the weights by NumPy arrays by name; call :meth:`refresh` afterwards."""
        self.learned.load(params)

    def refresh(self):
        """Update the cast copy of the weights, if there is one; call it before each rollout."""
        if self.net is not self.learned:
            self.net.copy_from(self.learned)

    def __call__(self, obs, uniforms):
        """Sample actions i32[N]; return them, their log-probabilities f32[N] and the state values f32[N].

        ``obs`` u8[N, 64, 64, 3]; ``uniforms`` f32[N] in [0, 1), see :func:`._numpy.sample_actions`.
        """
        logits, values = (
            out.detach().cpu().numpy() for out in self.forward(*to_device((obs,), self.options, self.compiler))
        )
        return *sample_actions(logits, uniforms), values
