"""Measures the gate itself: pairs of the same code, of which one side is slowed by a known dose or a real mistake.

Every pair is one line of a file, so a measurement goes on where it was stopped. Between the pairs, in the same hours,
pytest-benchmark times the same cases once plain and once for each dose.
"""

from __future__ import annotations

import datetime
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perf_tests.suite import machine
from perf_tests.suite.cases import variants
from rlgauge import measurements
from rlgauge.layout import laid_out
from rlgauge.pairs import CaseError, Cores, PairError, Pairs, SamplePlan, cores
from rlgauge.power import Dosed, joined, said
from rlgauge.progress import left
from rlgauge.rule import GateError, Rule
from rlgauge.run import LIMIT
from rlgauge.source import Source
from rlgauge.workers import Worker, both

DOSES = (0.0, 0.02, 0.03, 0.05, 0.10)
FEWER = (0.0, 0.05)  # of cases on all cores, whose samples are ten times as long, and of those not in FULLY
KINDS = ("spin", "calls")  # a calibrated spin, or further identical calls
FULLY = (
    "pirl.forward[full-torch-batch1-iohost-hidden32]",  # a tiny call of torch
    "pirl.train_step[full-jax-batch256-order2]",  # one compiled program
    "treasurehunt.sample[full-numpy-agents5]",  # bound by memory
)
CASES = (
    *FULLY,
    "snake.env_step[vectorised-numpy-envs1024]",  # an environment in NumPy
    "snake.sample[full-torch-batch32]",  # sampling from a buffer
    "pirl.forward[full-onnx-batch32-iohost-hidden32]",
    "pirl.forward[full-torch-compile-batch32-iohost-hidden32]",
    "pirl.forward[full-jax-batch2048-iohost-hidden32]",
    "snake.train_step[full-torch-batch32]",  # training in torch
    "snake.collect_and_learn[full-torch-envs1-every4-batch32]",
    "treasurehunt.act[full-jax-agents5-worlds1]",
    "treasurehunt.epoch[compiled-jax-agents5-worlds1]",  # a loop on all cores
    "mario.preprocess[full-numpy-batch1-side84]",
    "mario.sample[full-numpy-batch256-buffer10000-side84]",
    "mario.train_step[full-torch-batch16-side84-normnone-accumulate1]",
    "procgen.env_step[full-numpy-envs16-gamecoinrun]",
    "procgen.gae[full-numpy-envs32]",
    "procgen.forward[full-torch-envs32]",
    "procgen.ppo_update[full-torch-batch64]",
)
MISTAKES = (  # case and what is built into it
    ("pirl.forward[full-torch-batch2048-iohost-hidden32]", "copy"),
    ("pirl.forward[full-jax-batch2048-iohost-hidden32]", "trace"),
    ("pirl.forward[full-numpy-batch2048-iohost-hidden32]", "float64"),
    ("pirl.forward[full-torch-batch32-iohost-hidden32]", "rows"),
)
LONG = 0.0005  # seconds of a call beyond which a dose of whole calls would take too many of them: it spins
POWER = Path(__file__).with_name("power.jsonl")
EVERY = 25  # pairs between two rounds of pytest-benchmark


def named(case: str, mistake: str) -> str:
    """Return how a case with a mistake is called.

    Args:
        case: its id.
        mistake: name of what is built in.
    """
    return f"{case}!{mistake}"


def samples_for(calls: int, least: int, dose: float) -> tuple[int, int]:
    """Return how many samples to take, not less than these, and how many further calls are the dose, to 5 % of it.

    Args:
        calls: of a sample.
        least: samples at least.
        dose: part of a sample's time.
    """
    for more in range(least, least + 50):
        wanted = more * calls * dose
        if round(wanted) and abs(round(wanted) / wanted - 1) <= 0.05:
            return more, round(wanted)
    raise ValueError(f"dose: {dose} of {calls} calls is no whole number of calls")


@dataclass(frozen=True, eq=False)
class Slot:
    """What is timed in every block: a case, what is done to head's side, and how often.

    Attributes:
        name: of the prepared case.
        treatment: the dose or the mistake, as it is kept.
        plan: how it is timed.
        dose: what slows head: ``extra`` calls, or seconds to ``spin``.
    """

    name: str
    treatment: str
    plan: SamplePlan
    dose: Mapping[str, float]


def doses_of(case: str, call: float, calls: int, kind: str, place: Cores) -> Iterator[Slot]:
    """Return a case at every dose, given the seconds of a call and the calls of a sample.

    Args:
        case: its id.
        call: seconds of a call.
        calls: of a sample.
        kind: ``spin`` or ``calls``, what the dose is made of.
        place: the cores that workers run on.
    """
    for dose in DOSES if place.one is not None and case in FULLY else FEWER:
        plan = place.plan(call, calls)
        slowed: dict[str, float] = {}
        if dose and (kind == "spin" or call > LONG):
            slowed = {"spin": dose * plan.samples * plan.calls * call}
        elif dose:
            samples, extra = samples_for(plan.calls, plan.samples, dose)
            plan, slowed = replace(plan, samples=samples), {"extra": extra}
        yield Slot(case, f"{dose:g}", plan, slowed)


