"""Set up a process before NumPy, torch or JAX is imported (threads, cores, malloc), and run commands."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # from malloc.h
NEVER = -1  # for mallopt, which takes a C int; the environment variable takes the largest number
TUNABLES = f"glibc.malloc.mmap_max=0:glibc.malloc.arena_max=1:glibc.malloc.trim_threshold={2**64 - 1}"
MEMORY = ("kept", "default")
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")  # microseconds per period, of a container's control group (version 2)


def available_cores() -> tuple[int, ...]:
    """Return the ids of the cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_limit(file: Path = CPU_LIMIT) -> int | None:
    """Return the number of cores that a container's limit allows to be busy, at least 1; None if there is no limit."""
    try:
        quota, period = file.read_text("utf-8").split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):  # it does not exist, or the quota is "max"
        return None


def set_up(threads: int, memory: str = "kept", turn: int = 0) -> None:
    """Limit this process to ``threads`` threads and as many cores.

    JAX takes its number of threads from the core affinity at its start, other libraries from variables read at import.

    Args:
        threads: number of threads, at most the number of available cores.
        memory: ``kept`` (see :func:`keep_memory`) or ``default`` malloc behaviour, as in a user's process.
        turn: index of this process among concurrent ones; each gets different cores, starting with the first.

    Raises:
        ValueError: an argument is out of range.
        RuntimeError: torch or JAX is already imported, or NumPy although it must not use all cores.
    """
    if not 1 <= threads <= cores():
        raise ValueError(f"threads: {threads} is out of range; choose 1 to {cores()}, the cores this process may use")
    if memory not in MEMORY:
        raise ValueError(f"memory: unknown value {memory!r} (choose from {', '.join(MEMORY)})")
    late = ("torch", "jax") if threads == cores() else ("torch", "jax", "numpy")  # NumPy uses all cores by default
    early = [name for name in late if name in sys.modules]
    if early:
        names = " and ".join(early)
        raise RuntimeError(f"{names} imported before the number of threads was set; call set_up() before the import")
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    here = available_cores()
    os.sched_setaffinity(0, [here[(turn * threads + number) % len(here)] for number in range(threads)])
    if memory == "kept":
        keep_memory()


def keep_memory() -> None:
    """Make glibc keep freed memory, since the kernel clears every page that is returned and allocated again.

    Otherwise arrays above 32 MiB, such as temporaries of a compiled update, are returned in every call. That took up to
    half of the call's time, and varied between processes. Child processes inherit the setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_ARENA_MAX, 1)  # arenas of other threads return what does not fit into 64 MiB
    mallopt(M_TRIM_THRESHOLD, NEVER)
    os.environ["GLIBC_TUNABLES"] = TUNABLES


def waiting_policy() -> str:
    """Describe how idle OpenMP threads wait: the value of the environment variable, or the library's default."""
    return os.environ.get("OMP_WAIT_POLICY", "the library's default (OMP_WAIT_POLICY is not set)")


@contextmanager
def started(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command whose output, errors included, is a pipe; wait for it, or kill it with its children on an error.

    `how` has further arguments of :class:`subprocess.Popen`.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",  # compilers quote sources of any encoding
        start_new_session=True,
        **how,
    ) as process:
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
