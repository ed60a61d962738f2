"""Page faults and memory growth per call under default malloc, which returns freed memory: ``--gate-memory``.

A timing process keeps freed memory, so its times exclude what the kernel takes to clear fresh pages. Each benchmark
gets its own pair of processes, since malloc returns less memory once a large array has been freed. The counts vary
slightly on identical code, so only rises beyond a margin are reported, see :func:`.rule.exceeds_noise`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .pairs import PairError, Pairs
from .sampling import cores
from .workers import ask_both

if TYPE_CHECKING:
    from .case import Case
    from .rule import Record
    from .run import Gate

NOT_MEASURED = "memory was not measured"  # begins the note on a test without counts


def measure(gate: Gate, cases: Sequence[Case]) -> None:
    """Count page faults and growth of all benchmarks that are timed on one core; store them in their records."""
    sides = [replace(side, memory="default") for side in gate.sides]
    pairs = Pairs(sides, 1, gate.limit, {}, gate.folder, random.Random(0))
    counted = [case.id for case in cases if gate.timed(case.id) and not case.all_cores]
    for number, name in enumerate(counted, 1):
        gate.log(f"gate: memory, benchmark {number} of {len(counted)}: {name}")
        record = gate.records[name]
        try:
            with pairs.workers(cores(False)) as workers:
                ask_both(workers, "small_pages")
                replies = ask_both(workers, "prepare", identity=name)
                if errors := [reply["failed"] for reply in replies if "failed" in reply]:
                    not_measured(record, errors[0])
                    continue
                if any(reply.get("once") for reply in replies):
                    not_measured(record, "the test allows only one call")
                    ask_both(workers, "close", identity=name)
                    continue
                base, head = (dict(reply) for reply in ask_both(workers, "memory", identity=name))
                if failed := base.get("failed") or head.get("failed"):
                    not_measured(record, failed)
                    continue
                record.memory = base, head
                ask_both(workers, "close", identity=name)
        except PairError as error:
            not_measured(record, error)


def not_measured(record: Record, reason: object) -> None:
    """Add the reason why a test has no counts to its notes."""
    record.words = "; ".join(filter(None, [record.words, f"{NOT_MEASURED}: {reason}"]))


def without_counts(record: Record) -> Record:
    """Return a copy of a record without counts of memory and the note about them, for another count."""
    return replace(record, words=record.words.partition(NOT_MEASURED)[0].removesuffix("; "), memory=({}, {}))
