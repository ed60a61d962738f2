"""What a timing process must have set before NumPy, torch or JAX is imported: threads, affinity, what malloc keeps."""

from __future__ import annotations

import ctypes
import os
import sys

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # as malloc.h has them
NEVER = -1  # as mallopt takes it, for a C int; the variable takes the largest number
TUNABLES = f"glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold={2**64 - 1}"
MEMORY = ("kept", "default")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def set_up(threads: int, memory: str = "kept", turn: int = 0) -> None:
    """Give this process ``threads`` threads and the cores for them.

    Processes that work side by side get cores of their own by their ``turn``, the first of them the first cores.

    Memory that is freed is ``kept``, see :func:`keep_memory`, or dealt with as by ``default``, as in a user's process.

    JAX takes its number of threads from the affinity it starts with, the others from variables read at import.

    Args:
        threads: how many.
        memory: ``kept`` or ``default``.
        turn: number of this process among those side by side, from 0.

    Raises:
        ValueError: more threads than cores, or less than one; memory that is neither kept nor default.
        RuntimeError: torch or JAX was imported before, or NumPy where it is not to have all cores.
    """
    if not 1 <= threads <= cores():
        raise ValueError(f"threads: got {threads}, wanted 1 to {cores()}, the cores this process may use")
    if memory not in MEMORY:
        raise ValueError(f"memory: got {memory!r}, wanted {' or '.join(MEMORY)}")
    late = ("torch", "jax") if threads == cores() else ("torch", "jax", "numpy")  # NumPy takes all cores by itself
    early = [name for name in late if name in sys.modules]
    if early:
        raise RuntimeError(f"{' and '.join(early)} imported before the number of threads was set")
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    here = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [here[(turn * threads + number) % len(here)] for number in range(threads)])
    if memory == "kept":
        keep_memory()


def keep_memory() -> None:
    """Have glibc keep memory that is freed: of what it gives back, the kernel clears every page again.

    Arrays beyond 32 MiB, as the temporaries of a compiled update, are given back at every call otherwise, which took
    up to half of its time, and more or less from process to process. Processes that this one starts do the same.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_ARENA_MAX, 1)  # those of other threads give back what does not fit into 64 MiB
    mallopt(M_TRIM_THRESHOLD, NEVER)
    os.environ["GLIBC_TUNABLES"] = TUNABLES


def waiting_policy() -> str:
    """Say how OpenMP's idle threads wait: the variable, or the library's default."""
    return os.environ.get("OMP_WAIT_POLICY", "the library's default (OMP_WAIT_POLICY is not set)")
