"""One side of a pair: a process that receives requests as lines of JSON to prepare, time and close cases.

A module that subclasses :class:`Requests` is started as ``python -m MODULE ... CORES THREADS MEMORY``. Requests come
from standard input; answers go to the original standard output, and any other output to standard error. The parent's
side is :mod:`.workers`.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import random
import re
import resource
import sys
import time
import traceback
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

SEED = 0
SAMPLES = 3  # the fastest one determines the time of a call
COUNTED_SPANS, COUNTED_SAMPLES, COUNTED_CALLS = 3, 5, 2  # the smallest count applies to every call
PR_SET_THP_DISABLE = 41  # from prctl.h
KEEP: list[Any] = []  # objects to keep alive until the process ends


def begin() -> TextIO:
    """Redirect standard output, use the cores that the command line names, and return the stream for answers.

    Call it before any heavy import. It also shifts the heap by a random amount, and disables garbage collection:
    scanning everything that stays alive, repeatedly, takes a fifth of the set-up time.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    KEEP.append(bytearray(random.SystemRandom().randrange(1 << 22)))
    gc.disable()
    os.sched_setaffinity(0, map(int, sys.argv[-3].split(",")))
    return replies


class Prepared(Protocol):
    """A case that is ready to be timed; ``calls`` is the number of calls in its next sample."""

    calls: int

    def settle(self) -> Any:
        """Warm up until the time per call is steady; return the answer in nested lists, tuples and dicts."""

    def measure_calls(self) -> int:
        """Return the number of calls in a sample that is long enough, and use it from now on."""

    def reset(self) -> None:
        """Restore the state from which every sample starts."""

    def call(self) -> Any:
        """Run one call."""

    def sample(self) -> float:
        """Reset, then return the seconds of ``calls`` calls."""

    def close(self) -> None:
        """Release its resources."""


class Requests(ABC):
    """The requests that the gate can send to a worker, one method each, and the cases it has prepared."""

    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Reply once all imports are done."""
        return {}

    @abstractmethod
    def prepare(self, identity: str, answer: str | None = None, counted: bool = False) -> dict[str, Any]:
        """Build and warm up a case.

        Returns ``counters``; ``{"failed": why}`` if the case fails, with ``absent`` if this revision does not have it;
        or ``{"skipped": why}``.

        Args:
            identity: id of the case, or name of a canary.
            answer: file to which the answer is written, if given.
            counted: whether to count operations.
        """

    def calls(self, identity: str) -> dict[str, Any]:
        """Return the number of calls per sample, measured now."""
        return {"calls": self.prepared[identity].measure_calls()}

    def measure(self, identity: str) -> dict[str, Any]:
        """Return the calls per sample, the timed and wall seconds per call, and the iterations that count as one call.

        The timed seconds are those of the fastest of several samples; the wall time includes untimed parts of a call.
        """
        calls, prepared = self.calls(identity)["calls"], self.prepared[identity]
        start = time.perf_counter()
        call = min(prepared.sample() for _ in range(SAMPLES)) / calls
        wall = (time.perf_counter() - start) / (SAMPLES * calls)
        return {"calls": calls, "call": call, "wall": wall, "iterations": getattr(prepared, "iterations", 1)}

    def place(self, core: int | None) -> dict[str, Any]:
        """Pin all threads to one core, unless `core` is None."""
        if core is not None:
            for thread in os.listdir("/proc/self/task"):
                with suppress(ProcessLookupError):  # the thread just ended
                    os.sched_setaffinity(int(thread), {core})
        return {}

    def sample(
        self,
        identity: str,
        samples: int,
        calls: int | None = None,
        warm: bool = True,
        spin: float = 0.0,
    ) -> dict[str, Any]:
        """Time several samples, each after a reset.

        A ``warm`` call, after a reset as well, is not counted: the other side just ran and took the caches, and on all
        cores its threads may still spin. `calls` is the number per sample, and `spin` the seconds of an artificial
        slowdown after the last sample.
        """
        prepared = self.prepared[identity]
        prepared.calls = calls or prepared.calls
        if warm:
            prepared.reset()
            prepared.call()
        spent = sum(prepared.sample() for _ in range(samples))
        start = time.perf_counter()
        while time.perf_counter() - start < spin:
            pass
        return {"seconds": spent + (time.perf_counter() - start if spin else 0.0)}

    def small_pages(self) -> dict[str, Any]:
        """Disable transparent huge pages for this process, so that page faults do not depend on free memory."""
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        return {}

    def memory(self, identity: str) -> dict[str, int]:
        """Return the page faults of a call, and the bytes by which a call makes the process larger.

        Each is the minimum of several samples, as threads and the placement of other arrays increase some of them.
        """
        prepared = self.prepared[identity]
        calls = min(COUNTED_CALLS, getattr(prepared, "max_calls", COUNTED_CALLS))
        faults, sizes = [], [size_in_bytes()]
        for _ in range(COUNTED_SPANS):
            for _ in range(COUNTED_SAMPLES):
                prepared.reset()
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for _ in range(calls):
                    prepared.call()
                faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
            sizes.append(size_in_bytes())
        grown = max(0, min(after - before for before, after in itertools.pairwise(sizes)))
        return {"page_faults": min(faults) // calls, "grown_bytes": grown // (COUNTED_SAMPLES * calls)}

    def peak_memory(self, identity: str, allocated: bool = False) -> dict[str, Any]:
        """Return the peak resident memory of this process in bytes, or the bytes ``allocated`` by one more call.

        Resident memory includes the interpreter, pytest, the modules of the test's file and its fixtures, but no child
        processes. Allocated memory is the peak that :mod:`tracemalloc` sees: Python's own allocators and libraries that
        report to it, such as NumPy, but not torch or JAX.
        """
        if not allocated:
            status = Path("/proc/self/status").read_text()  # getrusage also counts the parent's memory before exec
            found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
            return (
                {"bytes": 1024 * int(found[1])}
                if found
                else {"failed": "/proc/self/status has no VmHWM on this system"}
            )
        prepared = self.prepared[identity]
        prepared.reset()
        tracemalloc.start()
        try:
            prepared.call()
            return {"bytes": max(1, tracemalloc.get_traced_memory()[1])}
        finally:
            tracemalloc.stop()

    def close(self, identity: str) -> dict[str, Any]:
        """Release the resources of a case."""
        self.prepared.pop(identity).close()
        return {}

    def close_all(self) -> None:
        """Release the resources of all remaining cases."""
        while self.prepared:
            self.prepared.popitem()[1].close()

    def answered(self, line: str) -> dict[str, Any]:
        """Execute a request, given as a line of JSON, and return the answer."""
        request = json.loads(line)
        found: dict[str, Any] = getattr(self, request.pop("do"))(**request)
        return found


def size_in_bytes() -> int:
    """Return the virtual size of this process."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])


def failure(error: BaseException) -> dict[str, Any]:
    """Return the reply for a case whose preparation raised `error`."""
    return {"failed": f"{type(error).__name__}: {error}", "trace": "".join(traceback.format_exception(error))}


def serve(requests: Requests, replies: TextIO) -> None:
    """Answer requests until standard input ends, then exit the process."""
    try:
        for line in sys.stdin:
            replies.write(json.dumps(requests.answered(line)) + "\n")
    finally:
        requests.close_all()
    os._exit(0)  # skips half a second of exit handlers of torch and JAX, which nothing needs


def saved(path: str | None, answer: Any, hidden: Sequence[str] = ()) -> None:
    """Write an answer to a file, if `path` is given; `hidden` lists texts that differ between the sides."""
    if path:
        from .answer_files import save

        save(Path(path), answer, hidden)