def timed(pairs: Pairs, workers: Sequence[Worker], slots: Sequence[Slot], place: Cores) -> Dosed:
    """Return the log-ratios of each slot, by name and treatment.

    Args:
        pairs: measures them.
        workers: base's and head's.
        slots: what is timed in every block.
        place: the cores that workers run on.
    """
    both(workers, "place", core=place.one)
    plans = {slot: slot.plan for slot in slots}
    with place.shared():
        blocks = pairs.mixed(plans, lambda slot: pairs.block(workers, slot.name, slot.plan, slot.dose), thorough=True)
    for name in {slot.name for slot in slots}:
        both(workers, "close", identity=name)
    return said(pairs, {(slot.name, slot.treatment, slot.plan): values for slot, values in blocks.items()})


def dosed_pair(pairs: Pairs, kind: str, place: Cores, cases: Sequence[str]) -> Dosed:
    """Return each case's log-ratios at each dose, all from one pair of workers.

    Args:
        pairs: measures them.
        kind: ``spin`` or ``calls``, what the dose is made of.
        place: the cores that workers run on.
        cases: ids of the cases.
    """
    with pairs.workers(place) as workers:
        slots: list[Slot] = []
        for case in cases:
            slots += doses_of(case, *measured(workers, case, place), kind, place)
        return timed(pairs, workers, slots, place)


def mistaken_pair(pairs: Pairs, place: Cores) -> Dosed:
    """Return the log-ratios of each real mistake, from workers of their own: what it leaves behind may slow others.

    Args:
        pairs: measures them.
        place: the cores that workers run on.
    """
    with pairs.workers(place) as workers:
        slots = []
        for case, mistake in MISTAKES:
            name, (call, calls) = named(case, mistake), measured(workers, case, place, mistake)
            plan = place.plan(call, calls)
            if took(workers[1], name) > 10 * calls * call:  # so dear that two tell
                plan = replace(plan, most_blocks=2, more_blocks=2)
            slots.append(Slot(name, mistake, plan, {}))
        return timed(pairs, workers, slots, place)


def measured(workers: Sequence[Worker], case: str, place: Cores, mistake: str | None = None) -> tuple[float, int]:
    """Prepare a case on both sides; return the seconds of base's call and the calls of its sample.

    Args:
        workers: base's and head's.
        case: its id.
        place: the cores that workers run on.
        mistake: name of what is built in, if anything.
    """
    replies = both(workers, "prepare", identity=case, fault=mistake)
    if any("failed" in reply for reply in replies):
        raise GateError(f"{case}: {[reply.get('failed') for reply in replies]}")
    both(workers, "place", core=place.one)
    workers[0].ask("measure", identity=named(case, mistake) if mistake else case)
    found = workers[0].reply()
    return float(found["call"]), int(found["calls"])


def took(worker: Worker, name: str) -> float:
    """Return the seconds of one sample.

    Args:
        worker: of one side.
        name: of the prepared case.
    """
    worker.ask("sample", identity=name, samples=1)
    return float(worker.reply()["seconds"])


def measured_pair(pairs: Pairs, number: int, alone: Sequence[str], together: Sequence[str]) -> dict[str, Any]:
    """Return the line of a pair: every case at its doses.

    Args:
        pairs: measures them.
        number: of this pair, from 0; tells its kind.
        alone: ids of cases on one core.
        together: ids of cases on all cores.
    """
    kind = KINDS[number % 2]
    passes = ((False, alone), (True, together))
    return {"what": "pair", "kind": kind, **joined(dosed_pair(pairs, kind, cores(many), c) for many, c in passes)}


def measure(source: Source, root: Path, file: Path, minutes: float, log: Callable[[str], None] = print) -> None:
    """Add pairs to a file until the time is over; each is written whole or not at all.

    Args:
        source: of all cases of this suite.
        root: of the repository.
        file: of lines of JSON, to which is added.
        minutes: how long to measure.
        log: prints a line.
    """
    end = time.monotonic() + 60 * minutes
    known = Counter(json.loads(line)["what"] for line in file.read_text().splitlines()) if file.exists() else Counter()
    gated = sum(variant.tier == "gate" for variant in variants().values())
    today = datetime.date.today().isoformat()
    measurements.keep(file, {"what": "machine", "date": today, "gated": gated, **machine.info(root)})
    alone, together = ([c for c in CASES if (variants()[c].case.cores != "one") is many] for many in (False, True))
    with laid_out(source, root) as layout:
        folder, sides = layout.folder, [layout.side(None, name) for name in ("base", "head")]
        while time.monotonic() < end:
            start, rng = time.monotonic(), random.Random(known["pair"])
            line: dict[str, Any]
            try:
                pairs = Pairs(sides, Rule().blocks, LIMIT, {}, folder, rng)
                if known["pair"] > 3 * known["mistakes"]:
                    line = {"what": "mistakes", **mistaken_pair(pairs, cores(False))}
                else:
                    line = measured_pair(pairs, known["pair"], alone, together)
            except (CaseError, PairError) as error:  # a worker died; the pair is measured again
                line = {"what": "failed", "words": str(error)}
            known[line["what"]] += 1
            now = time.monotonic()
            line["seconds"] = round(now - start, 1)
            measurements.keep(file, line)
            log(
                f"power: {known['pair']} pairs, {known['failed']} failed, {line['seconds']:.0f} s the last, "
                f"{left(max(0.0, end - now))}"
            )
