"""Optimisation options of the physics-informed Q-agent; every default is the naive choice."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from ..common.checks import check_choices

CHOICES = MappingProxyType(
    {
        "order": (1, 2),
        "drift": ("rows", "vectorised"),
        "derivatives": ("autograd", "generator"),
        "passes": ("separate", "joint"),
        "gradient": ("autograd", "by_hand"),
        "inference": ("grad", "no_grad", "inference_mode"),
        "zero_grad": ("fill", "none"),
        "optimizer": ("loop", "fused"),
        "serving": ("per_request", "batched"),
        "autocast": (False, True),
    }
)


@dataclass(frozen=True)
class Options:
    """Values of all optimisation options.

    Attributes:
        order: 2 includes the diffusion term in the PDE residual, 1 leaves it out; this changes the result.
        drift: compute the vehicle's drift row by row or for all points at once.
        derivatives: nested automatic differentiation, or one forward pass with the process's infinitesimal generator.
        passes: one pass of the network per term of the loss, or one joint pass.
        gradient: autograd, or gradients written by hand, which require generator and joint: of the whole loss (torch)
            or of each matrix product (jax).
        inference: autograd mode while acting (torch).
        zero_grad: fill gradients with zeros or drop them (torch).
        optimizer: apply Adam array by array or to all at once (torch: fused; jax: one flat vector).
        serving: one call of the network per request, or requests gathered into batches.
        autocast: let the Neuron compiler cast float32 to lower precision.
    """

    order: int = 1
    drift: str = "rows"
    derivatives: str = "autograd"
    passes: str = "separate"
    gradient: str = "autograd"
    inference: str = "grad"
    zero_grad: str = "fill"
    optimizer: str = "loop"
    serving: str = "per_request"
    autocast: bool = False

    def __post_init__(self) -> None:
        check_choices(self, CHOICES)
        if self.gradient == "by_hand" and (self.derivatives, self.passes) != ("generator", "joint"):
            raise ValueError(
                f"option gradient: got by_hand with derivatives={self.derivatives}, passes={self.passes}, "
                "wanted generator and joint, the one loss that is differentiated by hand"
            )


FORMS = MappingProxyType(
    {
        "naive": Options(),
        "full": Options(
            drift="vectorised",
            derivatives="generator",
            passes="joint",
            gradient="by_hand",
            inference="inference_mode",
            zero_grad="none",
            optimizer="fused",
            serving="batched",
        ),
    }
)

SOURCES = MappingProxyType(
    {
        "naive": "the update as the upstream code of physics-informed Q-learning writes it: 1.5 times as fast as "
        "upstream itself, so gains over it are understated",
    }
)
