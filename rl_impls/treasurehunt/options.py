"""Optimisation options of multi-agent IQN; every default is the naive choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ..common.checks import check_choices

CHOICES = MappingProxyType(
    {
        "order": ("together", "interleaved"),
        "world": ("cells", "arrays"),
        "nets": ("one_by_one", "batched"),
        "cosines": ("direct", "doubling"),
        "states": ("product", "lookup"),
        "inference": ("grad", "no_grad", "inference_mode"),
        "zero_grad": ("fill", "none"),
        "optimizer": ("loop", "fused"),
        "precision": ("float32", "bfloat16"),
        "loop": ("python", "scan"),
        "processes": ("one", "per_agent"),
    }
)


@dataclass(frozen=True)
class Options:
    """One value for every option.

    Attributes:
        order: all agents observe and then move, or each agent observes after its predecessors have moved. This changes
            what is computed, not how fast.
        world: Python objects updated cell by cell, or arrays over all worlds.
        nets: call and train the agents' nets one after the other, or all at once with weights [N, ...].
        cosines: compute the cosine of every multiple of tau, or derive them from the first by angle doubling (jax).
        states: multiply states by the first layer's weights, or look up the rows of the one-hot cells (jax, one
            program; for one world with one-hot observations).
        inference: autograd mode while acting (torch).
        zero_grad: fill gradients with zeros, or drop them (torch).
        optimizer: run Adam and the soft update array by array, or on all arrays at once (torch; jax fuses either way).
        precision: precision of the forward and backward pass.
        loop: step turns from Python, or run an epoch as one program (jax).
        processes: one process, or an additional one for each agent, which acts, remembers and learns there.
    """

    order: str = "together"
    world: str = "cells"
    nets: str = "one_by_one"
    cosines: str = "direct"
    states: str = "product"
    inference: str = "grad"
    zero_grad: str = "fill"
    optimizer: str = "loop"
    precision: str = "float32"
    loop: str = "python"
    processes: str = "one"

    def __post_init__(self) -> None:
        """Raise ValueError for unknown values and for combinations that are not supported."""
        check_choices(self, CHOICES)
        if self.loop == "scan":
            for name, wanted in (("nets", "batched"), ("order", "together"), ("processes", "one")):
                if getattr(self, name) != wanted:
                    raise ValueError(f"{name}: got {getattr(self, name)!r} with loop='scan', wanted {wanted!r}")
        for name, value in (("order", "interleaved"), ("processes", "per_agent")):
            if getattr(self, name) == value and self.nets != "one_by_one":
                raise ValueError(f"nets: got {self.nets!r} with {name}={value!r}, wanted 'one_by_one'")
        if self.order == "interleaved" and self.processes == "per_agent":
            raise ValueError("order: got 'interleaved' with processes='per_agent', wanted 'together'")


FULL = Options(
    world="arrays",
    nets="batched",
    cosines="doubling",
    inference="inference_mode",
    zero_grad="none",
    optimizer="fused",
)

FORMS = MappingProxyType(
    {
        "naive": Options(),
        "one_by_one": replace(FULL, nets="one_by_one"),
        "full": FULL,
        "bfloat16": replace(FULL, precision="bfloat16"),
        "interleaved": replace(FULL, nets="one_by_one", order="interleaved"),
        "compiled": replace(FULL, loop="scan", states="lookup"),
        "processes": replace(FULL, nets="one_by_one", processes="per_agent"),
    }
)

SOURCES = MappingProxyType(
    {
        "naive": "sorrel's treasurehunt, agent by agent: 3.0 times as fast as sorrel in a turn and 1.4 times in an "
        "update, so gains over it are understated",
    }
)
