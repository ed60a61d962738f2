"""What a call costs a program that gives freed memory back, as by default malloc: counted once for each side.

A timing process keeps what is freed, see :func:`rlgauge.process.keep_memory`: its times are steady, and hide
what the kernel takes to clear fresh pages. So these are counted, in a fork of a worker that has only imported what the
case needs: malloc gives back less once a large array was freed, so that after another case hardly any would take
something. The counts differ a little on identical code: a rise is named beyond a margin only, see :func:`.rule.beyond`.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import os
import random
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perf_tests.suite.case import Variant
from perf_tests.suite.prepared import Prepared
from rlgauge.pairs import CaseError, Pairs, blamed, cores
from rlgauge.rule import Record
from rlgauge.workers import Side, both

SPANS, SAMPLES, CALLS = 3, 5, 2  # spans of samples, each of so many calls from a reset
PR_SET_THP_DISABLE = 41  # as prctl.h has it
PAGE = resource.getpagesize()


def measure(
    sides: Sequence[Side], limit: float, folder: Path, records: Mapping[str, Record], variants: Iterable[Variant]
) -> None:
    """Count the fresh memory of all cases that are still timed, but of those that start threads or processes.

    What cannot be counted is said in the record's words.

    Args:
        sides: base and head.
        limit: seconds that a worker may take for one request.
        folder: of this run.
        records: what is known of each case; changed in place.
        variants: the benchmarks; those not timed any more are left out.

    Raises:
        PairError: a worker did not start.
    """
    pairs = Pairs([replace(side, memory="default") for side in sides], 1, limit, {}, folder, random.Random(0))
    for names in by_modules(v for v in variants if records[v.id].state == "timed" and v.case.cores != "own"):
        while names:
            try:
                with pairs.workers(cores(False)) as workers:
                    while names:
                        name = names.pop()
                        with blamed(name):
                            note(records[name], dict(zip(("base", "head"), both(workers, "memory", identity=name))))
            except CaseError as error:
                records[error.name].words = f"fresh memory was not counted: {error}"


def by_modules(variants: Iterable[Variant]) -> list[list[str]]:
    """Return the cases in groups whose backends need the same modules.

    Args:
        variants: the benchmarks; those not timed any more are left out.
    """
    from rl_impls import backends  # see bring

    found: dict[tuple[str, ...], list[str]] = {}
    for variant in variants:
        found.setdefault(backends.get(variant.backend).modules, []).append(variant.id)
    return list(found.values())


def note(record: Record, replies: Mapping[str, Mapping[str, Any]]) -> None:
    """Write both sides' counts to a record.

    Args:
        record: what is known of the case; changed in place.
        replies: counts of ``base`` and of ``head``, or why there are none.
    """
    failed = [f"{side}: {reply['failed']}" for side, reply in replies.items() if "failed" in reply]
    if failed:
        record.words = f"fresh memory was not counted: {failed[0]}"
    else:
        record.memory = dict(replies["base"]), dict(replies["head"])


def count(prepared: Prepared) -> dict[str, int]:
    """Return the page faults of a call of a settled case, and by how many bytes a call leaves the process larger.

    Each is the least that any samples have: threads and the places of other arrays add to some of them, as it happens.

    Args:
        prepared: the case, settled.
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
    """Import what a case's backend needs, its op's file, and torch's compiler, which the first optimiser imports.

    Args:
        variant: the benchmark.
    """
    from rl_impls import backends  # of a worker's own commit, which may have none

    backend = backends.get(variant.backend)
    modules = *backend.modules, f"{backends.__package__}.{variant.case.workload}._{backend.source}"
    for module in (*modules, "torch._dynamo") if "torch" in modules else modules:
        importlib.import_module(module)


def forked(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a job returns in a fork of this process, or ``{"failed": how}`` where that ends before.

    Args:
        job: returns what JSON can hold.
    """
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
