"""Measures the gate's error rates on a repository's own benchmarks: the same code on both sides, one of them slowed.

Head is slowed by a dose, which is a part of each call, or by a fault: a function of the repository's own that gets what
a test times and returns a slower one in its place.

The rates of the canaries alone are measured in the same way, without a dose, as one of them is slowed by itself. Every
pair is one line of a file, so a measurement goes on where it was stopped.
"""

from __future__ import annotations

import datetime
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from . import measurements
from .allowed import matches
from .layout import laid_out
from .pairs import CaseError, Cores, PairError, Pairs, SamplePlan, answered, cores
from .progress import left
from .rates import Rate, Said, verdicts
from .rule import WANTED, GateError, Rule
from .statistics import Block, log_ratio
from .workers import Worker, both

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

DOSES = (0.0, 0.02, 0.05, 0.10)
NO_FAULTS: Mapping[str, Sequence[str]] = MappingProxyType({})
DRAWN = 1000  # runs of which each canary's verdict is simulated
Dosed = dict[str, dict[str, dict[str, float]]]  # log-ratios of a pair, by ``log_ratios`` or ``quick``, case, treatment


def faults_of(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the patterns of the tests that each fault is put into.

    Args:
        words: ``MODULE:FUNCTION`` for all tests, or ``MODULE:FUNCTION=PATTERN`` for some.

    Raises:
        GateError: one is neither.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        fault, _, pattern = word.partition("=")
        module, _, function = fault.partition(":")
        if not (function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise GateError(f"--fault: got {word!r}, wanted MODULE:FUNCTION or MODULE:FUNCTION=PATTERN")
        found.setdefault(fault, []).append(pattern or "*")
    return found


def doses_of(text: str) -> tuple[float, ...]:
    """Return the parts of a call by which head is slowed, 0 first.

    Args:
        text: numbers with commas between them.

    Raises:
        GateError: one is no number above 0.
    """
    try:
        found = {float(word) for word in text.split(",") if word.strip()}
    except ValueError:
        found = {-1.0}
    if not all(0 < dose < math.inf for dose in found):
        raise GateError(f"--slowdowns: got {text!r}; give parts of a call above 0, for example 0.02,0.05")
    return 0.0, *sorted(found)


def rates(
    source: Benchmarks,
    root: Path,
    file: Path,
    minutes: float,
    rule: Rule,
    limit: float,
    faults: Mapping[str, Sequence[str]] = NO_FAULTS,
    arguments: Sequence[str] = (),
    doses: Sequence[float] = DOSES,
) -> str:
    """Measure for some minutes, going on with a file; return the rates as a table.

    Args:
        source: of the cases.
        root: of the repository.
        file: of lines of JSON, to which is added.
        minutes: how long to measure; 0 says what is known.
        rule: the numbers to decide by.
        limit: seconds that a worker may take for one request.
        faults: patterns of the tests that each fault is put into, by ``MODULE:FUNCTION``.
        arguments: of pytest, which select tests.
        doses: by which head is slowed.

    Raises:
        GateError: there are no cases, no test is of a fault, or nothing was measured yet.
    """
    if minutes > 0:
        source.everything(root, arguments)
        names = [case.id for case in source.cases()]
        for fault, patterns in faults.items():
            if not any(matches(name, pattern) for name in names for pattern in patterns):
                raise GateError(f"--fault {fault}: no test fits {', '.join(patterns)}")
        measure(source, root, file, minutes, rule, limit, doses=doses, faults=faults)
    return table(read(file), rule)


def canary_rates(source: Benchmarks, root: Path, file: Path, pairs: int, rule: Rule, limit: float) -> str:
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
    source: Benchmarks,
    root: Path,
    file: Path,
    minutes: float,
    rule: Rule,
    limit: float,
    log: Callable[[str], None] = print,
    passes: Mapping[bool, Sequence[str]] | None = None,
    doses: Sequence[float] = DOSES,
    most: float = math.inf,
    faults: Mapping[str, Sequence[str]] = NO_FAULTS,
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
        faults: patterns of the tests that each fault is put into.

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
            pairs = Pairs(sides, rule.blocks, limit, {}, layout.folder, rng)
            try:
                found = joined(
                    treated(pairs, names, cores(many), doses, faults) for many, names in passes.items() if names
                )
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


def treated(
    pairs: Pairs,
    names: Sequence[str],
    place: Cores,
    doses: Sequence[float] = DOSES,
    faults: Mapping[str, Sequence[str]] = NO_FAULTS,
) -> Dosed:
    """Return each case's log-ratios at each dose and with each of its faults, all from one pair of workers.

    Args:
        pairs: measures them.
        names: of the cases.
        place: the cores that workers run on.
        doses: by which head is slowed.
        faults: patterns of the tests that each fault is put into.

    Raises:
        GateError: a case cannot be prepared.
    """
    found = []
    with pairs.workers(place) as workers:
        for (name,) in pairs.drawn(names):
            found.append(prepared_and_slowed(pairs, workers, name, place, {f"{dose:g}": dose for dose in doses}))
            for fault, patterns in faults.items():
                if any(matches(name, pattern) for pattern in patterns):
                    found.append(prepared_and_slowed(pairs, workers, name, place, {fault: 0.0}, fault))
    return joined(found)


def prepared_and_slowed(
    pairs: Pairs, workers: Sequence[Worker], name: str, place: Cores, doses: Mapping[str, float], fault: str = ""
) -> Dosed:
    """Prepare a case, measure it at each dose, and close it.

    Args:
        pairs: measures it.
        workers: base's and head's.
        name: of the case.
        place: the cores that workers run on.
        doses: parts of a call by which head is slowed, by the name of the treatment.
        fault: that is put into head's side, if any.

    Raises:
        GateError: the case cannot be prepared.
    """
    call, count, wall = prepared(workers, name, place, fault)
    plan = place.plan(max(call, 1e-9), count, wall)
    spins = {treatment: dose * plan.samples * plan.calls * call for treatment, dose in doses.items()}

    def block(treatment: str) -> Block:
        return pairs.block(workers, name, plan, {"spin": spins[treatment]} if spins[treatment] else {})

    with place.shared():
        blocks = pairs.mixed(dict.fromkeys(spins, plan), block, thorough=True)
    both(workers, "close", identity=name)
    return said(pairs, {(name, treatment, plan): values for treatment, values in blocks.items()})


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
        for key, cases in part.items():
            for name, treatments in cases.items():
                whole[key].setdefault(name, {}).update(treatments)
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


def prepared(workers: Sequence[Worker], name: str, place: Cores, fault: str = "") -> tuple[float, int, float]:
    """Prepare a case on both sides; return the seconds of base's call, the calls of its sample, and its wall time.

    Args:
        workers: base's and head's.
        name: of the case.
        place: the cores that workers run on.
        fault: that is put into head's side, if any.

    Raises:
        GateError: it cannot be prepared.
    """
    for reply in both(workers, "prepare", identity=name, **({"fault": fault} if fault else {})):
        if why := reply.get("failed") or reply.get("skipped"):
            raise GateError(f"{name}: {f'{fault}: ' if fault else ''}{why}")
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
    rows = ["| slowed by | called slower [95 % interval] |", "|---|---|"]
    treatments = {name for pair in pairs for found in pair["log_ratios"].values() for name in found}
    for treatment in sorted(treatments, key=lambda name: (1.0, name) if ":" in name else (float(name), "")):
        having = [(case, [pair for pair in pairs if treatment in pair["log_ratios"].get(case, {})]) for case in cases]
        found = [column(chosen, case, treatment) for case, chosen in having if chosen]
        if ":" in treatment:
            times = ", ".join(f"x {math.exp(median(pair.thorough for pair in said)):.2f}" for said in found)
            words = f"`{treatment}` ({times})"
        else:
            words = f"{100 * float(treatment):g} %" if float(treatment) else "0 %, the same code"
        rows.append(f"| {words} | {called(found, rule, len(cases))} |")
    return "\n".join([*rows, "", f"{len(pairs)} pairs of {len(cases)} cases."])


def called(columns: Iterable[Sequence[Said]], rule: Rule, suspects: int) -> Rate:
    """Return how often cases were called slower.

    Args:
        columns: what pairs say of each case.
        rule: the numbers to decide by.
        suspects: in a whole run, for which p is adjusted.
    """
    found = [slower for said in columns for _, slower in verdicts(said, rule, suspects)]
    return Rate(sum(found), len(found))


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
