"""The optimisations of actors and critics on pictures; every default is the naive choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ..common.checks import check_choices

CHOICES = MappingProxyType(
    {
        "precision": ("float32", "bfloat16"),
        "memory_format": ("contiguous", "channels_last"),
        "inference": ("grad", "no_grad", "inference_mode"),
        "zero_grad": ("fill", "none"),
        "optimizer": ("loop", "default", "fused"),
        "images": ("float", "uint8"),
        "first_layer": ("pixels", "blocks"),
        "acting_weights": ("learned", "cast"),
        "advantages": ("loop", "vector"),
        "frames": ("copied", "in_place"),
    }
)


@dataclass(frozen=True)
class Knobs:
    """One setting of every knob. Whether the net is compiled is the backend's choice: ``torch-compile``.

    Attributes:
        precision: of the forward and backward pass.
        memory_format: pictures and weights of convolutions lie plane by plane, or pixel by pixel as Procgen draws them
            (torch).
        inference: what autograd records while acting (torch).
        zero_grad: gradients filled with zeros, or dropped (torch).
        optimizer: Adam, RMSProp and the gradient's norm one array after the other, as torch chooses, or all at once
            (torch; jax fuses either way).
        images: pictures turned into numbers of 32 bits where they come from, or kept as bytes until the net (torch).
        first_layer: its kernel steps over pixels; or only to places that the second layer sees and, where it learns,
            over blocks of as many pixels as it steps by, with the colours of all: longer sums in fewer rows (torch).
        acting_weights: those that learn, cast to the precision of products in each call, or a copy of them that is cast
            once for a rollout (torch).
        advantages: environment after environment, or all at once in each step (numpy and torch).
        frames: each step's a new array, all of which are copied to the rollout, or written by Procgen's interface to
            where the rollout keeps them.
    """

    precision: str = "float32"
    memory_format: str = "contiguous"
    inference: str = "grad"
    zero_grad: str = "fill"
    optimizer: str = "loop"
    images: str = "float"
    first_layer: str = "pixels"
    acting_weights: str = "learned"
    advantages: str = "loop"
    frames: str = "copied"

    def __post_init__(self) -> None:
        """Raise a ValueError for a value that no knob has."""
        check_choices(self, CHOICES)


FULL = Knobs(
    memory_format="channels_last", inference="inference_mode", zero_grad="none", optimizer="fused", images="uint8",
    first_layer="blocks", advantages="vector", frames="in_place",
)  # fmt: skip

BFLOAT16 = replace(FULL, precision="bfloat16", acting_weights="cast")

FORMS = MappingProxyType({"naive": Knobs(), "full": FULL, "bfloat16": BFLOAT16})

SOURCES = MappingProxyType(
    {
        "naive": "the loops that rl-cluster-benchmark lists, written as CleanRL's ppo_procgen.py: pictures as float32, "
        "torch's defaults. Beyond it, pictures are turned into planes, as Stable-Baselines3 does, and advantages are "
        "computed environment after environment; how far it is from CleanRL's own speed is not measured",
    }
)
