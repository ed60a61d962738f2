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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from . import measurements
from .allowed import matches
from .case import by_cores
from .layout import laid_out
from .machine import machine_and_versions
from .pairs import CaseError, PairError, Pairs, reason, time_calls
from .progress import left, number_of
from .rates import PairLogRatio, Rate, verdicts
from .rule import EXPECTED, GateError, Rule
from .sampling import Cores, SamplePlan, cores
from .statistics import Block, log_ratio
from .workers import Worker, ask_both

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

SLOWDOWNS = (0.02, 0.05, 0.10)  # of head, as fractions of a call; 0 is always measured too
SIMULATED_RUNS = 1000  # of each canary
LogRatios = dict[str, dict[str, dict[str, float]]]  # of a pair, by "log_ratios" or "quick", case, treatment


def parse_faults(texts: Iterable[str]) -> dict[str, list[str]]:
    """Parse ``MODULE:FUNCTION`` and ``MODULE:FUNCTION=PATTERN``; return the test patterns of each fault.

    A fault without a pattern applies to all tests.
    """
    faults: dict[str, list[str]] = {}
    for text in texts:
        fault, _, pattern = text.partition("=")
        module, _, function = fault.partition(":")
        if not (function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
            raise GateError(f"--fault: invalid value {text!r}; write MODULE:FUNCTION or MODULE:FUNCTION=PATTERN")
        faults.setdefault(fault, []).append(pattern or "*")
    return faults


def parse_slowdowns(text: str) -> tuple[float, ...]:
    """Parse comma-separated slowdowns, which are fractions of a call; return them in ascending order."""
    try:
        slowdowns = {float(part) for part in text.split(",") if part.strip()}
    except ValueError:
        slowdowns = {-1.0}
    if not all(0 < slowdown < math.inf for slowdown in slowdowns):
        raise GateError(f"--slowdowns: invalid value {text!r}; give fractions above 0, for example 0.02,0.05")
    return tuple(sorted(slowdowns))


@dataclass(frozen=True)
class Measurement:
    """Pairs of processes of the same code, with and without a slowdown of head, and the file that holds them.

    Attributes:
        file: file of JSON lines, which is continued.
        slowdowns: slowdowns of head other than 0, as fractions of a call.
        faults: patterns of the tests that get each ``MODULE:FUNCTION``.
    """

    source: Benchmarks
    file: Path
    rule: Rule
    limit: float
    slowdowns: Sequence[float] = SLOWDOWNS
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def benchmark_rates(self, minutes: float, arguments: Sequence[str] = ()) -> str:
        """Measure for some minutes (0 only evaluates the file); return the error rates as a Markdown table.

        `arguments` are pytest's and select benchmarks.
        """
        if minutes > 0:
            self.source.select(arguments)
            for fault, patterns in self.faults.items():
                if not any(matches(name, pattern) for name in self.source.names for pattern in patterns):
                    raise GateError(f"--fault {fault}: no benchmark matches {', '.join(patterns)}; change the pattern")
            self.check_file(self.source.names)
            self.measure(by_cores(self.source.cases()), minutes=minutes)
        return table(read(self.file), self.rule)

    def canary_rates(self, pairs: int) -> str:
        """Measure the canaries until the file holds `pairs` pairs; return their rates as a Markdown table."""
        if count(self.file) < pairs:
            self.check_file([name for canaries in EXPECTED.values() for name in canaries])
            self.source.select()
            self.measure({all_cores: list(canaries) for all_cores, canaries in EXPECTED.items()}, most=pairs)
        return canary_table(read(self.file), self.rule)

    def check_file(self, names: Iterable[str]) -> None:
        """Raise GateError if none of these cases is in all pairs: the table shows only cases that every pair has."""
        pairs = [line for line in read(self.file) if line["what"] == "pair"] if self.file.exists() else []
        if not any(all(name in pair["log_ratios"] for pair in pairs) for name in names):
            raise GateError(f"power: {self.file} has pairs of other benchmarks; give another --file")

    def measure(self, passes: Mapping[bool, Sequence[str]], minutes: float = math.inf, most: float = math.inf) -> None:
        """Append pairs to the file until the time is up or it holds `most` pairs; each pair is written in full.

        `passes` lists the cases to run on one core (False) and on all cores (True).
        """
        about = {"what": "machine", "date": datetime.date.today().isoformat(), **machine_and_versions()}
        with laid_out(self.source, self.source.root) as layout:  # one run at a time appends to the file
            measurements.append(self.file, [about])
            sides = [layout.side(None, name) for name in ("base", "head")]
            end, number = time.monotonic() + 60 * minutes, count(self.file)
            while number < most and time.monotonic() < end:
                start = time.monotonic()
                pairs = Pairs(sides, self.rule.blocks, self.limit, {}, layout.folder, random.Random(number))
                try:
                    log_ratios = self.measure_pair(pairs, passes)
                except CaseError as error:
                    raise GateError(f"{error.name}: {error}") from error
                except PairError as error:
                    raise GateError(str(error)) from error
                seconds = time.monotonic() - start
                measurements.append(self.file, [{"what": "pair", **log_ratios, "seconds": round(seconds, 1)}])
                number += 1
                remaining = min(max(0.0, end - time.monotonic()), (most - number) * seconds)
                print(f"power: {number_of(number, 'pair')}, the last in {seconds:.0f} s, {left(remaining)}")

    def measure_pair(self, pairs: Pairs, passes: Mapping[bool, Sequence[str]]) -> LogRatios:
        """Return each case's log-ratios for every slowdown and for each of its faults, from one pair of workers."""
        slowdowns = {f"{slowdown:g}": slowdown for slowdown in (0.0, *self.slowdowns)}
        found: LogRatios = {"log_ratios": {}, "quick": {}}
        for all_cores, names in passes.items():
            place = cores(all_cores)
            with pairs.workers(place) as workers:
                for name in pairs.shuffled(names):
                    add_log_ratios(found, pairs, name, *slowed_blocks(pairs, workers, name, place, slowdowns))
                    for fault, patterns in self.faults.items():
                        if any(matches(name, pattern) for pattern in patterns):
                            blocks = slowed_blocks(pairs, workers, name, place, {fault: 0.0}, fault)
                            add_log_ratios(found, pairs, name, *blocks)
        return found


def slowed_blocks(
    pairs: Pairs, workers: Sequence[Worker], name: str, place: Cores, slowdowns: Mapping[str, float], fault: str = ""
) -> tuple[SamplePlan, dict[str, list[Block]]]:
    """Prepare a case, measure it with each slowdown, and close it; return its plan, and the blocks by treatment.

    `slowdowns` maps the name of each treatment to a slowdown of head as a fraction of a call. `fault`, if any, is
    applied to head's callable.
    """

    def check(problems: Iterable[str | None]) -> None:
        for problem in filter(None, problems):
            cause = f"{fault}: {problem}" if fault else problem
            raise GateError(f"{name}: {cause}; fix the test, or add --deselect={name}")

    replies = ask_both(workers, "prepare", identity=name, fault=fault)
    check(map(reason, replies))
    ask_both(workers, "place", core=place.one)
    once = any(reply.get("once") for reply in replies)
    timing = time_calls(workers, name, once)
    plan = replace(place.plan(timing.call, timing.calls, timing.wall), once=once)
    turn = plan.samples * plan.calls * timing.call
    injected = {treatment: slowdown * turn for treatment, slowdown in slowdowns.items()}
    with place.share_core():
        blocks = pairs.measure_blocks(
            dict.fromkeys(slowdowns, plan),
            lambda treatment: pairs.block(workers, name, plan, injected[treatment]),
            thorough=True,
        )
    check(reply.get("failed") for reply in ask_both(workers, "close", identity=name))  # a late skip is no failure
    return plan, blocks


def add_log_ratios(
    found: LogRatios, pairs: Pairs, name: str, plan: SamplePlan, blocks: Mapping[str, Sequence[Block]]
) -> None:
    """Add the log-ratios of a case to those of a pair: as a thorough pair, and as a quick one.

    `blocks` are those of a thorough pair, by treatment.
    """
    for treatment, values in blocks.items():
        for key, part in (("log_ratios", values), ("quick", pairs.quick_blocks(values, plan))):
            found[key].setdefault(name, {})[treatment] = round(log_ratio(part), 6)


def count(file: Path) -> int:
    """Return the number of pairs in a file; 0 if it does not exist."""
    return sum(line["what"] == "pair" for line in read(file)) if file.exists() else 0


def read(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that :meth:`Measurement.measure` wrote."""
    return measurements.read(file, ("machine", "pair"), "rlgauge power --minutes 60")


def pair_log_ratios(pairs: Sequence[Mapping[str, Any]], case: str, treatment: str) -> list[PairLogRatio]:
    """Return the quick and thorough log-ratios of a case under a treatment, one per pair.

    Old files have no quick ones; there the thorough log-ratio is used for both. The treatment is a slowdown such as
    ``0.05``, or a fault.
    """
    keys = [("quick" if "quick" in line else "log_ratios", "log_ratios") for line in pairs]
    return [PairLogRatio(*(line[key][case][treatment] for key in both)) for line, both in zip(pairs, keys, strict=True)]


def table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return a Markdown table of how often a case was called slower at each slowdown, with exact 95% intervals."""
    pairs = [line for line in lines if line["what"] == "pair"]
    needed = rule.screen + rule.confirm  # without pairs for another look, an open verdict is not `slower`
    if len(pairs) < needed:
        raise GateError(
            f"power: the file has {number_of(len(pairs), 'pair')}, and a verdict needs {needed}; "
            "to measure more, run: rlgauge power --minutes 60"
        )
    cases = [case for case in pairs[-1]["log_ratios"] if all(case in pair["log_ratios"] for pair in pairs)]
    rows = ["| slowed by | called slower [95% interval] |", "|---|---|"]
    treatments = {name for pair in pairs for of_case in pair["log_ratios"].values() for name in of_case}
    for treatment in sorted(treatments, key=lambda name: (1.0, name) if ":" in name else (float(name), "")):
        treated = [(case, [pair for pair in pairs if treatment in pair["log_ratios"].get(case, {})]) for case in cases]
        found = [pair_log_ratios(chosen, case, treatment) for case, chosen in treated if chosen]
        if ":" in treatment:
            factors = ", ".join(f"x {math.exp(median(pair.thorough for pair in values)):.2f}" for values in found)
            label = f"`{treatment}` ({factors})"
        else:
            label = f"{100 * float(treatment):g}%" if float(treatment) else "0%, the same code"
        slower = [slower for values in found for _, slower in verdicts(values, rule, len(cases))]
        rows.append(f"| {label} | {Rate(sum(slower), len(slower))} |")
    total = f"{number_of(len(pairs), 'pair')} of {number_of(len(cases), 'benchmark')}."
    machines = [line for line in lines if line["what"] == "machine" and "cpu_model" in line]
    places = [f"{line['cpu_model']}, {number_of(line['cores'], 'core')}, {line['date']}" for line in machines]
    return "\n".join([*rows, "", total, *(f"Measured on {place}." for place in dict.fromkeys(places))])


def canary_table(lines: Sequence[Mapping[str, Any]], rule: Rule) -> str:
    """Return a Markdown table of each canary's scatter between pairs and how often it is called slower.

    With too few pairs for a verdict, there is no rate. Whole runs are also simulated, by sampling pairs with
    replacement.
    """
    pairs, rng = [line for line in lines if line["what"] == "pair"], random.Random(0)
    names = [name for canaries in EXPECTED.values() for name in canaries]
    if any(name not in pair["log_ratios"] for pair in pairs for name in names):
        raise GateError("power: the file has pairs of benchmarks other than the canaries; give another --file")
    simulations = f"called slower in {SIMULATED_RUNS:,} simulated runs"
    rows = [f"| canary | change on head | spread of pairs | called slower [95% interval] | {simulations} |"]
    rows.append("|---|---:|---:|---|---:|")
    for name in names if pairs else ():
        values = pair_log_ratios(pairs, name, "0")
        thorough = [pair.thorough for pair in values]
        middle = median(thorough)
        spread = 1.4826 * median(abs(value - middle) for value in thorough)  # robust standard deviation (normal)
        found = [slower for _, slower in verdicts(values, rule)]
        runs = range(SIMULATED_RUNS if found else 0)
        slower = [next(verdicts(rng.choices(values, k=rule.screen + rule.most), rule))[1] for _ in runs]
        simulated = f"{sum(slower) / SIMULATED_RUNS:.1%}" if slower else "not measured"
        head = f"{math.expm1(middle):+.2%} | {spread:.2%}"
        rows.append(f"| `{name}` | {head} | {Rate(sum(found), len(found))} | {simulated} |")
    return "\n".join([*rows, "", f"{number_of(len(pairs), 'pair')} of processes of the same code."])
