"""Optimisation options of the experience pipeline; every default is the naive choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..common.config import config


@config
class Options:
    """Values of all optimisation options. Compilation is not among them: it is a backend, ``torch-compile``.

    The initial weights decide whether there is batch norm, see :func:`.net.init_net`. The op's configuration sets the
    number of collectors, the replay's capacity, the batch size and the epochs between publications.

    Attributes:
        transport: one queue with one lock for all collectors; a queue per environment, delivered in batches; or a ring
            per environment in shared memory.
        publication: pickle new weights for each collector, or write them once to shared memory.
        priority: let collectors compete with the learner for cores, or give way to it: the threads of one operation
            wait for each other, so one that loses its core delays all.
        resize: compute grey values first, then two dense products; or sum only the few rows that each output row covers
            (sparse), which is less work but slower, so ``full`` is dense.
        push: store experiences one by one, or all that have arrived at once.
        stacks: build observations one by one, or gather them all by index.
        tree: set and find priorities one by one in a plain-Python tree, or vectorised for a whole batch.
        acting: call the network for each environment of a collector, or once for all.
        inference: autograd mode while acting (torch).
        images: divide the frames by 255, or the first kernel, which has fewer elements (torch). The op ``store`` keeps
            frames in this dtype.
        tensors: copy observations to new tensors in each update, or to reused ones (torch).
        memory_format: channels first or last in frames and convolution weights (torch).
        relu: write to new memory or in place (torch).
        zero_grad: fill gradients with zeros or drop them (torch).
        optimizer: apply Adam and clipping array by array or fused (torch; jax always fuses).
        precision: precision of the forward and backward pass; float16 scales the loss and needs CUDA.
        accumulate: parts of a batch that pass through the network one after the other.
        threads: threads per operation of the learner, one or all of the process (torch).
        compile_mode: launch the kernels of a compiled update one by one, or as one CUDA graph; needs CUDA.
        gpu_cache: keep memory that torch does not need, or return it after each epoch; needs CUDA.
    """

    transport: Literal["locked_queue", "local_queues", "shared_ring"] = "locked_queue"
    publication: Literal["pickled", "shared"] = "pickled"
    priority: Literal["equal", "learner"] = "equal"
    resize: Literal["dense", "sparse"] = "dense"
    push: Literal["item", "batch"] = "item"
    stacks: Literal["item", "indexed"] = "item"
    tree: Literal["literal", "vectorised"] = "literal"
    acting: Literal["each", "together"] = "each"
    inference: Literal["grad", "inference_mode"] = "grad"
    images: Literal["float", "uint8"] = "float"
    tensors: Literal["new", "kept"] = "new"
    memory_format: Literal["contiguous", "channels_last"] = "contiguous"
    relu: Literal["copy", "inplace"] = "copy"
    zero_grad: Literal["fill", "none"] = "fill"
    optimizer: Literal["loop", "fused"] = "loop"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    accumulate: Literal[1, 4] = 1
    threads: Literal["one", "all"] = "all"
    compile_mode: Literal["default", "reduce_overhead"] = "default"
    gpu_cache: Literal["kept", "cleared"] = "kept"


# The pipeline of mario-pipeline.md (a document that is not public) before its optimisation, with torch's float32
# defaults, rewritten because the source prints only parts of its code. The source states about 1,000 experiences and 4
# batches of 256 per second on a GPU.
NAIVE = Options()
# The same pipeline after its optimisation: about 1,800 experiences and 10 batches of 512 per second on a GPU. Mixed
# precision is bfloat16, which needs no loss scaling.
OPTIMISED = Options(
    transport="local_queues", push="batch", stacks="indexed", images="uint8", tensors="kept", relu="inplace",
    precision="bfloat16", threads="one",
)  # fmt: skip
FULL = Options(
    transport="shared_ring", publication="shared", priority="learner", push="batch", stacks="indexed",
    tree="vectorised", acting="together", inference="inference_mode", images="uint8", tensors="kept",
    memory_format="channels_last", relu="inplace", zero_grad="none", optimizer="fused",
)  # fmt: skip

FORMS = {
    "naive": NAIVE,
    "full": FULL,
    "bfloat16": replace(FULL, precision="bfloat16"),
    "float16": replace(FULL, precision="float16"),
    "reduce_overhead": replace(FULL, compile_mode="reduce_overhead"),
    "cache_cleared": replace(FULL, gpu_cache="cleared"),
    "local_queues": replace(FULL, transport="local_queues"),
    "sparse": replace(FULL, resize="sparse"),
    "optimised": OPTIMISED,
    "only_local": replace(NAIVE, transport="local_queues"),
    "only_transport": replace(NAIVE, transport="shared_ring"),
    "only_images": replace(NAIVE, images="uint8"),
    "only_precision": replace(NAIVE, precision="bfloat16"),
    "only_threads": replace(NAIVE, threads="one"),
}


def check_supported(options, compiler):
    """Raise ValueError for options that the backend does not support.

    float16 and clearing the cache need torch on CUDA. A CUDA graph needs compiled torch on CUDA, and gradients that do
    not outlive it, as the next replay writes to the same memory: no accumulation, and gradients dropped.
    """
    on_cuda = compiler.arrays == "torch-cuda"
    if options.precision == "float16" and not on_cuda:
        raise ValueError(f"precision='float16' is not available on {compiler.backend}, only on torch with CUDA")
    if options.gpu_cache == "cleared" and not on_cuda:
        raise ValueError(f"gpu_cache='cleared' is not available on {compiler.backend}, only on torch with CUDA")
    if options.compile_mode == "reduce_overhead":
        if compiler.backend != "torch-compile-cuda":
            raise ValueError(
                f"compile_mode='reduce_overhead' is not available on {compiler.backend}, only on torch-compile-cuda"
            )
        if (options.accumulate, options.zero_grad) != (1, "none"):
            raise ValueError("compile_mode='reduce_overhead' needs accumulate=1 and zero_grad='none'")
