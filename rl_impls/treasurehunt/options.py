"""Optimisation options of multi-agent IQN; every default is the naive choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..common.config import config

NEEDS = (  # an option's value, and the values of other options that it needs
    ("loop", "scan", {"nets": "batched", "order": "together", "processes": "one"}),
    ("order", "interleaved", {"nets": "one_by_one", "processes": "one"}),
    ("processes", "per_agent", {"nets": "one_by_one"}),
    ("draws", "key", {"loop": "scan"}),
)


@config
class Options:
    """One value for every option.

    Attributes:
        order: all agents observe and then move, or each agent observes after its predecessors have moved. This changes
            the results, not the speed.
        world: Python objects updated cell by cell, or arrays over all worlds.
        nets: call and train the agents' nets one after the other, or all at once with weights [N, ...].
        cosines: compute the cosine of every multiple of tau, or derive them from the first by angle doubling (jax).
        states: multiply states by the first layer's weights, or look up the rows of the weights that the cells select
            (jax, ``loop="scan"``, one world, one-hot observations).
        inference: autograd mode while acting (torch).
        zero_grad: fill gradients with zeros, or drop them (torch).
        optimizer: run Adam and the soft update array by array, or on all arrays at once (torch; jax fuses either way).
        precision: precision of the forward and backward pass.
        matrix_products: multiply float32 matrices by MKL, as torch does, or by oneDNN, as torch does in convolutions.
            MKL may be half as fast on AMD processors. It always multiplies matrices of fewer than 32 rows (torch on a
            CPU, not compiled).
        loop: step turns from Python, or run an epoch as one program (jax).
        draws: take the random numbers of an epoch as arguments, or draw them inside the program from a key (jax).
        processes: one process, or an additional one for each agent, which acts, remembers and learns there.
    """

    order: Literal["together", "interleaved"] = "together"
    world: Literal["cells", "arrays"] = "cells"
    nets: Literal["one_by_one", "batched"] = "one_by_one"
    cosines: Literal["direct", "doubling"] = "direct"
    states: Literal["product", "lookup"] = "product"
    inference: Literal["grad", "inference_mode"] = "grad"
    zero_grad: Literal["fill", "none"] = "fill"
    optimizer: Literal["loop", "fused"] = "loop"
    precision: Literal["float32", "bfloat16"] = "float32"
    matrix_products: Literal["mkl", "onednn"] = "mkl"
    loop: Literal["python", "scan"] = "python"
    draws: Literal["arguments", "key"] = "arguments"
    processes: Literal["one", "per_agent"] = "one"

    def __post_init__(self) -> None:
        for name, value, others in NEEDS:
            for other, needed in others.items():
                if getattr(self, name) == value and getattr(self, other) != needed:
                    raise ValueError(f"{other}={getattr(self, other)!r} should be {needed!r} with {name}={value!r}")


FULL = Options(
    world="arrays",
    nets="batched",
    cosines="doubling",
    inference="inference_mode",
    zero_grad="none",
    optimizer="fused",
    matrix_products="onednn",
)

COMPILED = replace(FULL, loop="scan", states="lookup")

FORMS = {
    "naive": Options(),
    "one_by_one": replace(FULL, nets="one_by_one"),
    "full": FULL,
    "bfloat16": replace(FULL, precision="bfloat16"),
    "interleaved": replace(FULL, nets="one_by_one", order="interleaved"),
    "compiled": COMPILED,
    "keyed": replace(COMPILED, draws="key"),
    "processes": replace(FULL, nets="one_by_one", processes="per_agent"),
}

SOURCES = {
    "naive": "sorrel's treasurehunt, agent by agent: 3.0 times as fast as sorrel in a turn and 1.4 times in an "
    "update, so gains over it are understated",
}
