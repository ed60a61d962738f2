"""What this machine can do at most: matrix-product peak in float32 and bfloat16, and copy bandwidth.

The peak is that of the fastest library installed: they differ by a factor of two on some processors. Measured once per
machine and number of threads, in a process of its own, and kept in the cache folder; 0.0 where no library can tell.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SIZE = 1024  # rows and columns of the matrices: 4 MB each in float32
COPIED = 256 << 20  # bytes, beyond every cache
SECONDS = 0.6  # of trying, for each figure


def best(call: Callable[[], Any]) -> float:
    """Return the least time of many calls, in seconds."""
    call()
    least, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def measure(threads: int) -> dict[str, float]:
    """Return ``float32_flops`` and ``bfloat16_flops`` per second, and ``copy_bytes`` read and written per second."""
    import numpy as np

    a = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    out = np.empty_like(a)
    source, target = np.ones(COPIED // 8), np.zeros(COPIED // 8)
    products = [best(lambda: np.matmul(a, a, out=out))]
    copies = [best(lambda: np.copyto(target, source))]
    half = float("inf")
    if find_spec("torch"):
        import torch

        torch.set_num_threads(threads)
        x, y = torch.from_numpy(a), torch.from_numpy(out)
        products.append(best(lambda: torch.mm(x, x, out=y)))
        x16, y16 = x.bfloat16(), y.bfloat16()
        half = best(lambda: torch.mm(x16, x16, out=y16))
        copied, copy = torch.from_numpy(source), torch.from_numpy(target)
        copies.append(best(lambda: copy.copy_(copied)))
    if find_spec("jax"):
        import jax

        device, product = jax.device_put(a, jax.devices("cpu")[0]), jax.jit(jax.numpy.matmul)
        products.append(best(lambda: product(device, device).block_until_ready()))
    return {
        "threads": float(threads),
        "float32_flops": 2 * SIZE**3 / min(products),
        "bfloat16_flops": 2 * SIZE**3 / half,
        "copy_bytes": 2 * COPIED / min(copies),
    }


def here(threads: int, cache: Path) -> dict[str, float]:
    """Return this machine's limits, measured now if they are not in the cache."""
    cpuinfo = Path("/proc/cpuinfo")
    model = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")), "")
    libraries = [metadata.version(name) for name in ("numpy", "torch", "jaxlib") if find_spec(name)]
    key = hashlib.sha256(f"{platform.node()} {model} {os.cpu_count()} {libraries}".encode()).hexdigest()[:12]
    path = cache / f"limits-{key}-threads{threads}.json"
    if not path.exists():
        print(f"measuring this machine's limits with {threads} threads ...", file=sys.stderr, flush=True)
        measured = subprocess.run(
            [sys.executable, __file__, str(threads)], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        cache.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(measured)
        temporary.replace(path)
    limits: dict[str, float] = json.loads(path.read_text())
    return limits


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
