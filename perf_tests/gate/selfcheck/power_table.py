"""The gate's own error rates, counted in what ``power`` measured: every rate with its n and exact interval."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rlgauge.power import column
from rlgauge.rates import Rate, Said, confirmation, verdicts
from rlgauge.report import line
from rlgauge.rule import GateError, Record, Rule, confirmed, decide

from .power import CASES, DOSES, FEWER, FULLY, KINDS, LONG, MISTAKES, named

RECORDED = Path(__file__).with_name("pairs.json")  # of the same code, of all cases of the gate tier
FAIL = "median:5%"  # pytest-benchmark's rule that is put beside the gate's
SUITES = 10_000
WHAT = ("pair", "round", "machine", "mistakes")
POWER, TRIES = 0.95, 2000


@dataclass(frozen=True)
class Measured:
    """What a file holds: pairs in their order, pytest-benchmark's rounds, the machines, and pairs of real mistakes.

    Attributes:
        pairs: log-ratios of each case and treatment, a line each.
        rounds: medians of pytest-benchmark, a line each.
        machines: what each measurement ran on, and how many cases the gate compared at that commit.
        mistakes: log-ratios of real mistakes, a line each.
    """

    pairs: Sequence[Mapping[str, Any]]
    rounds: Sequence[Mapping[str, Any]]
    machines: Sequence[Mapping[str, Any]]
    mistakes: Sequence[Mapping[str, Any]] = ()

    @property
    def cases(self) -> list[str]:
        """The cases that every pair has."""
        return [case for case in CASES if all(case in pair["log_ratios"] for pair in self.pairs)]

    @property
    def suite(self) -> int:
        """How many cases the gate compared when the last of it was measured."""
        return int(self.machines[-1]["gated"])

    def values(self, case: str, treatment: str, kind: str | None = None) -> list[Said]:
        """Return what pairs say of a case at a treatment, in the order they were measured.

        Args:
            case: its id.
            treatment: a dose, as ``0.05``, or the name of a mistake.
            kind: ``spin`` or ``calls``, None for both.
        """
        lines = [line for line in (*self.pairs, *self.mistakes) if kind in (None, line.get("kind"))]
        return column([line for line in lines if treatment in line["log_ratios"].get(case, ())], case, treatment)


def read(file: Path) -> Measured:
    """Return what was measured.

    Args:
        file: of lines of JSON.

    Raises:
        GateError: no such file, or not what ``power`` writes.
    """
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        return Measured(*([line for line in lines if line["what"] == what] for what in WHAT))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GateError(f"{file}: not what power writes: {error}") from error


def rates(measured: Measured, cases: Iterable[str], treatment: str, rule: Rule, suspects: int) -> tuple[Rate, Rate]:
    """Return how many verdicts were suspects, and how many `slower`.

    Args:
        measured: what was recorded.
        cases: ids of the cases.
        treatment: a dose, as ``0.05``, or the name of a mistake.
        rule: the numbers to decide by.
        suspects: in a whole run, for which p is adjusted.
    """
    both = [v for case in cases for v in verdicts(measured.values(case, treatment), rule, suspects)]
    return Rate(sum(first for first, _ in both), len(both)), Rate(sum(second for _, second in both), len(both))


def pytest_benchmark(measured: Measured, dose: str) -> Rate:
    """Return how often ``--benchmark-compare-fail`` would have failed a case."""
    from pytest_benchmark.utils import parse_compare_fail

    check = parse_compare_fail(FAIL)  # type: ignore[no-untyped-call]
    failed = [
        bool(check.fails({"median": medians[dose][case]}, {"median": medians["plain"][case]}))
        for medians in (line["medians"] for line in measured.rounds)
        for case in medians["plain"]
    ]
    return Rate(sum(failed), len(failed))


def simulated_suites(measured: Measured, rule: Rule, seed: int = 0) -> int:
    """Return how many of the simulated suites of unchanged code have any `slower`: whole pairs are drawn again.

    A suite is several sets of the measured cases. A set has pairs of its own, and what a pair says of its cases stays
    together.

    Args:
        measured: what was recorded.
        rule: the numbers to decide by.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    said = np.array([measured.values(case, "0") for case in measured.cases])  # [cases, pairs, 2]
    sets = math.ceil(measured.suite / len(said))
    case = rng.permuted(np.tile(np.arange(len(said)), (SUITES * sets, 1)), axis=1)
    case = case.reshape(SUITES, -1)[:, : measured.suite]
    of_set = np.arange(measured.suite) // len(said)
    screen, confirm = (rng.integers(said.shape[1], size=(SUITES, sets, n)) for n in (rule.screen, rule.most))
    middle = np.median(said[case[..., None], screen[:, of_set], 0], axis=2)  # [SUITES, suite]
    suite, member = np.nonzero(middle > math.log1p(rule.tolerated))
    rows = confirmation(said[case[suite, member][:, None], confirm[suite, of_set[member]]], rule)
    p = np.ones(SUITES)
    np.minimum.at(p, suite, confirmed(rows, rule))
    return int(np.sum(p * np.bincount(suite, minlength=SUITES) <= rule.level, where=p < 1))


