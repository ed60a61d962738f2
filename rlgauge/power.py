"""Measures the gate's error rates on a repository's own benchmarks: the same code on both sides, one slowed by a dose.

The rates of the canaries alone are measured in the same way, without a dose, as one of them is slowed by itself. Every
pair is one line of a file, so a measurement goes on where it was stopped.
"""

from __future__ import annotations

import datetime
import functools
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from . import measurements
from .layout import laid_out
from .pairs import CaseError, Cores, PairError, Pairs, SamplePlan, answered, cores
from .progress import left
from .rates import Rate, Said, verdicts
from .rule import WANTED, GateError, Rule
from .source import Source
from .statistics import Block, log_ratio
from .workers import Worker, both

DOSES = (0.0, 0.02, 0.05, 0.10)
DRAWN = 1000  # runs of which each canary's verdict is simulated
Dosed = dict[str, dict[str, dict[str, float]]]  # log-ratios of a pair, by ``log_ratios`` or ``quick``, case, treatment


def rates(source: Source, root: Path, file: Path, minutes: float, rule: Rule, limit: float) -> str:
    """Measure for some minutes, going on with a file; return the rates as a table.

    Args:
        source: of the cases.
        root: of the repository.
        file: of lines of JSON, to which is added.
        minutes: how long to measure; 0 says what is known.
        rule: the numbers to decide by.
        limit: seconds that a worker may take for one request.

    Raises:
        GateError: there are no cases, or nothing was measured yet.
    """
    if minutes > 0:
        source.everything(root)
        measure(source, root, file, minutes, rule, limit)
    return table(read(file), rule)


def canary_rates(source: Source, root: Path, file: Path, pairs: int, rule: Rule, limit: float) -> str:
    """Measure the canaries of both passes until a file holds so many pairs; return what they come to as a table.

    Args:
        source: whose workers have the canaries.
        root: of the repository.
        file: of lines of JSON, to which is added.
        pairs: how many.
        rule: the numbers to decide by.
        limit: seconds that a worker may take for one request.

    Raises:
        GateError: a worker does not start, or the file holds something else.
    """
    if count(file) < pairs:
        source.everything(root)
        passes = {many: list(wanted) for many, wanted in WANTED.items()}
        measure(source, root, file, math.inf, rule, limit, passes=passes, doses=DOSES[:1], most=pairs)
    return canary_table(read(file), rule)


def measure(
    source: Source,
    root: Path,
    file: Path,
    minutes: float,
    rule: Rule,
    limit: float,
    log: Callable[[str], None] = print,
    passes: Mapping[bool, Sequence[str]] | None = None,
    doses: Sequence[float] = DOSES,
    most: float = math.inf,
) -> None:
    """Add pairs to a file until the time is over; each is written whole or not at all.

    Args:
        source: of the cases.
        root: of the repository.
        file: of lines of JSON, to which is added.
        minutes: how long to measure.
        rule: whose blocks a pair has.
        limit: seconds that a worker may take for one request.
        log: prints a line.
        passes: names of what runs on one core (False) and on all (True); the cases of the source unless given.
        doses: by which head is slowed.
        most: pairs in the file with which measuring ends.

    Raises:
        GateError: a worker does not start, or the file holds something else.
    """
    end = time.monotonic() + 60 * minutes
    number = count(file)
    measurements.keep(file, {"what": "machine", "date": datetime.date.today().isoformat(), **source.machine(root)})
    passes = passes or {many: [case.id for case in source.cases() if case.all_cores is many] for many in (False, True)}
    with laid_out(source, root) as layout:
        sides = [layout.side(None, name) for name in ("base", "head")]
        while number < most and time.monotonic() < end:
            start, rng = time.monotonic(), random.Random(number)
            pairs = Pairs(sides, rule.blocks, limit, {}, layout.folder, rng, (), source.together)
            try:
                found = joined(dosed(pairs, names, cores(many), doses) for many, names in passes.items() if names)
            except (CaseError, PairError) as error:
                raise GateError(str(error)) from error
            measurements.keep(file, {"what": "pair", **found, "seconds": round(time.monotonic() - start, 1)})
            number += 1
            now = time.monotonic()
            seconds = min(max(0.0, end - now), (most - number) * (now - start))
            log(f"power: {number} pairs, {now - start:.0f} s the last, {left(seconds)}")


def count(file: Path) -> int:
    """Return how many pairs a file holds; 0 if it does not exist."""
    return sum(line["what"] == "pair" for line in read(file)) if file.exists() else 0


def dosed(pairs: Pairs, names: Sequence[str], place: Cores, doses: Sequence[float] = DOSES) -> Dosed:
    """Return each case's log-ratios at each dose, all from one pair of workers.

    Args:
        pairs: measures them.
        names: of the cases.
        place: the cores that workers run on.
        doses: by which head is slowed.

    Raises:
        GateError: a case cannot be prepared.
    """
    found = []
    with pairs.workers(place) as workers:
        for group in [names] if pairs.together else pairs.drawn(names):
            calls = {name: prepared(workers, name, place) for name in group}
            plans = {name: place.plan(max(call, 1e-9), count, wall) for name, (call, count, wall) in calls.items()}
            slots = {}
            for name, plan in plans.items():
                for dose in doses:
                    spin = dose * plan.samples * plan.calls * calls[name][0]
                    slots[name, dose, spin] = plan
            with place.shared():
                blocks = pairs.mixed(slots, functools.partial(slowed, pairs, workers, plans), thorough=True)
            found.append(said(pairs, {(slot[0], f"{slot[1]:g}", plan): blocks[slot] for slot, plan in slots.items()}))
            for name in group:
                both(workers, "close", identity=name)
    return joined(found)


