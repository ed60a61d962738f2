"""One side of a pair: a process that receives requests as lines of JSON to prepare, time and close cases.

:mod:`.benchmarks.worker` is its main module, started with ``... CORES THREADS MEMORY``. Requests come from standard
input; replies go to the original standard output, and any other output to standard error. The parent's side is
:mod:`.workers`.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import os
import random
import re
import resource
import signal
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO

from .output_files import save

SEED = 0
SAMPLES, LONG_SECONDS = 3, 1.0  # samples of a first timing, of which the fastest counts; none begins after a second
MEMORY_ROUNDS, MEMORY_SAMPLES, MEMORY_CALLS = 3, 5, 2  # repetitions, of which the smallest count is reported
PR_SET_THP_DISABLE = 41  # from prctl.h
HEAP_SHIFT: list[bytearray] = []  # kept alive until the process ends
# Thresholds of garbage collection, and a first threshold that imports do not reach. Disabling it during imports would
# hide that the project disables it.
THRESHOLDS, UNREACHED = gc.get_threshold(), 1 << 24
# A waiting test may have replaced the functions of the modules. Fake file systems replace these functions everywhere,
# except inside partial objects.
DUMPS, LOADS, LIST_FILES = json.dumps, json.loads, functools.partial(os.listdir)
OPEN = functools.partial[Any](open)


def begin() -> TextIO:
    """Redirect standard output, use the cores that the command line names, and return the stream for replies.

    Call it before any heavy import. It also shifts the heap by a random amount, and postpones garbage collection:
    scanning everything that stays alive, repeatedly, takes a fifth of the set-up time.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    HEAP_SHIFT.append(bytearray(random.SystemRandom().randrange(1 << 22)))
    gc.set_threshold(UNREACHED)
    os.sched_setaffinity(0, map(int, sys.argv[-3].split(",")))
    return replies


