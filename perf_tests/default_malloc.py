"""What a user gets: ``python -m perf_tests.default_malloc [--tier gate] [ID ...] [--json FILE]``.

A timing process keeps the memory that is freed, a user's gives it back to the kernel, which clears every page before it
is used again. Each benchmark is prepared alone in two fresh processes of the same code, one that keeps memory and one
with glibc's defaults; their samples are interleaved, on all cores. Without names it takes the gate tier, and what the
first tables of the results show.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rl_impls import backends
from rlgauge.files import Unwritable, check_folder, remove_halves, reserved
from rlgauge.interrupts import by_sigterm
from rlgauge.pairs import CaseError, PairError, Pairs, cores
from rlgauge.progress import Progress
from rlgauge.rule import Record
from rlgauge.run import LIMIT
from rlgauge.statistics import interval
from rlgauge.workers import PYTHON, Side, both

from .gate.starts import COMPILERS, WORKER
from .interleaved import interruptible
from .report.order import spans
from .report.table import SEEN, duration, marked, ratio_words
from .selection import Selection, select
from .suite.case import TIERS, Variant
from .suite.cases import front_of, variants
from .suite.process import CACHE, MEMORY

ROOT = Path(__file__).parents[1]
ROOM = 512  # bytes of JSON for each benchmark
SIDES = tuple(Side(memory, ROOT, PYTHON, WORKER, COMPILERS, memory) for memory in MEMORY)


class Failure(Exception):
    """A benchmark could not be prepared."""


def in_front(variant: Variant) -> bool:
    """Return whether one of the first tables that its workload names for the results shows a benchmark.

    Args:
        variant: the benchmark.
    """
    front = front_of(variant.case.workload)
    row = {"op": variant.case.op, "form": variant.form, "backend": variant.backend, "axes": variant.axes}
    return variant.tier != "full" and front is not None and front.holds(row)


def chosen(names: Sequence[str], tier: str | None) -> list[Variant]:
    """Return the benchmarks of these names, of a tier, or else of the gate tier and the results' first tables.

    Args:
        names: ids of benchmarks, if any.
        tier: a name, if any.

    Raises:
        ValueError: an unknown name.
    """
    unknown = [name for name in names if name not in variants()]
    if unknown:
        raise ValueError(f"unknown id {unknown[0]!r}; pytest --collect-only --benchmark-only --tier full lists them")
    if names:
        return [variants()[name] for name in names]
    if tier:
        return select(Selection(tier=tier))
    return [variant for variant in variants().values() if variant.tier == "gate" or in_front(variant)]


def compared(variant: Variant, pairs: int, blocks: int, rng: random.Random) -> dict[str, Any]:
    """Return the seconds of a call on each side, and how many times as long it takes with default malloc.

    The interval is of the median over all blocks, at 95 % where there are six or more.

    Args:
        variant: the benchmark.
        pairs: of fresh processes.
        blocks: of four turns in each pair.
        rng: draws the order of sides.

    Raises:
        Failure: it cannot be prepared.
        CaseError, PairError: a worker died or hung.
    """
    measured = Pairs(SIDES, blocks, LIMIT, {}, CACHE, rng)
    measured.seen.add(variant.id)  # one code on both sides: answers and counts are not compared
    place, record = cores(True), Record()
    found: list[tuple[float, float]] = []
    for _ in range(pairs):
        with measured.workers(place) as workers:
            if not measured.prepare(workers, variant.id, record):
                raise Failure(record.words)
            plan = measured.plan(workers[0], variant.id, place)
            for _ in range(blocks):
                kept, default = measured.block(workers, variant.id, plan)
                calls = 2 * plan.samples * plan.calls
                found.append((kept / calls, default / calls))
            both(workers, "close", identity=variant.id)
    ratios = [default / kept for kept, default in found]
    low, high = interval(ratios)
    return {
        "id": variant.id,
        "version": variant.case.version,
        **{memory: median(seconds) for memory, seconds in zip(MEMORY, zip(*found))},
        "ratio": median(ratios),
        "low": low,
        "high": high,
        "n": len(ratios),
    }


def told(found: dict[str, Any]) -> str:
    """Return one result in words.

    Args:
        found: a result as :func:`compared` returns it.
    """
    times = f"{duration(found['kept'])} kept, {duration(found['default'])} default"
    mark = " <--" if marked({"default_malloc": found}) else ""
    return f"{found['id']}: {times}, {ratio_words(spans(found))}{mark}"


def measure(chosen: Iterable[Variant], pairs: int, blocks: int, progress: Progress) -> list[dict[str, Any]]:
    """Return the result of each benchmark that can run here; say why of those that failed.

    Args:
        chosen: the benchmarks.
        pairs: of fresh processes.
        blocks: of four turns in each pair.
        progress: shows how far it is.
    """
    found, rng = [], random.Random(0)
    for variant in chosen:
        try:
            found.append(compared(variant, pairs, blocks, rng))
            progress.step(told(found[-1]))
        except (Failure, CaseError, PairError) as error:
            progress.step(f"{variant.id}: FAILED: {error}")
    return found


@interruptible()
def main(arguments: list[str] | None = None) -> None:
    """Time benchmarks with kept memory and with default malloc; exit code 1 if one failed.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.default_malloc", description=__doc__.splitlines()[0])
    parser.add_argument("id", nargs="*", help="as in 'pirl.forward[full-numpy-batch2048-iohost-hidden32]'")
    parser.add_argument("--tier", choices=TIERS, help="all of a tier, instead of the gate's and the first tables'")
    parser.add_argument("--pairs", type=int, default=1, help="pairs of fresh processes for each benchmark")
    parser.add_argument("--blocks", type=int, default=6, help="blocks of four turns in each (default: 6)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    options = parser.parse_args(arguments)
    if options.pairs < 1 or options.blocks < 1:
        parser.error(f"got --pairs {options.pairs} --blocks {options.blocks}, wanted 1 or more of each")
    try:
        everything = chosen(options.id, options.tier)
    except ValueError as error:
        parser.error(str(error))
    able = [variant for variant in everything if not backends.get(variant.backend).missing()]
    if not able:
        parser.error(f"none of the {len(everything)} benchmarks can run here: python -m rl_impls says why")
    try:
        check_folder(CACHE)
        if removed := remove_halves(CACHE / "inductor"):
            print(removed, file=sys.stderr)
        with by_sigterm(), reserved(options.json, ROOM * len(able)) as write:
            with Progress(len(able), "benchmarks") as progress:
                found = measure(able, options.pairs, options.blocks, progress)
            write((json.dumps(found, indent=1) + "\n").encode())
    except Unwritable as error:
        parser.error(str(error))
    changed = [result for result in found if marked({"default_malloc": result})]
    print(f"{len(changed)} of {len(found)} benchmarks differ by more than {100 * SEEN:.0f} % with default malloc")
    if len(found) < len(able):
        sys.exit(f"{len(able) - len(found)} of {len(able)} benchmarks failed")


if __name__ == "__main__":
    main()
