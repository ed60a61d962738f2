"""What this machine can do at most, and the share of it that an op reaches.

What a call costs is stated beside its case, and is the least work that any form needs, so that the limit is one:

- FLOPs are those of its matrix products, two for each multiplication; work element by element is not counted.
- Bytes are those of the batches it reads and writes, once each. Weights, moments, games and whatever else an op keeps
  from call to call are charged nowhere: they stay in the caches.
- An op with neither products nor batches worth counting states neither, and shows no share.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .process import set_up

SIZES = (256, 1024)  # of the matrices: one that is done before another process gets its turn, one for many threads
PIECE, PIECES = 4 << 20, 32  # bytes copied at a time, and how many take their turn: together beyond the caches
FIGURES = ("float32_flops", "bfloat16_flops", "copy_bytes")
GPU_SIZE, GPU_BYTES, GPU_CALLS = 8192, 1 << 30, 20  # of its matrices, of its copy, and how often each is done
GPU_PRECISIONS = {"float32": "float32", "tf32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
BURSTS, BURST = 6, 0.02  # of each call: how many, and seconds of one

Call = Callable[[], Any]


def products(size: int) -> Iterator[tuple[str, float, Call]]:
    """Yield a matrix product in each library, as the figure it tells, its FLOPs and the call.

    The libraries differ by a factor of two on some processors.

    Args:
        size: rows and columns of the matrices.
    """
    import numpy as np

    flops = 2.0 * size**3
    a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    out = np.empty_like(a)
    yield "float32_flops", flops, lambda: np.matmul(a, a, out=out)
    if find_spec("torch"):
        import torch

        x, y = torch.from_numpy(a), torch.from_numpy(out)
        x16, y16 = x.bfloat16(), y.bfloat16()
        yield "float32_flops", flops, lambda: torch.mm(x, x, out=y)
        yield "bfloat16_flops", flops, lambda: torch.mm(x16, x16, out=y16)
    if find_spec("jax"):
        import jax

        on_device, product = jax.device_put(a), jax.jit(jax.numpy.matmul)
        yield "float32_flops", flops, lambda: product(on_device, on_device).block_until_ready()


def copies() -> Iterator[tuple[str, float, Call]]:
    """Yield a copy of the next piece in each library, as the figure it tells, bytes read and written, and the call."""
    import numpy as np

    sources, targets = np.ones((2, PIECES, PIECE // 8))
    arrays = itertools.cycle(zip(targets, sources, strict=True))
    yield "copy_bytes", 2.0 * PIECE, lambda: np.copyto(*next(arrays))
    if find_spec("torch"):
        import torch

        tensors = itertools.cycle(zip(torch.from_numpy(targets), torch.from_numpy(sources), strict=True))
        yield "copy_bytes", 2.0 * PIECE, lambda: torch.Tensor.copy_(*next(tensors))


def on_gpu() -> dict[str, float]:
    """Measure the GPU: FLOP/s of a matrix product by precision, and bytes per second of a copy in its memory.

    Returns:
        ``cuda_float32_flops`` and so on, and ``cuda_copy_bytes``; nothing where torch finds no GPU.
    """
    if not find_spec("torch"):
        return {}
    import torch

    if not torch.cuda.is_available():
        return {}
    generator, found = torch.Generator("cuda").manual_seed(0), {}
    for precision, dtype in GPU_PRECISIONS.items():
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        a = torch.randn(GPU_SIZE, GPU_SIZE, generator=generator, device="cuda").to(getattr(torch, dtype))
        out = torch.empty_like(a)
        call = partial(torch.mm, a, a, out=out)
        found[f"cuda_{precision}_flops"] = 2.0 * GPU_SIZE**3 / least_time_on_gpu(call)
    source = torch.ones(GPU_BYTES, dtype=torch.uint8, device="cuda")
    found["cuda_copy_bytes"] = 2.0 * GPU_BYTES / least_time_on_gpu(partial(torch.empty_like(source).copy_, source))
    return found


def least_time_on_gpu(call: Call) -> float:
    """Return the least time of several calls, each until the GPU has finished, in seconds."""
    import torch

    seconds = []
    for _ in range(GPU_CALLS):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def least_time(call: Call) -> float:
    """Return the least time of the calls of one burst, in seconds.

    Args:
        call: what is timed.
    """
    least, end = float("inf"), time.perf_counter() + BURST
    while (start := time.perf_counter()) < end:
        call()
        least = min(least, time.perf_counter() - start)
    return least


def measure(threads: int) -> dict[str, float]:
    """Measure in this process: the best of bursts that take turns, so that what else runs lowers no figure for long.

    Args:
        threads: of the process that measures.
    """
    set_up(threads)
    calls = [*itertools.chain.from_iterable(map(products, SIZES)), *copies()]
    for _, _, call in calls:
        call()  # compiles
    most = dict.fromkeys(FIGURES, 0.0)
    for _ in range(BURSTS):
        for figure, work, call in calls:
            most[figure] = max(most[figure], work / least_time(call))
    # a processor without instructions for it computes in 32 bits, as programs do; a library's own way may be slower
    most["bfloat16_flops"] = max(most["bfloat16_flops"], most["float32_flops"]) if most["bfloat16_flops"] else 0.0
    return {"threads": float(threads), **most, **on_gpu()}


def here(threads: int) -> dict[str, float]:
    """Measure this machine's limits anew, with ``threads`` threads, in a process of its own; takes a few seconds.

    Args:
        threads: of the process that measures.

    Returns:
        ``threads``; ``float32_flops`` and ``bfloat16_flops`` per second, the peak of a matrix product in the fastest
        library installed, 0.0 where none can tell; ``copy_bytes`` read and written per second; with ``cuda_`` before
        them the same of a GPU.
    """
    command, root = [sys.executable, "-m", __name__, str(threads)], Path(__file__).parents[2]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}  # looking for a GPU takes longer than all that is measured
    measured = subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    limits: dict[str, float] = json.loads(measured)
    return limits


def share(
    flops: float, bytes: float, precision: str, seconds: float, limits: Mapping[str, float], device: str = "cpu"
) -> tuple[float | None, str | None]:
    """Return the share of the machine's limit that a call reaches, and which limit binds: ``flops`` or ``bytes``.

    Both are None where the call has no cost, or nothing is known of the limit.

    Args:
        flops: floating-point operations of the call; 0 for none worth counting.
        bytes: bytes that it reads and writes; 0 for none worth counting.
        precision: of its products, such as ``float32``.
        seconds: time of the call.
        limits: what ``here`` returned.
        device: that computes.
    """
    of = "" if device == "cpu" else f"{device}_"
    rates = limits.get(f"{of}{precision}_flops", 0.0), limits.get(f"{of}copy_bytes", 0.0)
    costs = {"flops": (flops, rates[0]), "bytes": (bytes, rates[1])}
    least = {bound: work / rate for bound, (work, rate) in costs.items() if work and rate}
    if not least:
        return None, None
    bound = max(least, key=least.__getitem__)
    return least[bound] / seconds, bound


def share_words(share: float | None, bound: str | None) -> str:
    """Return a share as a table shows it: ``12 %``, ``in cache`` for more bytes than memory can move, or ``-``.

    Args:
        share: part of the limit, 1.0 for all of it; None where a call has no cost.
        bound: ``flops`` or ``bytes``, which limit binds; None likewise.
    """
    if share is None:
        return "-"
    if bound == "bytes" and share > 1:
        return "in cache"
    return f"{100 * share:{'.0f' if share >= 0.1 else '.2g'}} %"


def above_peak(row: Mapping[str, Any]) -> bool:
    """Return whether a row computes faster than the peak that was measured in the same run."""
    return bool(row["bound"] == "flops" and row["limit_share"] > 1)


def above_peak_warnings(rows: Iterable[Mapping[str, Any]], limits: Mapping[str, float]) -> list[str]:
    """Return a warning that names the rows which compute faster than the measured peak, nothing if there are none.

    The tests compare the costs of the cases with what torch dispatches, so the peak is what is usually wrong: it is
    measured in a few seconds, and on a shared machine other programs can lower it.

    Args:
        rows: each with ``id``, ``limit_share`` and ``bound``.
        limits: what ``here`` returned.
    """
    found = [f"{row['id']} ({share_words(row['limit_share'], row['bound'])})" for row in rows if above_peak(row)]
    if not found:
        return []
    peaks = ", ".join(f"{name.removesuffix('_flops')} {rate:.3g}" for name, rate in limits.items() if "flops" in name)
    return [
        f"Above the machine's measured peak: {', '.join(found)}. The peak was probably measured too low, as happens "
        f"while other programs run (FLOP/s: {peaks}). Repeat the run on an idle machine."
    ]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
