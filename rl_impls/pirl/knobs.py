"""The optimisations of the physics-informed Q-agent; every default is the naive choice."""

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
class Knobs:
    """One setting of every knob.

    Attributes:
        order: 1 leaves the diffusion out of the PDE residual, 2 computes it. What is computed, not how fast.
        drift: the vehicle's drift row by row, or on all points at once.
        derivatives: nested automatic differentiation, or one forward pass that carries the generator of the process.
        passes: one pass of the net for each term of the loss, or one for all.
        gradient: by autograd, or written out for generator and joint, which it implies: of the whole loss (torch), of
            each product (jax).
        inference: what autograd records while acting (torch).
        zero_grad: gradients filled with zeros, or dropped (torch).
        optimizer: Adam one array after the other, or all at once (torch: fused; jax: one flat vector).
        serving: one call of the net per request, or requests gathered into batches.
        autocast: let the Neuron compiler cast float32 down.
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
        """Raise a ValueError for a value that no knob has."""
        check_choices(self, CHOICES)
        if self.gradient == "by_hand" and (self.derivatives, self.passes) != ("generator", "joint"):
            raise ValueError(
                f"knob gradient: got by_hand with derivatives={self.derivatives}, passes={self.passes}, "
                "wanted generator and joint, the one loss that is differentiated by hand"
            )


FORMS = MappingProxyType(
    {
        "naive": Knobs(),
        "full": Knobs(
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