def said(pairs: Pairs, blocks: Mapping[tuple[str, str, SamplePlan], Sequence[Block]]) -> Dosed:
    """Return what a pair says of each case at each treatment, a thorough one and one that is not.

    Args:
        pairs: measured them.
        blocks: of a thorough pair, by name of the case, treatment, and how it is timed.
    """
    found: Dosed = {"log_ratios": {}, "quick": {}}
    for (name, treatment, plan), values in blocks.items():
        for key, part in (("log_ratios", values), ("quick", pairs.quick(values, plan))):
            found[key].setdefault(name, {})[treatment] = round(log_ratio(part), 6)
    return found


def joined(parts: Iterable[Dosed]) -> Dosed:
    """Return what is said of all cases.

    Args:
        parts: of some cases each.
    """
    whole: Dosed = {"log_ratios": {}, "quick": {}}
    for part in parts:
        for key, found in part.items():
            whole[key] |= found
    return whole


def column(pairs: Sequence[Mapping[str, Any]], case: str, treatment: str) -> list[Said]:
    """Return what pairs say of a case; in lines of old, thorough ones were like the others.

    Args:
        pairs: lines of a file.
        case: its id.
        treatment: a dose, as ``0.05``, or what else was done to head.
    """
    keys = [("quick" if "quick" in line else "log_ratios", "log_ratios") for line in pairs]
    return [Said(*(line[key][case][treatment] for key in both)) for line, both in zip(pairs, keys, strict=True)]


def slowed(
    pairs: Pairs, workers: Sequence[Worker], plans: Mapping[str, SamplePlan], slot: tuple[str, float, float]
) -> Block:
    """Return a block of a case.

    Args:
        pairs: measures it.
        workers: base's and head's.
        plans: how each case is timed.
        slot: name of the case, the dose, and the seconds by which head is slowed.
    """
    name, dose, spin = slot
    return pairs.block(workers, name, plans[name], {"spin": spin} if dose else {})


def prepared(workers: Sequence[Worker], name: str, place: Cores) -> tuple[float, int, float]:
    """Prepare a case on both sides; return the seconds of base's call, the calls of its sample, and its wall time.

    Args:
        workers: base's and head's.
        name: of the case.
        place: the cores that workers run on.

    Raises:
        GateError: it cannot be prepared.
    """
    for reply in both(workers, "prepare", identity=name):
        if why := reply.get("failed") or reply.get("skipped"):
            raise GateError(f"{name}: {why}")
    both(workers, "place", core=place.one)
    workers[0].ask("measure", identity=name)
    found = answered(workers[0], name)
    return float(found["call"]), int(found["calls"]), float(found["wall"])


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file.

    Args:
        file: that :func:`measure` wrote.

    Raises:
        GateError: no such file, or another's.
    """
    return measurements.read(file, ("machine", "pair"), "rlgauge power --minutes 60")


def table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return how often a case was called slower at each dose, with n and exact 95 % intervals, as Markdown.

    Args:
        lines: as :func:`read` returns them.
        rule: the numbers to decide by.

    Raises:
        GateError: too few pairs for a verdict.
    """
    pairs = [line for line in lines if line["what"] == "pair"]
    wanted = rule.screen + rule.most
    if len(pairs) < wanted:
        raise GateError(
            f"power: {len(pairs)} pairs were measured, a verdict takes {wanted}: rlgauge power --minutes 60"
        )
    cases = [case for case in pairs[-1]["log_ratios"] if all(case in pair["log_ratios"] for pair in pairs)]
    head = ["| slowed by | called slower [95 % interval] |", "|---|---|"]
    for dose in DOSES:
        found = [slower for case in cases for _, slower in verdicts(column(pairs, case, f"{dose:g}"), rule, len(cases))]
        head.append(f"| {100 * dose:g} %{'' if dose else ', the same code'} | {Rate(sum(found), len(found))} |")
    return "\n".join([*head, "", f"{len(pairs)} pairs of {len(cases)} cases."])


def canary_table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return how far the pairs of each canary scatter and how often it is called slower, as Markdown.

    Too few pairs for a verdict give no rate. Whole runs are also simulated, from pairs drawn with replacement.

    Args:
        lines: as :func:`read` returns them.
        rule: the numbers to decide by.

    Raises:
        GateError: they are of something else.
    """
    pairs, rng = [line for line in lines if line["what"] == "pair"], random.Random(0)
    names = [name for wanted in WANTED.values() for name in wanted]
    if any(name not in pair["log_ratios"] for pair in pairs for name in names):
        raise GateError("power: the file holds pairs of other cases than the canaries: name another by --file")
    head = [f"| canary | head's time | spread of pairs | called slower [95 % interval] | of {DRAWN:,} simulated runs |"]
    head.append("|---|---:|---:|---|---:|")
    for name in names if pairs else ():
        said = column(pairs, name, "0")
        values = [pair.thorough for pair in said]
        middle = median(values)
        spread = 1.4826 * median(abs(value - middle) for value in values)  # robust, of a normal distribution
        found = [slower for _, slower in verdicts(said, rule)]
        enough = range(DRAWN if found else 0)
        drawn = [next(verdicts(rng.choices(said, k=rule.screen + rule.most), rule))[1] for _ in enough]
        simulated = f"{sum(drawn) / DRAWN:.1%}" if drawn else "not measured"
        told = f"{math.expm1(middle):+.2%} | {spread:.2%}"
        head.append(f"| `{name}` | {told} | {Rate(sum(found), len(found))} | {simulated} |")
    return "\n".join([*head, "", f"{len(pairs)} pairs of processes of the same code."])
