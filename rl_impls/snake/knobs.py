"""The optimisations of a DQN loop; every default is the naive choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ..common.checks import check_choices

CHOICES = MappingProxyType(
    {
        "memory": ("lists", "arrays", "ring"),
        "batches": ("comprehension", "stacked"),
        "tensors": ("moved", "direct"),
        "zero_grad": ("fill", "none"),
        "relu": ("copy", "inplace"),
        "inference": ("grad", "no_grad", "inference_mode"),
        "acting": ("torch", "numpy"),
        "optimizer": ("loop", "default", "fused"),
        "parameters": ("separate", "flat"),
        "gradient": ("autograd", "by_hand"),
        "every": (1, 4, 8, 16),
        "batch": (32, 64, 128, 256),
        "threads": ("one", "all"),
        "environment": ("plain", "vectorised"),
        "collection": ("inline", "thread"),
        "loop": ("python", "scan"),
        "precision": ("float32", "bfloat16"),
        "quantised": ("none", "int8"),
        "processes": (1, 2),
        "tf32": (False, True),
        "cudnn_benchmark": (False, True),
    }
)


@dataclass(frozen=True)
class Knobs:
    """One setting of every knob. Whether the net is compiled is the backend's choice: ``torch-compile``.

    Attributes:
        memory: transitions kept as lists of numbers or as arrays in a deque, or in a ring allocated once.
        batches: one tensor per transition and field, then stacked; or each field stacked once by NumPy.
        tensors: made on the CPU and moved to the device, or made on the device.
        zero_grad: gradients filled with zeros, or dropped.
        relu: into new memory, or in place.
        inference: what autograd records while acting.
        acting: greedy moves by torch or, of few boards, by NumPy on the memory of the same weights (torch, eagerly).
        optimizer: Adam and the gradient's norm one array after the other, as torch chooses, or all at once (torch; jax
            fuses either way).
        parameters: each an array of its own, or views of one vector, as are their gradients (torch).
        gradient: by autograd, or written out into memory that is kept (torch).
        every: environment steps from one update to the next. What is computed, not how fast.
        batch: transitions in an update. What is computed, not how fast.
        threads: of one torch operation: one, or all that the process has.
        environment: one Python object per environment, or all in one set of arrays.
        collection: in the learner's thread, or in one of its own that plays with the weights of one chunk ago.
        loop: Python from step to step, or one program for all of them (jax).
        precision: of the forward and backward pass.
        quantised: weights and activations of the net that acts (onnx).
        processes: that share an update's batch and average their gradients (torch, gloo).
        tf32: matrix products rounded to it (torch on CUDA).
        cudnn_benchmark: let cuDNN try its algorithms (torch on CUDA; a net without convolutions has none).
    """

    memory: str = "lists"
    batches: str = "comprehension"
    tensors: str = "moved"
    zero_grad: str = "fill"
    relu: str = "copy"
    inference: str = "grad"
    acting: str = "torch"
    optimizer: str = "loop"
    parameters: str = "separate"
    gradient: str = "autograd"
    every: int = 1
    batch: int = 32
    threads: str = "one"
    environment: str = "plain"
    collection: str = "inline"
    loop: str = "python"
    precision: str = "float32"
    quantised: str = "none"
    processes: int = 1
    tf32: bool = False
    cudnn_benchmark: bool = False

    def __post_init__(self) -> None:
        """Raise a ValueError for a value that no knob has."""
        check_choices(self, CHOICES)
        if self.gradient == "by_hand" and (self.precision, self.processes) != ("float32", 1):
            raise ValueError(
                f"knob gradient: got by_hand with precision={self.precision}, processes={self.processes}, "
                "wanted float32 and 1: nothing else is written out"
            )
        if self.parameters == "flat" and (self.gradient, self.zero_grad) == ("autograd", "none"):
            raise ValueError(
                "knob parameters: got flat with gradient=autograd, zero_grad=none, wanted by_hand or fill: "
                "autograd puts a gradient that was dropped elsewhere"
            )


OF_CUDA = MappingProxyType(dict.fromkeys(("tf32", "cudnn_benchmark"), ("torch-cuda", "torch-compile-cuda")))
ONLY = MappingProxyType({"quantised": ("onnx",), "processes": ("torch",), **OF_CUDA})


def check_supported(knob, knobs, target):
    """Check that a backend has what a knob asks for; the knobs that only CUDA has are checked in every call.

    Args:
        knob: its name, a key of ``ONLY``.
        knobs: the setting.
        target: device and lowering of the backend.

    Raises:
        ValueError: the knob is set on a backend that does not have it.
    """
    for name in (knob, *OF_CUDA):
        value, default = getattr(knobs, name), getattr(Knobs(), name)
        if value != default and target.backend not in ONLY[name]:
            wanted = " or ".join(ONLY[name])
            raise ValueError(f"{name}: got {value!r} on {target.backend}, wanted {default!r}, or backend {wanted}")


HELPFUL = MappingProxyType(
    {
        "memory": "ring",
        "batches": "stacked",
        "tensors": "direct",
        "zero_grad": "none",
        "relu": "inplace",
        "inference": "inference_mode",
        "acting": "numpy",
        "optimizer": "fused",
        "parameters": "flat",
        "gradient": "by_hand",
        "threads": "all",
    }
)

FULL = replace(Knobs(), **HELPFUL)
BY_AUTOGRAD = replace(FULL, gradient="autograd", parameters="separate")
PLAIN = Knobs(
    memory="ring", batches="stacked", zero_grad="none", inference="no_grad", optimizer="default", threads="all"
)

FORMS = MappingProxyType(
    {
        "naive": Knobs(),
        "plain": PLAIN,
        "full": FULL,
        "vectorised": replace(FULL, environment="vectorised"),
        "compiled": replace(FULL, environment="vectorised", loop="scan"),
        "threaded": replace(FULL, environment="vectorised", collection="thread"),
        "bfloat16": replace(BY_AUTOGRAD, precision="bfloat16"),
        "int8": replace(FULL, quantised="int8"),
        "ddp": replace(BY_AUTOGRAD, processes=2),
        "tf32": replace(FULL, tf32=True, cudnn_benchmark=True),
        **{f"only_{knob}": replace(Knobs(), **{knob: value}) for knob, value in HELPFUL.items()},
    }
)

SOURCES = MappingProxyType(
    {
        "naive": "the loop as the source describes it, with transitions as Python lists, which nobody's library keeps: "
        "0.62 to 0.68 times as fast as CleanRL's dqn.py on the same game, net and settings",
        "plain": "the loop as CleanRL's users write it: a ring of arrays, batches as arrays turned into tensors, "
        "no_grad while acting, torch's defaults",
    }
)
