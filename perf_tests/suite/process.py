"""What a process that times this suite's cases must have set before torch or JAX is imported."""

from __future__ import annotations

import os
from pathlib import Path

from rlgauge import process
from rlgauge.process import MEMORY, cores, waiting_policy

CACHE = Path(__file__).parents[2] / ".cache"
__all__ = ["CACHE", "MEMORY", "cores", "set_up", "waiting_policy"]


def set_up(threads: int, memory: str = "kept", turn: int = 0) -> None:
    """Give this process ``threads`` threads and the cores for them, and point the compilers at their caches.

    Args:
        threads: how many.
        memory: ``kept`` or ``default``, see :func:`rlgauge.process.set_up`.
        turn: number of this process among those side by side, from 0.

    Raises:
        ValueError: more threads than cores, or less than one; memory that is neither kept nor default.
        RuntimeError: torch or JAX was imported before, or NumPy where it is not to have all cores.
    """
    process.set_up(threads, memory, turn)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE / "inductor"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
