"""A worker of this suite's gate: ``python -m perf_tests.gate.worker CORES THREADS MEMORY``.

It has ``rl_impls`` of its own side's revision and ``perf_tests`` of HEAD: the gate lays out such a folder.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from rlgauge import worker

if __name__ == "__main__":  # before NumPy is imported, which takes its threads from what is set by then
    from perf_tests.suite import process

    replies = worker.begin()
    process.set_up(int(sys.argv[-2]), sys.argv[-1])

from perf_tests.suite.cases import variants
from perf_tests.suite.counters import count
from perf_tests.suite.prepared import leaves, prepare, unsupported_reason
from rlgauge.canary import CANARIES
from rlgauge.workers import SIDE

from . import memory
from .selfcheck.faults import FAULTS

SEED = 0


def failure(error: Exception) -> dict[str, Any]:
    """Return why a case could not be prepared, and of what kind that is.

    Args:
        error: what preparing it raised.
    """
    found = worker.failure(error)
    if lacking := unsupported_reason(error):
        found["absent"] = lacking
    if type(error).__name__ == "BackendUnavailable":
        found["unavailable"] = [getattr(error, name) for name in ("backend", "reason", "install")]
    return found


class Requests(worker.Requests):
    """What the gate and the bench may ask of a worker of this suite."""

    def prepare(
        self,
        identity: str,
        answer: str | None = None,
        counted: bool = False,
        *,
        fault: str | None = None,
        seed: int = SEED,
    ) -> dict[str, Any]:
        """Build and settle a case; where a file is named, write the answer there; count operations, where asked to.

        A ``fault`` is built in on head's side, and named with the case from then on.

        Returns the counts, and the seconds from building the case to its first answer, None for a canary; or
        ``{"failed": why}`` for a case that fails, with ``absent`` where this revision does not have it, or
        ``unavailable`` where its backend cannot run here.

        Args:
            identity: id of the case, or name of a canary.
            answer: file for the answer, if it is wanted.
            counted: whether operations are counted.
            fault: name of a mistake to build in, if any.
            seed: of the inputs.
        """
        try:
            prepared: Any = CANARIES[identity]() if identity in CANARIES else prepare(variants()[identity], seed)
            if fault and os.environ[SIDE] == "head":
                FAULTS[fault](prepared)
            settled = prepared.settle()
            counters = count(prepared) if counted and identity not in CANARIES else {}
        except Exception as error:
            return failure(error)
        if answer:
            worker.saved(answer, leaves(settled))
        self.prepared[f"{identity}!{fault}" if fault else identity] = prepared
        return {"counters": counters, "first_answer": getattr(prepared, "first_answer", None)}

    def memory(self, identity: str, seed: int = SEED) -> dict[str, Any]:
        """Return the counts of a case's fresh memory, or ``{"failed": why}``; the case is prepared in a fork.

        Args:
            identity: id of the case, or name of a canary.
            seed: of the inputs.
        """

        def counted() -> dict[str, Any]:
            try:
                with prepare(variants()[identity], seed) as prepared:
                    prepared.settle()
                    return memory.count(prepared)
            except Exception as error:
                return failure(error)

        try:
            memory.bring(variants()[identity])
        except Exception as error:
            return failure(error)
        return memory.forked(counted)


if __name__ == "__main__":
    worker.serve(Requests(), replies)
