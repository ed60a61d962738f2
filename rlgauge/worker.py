"""One side of a pair: a process that is told by lines of JSON to prepare cases, to time samples of them, to close them.

A source's own module starts it as ``python -m MODULE ... CORES THREADS MEMORY`` and says how a case is prepared.
Requests are read from standard input and answered on what was standard output; whatever a library prints goes to
standard error. The parent's side of it is :mod:`.workers`.
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
SAMPLES = 3  # of which the least says what a call takes
COUNTED_SPANS, COUNTED_SAMPLES, COUNTED_CALLS = 3, 5, 2  # of which the least is what every call takes of fresh memory
PR_SET_THP_DISABLE = 41  # as prctl.h has it
KEEP: list[Any] = []  # what is to stay until the process ends


def begin() -> TextIO:
    """Take standard output for answers and the cores that the command line names; return where answers go.

    It comes before anything heavy is imported. The heap is moved from process to process, and nothing is collected:
    to look through all that stays, again and again, takes a fifth of preparing.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    KEEP.append(bytearray(random.SystemRandom().randrange(1 << 22)))
    gc.disable()
    os.sched_setaffinity(0, map(int, sys.argv[-3].split(",")))
    return replies


class Prepared(Protocol):
    """A case that is ready to be timed; ``calls`` are those of its next sample."""

    calls: int

    def settle(self) -> Any:
        """Call it until it is steady; return its answer, in nested lists, tuples and dicts."""

    def measure_calls(self) -> int:
        """Return how many calls make a sample that is long enough, and take so many from now on."""

    def reset(self) -> None:
        """Go back to the state that every sample starts from."""

    def call(self) -> Any:
        """Call it once."""

    def sample(self) -> float:
        """Return the seconds of ``calls`` calls, from a reset."""

    def close(self) -> None:
        """End what it started."""


class Requests(ABC):
    """What the gate may ask of a worker, a method each, and the cases that it has prepared."""

    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Answer that all is imported."""
        return {}

    @abstractmethod
    def prepare(self, identity: str, answer: str | None = None, counted: bool = False) -> dict[str, Any]:
        """Build and settle a case; where a file is named, write the answer there; count operations, where asked to.

        Returns ``counters``; or ``{"failed": why}`` for a case that fails, with ``absent`` where this revision does not
        have it; or ``{"skipped": why}``.

        Args:
            identity: id of the case, or name of a canary.
            answer: file for the answer, if it is wanted.
            counted: whether operations are counted.
        """

    def calls(self, identity: str) -> dict[str, Any]:
        """Return how many calls make a sample, measured now.

        Args:
            identity: id of the case, or name of a canary.
        """
        return {"calls": self.prepared[identity].measure_calls()}

    def measure(self, identity: str) -> dict[str, Any]:
        """Return the same, the seconds of one call in the fastest of a few samples, and those with what is not timed.

        Args:
            identity: id of the case, or name of a canary.
        """
        calls, prepared = self.calls(identity)["calls"], self.prepared[identity]
        start = time.perf_counter()
        call = min(prepared.sample() for _ in range(SAMPLES)) / calls
        return {"calls": calls, "call": call, "wall": (time.perf_counter() - start) / (SAMPLES * calls)}

    def place(self, core: int | None) -> dict[str, Any]:
        """Move all threads to one core, if one is named.

        Args:
            core: its number, None to stay where they are.
        """
        if core is not None:
            for thread in os.listdir("/proc/self/task"):
                with suppress(ProcessLookupError):  # it just ended
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
        """Time samples, each from a reset, and of so many calls where it is said.

        One call to ``warm`` up, from a reset as well, does not count: the other side just ran, took the caches, and on
        all cores its threads may still spin.

        Args:
            identity: id of the case, or name of a canary.
            samples: how many.
            calls: of each sample; those of the case unless given.
            warm: whether a call that does not count comes first.
            spin: seconds to wait after the last sample, which count, to be slower on purpose.
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
        """Have the kernel give this process pages of one size, whatever memory is free."""
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
        return {}

    def memory(self, identity: str) -> dict[str, int]:
        """Return the page faults of a call, and by how many bytes a call leaves the process larger.

        Each is the least of several samples: threads and the places of other arrays add to some of them.

        Args:
            identity: id of the case, or name of a canary.
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
        """Return the most resident memory that this process ever had, in bytes, or what one more call allocates.

        Resident memory is all of this process: the interpreter, pytest, the modules of the test's file, its fixtures.
        It has no child processes in it. What a call allocates is the peak that :mod:`tracemalloc` sees: Python's own
        allocators and those of libraries that report to it, as NumPy does, and torch and JAX do not.

        Args:
            identity: id of the case.
            allocated: what one more call allocates, from a reset.
        """
        if not allocated:
            status = Path("/proc/self/status").read_text()  # getrusage also counts what the parent had before exec
            found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
            return {"bytes": 1024 * int(found[1])} if found else {"failed": "/proc/self/status has no VmHWM here"}
        prepared = self.prepared[identity]
        prepared.reset()
        tracemalloc.start()
        try:
            prepared.call()
            return {"bytes": max(1, tracemalloc.get_traced_memory()[1])}
        finally:
            tracemalloc.stop()

    def close(self, identity: str) -> dict[str, Any]:
        """End what a case started.

        Args:
            identity: id of the case, or name of a canary.
        """
        self.prepared.pop(identity).close()
        return {}

    def close_all(self) -> None:
        """End what all cases started that are still there."""
        while self.prepared:
            self.prepared.popitem()[1].close()

    def answered(self, line: str) -> dict[str, Any]:
        """Do what a line asks for; return the answer.

        Args:
            line: of JSON.
        """
        request = json.loads(line)
        found: dict[str, Any] = getattr(self, request.pop("do"))(**request)
        return found


def size_in_bytes() -> int:
    """Return the virtual size of this process."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])


def failure(error: BaseException) -> dict[str, Any]:
    """Return why a case could not be prepared.

    Args:
        error: what preparing it raised.
    """
    return {"failed": f"{type(error).__name__}: {error}", "trace": "".join(traceback.format_exception(error))}


def serve(requests: Requests, replies: TextIO) -> None:
    """Answer requests until standard input ends, then end the process.

    Args:
        requests: answers them.
        replies: where answers go, a line of JSON each.
    """
    try:
        for line in sys.stdin:
            replies.write(json.dumps(requests.answered(line)) + "\n")
    finally:
        requests.close_all()
    os._exit(0)  # what torch and JAX do at a regular exit takes half a second, and nothing needs it


def saved(path: str | None, answer: Any, hidden: Sequence[str] = ()) -> None:
    """Write an answer to a file, if one is named.

    Args:
        path: of the file.
        answer: in nested lists, tuples and dicts.
        hidden: text that is another on each side.
    """
    if path:
        from .answer_files import save

        save(Path(path), answer, hidden)