def smallest_found(values: Sequence[Said], rule: Rule, suspects: int, seed: int = 0) -> float:
    """Return the smallest slowdown found with 95 % power, simulated from a case's own pairs; inf beyond 50 %.

    Args:
        values: what pairs say of a case, in the order they were measured.
        rule: the numbers to decide by.
        suspects: in a whole run, for which p is adjusted.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    draws = rng.choice(np.asarray(values), size=(TRIES, rule.screen + rule.most))  # [tries, pairs, 2]

    def power(slowdown: float) -> float:
        slowed = draws + math.log1p(slowdown)
        screen, confirm = slowed[:, : rule.screen, 0], confirmation(slowed[:, rule.screen :], rule)
        p = suspects * np.asarray(confirmed(confirm, rule))
        return float(np.mean((np.median(screen, axis=1) > math.log1p(rule.tolerated)) & (p <= rule.level)))

    low, high = rule.tolerated, 0.5
    if power(high) < POWER:
        return math.inf
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def achieved(measured: Measured, case: str, dose: str, kind: str) -> str:
    """Return how much slower a dose made a case, the median over pairs, each against its own blocks without.

    Args:
        measured: what was recorded.
        case: its id.
        dose: part of a call's time, as ``0.05``.
        kind: ``spin`` or ``calls``.
    """
    slowed, plain = (measured.values(case, treatment, kind) for treatment in (dose, "0"))
    if not slowed:
        return "not measured"
    return f"{100 * math.expm1(median(a.thorough - b.thorough for a, b in zip(slowed, plain, strict=True))):+.1f} %"


def example(measured: Measured, rule: Rule, dose: str = "0.05") -> str:
    """Return what a gate says of a case that is slower by a known part: the first recorded one that it finds.

    Args:
        measured: what was recorded.
        rule: the numbers to decide by.
        dose: part of a call's time, as ``0.05``.

    Raises:
        GateError: it finds none.
    """
    for case in measured.cases:
        values = measured.values(case, dose)[: rule.screen + rule.confirm]
        parts = [pair.quick for pair in values[: rule.screen]], confirmation(values[rule.screen :], rule)
        screen, confirm = ([[(1.0, math.exp(value))] for value in part] for part in parts)
        record = Record(state="timed", screen=screen, confirm=confirm)
        found = decide({case: record}, rule)[case]
        if found.verdict == "slower":
            return f"```\n{line(case, found)}\n```"
    raise GateError(f"nothing was found that is {100 * float(dose):g} % slower")


def described(machine: Mapping[str, Any]) -> str:
    """Return what a measurement ran on, when, and at which commit.

    Args:
        machine: what :func:`perf_tests.suite.machine.info` returned, and the date.
    """
    return f"{machine['cpu_model']}, {machine['cores']} cores, {machine['date']}, commit {machine['git']}"


def whole_tier(recorded: Mapping[str, Any], rule: Rule) -> str:
    """Return how often a case of the tier was called slower in pairs of the same code, in words.

    Args:
        recorded: machines, and the log-ratio of each case, pair by pair, all of them thorough.
        rule: the numbers to decide by.
    """
    pools: dict[str, list[Said]] = {}
    for pair in recorded["pairs"]:
        for case, value in pair.items():
            pools.setdefault(case, []).append(Said(value, value))
    said = [slower for values in pools.values() for _, slower in verdicts(values, rule)]
    where = " and ".join(dict.fromkeys(map(described, recorded["machines"])))
    return (
        f"Of all {len(pools)} cases of the gate tier, in {len(recorded['pairs'])} other pairs of the same code, on "
        f"{where}: {Rate(sum(said), len(said))} false alarms."
    )


def table(measured: Measured, rule: Rule) -> str:
    """Return all of it as Markdown.

    Args:
        measured: what was recorded.
        rule: the numbers to decide by.
    """
    if not measured.pairs:
        raise GateError("nothing was measured yet: rlgauge power --minutes 120")
    suspicion, alarms = rates(measured, measured.cases, "0", rule, 1)
    typical = 1 + round(measured.suite * suspicion.found / max(1, suspicion.n))
    heads = ["A/A: false alarms", *(f"finds {100 * dose:g} %" for dose in DOSES[1:])]
    lines = [f"| rule | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    found = [rates(measured, measured.cases, f"{dose:g}", rule, typical)[1] for dose in DOSES[1:]]
    lines.append(f"| **gate** | {alarms} | {' | '.join(map(str, found))} |")
    lines.append(f"| its screen alone | {suspicion} | |" + " |" * (len(DOSES) - 2))
    rival = [str(pytest_benchmark(measured, f"{dose:g}")) for dose in DOSES]
    lines.append(f"| pytest-benchmark `compare-fail={FAIL}` | {' | '.join(rival)} |")
    seconds = median(pair["seconds"] for pair in measured.pairs)
    where = " and ".join(dict.fromkeys(map(described, measured.machines)))
    alarmed = simulated_suites(measured, rule)
    lines += [
        "",
        f"On {where}, of {len(measured.pairs)} pairs of processes ({seconds:.0f} s each, all doses of "
        f"{len(measured.cases)} cases in the same pair) and {len(measured.rounds)} runs of pytest-benchmark at each "
        f"dose. A find is a p adjusted as the smallest of {typical} suspects, a false alarm is not adjusted. Of "
        f"{SUITES:,} suites of {measured.suite} unchanged cases, simulated from whole pairs, {alarmed} had any false "
        f"alarm ({100 * alarmed / SUITES:.2f} %). In half of the pairs head is slowed by a spin, in the others by "
        f"further identical calls; calls of more than {1000 * LONG:g} ms spin in all. Cases on all cores, and all but "
        f"the first {len(FULLY)} below, are slowed by {100 * FEWER[-1]:g} % alone. Intervals take verdicts as "
        "independent; those of one pair are not quite.",
        "",
        "| case | A/A: spread of pairs | false alarms | 5 % as measured: spin, calls | finds 5 % "
        "| smallest slowdown found, 95 % power (simulated) |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for case in measured.cases:
        values = measured.values(case, "0")
        thorough = np.asarray([pair.thorough for pair in values])
        spread = 1.4826 * float(np.median(np.abs(thorough - np.median(thorough))))
        alarm, finds = (rates(measured, [case], dose, rule, n)[1] for dose, n in (("0", 1), ("0.05", typical)))
        least = smallest_found(values, rule, typical)
        shown = f"{100 * least:.1f} %" if least < math.inf else "over 50 %"
        doses = ", ".join(achieved(measured, case, "0.05", kind) for kind in KINDS)
        lines.append(f"| `{case}` | {100 * spread:.1f} % | {alarm} | {doses} | {finds} | {shown} |")
    lines += ["", "| a real mistake | in | time | found |", "|---|---|---:|---:|"]
    for case, mistake in MISTAKES:
        values = measured.values(named(case, mistake), mistake)
        caught = rates(measured, [named(case, mistake)], mistake, rule, typical)[1]
        lines.append(
            f"| {mistake} | `{case}` | x {math.exp(median(pair.thorough for pair in values)):.3g} | {caught} |"
            if values
            else ""
        )
    return "\n".join(lines)
