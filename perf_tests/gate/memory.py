"""What a call costs a program that gives freed memory back, as by default malloc: counted once for each side.

A timing process keeps what is freed, see :func:`perf_tests.suite.process.keep_memory`: its times are steady, and hide
what the kernel takes to clear fresh pages. So these are counted. They differ a little on identical code, so a rise is
named beyond a margin only, see :func:`.rule.beyond`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perf_tests.suite.case import Variant
from rl_impls import backends

from .pairs import CaseError, Pairs, blamed, cores
from .rule import Record
from .workers import Side, both


def measure(
    sides: Sequence[Side], limit: float, folder: Path, records: Mapping[str, Record], variants: Iterable[Variant]
) -> None:
    """Count the fresh memory of all cases that are still timed, but of those that start threads or processes.

    What cannot be counted is said in the record's words.

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
    """Return the cases in groups whose backends need the same modules."""
    found: dict[tuple[str, ...], list[str]] = {}
    for variant in variants:
        found.setdefault(backends.get(variant.backend).modules, []).append(variant.id)
    return list(found.values())


def note(record: Record, replies: Mapping[str, Mapping[str, Any]]) -> None:
    """Write both sides' counts to a record."""
    failed = [f"{side}: {reply['failed']}" for side, reply in replies.items() if "failed" in reply]
    if failed:
        record.words = f"fresh memory was not counted: {failed[0]}"
    else:
        record.memory = dict(replies["base"]), dict(replies["head"])
