"""What a call takes of fresh memory, counted in a fork of a process that has only imported what the case needs.

malloc gives back less once a large array was freed: after another case, hardly any would take something.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perf_tests.suite.case import Variant
from perf_tests.suite.prepared import Prepared

SPANS, SAMPLES, CALLS = 3, 5, 2  # spans of samples, each of so many calls from a reset
PR_SET_THP_DISABLE = 41  # as prctl.h has it
PAGE = resource.getpagesize()


def count(prepared: Prepared) -> dict[str, int]:
    """Return the page faults of a call of a settled case, and by how many bytes a call leaves the process larger.

    Each is the least that any samples have: threads and the places of other arrays add to some of them, as it happens.
    """
    calls = min(CALLS, prepared.variant.case.most_calls or CALLS)
    faults, sizes = [], [size()]
    for _ in range(SPANS):
        for _ in range(SAMPLES):
            prepared.reset()
            before = page_faults()
            for _ in range(calls):
                prepared.call()
            faults.append(page_faults() - before)
        sizes.append(size())
    grown = max(0, min(after - before for before, after in itertools.pairwise(sizes)))
    return {"page_faults": min(faults) // calls, "grown_bytes": grown // (SAMPLES * calls)}


def page_faults() -> int:
    """Return how many page faults without reading this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def size() -> int:
    """Return the bytes of this process."""
    return PAGE * int(Path("/proc/self/statm").read_text().split()[0])


def bring(variant: Variant) -> None:
    """Import what a case's backend needs."""
    from rl_impls import backends

    for module in backends.get(variant.backend).modules:
        importlib.import_module(module)


def forked(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a job returns in a fork of this process, or ``{"failed": how}`` where that ends before."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)  # pages of one size, whatever is free
            with os.fdopen(writable, "w") as answer:
                json.dump(job(), answer)
            code = 0
        finally:
            os._exit(code)
    os.close(writable)
    with os.fdopen(readable) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(text or "{}")
    return found or {"failed": f"ended with code {os.waitstatus_to_exitcode(status)}"}
