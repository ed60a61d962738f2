"""One side of a pair: ``python -m perf_tests.gate.worker CORES THREADS MEMORY``, told what to do by lines of JSON.

``rl_impls`` comes from this side's own revision, ``perf_tests`` from HEAD: the parent lays out such a folder. Requests
are read from standard input and answered on what was standard output; whatever a library prints goes to standard error.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys

from perf_tests.suite import process


def main(cores: list[int], threads: int, memory: str) -> None:
    """Answer requests until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    ballast = bytearray(random.SystemRandom().randrange(1 << 22))  # moves the heap from process to process
    gc.disable()  # for good: to look through all that stays, again and again, takes a fifth of preparing
    os.sched_setaffinity(0, cores)
    process.set_up(threads, memory)
    from .timing import Timing  # NumPy takes its threads from what is set by now

    timing = Timing()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            replies.write(json.dumps(getattr(timing, request.pop("do"))(**request)) + "\n")
    finally:
        timing.close_all()
        del ballast
    os._exit(0)  # what torch and JAX do at a regular exit takes half a second, and nothing needs it


if __name__ == "__main__":
    main([int(core) for core in sys.argv[1].split(",")], int(sys.argv[2]), sys.argv[3])
