"""Optimisation options of the DQN; every default is the naive choice."""

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
class Options:
    """Values of all optimisation options. Compilation is not among them: it is a backend, ``torch-compile``.

    Attributes:
        memory: keep transitions in a deque as lists of numbers or as arrays, or in a preallocated ring.
        batches: make a tensor of each field element by element, or stack the field in NumPy first.
        tensors: create tensors on the CPU and move them to the device, or create them on the device.
        zero_grad: fill gradients with zeros or drop them.
        relu: write to new memory or in place.
        inference: autograd mode while acting.
        acting: compute greedy actions by torch or, for few boards, by NumPy on the same weights' memory (eager torch).
        optimizer: apply Adam and clipping array by array, as torch chooses, or fused (torch; jax always fuses).
        parameters: separate arrays, or views of one vector, and likewise their gradients (torch).
        gradient: autograd, or gradients written by hand to preallocated memory (torch).
        every: environment steps between updates; changes the result, not just the speed.
        batch: minibatch size in transitions; changes the result too.
        threads: threads per torch operation, one or all of the process.
        environment: one Python object per environment, or one set of arrays for all.
        collection: play in the learner's thread, or in a thread of its own with the weights of one chunk ago.
        loop: a Python loop over steps, or one compiled program for all steps (jax).
        precision: precision of the forward and backward pass.
        quantised: quantise weights and activations of the acting network (onnx).
        processes: processes that share an update's batch and average their gradients (torch, gloo).
        tf32: round matrix products to TF32 (torch on CUDA).
        cudnn_benchmark: let cuDNN benchmark its algorithms (torch on CUDA; no effect without convolutions).
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
        check_choices(self, CHOICES)
        if self.gradient == "by_hand" and (self.precision, self.processes) != ("float32", 1):
            raise ValueError(
                f"option gradient: got by_hand with precision={self.precision}, processes={self.processes}, "
                "wanted float32 and 1: nothing else is written out"
            )
        if self.parameters == "flat" and (self.gradient, self.zero_grad) == ("autograd", "none"):
            raise ValueError(
                "option parameters: got flat with gradient=autograd, zero_grad=none, wanted by_hand or fill: "
                "autograd puts a gradient that was dropped elsewhere"
            )


OF_CUDA = MappingProxyType(dict.fromkeys(("tf32", "cudnn_benchmark"), ("torch-cuda", "torch-compile-cuda")))
ONLY = MappingProxyType({"quantised": ("onnx",), "processes": ("torch",), **OF_CUDA})


def check_supported(option, options, compiler):
    """Raise a ValueError if option `option`, or a CUDA-only option, is set on a backend that does not support it."""
    for name in (option, *OF_CUDA):
        value, default = getattr(options, name), getattr(Options(), name)
        if value != default and compiler.backend not in ONLY[name]:
            wanted = " or ".join(ONLY[name])
            raise ValueError(f"{name}: got {value!r} on {compiler.backend}, wanted {default!r}, or backend {wanted}")


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

FULL = replace(Options(), **HELPFUL)
BY_AUTOGRAD = replace(FULL, gradient="autograd", parameters="separate")
PLAIN = Options(
    memory="ring", batches="stacked", zero_grad="none", inference="no_grad", optimizer="default", threads="all"
)

FORMS = MappingProxyType(
    {
        "naive": Options(),
        "plain": PLAIN,
        "full": FULL,
        "vectorised": replace(FULL, environment="vectorised"),
        "compiled": replace(FULL, environment="vectorised", loop="scan"),
        "threaded": replace(FULL, environment="vectorised", collection="thread"),
        "bfloat16": replace(BY_AUTOGRAD, precision="bfloat16"),
        "int8": replace(FULL, quantised="int8"),
        "ddp": replace(BY_AUTOGRAD, processes=2),
        "tf32": replace(FULL, tf32=True, cudnn_benchmark=True),
        **{f"only_{option}": replace(Options(), **{option: value}) for option, value in HELPFUL.items()},
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
