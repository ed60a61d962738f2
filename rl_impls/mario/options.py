"""Optimisation options of the experience pipeline; every default is the naive choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from ..common.checks import check_choices

CHOICES = MappingProxyType(
    {
        "transport": ("locked_queue", "local_queues", "shared_ring"),
        "publication": ("pickled", "shared"),
        "priority": ("equal", "learner"),
        "resize": ("dense", "sparse"),
        "push": ("item", "batch"),
        "stacks": ("item", "indexed"),
        "tree": ("literal", "vectorised"),
        "acting": ("each", "together"),
        "inference": ("grad", "no_grad", "inference_mode"),
        "images": ("float", "uint8"),
        "tensors": ("new", "kept"),
        "memory_format": ("contiguous", "channels_last"),
        "relu": ("copy", "inplace"),
        "zero_grad": ("fill", "none"),
        "optimizer": ("loop", "default", "fused"),
        "precision": ("float32", "bfloat16", "float16"),
        "accumulate": (1, 4),
        "threads": ("one", "all"),
        "compile_mode": ("default", "reduce_overhead"),
        "gpu_cache": ("kept", "cleared"),
    }
)


@dataclass(frozen=True)
class Options:
    """A setting of every option. Compilation is chosen by the backend ``torch-compile`` instead.

    Batch norm and initialisation follow from the weights, see :func:`.spec.init_net`; the number of collectors, the
    buffer, the batch and the interval of publication from the spec.

    Attributes:
        transport: one queue behind one lock, item by item; a queue per collector, and a thread that gathers batches
            from them; or a ring per collector in shared memory.
        publication: new weights are pickled for each collector, or written once to shared memory.
        priority: collectors compete with the learner for cores, or give way to it: the threads of one operation wait
            for each other, so one that loses its core delays all.
        resize: grey values first and two dense products; or sparse, with only the few rows that each output row covers,
            which is less work but slower, so ``full`` is dense.
        push: experiences are stored one by one, or all that have arrived at once.
        stacks: states are built one by one, or gathered by index all at once.
        tree: priorities are set and found one by one in a plain-Python tree, or vectorised for a whole batch.
        acting: the network is called for each environment of a collector, or once for all.
        inference: what autograd records while acting (torch).
        images: frames become float32 before the network and are divided by 255, or may stay bytes, and the first kernel
            is divided instead (torch).
        tensors: frames are copied to new tensors in each update, or to reused ones (torch).
        memory_format: frames and weights of convolutions have channels first, or last (torch).
        relu: writes to new memory, or in place (torch).
        zero_grad: gradients are filled with zeros, or dropped (torch).
        optimizer: Adam and gradient norm array by array, as torch chooses, or fused (torch; jax fuses either way).
        precision: dtype of the forward and backward pass; float16 scales the loss, and needs CUDA.
        accumulate: parts of a batch that pass through the network one after the other.
        threads: intra-op threads of the learner: one, or all that the process has (torch).
        compile_mode: kernels of a compiled update are launched one by one, or as one CUDA graph; needs CUDA.
        gpu_cache: torch keeps memory that it does not need, or returns it after each epoch; needs CUDA.
    """

    transport: str = "locked_queue"
    publication: str = "pickled"
    priority: str = "equal"
    resize: str = "dense"
    push: str = "item"
    stacks: str = "item"
    tree: str = "literal"
    acting: str = "each"
    inference: str = "grad"
    images: str = "float"
    tensors: str = "new"
    memory_format: str = "contiguous"
    relu: str = "copy"
    zero_grad: str = "fill"
    optimizer: str = "loop"
    precision: str = "float32"
    accumulate: int = 1
    threads: str = "all"
    compile_mode: str = "default"
    gpu_cache: str = "kept"

    def __post_init__(self) -> None:
        check_choices(self, CHOICES)


HELPFUL = MappingProxyType(
    {
        "transport": "shared_ring",
        "publication": "shared",
        "priority": "learner",
        "push": "batch",
        "stacks": "indexed",
        "tree": "vectorised",
        "acting": "together",
        "inference": "inference_mode",
        "images": "uint8",
        "tensors": "kept",
        "memory_format": "channels_last",
        "relu": "inplace",
        "zero_grad": "none",
        "optimizer": "fused",
    }
)

FULL = replace(Options(), **HELPFUL)
OF_SOURCE = MappingProxyType(  # those of mario-pipeline.md; bfloat16 as mixed precision needs no loss scaling
    {
        "transport": "local_queues",
        "push": "batch",
        "stacks": "indexed",
        "images": "uint8",
        "tensors": "kept",
        "relu": "inplace",
        "precision": "bfloat16",
        "threads": "one",
    }
)

FORMS = MappingProxyType(
    {
        "naive": Options(),
        "full": FULL,
        "bfloat16": replace(FULL, precision="bfloat16"),
        "float16": replace(FULL, precision="float16"),
        "reduce_overhead": replace(FULL, compile_mode="reduce_overhead"),
        "cache_cleared": replace(FULL, gpu_cache="cleared"),
        "local_queues": replace(FULL, transport="local_queues"),
        "sparse": replace(FULL, resize="sparse"),
        "optimised": replace(Options(), **OF_SOURCE),
        **{f"only_{option}": replace(Options(), **{option: value}) for option, value in HELPFUL.items()},
        "only_local": replace(Options(), transport="local_queues"),
        "only_precision": replace(Options(), precision="bfloat16"),
        "only_threads": replace(Options(), threads="one"),
    }
)

SOURCES = MappingProxyType(
    {
        "naive": "the pipeline as mario-pipeline.md describes it before it was optimised: one queue behind a lock, "
        "item by item, torch's defaults of float32; written anew, as only parts of its code are printed there: it "
        "states about 1,000 experiences and 4 batches of 256 a second on a GPU",
        "optimised": "the same pipeline after that: a queue of each collector, larger batches, mixed precision, "
        "tensors that are kept, one thread; it states about 1,800 experiences and 10 batches of 512 a second on a GPU",
    }
)


def check_target(options, compiler):
    """Raise a ValueError for options that the backend does not support.

    float16 and clearing the cache need torch on CUDA. A CUDA graph needs compiled torch on CUDA, and gradients that do
    not outlive it, as the next replay writes to the same memory: no accumulation, and gradients dropped.
    """
    on_cuda = compiler.arrays == "torch-cuda"
    if options.precision == "float16" and not on_cuda:
        raise ValueError(f"precision: got 'float16' on {compiler.backend}, wanted torch on CUDA, or 'bfloat16'")
    if options.gpu_cache == "cleared" and not on_cuda:
        raise ValueError(f"gpu_cache: got 'cleared' on {compiler.backend}, wanted torch on CUDA, or 'kept'")
    if options.compile_mode == "reduce_overhead":
        if compiler.backend != "torch-compile-cuda":
            wanted = "torch-compile-cuda, or 'default'"
            raise ValueError(f"compile_mode: got 'reduce_overhead' on {compiler.backend}, wanted {wanted}")
        if (options.accumulate, options.zero_grad) != (1, "none"):
            got = f"accumulate {options.accumulate} and zero_grad {options.zero_grad!r}"
            raise ValueError(f"compile_mode: got 'reduce_overhead' with {got}, wanted 1 and 'none'")
