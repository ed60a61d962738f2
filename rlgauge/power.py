"""Measure the gate's error rates on a repository's benchmarks: the same code on both sides, with head slowed.

Head is slowed either by a fraction of each call, or by a fault: a function of the repository that receives a test's
timed callable and returns a slower replacement.

The rates of the canaries alone are measured without an added slowdown, since one of them is already slower. Each pair
is one line of a file, so an interrupted measurement can be continued.
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
from .progress import left, number_of
from .rates import Rate, Said, verdicts
from .rule import WANTED, GateError, Rule
from .statistics import Block, log_ratio
from .workers import Worker, both

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

DOSES = (0.0, 0.02, 0.05, 0.10)
NO_FAULTS: Mapping[str, Sequence[str]] = MappingProxyType({})
DRAWN = 1000  # simulated runs of each canary
Dosed = dict[str, dict[str, dict[str, float]]]  # log-ratios of a pair, by "log_ratios" or "quick", case, treatment


def faults_of(words: Iterable[str]) -> dict[str, list[str]]:
    """Parse ``MODULE:FUNCTION`` and ``MODULE:FUNCTION=PATTERN``; return the test patterns of each fault.

    A fault without a pattern applies to all tests.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        fault, _, pattern = word.partition("=")
        module, _, function = fault.partition(":")
        if not (function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise GateError(f"--fault: invalid value {word!r}; write MODULE:FUNCTION or MODULE:FUNCTION=PATTERN")
        found.setdefault(fault, []).append(pattern or "*")
    return found


def doses_of(text: str) -> tuple[float, ...]:
    """Parse comma-separated slowdowns, which are fractions of a call; return them in ascending order after 0."""
    try:
        found = {float(word) for word in text.split(",") if word.strip()}
    except ValueError:
        found = {-1.0}
    if not all(0 < dose < math.inf for dose in found):
        raise GateError(f"--slowdowns: invalid value {text!r}; give fractions above 0, for example 0.02,0.05")
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
    """Measure for some minutes (0 only evaluates the file); return the error rates as a Markdown table.

    `file` (JSON lines) is continued. `faults` maps each ``MODULE:FUNCTION`` to patterns of the tests that get it,
    `arguments` are pytest's and select tests, and `doses` are slowdowns of head as fractions of a call.
    """
    if minutes > 0:
        source.everything(root, arguments)
        names = [case.id for case in source.cases()]
        for fault, patterns in faults.items():
            if not any(matches(name, pattern) for name in names for pattern in patterns):
                raise GateError(f"--fault {fault}: no benchmark matches {', '.join(patterns)}")
        measure(source, root, file, minutes, rule, limit, doses=doses, faults=faults)
    return table(read(file), rule)


def canary_rates(source: Benchmarks, root: Path, file: Path, pairs: int, rule: Rule, limit: float) -> str:
    """Measure the canaries of both passes until a file holds `pairs` pairs; return their rates as a Markdown table."""
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
    """Append pairs to a file until the time is up; each pair is written in full or not at all.

    The arguments are those of :func:`rates`. In addition, `passes` lists the cases to run on one core (False) and on
    all cores (True), by default the source's, and measuring also ends when the file holds `most` pairs.
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
            log(f"power: {number_of(number, 'pair')}, the last in {now - start:.0f} s, {left(seconds)}")


def count(file: Path) -> int:
    """Return the number of pairs in a file; 0 if it does not exist."""
    return sum(line["what"] == "pair" for line in read(file)) if file.exists() else 0


def treated(
    pairs: Pairs,
    names: Sequence[str],
    place: Cores,
    doses: Sequence[float] = DOSES,
    faults: Mapping[str, Sequence[str]] = NO_FAULTS,
) -> Dosed:
    """Return each case's log-ratios for every slowdown and for each of its faults, from one pair of workers."""
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
    """Prepare a case, measure it with each slowdown, and close it.

    `doses` maps the name of each treatment to a slowdown of head as a fraction of a call. `fault`, if any, is applied
    to head's callable.
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
    """Return the log-ratios of each case and treatment, for a thorough pair and for a quick one.

    `blocks` are those of a thorough pair, by case, treatment and sample plan.
    """
    found: Dosed = {"log_ratios": {}, "quick": {}}
    for (name, treatment, plan), values in blocks.items():
        for key, part in (("log_ratios", values), ("quick", pairs.quick(values, plan))):
            found[key].setdefault(name, {})[treatment] = round(log_ratio(part), 6)
    return found


def joined(parts: Iterable[Dosed]) -> Dosed:
    """Merge the log-ratios of several cases into one dictionary."""
    whole: Dosed = {"log_ratios": {}, "quick": {}}
    for part in parts:
        for key, cases in part.items():
            for name, treatments in cases.items():
                whole[key].setdefault(name, {}).update(treatments)
    return whole


def column(pairs: Sequence[Mapping[str, Any]], case: str, treatment: str) -> list[Said]:
    """Return the quick and thorough log-ratios of a case under a treatment, one per pair.

    Old files have no quick ones; there the thorough log-ratio is used for both. The treatment is a slowdown such as
    ``0.05``, or a fault.
    """
    keys = [("quick" if "quick" in line else "log_ratios", "log_ratios") for line in pairs]
    return [Said(*(line[key][case][treatment] for key in both)) for line, both in zip(pairs, keys, strict=True)]


def prepared(workers: Sequence[Worker], name: str, place: Cores, fault: str = "") -> tuple[float, int, float]:
    """Prepare a case on both sides; return base's seconds per call, calls per sample, and wall seconds per call."""
    for reply in both(workers, "prepare", identity=name, **({"fault": fault} if fault else {})):
        if why := reply.get("failed") or reply.get("skipped"):
            raise GateError(f"{name}: {f'{fault}: ' if fault else ''}{why}")
    both(workers, "place", core=place.one)
    workers[0].ask("measure", identity=name)
    found = answered(workers[0], name)
    return float(found["call"]), int(found["calls"]), float(found["wall"])


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that :func:`measure` wrote."""
    return measurements.read(file, ("machine", "pair"), "rlgauge power --minutes 60")


def table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return a Markdown table of how often a case was called slower at each slowdown, with exact 95 % intervals."""
    pairs = [line for line in lines if line["what"] == "pair"]
    wanted = rule.screen + rule.confirm  # without pairs for another look, an open verdict is not `slower`
    if len(pairs) < wanted:
        raise GateError(
            f"power: the file has {number_of(len(pairs), 'pair')}, and a verdict needs {wanted}; "
            "to measure more, run: rlgauge power --minutes 60"
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
    said = f"{number_of(len(pairs), 'pair')} of {number_of(len(cases), 'benchmark')}."
    machines = [line for line in lines if line["what"] == "machine" and "cpu_model" in line]
    where = [f"{line['cpu_model']}, {number_of(line['cores'], 'core')}, {line['date']}" for line in machines]
    return "\n".join([*rows, "", said, *(f"Measured on {place}." for place in dict.fromkeys(where))])


def called(columns: Iterable[Sequence[Said]], rule: Rule, suspects: int) -> Rate:
    """Return how often cases were called slower, with p adjusted for `suspects` suspects in a whole run."""
    found = [slower for said in columns for _, slower in verdicts(said, rule, suspects)]
    return Rate(sum(found), len(found))


def canary_table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return a Markdown table of each canary's scatter between pairs and how often it is called slower.

    With too few pairs for a verdict, there is no rate. Whole runs are also simulated, by sampling pairs with
    replacement.
    """
    pairs, rng = [line for line in lines if line["what"] == "pair"], random.Random(0)
    names = [name for wanted in WANTED.values() for name in wanted]
    if any(name not in pair["log_ratios"] for pair in pairs for name in names):
        raise GateError("power: the file has pairs of other benchmarks than the canaries; give another --file")
    head = [f"| canary | head's time | spread of pairs | called slower [95 % interval] | of {DRAWN:,} simulated runs |"]
    head.append("|---|---:|---:|---|---:|")
    for name in names if pairs else ():
        said = column(pairs, name, "0")
        values = [pair.thorough for pair in said]
        middle = median(values)
        spread = 1.4826 * median(abs(value - middle) for value in values)  # robust standard deviation (normal)
        found = [slower for _, slower in verdicts(said, rule)]
        enough = range(DRAWN if found else 0)
        drawn = [next(verdicts(rng.choices(said, k=rule.screen + rule.most), rule))[1] for _ in enough]
        simulated = f"{sum(drawn) / DRAWN:.1%}" if drawn else "not measured"
        told = f"{math.expm1(middle):+.2%} | {spread:.2%}"
        head.append(f"| `{name}` | {told} | {Rate(sum(found), len(found))} | {simulated} |")
    return "\n".join([*head, "", f"{number_of(len(pairs), 'pair')} of processes of the same code."])
