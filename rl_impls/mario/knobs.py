"""The optimisations of the experience pipeline; every default is the naive choice."""

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
class Knobs:
    """One setting of every knob. Whether the net is compiled is the backend's choice: ``torch-compile``.

    Batch norm and the way weights are drawn are said by the weights, see :func:`.spec.init_net`; the number of
    collectors, the buffer, the batch and how often weights are published by the spec.

    Attributes:
        transport: one queue behind one lock, item by item; a queue of each collector, and a thread that consolidates
            them; or a ring of each collector in shared memory.
        publication: new weights pickled for each collector, or written once to shared memory.
        priority: collectors have their share of the cores while the learner computes, or give way to it: threads of one
            operation wait for each other, and so for whoever has the core of one.
        resize: grey values first and two dense products, or only the few rows that each row of the result is made of,
            which is less work and takes longer: ``full`` has it dense.
        push: experiences stored one by one, or all that arrived at once.
        stacks: states built one by one, or gathered by index all at once.
        tree: priorities walked through one by one in Python, or level by level for all at once.
        acting: the net is called for each environment of a collector, or once for all.
        inference: what autograd records while acting (torch).
        images: turned into numbers of 32 bits from 0 to 1, or kept as bytes until the net (torch).
        tensors: pictures turned into new tensors in each update, or into memory that is kept (torch).
        memory_format: planes and weights of convolutions lie plane by plane, or pixel by pixel (torch).
        relu: into new memory, or in place (torch).
        zero_grad: gradients filled with zeros, or dropped (torch).
        optimizer: Adam and the gradient's norm one array after the other, as torch chooses, or all at once (torch; jax
            fuses either way).
        precision: of the forward and backward pass; float16 with its loss scaled, on CUDA.
        accumulate: parts of a batch that go through the net one after the other.
        threads: of one operation of the learner: one, or all that the process has (torch).
        compile_mode: the kernels of a compiled update are launched one by one, or as one CUDA graph; on CUDA.
        gpu_cache: memory that torch does not need at the moment stays its own, or is given back after each epoch; on
            CUDA.
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
        """Raise a ValueError for a value that no knob has."""
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

FULL = replace(Knobs(), **HELPFUL)
OF_SOURCE = MappingProxyType(  # what mario-pipeline.md lists; mixed precision is bfloat16, which needs no scaled loss
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
        "naive": Knobs(),
        "full": FULL,
        "bfloat16": replace(FULL, precision="bfloat16"),
        "float16": replace(FULL, precision="float16"),
        "reduce_overhead": replace(FULL, compile_mode="reduce_overhead"),
        "cache_cleared": replace(FULL, gpu_cache="cleared"),
        "local_queues": replace(FULL, transport="local_queues"),
        "sparse": replace(FULL, resize="sparse"),
        "optimised": replace(Knobs(), **OF_SOURCE),
        **{f"only_{knob}": replace(Knobs(), **{knob: value}) for knob, value in HELPFUL.items()},
        "only_local": replace(Knobs(), transport="local_queues"),
        "only_precision": replace(Knobs(), precision="bfloat16"),
        "only_threads": replace(Knobs(), threads="one"),
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


def check_target(knobs, target):
    """Check that a backend has what is asked for.

    Args:
        knobs: those of CUDA are read, and with what they do not go together.
        target: device and lowering of the backend.

    Raises:
        ValueError: float16, or a cache to clear, elsewhere than in torch on CUDA; a CUDA graph elsewhere than in
            compiled torch on CUDA, or where gradients outlive it: the next replay writes to the same memory.
    """
    on_cuda = target.arrays == "torch-cuda"
    if knobs.precision == "float16" and not on_cuda:
        raise ValueError(f"precision: got 'float16' on {target.backend}, wanted torch on CUDA, or 'bfloat16'")
    if knobs.gpu_cache == "cleared" and not on_cuda:
        raise ValueError(f"gpu_cache: got 'cleared' on {target.backend}, wanted torch on CUDA, or 'kept'")
    if knobs.compile_mode == "reduce_overhead":
        if target.backend != "torch-compile-cuda":
            wanted = "torch-compile-cuda, or 'default'"
            raise ValueError(f"compile_mode: got 'reduce_overhead' on {target.backend}, wanted {wanted}")
        if (knobs.accumulate, knobs.zero_grad) != (1, "none"):
            got = f"accumulate {knobs.accumulate} and zero_grad {knobs.zero_grad!r}"
            raise ValueError(f"compile_mode: got 'reduce_overhead' with {got}, wanted 1 and 'none'")
