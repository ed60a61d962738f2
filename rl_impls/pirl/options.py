"""Optimisation options of the physics-informed Q-agent; the defaults are the plain choices."""

from __future__ import annotations

from typing import Literal

from ..common.config import config


@config
class Options:
    """Options of the ops.

    Attributes:
        order: 2 includes the diffusion term in the PDE residual, 1 leaves it out; this changes the result.
        derivatives: ``autograd`` nests automatic differentiation, makes one pass of the network per term of the loss,
            and computes the drift row by row. ``generator`` makes one forward pass of all rows, which also computes the
            infinitesimal generator; its gradients are written by hand, of the whole loss (torch) or of each matrix
            product (jax).
        inference: autograd mode without training (torch); ``inference_mode`` needs ``derivatives="generator"``.
        optimizer: apply Adam array by array or to all at once (torch: fused; jax: one flat vector).
        serving: one call of the network per request, or requests gathered into batches.
        autocast: let the Neuron compiler compute float32 matrix products in bfloat16.
    """

    order: Literal[1, 2] = 1
    derivatives: Literal["autograd", "generator"] = "autograd"
    inference: Literal["grad", "inference_mode"] = "grad"
    optimizer: Literal["loop", "fused"] = "loop"
    serving: Literal["per_request", "batched"] = "per_request"
    autocast: bool = False


FORMS = {
    "naive": Options(),
    "full": Options(derivatives="generator", inference="inference_mode", optimizer="fused", serving="batched"),
}

SOURCES = {
    "naive": "the update as the upstream code of physics-informed Q-learning writes it: 1.5 times as fast as "
    "upstream itself, so gains over it are understated",
}
