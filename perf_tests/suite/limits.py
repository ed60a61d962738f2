"""The limits of this machine (peak FLOP/s and copy bandwidth), and the share of them that an op reaches.

Each problem in ``rl_impls`` states the cost of a call as the least work that any form needs:

- FLOPs are those of matrix products, two per multiplication; element-wise work is not counted.
- Bytes are those of the batches read and written, once each. Weights, optimizer moments, environment states and
  whatever else an op keeps between calls are not counted, as they stay in the caches.
- An op without matrix products or large batches states no cost, and shows no share.
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

MEASURED = "RLGAUGE_LIMITS"  # environment variable with limits that were measured before, as JSON
SIZES = (512, 1024)  # matrix sizes: small enough to finish within a time slice, large enough for many threads
PIECE, PIECES = 4 << 20, 32  # bytes per copy, number of arrays: together larger than the caches
FIGURES = ("float32_flops", "bfloat16_flops", "copy_bytes")
GPU_SIZE, GPU_BYTES, GPU_CALLS = 8192, 1 << 30, 20  # matrix size, bytes per copy, calls of each
GPU_PRECISIONS = {"float32": "float32", "tf32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
BURSTS, BURST = 6, 0.02  # bursts per call, seconds per burst
PAUSE = 0.02  # seconds before each burst; meanwhile, idle threads of the previous burst stop spinning

Call = Callable[[], Any]


def products(size: int) -> Iterator[tuple[str, float, Call]]:
    """Yield a square float32 or bfloat16 matrix product per library: name of the limit, FLOPs and the call.

    The libraries differ by a factor of two on some processors. NumPy multiplies only the largest size, and last,
    because its idle threads spin for long.
    """
    import numpy as np

    flops = 2.0 * size**3
    a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    out = np.empty_like(a)
    if find_spec("torch"):
        import torch

        x, y = torch.from_numpy(a), torch.from_numpy(out)
        x16, y16 = x.bfloat16(), y.bfloat16()
        yield "float32_flops", flops, lambda: torch.mm(x, x, out=y)
        yield "bfloat16_flops", flops, lambda: torch.mm(x16, x16, out=y16)
        if torch.backends.mkldnn.is_available():
            linear = torch.ops.mkldnn._linear_pointwise  # torch.mm does not use oneDNN in float32
            yield "float32_flops", flops, lambda: linear(x, x.t(), None, "none", [], "")
    if find_spec("jax"):
        import jax

        on_device, product = jax.device_put(a), jax.jit(jax.numpy.matmul)
        yield "float32_flops", flops, lambda: product(on_device, on_device).block_until_ready()
    if size >= SIZES[-1]:
        yield "float32_flops", flops, lambda: np.matmul(a, a, out=out)


def copies() -> Iterator[tuple[str, float, Call]]:
    """Yield a copy per library: name of the limit, bytes read and written, and the call, which returns the copy.

    Each call copies the next of several arrays, which together exceed the caches.
    """
    import numpy as np

    def copied(target: Any, source: Any) -> Any:
        np.copyto(target, source)
        return target

    sources, targets = np.ones((2, PIECES, PIECE // 8))
    arrays = itertools.cycle(zip(targets, sources, strict=True))
    yield "copy_bytes", 2.0 * PIECE, lambda: copied(*next(arrays))
    if find_spec("torch"):
        import torch

        tensors = itertools.cycle(zip(torch.from_numpy(targets), torch.from_numpy(sources), strict=True))
        yield "copy_bytes", 2.0 * PIECE, lambda: torch.Tensor.copy_(*next(tensors))


def on_gpu() -> dict[str, float]:
    """Measure ``cuda_<precision>_flops`` and ``cuda_copy_bytes`` per second; empty where torch finds no GPU."""
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
    """Return the shortest of several calls in seconds, each synchronised with the GPU."""
    import torch

    seconds = []
    for _ in range(GPU_CALLS):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def least_time(call: Call) -> float:
    """Return the shortest call within one burst, in seconds."""
    least, end = float("inf"), time.perf_counter() + BURST
    while (start := time.perf_counter()) < end:
        call()
        least = min(least, time.perf_counter() - start)
    return least


def measure(threads: int) -> dict[str, float]:
    """Measure the limits in this process; bursts are interleaved so that a short disturbance lowers no limit."""
    set_up(threads)
    calls = [*copies(), *itertools.chain.from_iterable(map(products, SIZES))]
    for _, _, call in calls:
        call()  # compile
    most = dict.fromkeys(FIGURES, 0.0)
    for _ in range(BURSTS):
        for figure, work, call in calls:
            time.sleep(PAUSE)
            most[figure] = max(most[figure], work / least_time(call))
    # without bfloat16 instructions programs compute in float32, which can be faster than a library's emulation
    most["bfloat16_flops"] = max(most["bfloat16_flops"], most["float32_flops"]) if most["bfloat16_flops"] else 0.0
    return {"threads": float(threads), **most, **on_gpu()}


def here(threads: int) -> dict[str, float]:
    """Measure this machine's limits in a process of its own, with ``threads`` threads; takes a few seconds.

    If ``RLGAUGE_LIMITS`` is set, return the limits in it instead.

    Returns:
        ``threads``; ``float32_flops`` and ``bfloat16_flops``, the peak per second of a matrix product in the fastest
        installed library (0.0 if unknown); ``copy_bytes``, bytes read and written per second; with ``cuda_`` before the
        name, the same for a GPU.
    """
    limits: dict[str, float]
    if given := os.environ.get(MEASURED):
        limits = json.loads(given)
        return limits
    command, root = [sys.executable, "-m", __name__, str(threads)], Path(__file__).parents[2]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}  # JAX's search for a GPU takes longer than all measurements
    measured = subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    limits = json.loads(measured)
    return limits


def share(
    flops: float, bytes: float, precision: str, seconds: float, limits: Mapping[str, float], device: str = "cpu"
) -> tuple[float | None, str | None]:
    """Return the share of the machine's limit that a call reaches, and which limit binds: ``flops`` or ``bytes``.

    Both are None if the call states no cost or the limit is unknown. ``seconds`` is the duration of a call, and
    ``limits`` what :func:`here` returned.
    """
    of = "" if device == "cpu" else f"{device}_"
    rates = limits.get(f"{of}{precision}_flops", 0.0), limits.get(f"{of}copy_bytes", 0.0)
    costs = {"flops": (flops, rates[0]), "bytes": (bytes, rates[1])}
    least = {bound: work / rate for bound, (work, rate) in costs.items() if work and rate}
    if not least:
        return None, None
    bound = max(least, key=least.__getitem__)
    return least[bound] / seconds, bound


def raise_limits(result: Any, limits: Mapping[str, float]) -> None:
    """Raise the limits of a run's JSON to those measured later, if these are higher, and update the shares of them."""
    first = result["rlgauge"]["limits"]
    highest = {name: max(value, limits[name]) for name, value in first.items()}
    result["rlgauge"]["limits"] = highest
    for row in (benchmark["extra_info"] for benchmark in result["benchmarks"]):
        costs = row["flops"], row["bytes"], row["precision"], row["seconds_per_call"]
        row["limit_share"], row["bound"] = share(*costs, highest, row["device"])


