"""Optimisation options of the actor-critic algorithms; every default is the naive choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..common.config import config


@config
class Options:
    """One value for each optimisation. The net is compiled on the backend ``torch-compile``, not by an option.

    Attributes:
        precision: dtype of the forward and backward pass.
        memory_format: memory layout of images and convolution weights: plane by plane, or pixel by pixel as Procgen
            renders them (torch).
        inference: autograd mode while acting (torch).
        zero_grad: fill gradients with zeros, or drop them (torch).
        optimizer: run Adam, RMSProp and the gradient norm tensor by tensor, or on all tensors at once (torch; jax fuses
            either way).
        images: convert images to float32 on the host, or keep them as bytes until they reach the net (torch).
        first_layer: convolve all pixels; or leave out those that the second layer does not read and, if there are
            gradients, stack blocks of stride x stride pixels as channels. The kernel of the nature net then has 2 x 2
            pixels of 48 channels instead of 8 x 8 of 3. The residual net has stride 1, so nothing changes (torch).
        acting_weights: act with the learned weights, which autocast casts in each call, or with a copy that is cast
            once per rollout (torch).
        matrix_products: multiply float32 matrices by MKL, as torch does, or by oneDNN, as torch does in convolutions.
            MKL may be half as fast on AMD processors. It always multiplies matrices of fewer than 32 rows (torch on a
            CPU, not compiled).
        passes: run the net on a whole batch, or on one part after the other if that makes more than two parts. Small
            arrays then stay in the cache, and the allocator reuses their memory. A part has 128 images with the nature
            net and 32 with the residual net, and twice as many in bfloat16. PPO and A2C add up the gradients of the
            parts; IMPALA joins their outputs and computes one loss (torch on a CPU, not compiled).
        advantages: compute one environment after the other, or all at once in each step (numpy and torch).
        frames: allocate an array in each step and copy all of them to the rollout at its end, or have the environment
            write its frames into the rollout.
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    memory_format: Literal["contiguous", "channels_last"] = "contiguous"
    inference: Literal["grad", "inference_mode"] = "grad"
    zero_grad: Literal["fill", "none"] = "fill"
    optimizer: Literal["loop", "fused"] = "loop"
    images: Literal["float", "uint8"] = "float"
    first_layer: Literal["pixels", "blocks"] = "pixels"
    acting_weights: Literal["learned", "cast"] = "learned"
    matrix_products: Literal["mkl", "onednn"] = "mkl"
    passes: Literal["one", "small"] = "one"
    advantages: Literal["loop", "vector"] = "loop"
    frames: Literal["copied", "in_place"] = "copied"


FULL = Options(
    memory_format="channels_last", inference="inference_mode", zero_grad="none", optimizer="fused", images="uint8",
    first_layer="blocks", matrix_products="onednn", passes="small", advantages="vector", frames="in_place",
)  # fmt: skip

BFLOAT16 = replace(FULL, precision="bfloat16", acting_weights="cast")

FORMS = {"naive": Options(), "full": FULL, "bfloat16": BFLOAT16}

SOURCES = {
    "naive": "the loops that rl-cluster-benchmark lists, in the style of CleanRL's ppo_procgen.py: images as "
    "float32, torch's defaults. In addition, images are transposed to channels first, as in Stable-Baselines3, and "
    "advantages are computed one environment at a time. Its speed relative to CleanRL is not measured",
}
