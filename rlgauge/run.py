"""A whole gate run: lay out both sides, screen every case, confirm suspects."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import memory
from .artifact import Artifact
from .benchmarks import unchanged
from .benchmarks.checks import Checks
from .case import Case, by_cores
from .exit_code import certainly_invalid
from .layout import Layout
from .machine import git_state, machine_and_versions
from .pairs import PairError, Pairs
from .progress import about, left, number_of, rounded
from .resume import fingerprints
from .rule import EXPECTED, GateError, Record, Rule, is_canary, open_suspects, unscreened
from .sampling import Cores, cores
from .workers import Side

LIMIT = 300.0  # seconds for one worker request, which may include compilation
COSTLY_PAIRS = 2  # screen pairs of a case whose preparation is slow in every process
CANARY_PAIRS = 8  # pairs that usually confirm a canary
FEW_SUSPECTS = 4  # up to this many suspects are all measured thoroughly from the start, as they take little time


@dataclass
class Gate:
    """Base and head, laid out and ready to be compared.

    Attributes:
        base: full hash of base.
        head: description of the working tree, for example ``1a2b3c4d5e6f+dirty``.
        cases: the selected cases of this shard.
        records: measurements of each case, including those that are gone.
        limit: timeout of a worker request, in seconds.
        known: cases in base's own listing.
        names: names of all cases, including those of other shards and those that are gone.
        shard: (number, count) of this part of the cases; None for all cases.
        log: prints a line of progress.
        notes: additional lines for the report.
        fingerprints: hashes of the compared files and packages, see :mod:`.resume`.
        spent: seconds measured so far, including those of an interrupted run that is resumed.
        counts_memory: whether to count page faults and growth per call after all pairs.
        invalid: why measuring stopped early, if no further pair could make the run valid.
    """

    base: str
    head: str
    sides: tuple[Side, Side]
    cases: Sequence[Case]
    records: dict[str, Record]
    folder: Path
    rule: Rule
    seed: int
    limit: float
    known: Collection[str] = ()
    names: Collection[str] = ()
    shard: tuple[int, int] | None = None
    log: Callable[[str], None] = field(default=print)
    notes: Sequence[str] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    spent: float = 0.0
    counts_memory: bool = False
    invalid: Sequence[str] = ()

    def confirm_seconds(self, pair: float, start: float, cases: int) -> tuple[float, float]:
        """Return the approximate seconds of a confirmation if no case is slower, and at most how many more if one is.

        About a tenth of identical cases become suspects; most of these are dropped after as many pairs as in a screen.
        `pair` are the seconds of a pair of the screen, and `start` those of them that both processes took to start.
        """
        case = (pair - start) / cases
        canary = min(self.rule.confirm, CANARY_PAIRS) * (start + case)
        slower = self.rule.most * (start + 2 * case)  # the canary shares its pairs
        return canary + self.rule.screen * case * cases / 10, slower - canary

    @property
    def elsewhere(self) -> int:
        """Number of cases in other shards."""
        return len(set(self.names) - self.records.keys())

    def run(self) -> Artifact:
        """Screen all cases and confirm the suspects: one pass on one core and one on all, each with its canaries.

        The run ends early once it is certain to be invalid. After an interrupt, :meth:`artifact` has all complete
        pairs.
        """
        start = time.monotonic()
        try:
            self.measure()
        finally:
            self.spent += time.monotonic() - start
        return self.artifact()

    def timed(self, name: str) -> bool:
        """Return whether a case is in this shard and should be timed."""
        return name in self.records and self.records[name].state == "timed"

    def measure(self) -> None:
        """Measure all pairs into the records."""
        tolerances = {case.id: case.tolerance for case in self.cases}
        tolerances |= {canary: 0.0 for canaries in EXPECTED.values() for canary in canaries}
        rng = random.Random(self.seed)
        pairs = Pairs(self.sides, self.rule.blocks, self.limit, tolerances, self.folder, rng, self.known)
        timed = [case for case in self.cases if self.records[case.id].state == "timed"]
        passes = {all_cores: [*names, *EXPECTED[all_cores]] for all_cores, names in by_cores(timed).items()}
        self.records |= {canary: Record(all_cores=all_cores) for all_cores in passes for canary in EXPECTED[all_cores]}
        try:
            for phase, most in (("screen", self.rule.screen), ("confirm", self.rule.most)):
                for all_cores, names in passes.items():
                    if not self.invalid:
                        self.measure_phase(pairs, phase, most, names, cores(all_cores))
            if not self.invalid and self.counts_memory:
                memory.measure(self, timed)
        except PairError as error:
            raise GateError(str(error)) from error

    def artifact(self, complete: bool = True) -> Artifact:
        """Return all measurements so far; `complete` is false for an interrupted run."""
        return Artifact(
            base=self.base,
            head=self.head,
            seed=self.seed,
            seconds=self.spent,
            machine=machine_and_versions(),
            rule=self.rule,
            records=self.records,
            shard=self.shard,
            cases=len(self.names),
            notes=list(self.notes),
            complete=complete,
            fingerprints=dict(self.fingerprints),
        )

    def measure_phase(self, pairs: Pairs, phase: str, most: int, names: Sequence[str], place: Cores) -> None:
        """Measure up to `most` pairs of each case, or of each suspect, while its verdict can still change.

        Most confirmations end after as many pairs as a screen has. The remaining ones are measured thoroughly from
        there on, and confirmations of few suspects from the start.
        """
        seconds = confirm = 0.0  # of the last pair, and of the confirmation that follows a screen
        for pair in range(most):
            if phase == "screen":
                waiting, end = unscreened(self.records, self.rule), most
                waiting = [name for name in waiting if pair < COSTLY_PAIRS or not pairs.costly(name)]
                waiting = [name for name in waiting if not self.records[name].confirm]  # of a resumed run
            else:
                waiting = open_suspects(self.records, self.rule, self.elsewhere)
                end = (pair // self.rule.confirm + 1) * self.rule.confirm  # most suspects are decided by the next look
            chosen = [name for name in names if name in waiting]
            if not chosen:
                return
            rest = f", {left(seconds * (end - pair) + confirm)}" if pair else ""
            count = sum(not is_canary(name) for name in chosen)
            what = number_of(count, "benchmark") if count else "the canaries"
            where = number_of(place.threads, "core")
            self.log(f"gate: {phase} {pair + 1} of {end}: {what} on {where}{rest}")
            start = time.monotonic()
            thorough = phase == "confirm" and (pair >= self.rule.screen or count <= FEW_SUSPECTS)
            pairs.measure(self.records, chosen, place, phase, thorough)
            seconds = time.monotonic() - start
            self.invalid = certainly_invalid(self.records, self.rule, is_shard=self.shard is not None)
            if self.invalid:
                self.log("gate: stopping early: no further pair could make this run valid")
                return
            if phase == "screen":
                confirm, more = self.confirm_seconds(seconds, pairs.start_seconds, len(chosen))
                if pair == 0:
                    expected = f"{about(seconds * (end - 1) + confirm)} for the remaining pairs on {where}"
                    self.log(f"gate: {expected}, and up to {rounded(more)} more if a test looks slower or faster")


def open_gate(
    layout: Layout,
    commit: str,
    rule: Rule,
    seed: int,
    limit: float,
    shard: tuple[int, int] | None,
    may_be_gone: Collection[str] | None = None,
) -> Gate:
    """Lay out a commit and the working tree, and determine each case's state before anything is timed.

    `may_be_gone` names the cases that count as gone if head lacks them: for an anchor, those of the comparison with
    base. Raises GateError if base lacks required files, or if a side's imports fail.
    """
    source, sides = layout.source, layout.pair(commit, None)
    codes = layout.code(commit), layout.code(None)
    known, gone, warnings = source.benchmarks_of(commit, codes[0], sides[0])
    checks = Checks(source, warnings)
    checks.compare_locks(codes)
    if may_be_gone is None:  # an anchor may be on another branch, such as that of a release
        checks.compare_history(commit)
    cases = source.cases()
    gone = gone if may_be_gone is None else [name for name in gone if name in may_be_gone]
    names = [*(case.id for case in cases), *gone]
    selected = of_shard([case.id for case in cases], shard) | of_shard(gone, shard)
    cases = [case for case in cases if case.id in selected]
    records = {case.id: Record(all_cores=case.all_cores) for case in cases}
    records |= {name: Record(state="gone") for name in gone if name in selected}
    for name, error in unchanged.find(source, codes, sides, cases, limit).items():
        records[name].state, records[name].words = ("error", error) if error else ("unchanged", "")
    hashes = fingerprints(sides, layout.folder, source.outputs)
    checks.check(sides, [case for case in cases if records[case.id].state == "timed"], limit)
    return Gate(
        base=commit,
        head=git_state(layout.root),
        sides=sides,
        cases=cases,
        records=records,
        folder=layout.folder,
        rule=rule,
        seed=seed,
        limit=limit,
        known=set(known),
        names=names,
        shard=shard,
        notes=checks.notes(),
        fingerprints=hashes,
    )


def of_shard(names: Sequence[str], shard: tuple[int, int] | None) -> set[str]:
    """Return the names in a shard, which takes every `count`-th name in alphabetical order."""
    if shard is None:
        return set(names)
    number, count = shard
    return set(sorted(names)[number - 1 :: count])