def share_words(share: float | None, bound: str | None) -> str:
    """Return a share for a table: ``12%``, ``in cache`` above the memory bandwidth, or ``-`` without a cost."""
    if share is None:
        return "-"
    if bound == "bytes" and share > 1:
        return "in cache"
    return f"{100 * share:{'.0f' if share >= 0.1 else '.2g'}}%"


def above_peak(row: Mapping[str, Any]) -> bool:
    """Return whether a row exceeds the peak FLOP/s measured in the same run."""
    return bool(row["bound"] == "flops" and row["limit_share"] > 1)


def above_peak_warnings(rows: Iterable[Mapping[str, Any]], limits: Mapping[str, float]) -> list[str]:
    """Return a warning that names the rows above the measured peak; an empty list if there are none.

    The correctness tests check the stated FLOPs against what torch dispatches, so the peak is more likely wrong: it is
    measured in a few seconds, and other programs on a shared machine can lower it.
    """
    found = [f"{row['id']} ({share_words(row['limit_share'], row['bound'])})" for row in rows if above_peak(row)]
    if not found:
        return []
    peaks = ", ".join(f"{name.removesuffix('_flops')} {rate:.3g}" for name, rate in limits.items() if "flops" in name)
    return [
        f"Above the machine's measured peak: {', '.join(found)}. Other programs probably lowered the measured "
        f"peak (FLOP/s: {peaks}). Repeat the run on an idle machine."
    ]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
