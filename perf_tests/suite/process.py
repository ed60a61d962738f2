"""Settings of a timing process that must precede the import of torch and JAX."""

from __future__ import annotations

import os
from pathlib import Path

from rlgauge import process
from rlgauge.process import MEMORY, cores, waiting_policy

CACHE = Path(__file__).parents[2] / ".cache"
__all__ = ["CACHE", "MEMORY", "cores", "set_up", "waiting_policy"]


def set_up(threads: int, memory: str = "kept", turn: int = 0) -> None:
    """Call :func:`rlgauge.process.set_up`, and set the cache folders of the compilers."""
    process.set_up(threads, memory, turn)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE / "inductor"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
