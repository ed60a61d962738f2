"""Optimisation options of the DQN; every default is the naive choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..common.config import config

TrainFrequency = Literal[1, 4, 8, 16]
BatchSize = Literal[32, 64, 128, 256]


@config
class Options:
    """Values of all optimisation options. Compilation is not among them: it is a backend, ``torch-compile``.

    Attributes:
        memory: keep transitions in a deque as lists of numbers or as arrays, or in a preallocated ring.
        batches: make a tensor of each field element by element, or stack the field in NumPy first.
        tensors: create tensors on the CPU and move them to the device, or create them on the device.
        zero_grad: fill gradients with zeros or drop them.
        relu: write to new memory or in place.
        inference: autograd mode while acting.
        acting: compute greedy actions by torch; or, for few boards, by NumPy on torch's own weights (eager torch).
        optimizer: apply Adam and clipping array by array, as torch chooses, or fused (torch; jax always fuses).
        parameters: separate arrays, or views of one vector, and likewise their gradients (torch).
        gradient: autograd, or gradients written by hand to preallocated memory (torch).
        train_frequency: environment steps between updates; changes the result, not just the speed.
        batch_size: minibatch size in transitions; changes the result too.
        threads: threads per torch operation, one or all of the process.
        environment: one Python object per environment, or one set of arrays for all.
        collection: play in the learner's thread, or in a thread of its own with the weights of one chunk ago.
        loop: a Python loop over steps, or one compiled program for all steps (jax).
        precision: precision of the forward and backward pass; float16 scales the loss (torch).
        quantised: quantise weights and activations of the acting network (onnx).
        processes: processes that share an update's batch and average their gradients (torch, gloo).
        tf32: round matrix products to TF32 (torch on CUDA).
        cudnn_benchmark: let cuDNN benchmark its algorithms (torch on CUDA; no effect without convolutions).
    """

    memory: Literal["lists", "arrays", "ring"] = "lists"
    batches: Literal["comprehension", "stacked"] = "comprehension"
    tensors: Literal["moved", "direct"] = "moved"
    zero_grad: Literal["fill", "none"] = "fill"
    relu: Literal["copy", "inplace"] = "copy"
    inference: Literal["grad", "no_grad", "inference_mode"] = "grad"
    acting: Literal["torch", "numpy"] = "torch"
    optimizer: Literal["loop", "default", "fused"] = "loop"
    parameters: Literal["separate", "flat"] = "separate"
    gradient: Literal["autograd", "by_hand"] = "autograd"
    train_frequency: TrainFrequency = 1
    batch_size: BatchSize = 32
    threads: Literal["one", "all"] = "one"
    environment: Literal["plain", "vectorised"] = "plain"
    collection: Literal["inline", "thread"] = "inline"
    loop: Literal["python", "scan"] = "python"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    quantised: Literal["none", "int8"] = "none"
    processes: Literal[1, 2] = 1
    tf32: bool = False
    cudnn_benchmark: bool = False

    def __post_init__(self):
        if self.gradient == "by_hand" and (self.precision, self.processes) != ("float32", 1):
            raise ValueError("gradient='by_hand' needs precision='float32' and processes=1")
        if self.parameters == "flat" and (self.gradient, self.zero_grad) == ("autograd", "none"):
            raise ValueError(  # autograd would write a dropped gradient to new memory
                "parameters='flat' needs gradient='by_hand' or zero_grad='fill'"
            )
        if self.loop == "scan" and self.collection == "thread":
            raise ValueError("loop='scan' needs collection='inline': it is one program")


CUDA = "torch-cuda", "torch-compile-cuda"
OF_TORCH = {"tf32": CUDA, "cudnn_benchmark": CUDA, "precision": ("torch", *CUDA)}
ONLY = {"quantised": ("onnx",), "processes": ("torch",), **OF_TORCH}


def check_supported(option, options, compiler):
    """Raise ValueError if `option`, or one of ``OF_TORCH``, is set on a backend that does not support it."""
    for name in (option, *OF_TORCH):
        value, default = getattr(options, name), getattr(Options(), name)
        if value not in (default, "bfloat16") and compiler.backend not in ONLY[name]:
            only = " and ".join(ONLY[name])
            hint = "; choose another form, such as full" if name in OF_TORCH else ""
            raise ValueError(f"{name}={value!r} is not available on {compiler.backend}, only on {only}{hint}")


HELPFUL = {
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

FULL = replace(Options(), **HELPFUL)
BY_AUTOGRAD = replace(FULL, gradient="autograd", parameters="separate")
PLAIN = Options(
    memory="ring", batches="stacked", zero_grad="none", inference="no_grad", optimizer="default", threads="all"
)

FORMS = {
    "naive": Options(),
    "plain": PLAIN,
    "full": FULL,
    "vectorised": replace(FULL, environment="vectorised"),
    "compiled": replace(FULL, environment="vectorised", loop="scan"),
    "threaded": replace(FULL, environment="vectorised", collection="thread"),
    "bfloat16": replace(BY_AUTOGRAD, precision="bfloat16"),
    "float16": replace(BY_AUTOGRAD, precision="float16"),
    "int8": replace(FULL, quantised="int8"),
    "ddp": replace(BY_AUTOGRAD, processes=2),
    "tf32": replace(FULL, tf32=True, cudnn_benchmark=True),
    **{f"only_{option}": replace(Options(), **{option: value}) for option, value in HELPFUL.items()},
}

SOURCES = {
    "naive": "the loop as the source describes it, with transitions as Python lists, unlike any library: "
    "0.62 to 0.68 times as fast as CleanRL's dqn.py on the same game, net and settings",
    "plain": "the loop as users of CleanRL write it: a ring buffer of arrays, batches converted to tensors, "
    "no_grad while acting, torch's defaults",
}
