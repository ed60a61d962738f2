"""What this machine can do at most: matrix-product peak in float32 and bfloat16, and copy bandwidth.

Measured once per machine and number of threads, in a process of its own, and kept in the cache folder. A figure of
0.0 means that it could not be measured because torch is missing.
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
from pathlib import Path
from typing import Any

SIZE = 1536  # rows and columns of the matrices: 9 MB each in float32, long enough to reach the peak
COPIED = 64 << 20  # bytes, beyond every cache
REPEATS = 12


def best(call: Callable[[], Any]) -> float:
    """Return the least time of several calls, in seconds."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(threads: int) -> dict[str, float]:
    """Return ``float32_flops`` and ``bfloat16_flops`` per second, and ``copy_bytes`` read and written per second."""
    import numpy as np

    limits = {"threads": float(threads), "bfloat16_flops": 0.0}
    a = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    out = np.empty_like(a)
    limits["float32_flops"] = 2 * SIZE**3 / best(lambda: np.matmul(a, a, out=out))
    source, target = np.ones(COPIED // 8), np.zeros(COPIED // 8)
    limits["copy_bytes"] = 2 * COPIED / best(lambda: np.copyto(target, source))
    try:
        import torch
    except ModuleNotFoundError:
        return limits
    torch.set_num_threads(threads)
    for name, dtype in (("float32_flops", torch.float32), ("bfloat16_flops", torch.bfloat16)):
        tensor = torch.from_numpy(a).to(dtype)
        result = torch.empty_like(tensor)

        def product(tensor: Any = tensor, result: Any = result) -> Any:
            return torch.mm(tensor, tensor, out=result)

        limits[name] = max(limits.get(name, 0.0), 2 * SIZE**3 / best(product))
    copied, copy = torch.from_numpy(source), torch.from_numpy(target)
    limits["copy_bytes"] = max(limits["copy_bytes"], 2 * COPIED / best(lambda: copy.copy_(copied)))
    return limits


def here(threads: int, cache: Path) -> dict[str, float]:
    """Return this machine's limits, measured now if they are not in the cache."""
    cpuinfo = Path("/proc/cpuinfo")
    model = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")), "")
    key = hashlib.sha256(f"{platform.node()} {model} {os.cpu_count()}".encode()).hexdigest()[:12]
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
