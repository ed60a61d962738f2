"""A whole run: both sides laid out, every case screened, suspects confirmed, all of it kept."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from perf_tests.selection import Selection
from perf_tests.suite import machine
from perf_tests.suite.case import Variant
from perf_tests.suite.process import CACHE

from . import revisions
from .pairs import Cores, PairError, Pairs, cores
from .rule import SAME, SLOWED, Finding, GateError, Record, Rule, complaints, decide, exit_code, unsettled
from .workers import PYTHON, Side

LIMIT = 300.0  # seconds for one request to a worker, which may be to compile
# what base itself would time, asked of base's own code; empty where it has no cases yet
LISTING = """
import importlib, json, pathlib
for folder in pathlib.Path("rl_impls").glob("*/__init__.py"):
    importlib.import_module(f"rl_impls.{folder.parent.name}")
found = []
if pathlib.Path("perf_tests/suite/cases").is_dir():
    from perf_tests.suite.cases import variants
    for identity, v in variants().items():
        if v.tier == "gate":
            found.append([identity, v.case.workload, v.case.op, v.form, v.backend, dict(v.axes)])
print(json.dumps(found))
"""


class Artifact(BaseModel):
    """All that a run measured: enough to decide again."""

    model_config = ConfigDict(extra="forbid")
    base: str
    head: str
    seed: int
    seconds: float
    machine: dict[str, Any]
    rule: Rule
    records: dict[str, Record]
    allowed: str = ""

    def decide(self) -> Outcome:
        """Return the verdicts."""
        findings = decide(self.records, self.rule)
        wrong = complaints(self.records, findings)
        return Outcome(findings, wrong, exit_code(findings, wrong, bool(self.allowed)))


@dataclass(frozen=True)
class Outcome:
    """What a run concludes.

    Attributes:
        findings: the verdict on each case, canaries included.
        wrong: why nothing of it can be believed, where that is so.
        code: 0 passed, 1 slower or gone, 2 void.
    """

    findings: Mapping[str, Finding]
    wrong: Sequence[str]
    code: int


@dataclass
class Gate:
    """Base and head, laid out and ready to be compared."""

    base: str
    head: str
    sides: tuple[Side, Side]
    variants: Sequence[Variant]
    records: dict[str, Record]
    folder: Path
    rule: Rule
    seed: int
    limit: float
    tell: Callable[[str], None] = field(default=print)

    def run(self) -> Artifact:
        """Screen all cases, confirm the suspects, each multicore case in a pass of its own kind.

        Raises:
            GateError: a side's workers do not even start.
        """
        start = time.monotonic()
        tolerances = {v.id: v.case.tolerance for v in self.variants} | {SAME: 0.0, SLOWED: 0.0}
        chance = random.Random(self.seed)
        pairs = Pairs(self.sides, self.rule.blocks, self.limit, tolerances, self.folder, chance)
        timed = [v for v in self.variants if self.records[v.id].state == "timed"]
        if timed:
            self.records |= {SAME: Record(), SLOWED: Record()}
            alone, together = ([v.id for v in timed if v.case.wide is many] for many in (False, True))
            try:
                for phase, times in (("screen", self.rule.screen), ("confirm", self.rule.confirm)):
                    self.phase(pairs, phase, times, [*alone, SAME, SLOWED], cores(False))
                    self.phase(pairs, phase, times, together, cores(True))
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
        """Measure pairs of these cases, or of the suspects among them that are not settled."""
        spent: list[float] = []
        for pair in range(times):
            chosen = [name for name in names if self.records[name].state == "timed"]
            if phase == "confirm":
                chosen = [name for name in chosen if name in unsettled(self.records, self.rule)]
            if not chosen:
                return
            left = f", about {spent[-1] * (times - pair) / 60:.1f} min left" if spent else ""
            self.tell(f"gate: {phase} {pair + 1} of {times}, {len(chosen)} cases on {place.threads} threads{left}")
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

    Raises:
        GateError: an unknown revision, a base without ``rl_impls`` or whose import fails.
    """
    commit = revisions.resolve(root, revision)
    with revisions.workspace(cache) as folder:
        base, head = folder / "base", folder / "head"
        revisions.export(root, commit, base)
        revisions.snapshot(root, head)
        python = revisions.python_for(base, head, cache)
        side = side_of("base", folder, base, head, python)
        known = listed(base, side)
        records = {variant.id: Record() for variant in variants}
        same = {
            name: revisions.digest(base, name) == revisions.digest(head, name)
            for name in {variant.case.workload for variant in variants}
        }
        for variant in variants:
            if same[variant.case.workload]:
                records[variant.id].state = "unchanged"
        for identity, *parts in known:
            if identity not in records and selection.keeps(*parts):
                records[identity] = Record(state="gone")
        yield Gate(
            base=commit,
            head=machine.git_state(root),
            sides=(side, side_of("head", folder, head, head, PYTHON)),
            variants=variants,
            records=records,
            folder=folder,
            rule=rule,
            seed=seed,
            limit=limit,
        )


def side_of(name: str, folder: Path, code: Path, benchmarks: Path, python: Path) -> Side:
    """Return a side with the ``rl_impls`` of one folder and the ``perf_tests`` of another."""
    return Side(name, revisions.lay_out(folder / "sides" / name, code, benchmarks), python, CACHE)


def listed(base: Path, side: Side) -> list[Any]:
    """Return the parts of every id that base's own gate tier has.

    Raises:
        GateError: base's import fails.
    """
    environment = {**side.environment(), "PYTHONPATH": str(base)}
    done = subprocess.run(
        [str(side.python), "-c", LISTING], cwd=base, env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode:
        words = (done.stderr.strip() or "no message").split("\n")[-1]
        raise GateError(f"base: its import fails: {words}")
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found
