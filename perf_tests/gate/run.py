"""A whole run: both sides laid out, every case screened, suspects confirmed, all of it kept."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from perf_tests.progress import about
from perf_tests.selection import Selection, select
from perf_tests.suite import machine
from perf_tests.suite.case import Variant
from perf_tests.suite.process import CACHE
from rl_impls import backends

from . import memory, revisions
from .allowed import reasons
from .answers import tolerance
from .environments import environments
from .pairs import Cores, PairError, Pairs, cores
from .rule import (
    WANTED,
    Finding,
    GateError,
    Record,
    Rule,
    decide,
    exit_code,
    failures,
    unsettled,
    void_reasons,
)
from .workers import Side

LIMIT = 300.0  # seconds for one request to a worker, which may be to compile
# Roughly: seconds of a pair of processes, of a case in it on one core and on all, and of its fork that counts memory;
# then the part of the cases that are suspects. With these the gate tier's 42 cases come out at about ten minutes.
START, EACH, FORKED, SUSPECTS = 6.0, {False: 1.5, True: 5.0}, 1.3, 0.15
# what base itself has, of all tiers, asked of base's own code; empty where it has no cases yet
LISTING = """
import importlib, json, pathlib
for folder in pathlib.Path("rl_impls").glob("*/__init__.py"):
    importlib.import_module(f"rl_impls.{folder.parent.name}")
found = []
if pathlib.Path("perf_tests/suite/cases").is_dir():
    from perf_tests.suite.cases import variants
    for identity, v in variants().items():
        found.append([identity, v.tier, v.case.workload, v.case.op, v.form, v.backend, dict(v.axes)])
print(json.dumps(found))
"""
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        sys.exit(f"{name}: {type(error).__name__}: {error}")
"""


class Artifact(BaseModel):
    """All that a run measured, and what of it was to pass or to fail: enough to decide again."""

    model_config = ConfigDict(extra="forbid")
    base: str
    head: str
    seed: int
    seconds: float
    machine: dict[str, Any]
    rule: Rule
    records: dict[str, Record]
    allowed: list[tuple[str, str]] = []
    strict: bool = False

    def decide(self) -> Outcome:
        """Return the verdicts."""
        findings = decide(self.records, self.rule)
        wrong = void_reasons(self.records, findings)
        excused = reasons(findings, self.allowed)
        failed = failures(findings, excused, self.strict)
        return Outcome(findings, wrong, excused, failed, exit_code(wrong, failed))


@dataclass(frozen=True)
class Outcome:
    """What a run concludes.

    Attributes:
        findings: the verdict on each case, canaries included.
        wrong: why nothing of it can be believed, where that is so.
        excused: why cases that are slower or gone may be so.
        failed: the cases that fail.
        code: 0 passed, 1 where a case fails, 2 void.
    """

    findings: Mapping[str, Finding]
    wrong: Sequence[str]
    excused: Mapping[str, str]
    failed: Sequence[str]
    code: int


@dataclass
class Gate:
    """Base and head, laid out and ready to be compared; ``known`` are the cases that base has by its own listing.

    Attributes:
        base: the commit that is compared with.
        head: what the working tree is called.
        sides: base and head, laid out.
        variants: all that was selected.
        records: what is known of each case, those that are gone included.
        folder: of this run, gone after it.
        rule: the numbers to decide by.
        seed: of the order of cases and of sides.
        limit: seconds that a worker may take for one request.
        known: the cases that base has by its own listing.
        log: prints a line.
    """

    base: str
    head: str
    sides: tuple[Side, Side]
    variants: Sequence[Variant]
    records: dict[str, Record]
    folder: Path
    rule: Rule
    seed: int
    limit: float
    known: Collection[str] = ()
    log: Callable[[str], None] = field(default=print)

    def run(self) -> Artifact:
        """Screen all cases and confirm the suspects, in a pass on one core and one on all, each with its canaries.

        Then fresh memory is counted.

        Raises:
            GateError: a side's workers do not even start.
        """
        start = time.monotonic()
        tolerances = {v.id: tolerance(v) for v in self.variants}
        tolerances |= {canary: 0.0 for wanted in WANTED.values() for canary in wanted}
        rng = random.Random(self.seed)
        pairs = Pairs(self.sides, self.rule.blocks, self.limit, tolerances, self.folder, rng, self.known)
        timed = [v for v in self.variants if self.records[v.id].state == "timed"]
        if timed:
            alone, together = ([v.id for v in timed if (v.case.cores != "one") is many] for many in (False, True))
            passes = {many: [*names, *WANTED[many]] for many, names in ((False, alone), (True, together)) if names}
            self.records |= {canary: Record(all_cores=many) for many in passes for canary in WANTED[many]}
            self.log(f"gate: {len(timed)} cases, {about(expected(len(alone), len(together), self.rule))} expected")
            try:
                for phase, times in (("screen", self.rule.screen), ("confirm", self.rule.confirm)):
                    for many, names in passes.items():
                        self.phase(pairs, phase, times, names, cores(many))
                self.log("gate: fresh memory, with default malloc")
                memory.measure(self.sides, self.limit, self.folder, self.records, timed)
            except PairError as error:
                raise GateError(str(error)) from error
        return Artifact(
            base=self.base,
            head=self.head,
            seed=self.seed,
            seconds=time.monotonic() - start,
            machine=machine.info(self.folder),
            rule=self.rule,
            records=self.records,
        )

    def phase(self, pairs: Pairs, phase: str, times: int, names: Sequence[str], place: Cores) -> None:
        """Measure pairs of these cases, or of the suspects among them that are not settled.

        Args:
            pairs: measures them.
            phase: ``screen`` or ``confirm``.
            times: pairs of each case, at most.
            names: of the cases of this pass.
            place: the cores that workers run on.
        """
        spent: list[float] = []
        for pair in range(times):
            chosen = [name for name in names if self.records[name].state == "timed"]
            if phase == "confirm":
                chosen = [name for name in chosen if name in unsettled(self.records, self.rule)]
            if not chosen:
                return
            left = f", about {spent[-1] * (times - pair) / 60:.1f} min left" if spent else ""
            self.log(f"gate: {phase} {pair + 1} of {times}, {len(chosen)} cases on {place.threads} threads{left}")
            start = time.monotonic()
            pairs.measure(self.records, chosen, place, phase)
            spent.append(time.monotonic() - start)