def restore_sigterm() -> None:
    """Let SIGTERM end a child that a test forks, unless the test has set a handler."""
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def collect_as_usual() -> None:
    """Restore normal garbage collection, on which timed code may depend, unless the project has configured its own."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold()[0] >= UNREACHED:
        gc.set_threshold(*THRESHOLDS)


class Prepared(Protocol):
    """A case that is ready to be timed; ``calls`` is the number of calls in its next sample."""

    calls: int

    def first_output(self) -> Any:
        """Run the first call or calls; return the output to compare."""

    def calibrate(self) -> int:
        """Return the number of calls in a sample that is long enough, and use it from now on."""

    def reset(self) -> None:
        """Restore the state from which every sample starts."""

    def call(self) -> Any:
        """Run one call."""

    def sample(self) -> float:
        """Reset, then return the seconds of ``calls`` calls."""

    def close(self) -> None:
        """Release its resources."""


class Requests:
    """The requests about prepared cases that the gate can send to a worker, one method each.

    Attributes:
        prepared: the prepared cases, by id.
        clock: returns the time in seconds.
        children: ids of the processes that the current case has started; they run only during requests.
    """

    def __init__(self) -> None:
        self.prepared: dict[str, Prepared] = {}
        self.clock = time.perf_counter
        self.children: list[int] = []

    def measure(self, identity: str) -> dict[str, Any] | None:
        """Return the calls per sample, the timed and wall seconds per call, and the iterations that count as one call.

        The timed seconds are those of the fastest of several samples; the wall time includes untimed parts of a call. A
        sample that takes over a second is not repeated.
        """
        prepared = self.prepared[identity]
        calls, seconds = prepared.calibrate(), list[float]()
        start = self.clock()
        while len(seconds) < SAMPLES and self.clock() - start < LONG_SECONDS:
            seconds.append(prepared.sample())
        wall = (self.clock() - start) / (len(seconds) * calls)
        iterations = getattr(prepared, "iterations", 1)
        return {"calls": calls, "call": min(seconds) / calls, "wall": wall, "iterations": iterations}

    def place(self, core: int | None) -> dict[str, Any]:
        """Pin all threads of this process and of those that it has started to one core, unless `core` is None."""
        processes = list(own_processes())
        self.children = [process for process in processes if process != os.getpid()]
        if core is not None:
            for process in processes:
                # it just ended, or runs as another user
                with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                    for thread in LIST_FILES(f"/proc/{process}/task"):
                        os.sched_setaffinity(int(thread), {core})
        return {}

    def sample(
        self,
        identity: str,
        samples: int,
        calls: int | None = None,
        warm: bool = True,
        injected_slowdown: float = 0.0,
        iterations: int | None = None,
    ) -> dict[str, Any] | None:
        """Time several samples, each after a reset.

        Args:
            identity: id of the case.
            samples: number of samples.
            calls: calls per sample; by default as before.
            warm: first reset and make an uncounted call: the other side just ran and filled the caches, and on all
                cores its threads may still spin.
            injected_slowdown: seconds by which to slow the last sample.
            iterations: scale the seconds to this number of iterations per call, since the other side's test may have
                another; by default this side's own.
        """
        prepared = self.prepared[identity]
        prepared.calls = calls or prepared.calls
        if warm:
            prepared.reset()
            prepared.call()
        own = getattr(prepared, "iterations", 1)
        seconds = (iterations or own) / own * sum(prepared.sample() for _ in range(samples))
        return {"seconds": seconds + self.spin(injected_slowdown)}

    def spin(self, seconds: float) -> float:
        """Keep the core busy for some seconds; return the time that this took."""
        start = self.clock()
        while self.clock() - start < seconds:
            pass
        return self.clock() - start if seconds else 0.0

    def small_pages(self) -> dict[str, Any]:
        """Disable transparent huge pages for this process, so that page faults do not depend on free memory."""
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        return {}

    def memory(self, identity: str) -> dict[str, int]:
        """Return the page faults of a call, and the bytes by which a call makes the process larger.

        Each is the minimum of several samples, as threads and the placement of other arrays increase some of them.
        """
        prepared = self.prepared[identity]
        calls = min(MEMORY_CALLS, getattr(prepared, "max_calls", MEMORY_CALLS))
        faults, sizes = [], [size_in_bytes()]
        for _ in range(MEMORY_ROUNDS):
            for _ in range(MEMORY_SAMPLES):
                prepared.reset()
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for _ in range(calls):
                    prepared.call()
                faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
            sizes.append(size_in_bytes())
        grown = max(0, min(after - before for before, after in itertools.pairwise(sizes)))
        return {"page_faults": min(faults) // calls, "grown_bytes": grown // (MEMORY_SAMPLES * calls)}

    def peak_memory(self, identity: str, allocated: bool = False) -> dict[str, Any]:
        """Return the peak resident memory of this process in bytes, or the bytes ``allocated`` by one more call.

        Resident memory includes the interpreter, pytest, the modules of the test's file and its fixtures, but no child
        processes. Allocated memory is the peak that :mod:`tracemalloc` sees: Python's own allocators and libraries that
        report to it, such as NumPy, but not torch or JAX.
        """
        if not allocated:
            # getrusage also counts the parent's memory before exec
            peak = re.search(r"^VmHWM:\s*(\d+) kB", about_process("status"), re.MULTILINE)
            if not peak:
                return {"failed": "/proc/self/status has no VmHWM on this system"}
            return {"bytes": 1024 * int(peak[1])}
        prepared = self.prepared[identity]
        prepared.reset()
        tracemalloc.start()
        try:
            prepared.call()
            return {"bytes": max(1, tracemalloc.get_traced_memory()[1])}
        finally:
            tracemalloc.stop()

    def handle(self, line: str) -> dict[str, Any] | None:
        """Execute a request, given as a line of JSON; return the reply, or None if it is sent later.

        Child processes are stopped between requests. Otherwise, they would work during the other side's turn.
        """
        self.signal_children(signal.SIGCONT)
        request = LOADS(line)
        reply: dict[str, Any] | None = getattr(self, request.pop("do"))(**request)
        self.signal_children(signal.SIGSTOP)
        return reply

    def signal_children(self, number: signal.Signals) -> None:
        """Send a signal to the processes that the current case has started."""
        for process in self.children:
            if is_own(process):
                with suppress(PermissionError, ProcessLookupError):
                    os.kill(process, number)


def own_processes() -> Iterator[int]:
    """Yield the id of this process, and those of all processes in its session if it leads one."""
    return filter(is_own, map(int, filter(str.isdigit, LIST_FILES("/proc"))))


def is_own(process: int) -> bool:
    """Return whether an id is that of this process, or of one in the session that this process leads."""
    with suppress(PermissionError, ProcessLookupError):
        return os.getpid() in (process, os.getsid(process))
    return False


def size_in_bytes() -> int:
    """Return the virtual size of this process."""
    return resource.getpagesize() * int(about_process("statm").split()[0])


def about_process(name: str) -> str:
    """Return the content of a file about this process in ``/proc/self``."""
    with OPEN(f"/proc/self/{name}") as file:
        return str(file.read())


def save_output(path: str | None, output: Any, hidden: Sequence[str] = ()) -> None:
    """Write an output to a file, if `path` is given; `hidden` lists texts that differ between the sides."""
    if path:
        save(path, output, hidden)
