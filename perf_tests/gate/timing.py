"""What a worker does for the gate: prepares cases and times samples of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from perf_tests.suite.case import absence
from perf_tests.suite.cases import variants
from perf_tests.suite.counters import count

from .answers import save
from .canary import CANARIES, SIDE
from .faults import FAULTS

SEED = 0


class Timing:
    """The prepared cases of this process."""

    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Answer that all is imported."""
        return {}

    def prepare(self, identity: str, answer: str | None = None, fault: str | None = None) -> dict[str, Any]:
        """Build and settle a case; where a file is named, write the answer there and count operations.

        A ``fault`` is built in on head's side, and named with the case from then on.

        Returns ``{"absent": why}`` for a case that this revision does not have, ``{"failed": why}`` for one that fails.
        """
        try:
            prepared: Any = CANARIES[identity]() if identity in CANARIES else variants()[identity].prepare(SEED)
            if fault and os.environ[SIDE] == "head":
                FAULTS[fault](prepared)
            settled = prepared.settle()
        except Exception as error:
            lacking = absence(error)
            return {"absent": lacking} if lacking else {"failed": f"{type(error).__name__}: {error}"}
        counters: dict[str, int] = {}
        if answer:
            save(Path(answer), settled)
            counters = {} if identity in CANARIES else count(prepared)
        self.prepared[f"{identity}!{fault}" if fault else identity] = prepared
        start = time.perf_counter()
        prepared.run()
        return {"seconds": time.perf_counter() - start, "calls": prepared.calls, "counters": counters}

    def place(self, core: int | None) -> dict[str, Any]:
        """Move all threads to one core, if one is named."""
        if core is not None:
            for thread in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(thread), {core})
        return {}

    def sample(
        self,
        identity: str,
        samples: int,
        calls: int | None = None,
        warm: bool = True,
        extra: int = 0,
        spin: float = 0.0,
    ) -> dict[str, Any]:
        """Time samples, each from a reset, and of so many calls where it is said.

        One call to ``warm`` up, from wherever the last sample ended, does not count: the other side just ran, took the
        caches, and on all cores its threads may still spin.

        To be slower on purpose, it makes ``extra`` calls or spins for a time.
        """
        prepared, spent = self.prepared[identity], 0.0
        prepared.calls = calls or prepared.calls
        if warm:
            prepared.call()
        for _ in range(samples):
            prepared.reset()
            start = time.perf_counter()
            prepared.run()
            spent += time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(extra):
            prepared.call()
        while time.perf_counter() - start < spin:
            pass
        return {"seconds": spent + (time.perf_counter() - start if extra or spin else 0.0)}

    def close(self, identity: str) -> dict[str, Any]:
        """End what a case started."""
        self.prepared.pop(identity).close()
        return {}

    def close_all(self) -> None:
        """End what all cases started that are still there."""
        while self.prepared:
            self.prepared.popitem()[1].close()
