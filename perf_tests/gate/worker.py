"""One side of a pair: a process that is told by lines of JSON to prepare cases, to time samples of them, to close them.

``python -m perf_tests.gate.worker CORES THREADS MEMORY`` has ``rl_impls`` of its own side's revision and ``perf_tests``
of HEAD: the parent lays out such a folder. Requests are read from standard input and answered on what was standard
output; whatever a library prints goes to standard error. The parent's side of it is :mod:`.workers`.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from perf_tests.suite import process

if __name__ == "__main__":  # before NumPy is imported, which takes its threads from what is set by then
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    ballast = bytearray(random.SystemRandom().randrange(1 << 22))  # moves the heap from process to process
    gc.disable()  # for good: to look through all that stays, again and again, takes a fifth of preparing
    os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
    process.set_up(int(sys.argv[2]), sys.argv[3])

from perf_tests import disturbance
from perf_tests.suite.cases import variants
from perf_tests.suite.counters import count
from perf_tests.suite.prepared import prepare, unsupported_reason

from . import memory
from .answers import save
from .canary import CANARIES, SIDE
from .selfcheck.faults import FAULTS

SEED = 0
SAMPLES = 3  # of which the least says what a call takes
LONG = 0.05  # seconds of a call that needs none before it


def failure(error: Exception) -> dict[str, Any]:
    """Return why a case could not be prepared, and of what kind that is.

    Args:
        error: what preparing it raised.
    """
    found: dict[str, Any] = {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    if lacking := unsupported_reason(error):
        found["absent"] = lacking
    if type(error).__name__ == "BackendUnavailable":
        found["unavailable"] = [getattr(error, name) for name in ("backend", "reason", "install")]
    return found


@contextmanager
def one_thread(beside: bool) -> Iterator[None]:
    """Give torch's operations one thread for a while, ``beside`` another process: two wait for each other by spinning.

    One of the two is always stopped there: a loop took 22 s to settle, and takes 1 s alone.

    Args:
        beside: whether another process works meanwhile.
    """
    torch = sys.modules.get("torch") if beside else None
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Requests:
    """What the gate may ask of a worker, a method each, and the cases that it has prepared."""

    def __init__(self) -> None:
        self.prepared: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """Answer that all is imported."""
        return {}

    def prepare(
        self,
        identity: str,
        answer: str | None = None,
        fault: str | None = None,
        seed: int = SEED,
        counted: bool = False,
        beside: bool = False,
    ) -> dict[str, Any]:
        """Build and settle a case; where a file is named, write the answer there; count operations, where asked to.

        Where other processes prepare ``beside`` this one, torch's operations get one thread, but for building.

        A ``fault`` is built in on head's side, and named with the case from then on.

        Returns the counts, and the seconds from building the case to its first answer, None for a canary; or
        ``{"failed": why}`` for a case that fails, with ``absent`` where this revision does not have it, or
        ``unavailable`` where its backend cannot run here.

        Args:
            identity: id of the case, or name of a canary.
            answer: file for the answer, if it is wanted.
            fault: name of a mistake to build in, if any.
            seed: of the inputs.
            counted: whether operations are counted.
            beside: whether another process works meanwhile.
        """
        try:
            prepared: Any = CANARIES[identity]() if identity in CANARIES else prepare(variants()[identity], seed)
            if fault and os.environ[SIDE] == "head":
                FAULTS[fault](prepared)
            with one_thread(beside):
                settled = prepared.settle()
                counters = count(prepared) if counted and identity not in CANARIES else {}
        except Exception as error:
            return failure(error)
        if answer:
            save(Path(answer), settled)
        self.prepared[f"{identity}!{fault}" if fault else identity] = prepared
        return {"counters": counters, "first_answer": getattr(prepared, "first_answer", None)}

    def calls(self, identity: str, beside: bool = False) -> dict[str, Any]:
        """Return how many calls make a sample, measured now, ``beside`` others or not.

        Args:
            identity: id of the case, or name of a canary.
            beside: whether another process works meanwhile.
        """
        with one_thread(beside):
            return {"calls": self.prepared[identity].measure_calls()}

    def measure(self, identity: str) -> dict[str, Any]:
        """Return the same, and the seconds of one call in the fastest of a few samples.

        Args:
            identity: id of the case, or name of a canary.
        """
        calls, prepared = self.calls(identity)["calls"], self.prepared[identity]
        return {"calls": calls, "call": min(prepared.sample() for _ in range(SAMPLES)) / calls}

    def visit(self, identity: str, calls: int, dose: float) -> dict[str, Any]:
        """Time one sample, from a reset, in seconds per call, and read what disturbed it.

        A quarter as many calls come before it: others just ran, took the caches, and their threads may still spin. A
        long call needs none before it. To be slower on purpose, a sample spins for a part, the ``dose``, of its time.

        Returns the sample, and what else the op says of it: its ``stats`` and ``phases``.

        Args:
            identity: id of the case, or name of a canary.
            calls: of the sample.
            dose: part of its own time by which the sample is slowed.
        """
        prepared, pace = self.prepared[identity], disturbance.pace()
        prepared.calls = -(-calls // 4)
        sample = self.taken(prepared, dose)
        if calls > 1 or sample["seconds"] < LONG:
            prepared.calls = calls
            sample = self.taken(prepared, dose)
        return {"sample": {**sample, "pace": pace}, "stats": prepared.stats(), "phases": prepared.phases()}

    def taken(self, prepared: Any, dose: float) -> dict[str, Any]:
        """Take one sample.

        Args:
            prepared: the case.
            dose: part of its own time by which the sample is slowed.
        """
        prepared.reset()
        before, start = disturbance.read(), time.perf_counter()
        prepared.run()
        end = start + (1 + dose) * (time.perf_counter() - start)
        while dose and time.perf_counter() < end:
            pass
        seconds = time.perf_counter() - start
        return {"seconds": seconds / prepared.calls, "calls": prepared.calls, **disturbance.read().since(before)}

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

    def place(self, core: int | None) -> dict[str, Any]:
        """Move all threads to one core, if one is named.

        Args:
            core: its number, None to stay where they are.
        """
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

        One call to ``warm`` up, from a reset as well, does not count: the other side just ran, took the caches, and on
        all cores its threads may still spin.

        To be slower on purpose, it makes ``extra`` calls or spins for a time.

        Args:
            identity: id of the case, or name of a canary.
            samples: how many.
            calls: of each sample; those of the case unless given.
            warm: whether a call that does not count comes first.
            extra: calls after the last sample, which count.
            spin: seconds to wait after the last sample, which count.
        """
        prepared = self.prepared[identity]
        prepared.calls = calls or prepared.calls
        if warm:
            prepared.reset()
            prepared.call()
        spent = sum(prepared.sample() for _ in range(samples))
        start = time.perf_counter()
        for _ in range(extra):
            prepared.call()
        while time.perf_counter() - start < spin:
            pass
        return {"seconds": spent + (time.perf_counter() - start if extra or spin else 0.0)}

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


def main(replies: TextIO) -> None:
    """Answer requests until standard input ends.

    Args:
        replies: where answers go, a line of JSON each.
    """
    requests = Requests()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            replies.write(json.dumps(getattr(requests, request.pop("do"))(**request)) + "\n")
    finally:
        requests.close_all()
    os._exit(0)  # what torch and JAX do at a regular exit takes half a second, and nothing needs it


if __name__ == "__main__":
    main(replies)
