"""One side of a pair: ``python -m perf_tests.gate.worker CORES THREADS``, told what to do by lines of JSON.

``rl_impls`` comes from this side's own revision, ``perf_tests`` from HEAD: the parent lays out such a folder. Requests
are read from standard input and answered on what was standard output; whatever a library prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from perf_tests.suite import process
from perf_tests.suite.case import absence
from perf_tests.suite.cases import variants
from perf_tests.suite.counters import count

from .answers import save
from .canary import CANARIES

SEED = 0


class Side:
    """The prepared cases of this process."""

    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Answer that all is imported."""
        return {}

    def prepare(self, identity: str, answer: str | None = None) -> dict[str, Any]:
        """Build and settle a case; where a file is named, write the answer there and count operations.

        Returns ``{"absent": why}`` for a case that this revision does not have, ``{"failed": why}`` for one that fails.
        """
        try:
            prepared: Any = CANARIES[identity]() if identity in CANARIES else variants()[identity].prepare(SEED)
            settled = prepared.settle()
        except Exception as error:
            lacking = absence(error)
            return {"absent": lacking} if lacking else {"failed": f"{type(error).__name__}: {error}"}
        counters: dict[str, int] = {}
        if answer:
            save(Path(answer), settled)
            counters = {} if identity in CANARIES else count(prepared)
        self.prepared[identity] = prepared
        start = time.perf_counter()
        prepared.run()
        return {"seconds": time.perf_counter() - start, "counters": counters}

    def place(self, core: int | None) -> dict[str, Any]:
        """Move all threads to one core, if one is named, and keep the garbage collector away from what is timed."""
        if core is not None:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), {core})
        gc.collect()
        gc.freeze()
        gc.disable()
        return {}

    def sample(self, identity: str, samples: int) -> dict[str, Any]:
        """Time samples, each from a reset; one call before them does not count, as the other side just ran."""
        prepared, spent = self.prepared[identity], 0.0
        prepared.reset()
        prepared.call()
        for _ in range(samples):
            prepared.reset()
            start = time.perf_counter()
            prepared.run()
            spent += time.perf_counter() - start
        return {"seconds": spent}

    def close(self) -> dict[str, Any]:
        """End what the cases started."""
        while self.prepared:
            self.prepared.popitem()[1].close()
        return {}


def main(cores: list[int], threads: int) -> None:
    """Answer requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    ballast = bytearray(random.SystemRandom().randrange(1 << 22))  # moves the heap from process to process
    os.sched_setaffinity(0, cores)
    process.set_up(threads)
    side = Side()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            replies.write(json.dumps(getattr(side, request.pop("do"))(**request)) + "\n")
    finally:
        side.close()
        del ballast


if __name__ == "__main__":
    main([int(core) for core in sys.argv[1].split(",")], int(sys.argv[2]))