@contextmanager
def opened(
    root: Path,
    revision: str,
    variants: Sequence[Variant],
    selection: Selection,
    rule: Rule,
    seed: int = 0,
    limit: float = LIMIT,
    cache: Path = CACHE / "gate",
) -> Iterator[Gate]:
    """Lay out base and head in a folder that is gone afterwards, and say which cases are to be timed.

    Args:
        root: of the repository.
        revision: a name of the commit to compare with.
        variants: the benchmarks that can run here.
        selection: what was asked for: tells which of base's cases are gone.
        rule: the numbers to decide by.
        seed: of all that is left to chance.
        limit: seconds that a worker may take for one request.
        cache: folder of what runs share: locks, environments, their own folders.

    Raises:
        GateError: an unknown revision, a base without ``rl_impls``, a side whose import fails.
        OSError: a disk that is full or read-only.
    """
    commit = revisions.resolve(root, revision)
    with revisions.workspace(cache) as folder, environments(cache) as python_for:
        base, head = folder / "base", folder / "head"
        revisions.export(root, commit, base)
        revisions.snapshot(root, head)
        side = side_of("base", folder, base, head, python_for("base", base))
        known = listed(base, side)
        records = {variant.id: Record(all_cores=variant.case.cores != "one") for variant in variants}
        same = {
            name: revisions.digest(base, name) == revisions.digest(head, name)
            for name in {variant.case.workload for variant in variants}
        }
        for variant in variants:
            if same[variant.case.workload]:
                records[variant.id].state = "unchanged"
        selected = {variant.id for variant in select(selection)}
        for identity, tier, *parts in known:
            if identity not in selected and selection.has(tier) and selection.keeps(*parts):
                records[identity] = Record(state="gone")
        changed = side_of("head", folder, head, head, python_for("head", head))
        check_imports(changed, [variant for variant in variants if records[variant.id].state == "timed"])
        yield Gate(
            base=commit,
            head=machine.git_state(root),
            sides=(side, changed),
            variants=variants,
            records=records,
            folder=folder,
            rule=rule,
            seed=seed,
            limit=limit,
            known={identity for identity, *_ in known},
        )


def expected(alone: int, together: int, rule: Rule) -> float:
    """Return about how many seconds a run takes, given its cases on one core and those on all cores.

    Args:
        alone: cases on one core.
        together: cases on all cores.
        rule: the numbers to decide by.
    """
    screen = sum(START + count * EACH[many] for many, count in ((False, alone), (True, together)) if count)
    suspects = sum(SUSPECTS * count * EACH[many] for many, count in ((False, alone), (True, together)))
    return rule.screen * screen + rule.confirm * (START + suspects) + (alone + together) * FORKED


def side_of(name: str, folder: Path, code: Path, benchmarks: Path, python: Path) -> Side:
    """Return a side with the ``rl_impls`` of one folder and the ``perf_tests`` of another.

    Args:
        name: ``base`` or ``head``.
        folder: of this run.
        code: folder with the ``rl_impls`` wanted.
        benchmarks: folder with the ``perf_tests`` wanted.
        python: interpreter of the side's environment.
    """
    return Side(name, revisions.lay_out(folder / "sides" / name, code, benchmarks), python, CACHE)


def listed(base: Path, side: Side) -> list[Any]:
    """Return every id that base itself has, with its tier and parts.

    Args:
        base: folder with base's own code.
        side: whose interpreter and variables are used.

    Raises:
        GateError: base's import fails.
    """
    found: list[Any] = json.loads(told(side, base, LISTING).splitlines()[-1])
    return found


def check_imports(head: Side, variants: Sequence[Variant]) -> None:
    """Import the source files of these cases, so that a mistake in one is known before anything is timed.

    Args:
        head: the side.
        variants: the benchmarks.

    Raises:
        GateError: an import fails.
    """
    sources = {f"rl_impls.{v.case.workload}._{backends.get(v.backend).source}" for v in variants}
    if sources:
        told(head, head.root, IMPORTS, *sorted(sources))


def told(side: Side, folder: Path, code: str, *arguments: str) -> str:
    """Run some lines on a side, with the packages of a folder; return what they print.

    Args:
        side: whose interpreter and variables are used.
        folder: where it runs, and whose packages it sees.
        code: of Python.
        arguments: of the code, in ``sys.argv``.

    Raises:
        GateError: an import fails, or takes too long.
    """
    environment = {**side.environment(), "PYTHONPATH": str(folder)}
    command = [str(side.python), "-c", code, *arguments]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        raise GateError(f"{side.name}: its import takes more than {LIMIT:g} s") from error
    if done.returncode:
        words = (done.stderr.strip() or "no message").split("\n")[-1]
        raise GateError(f"{side.name}: its import fails: {words}")
    return done.stdout
