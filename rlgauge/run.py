"""A whole run: both sides laid out, every case screened, suspects confirmed, all of it kept."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from . import memory, revisions
from .artifact import Artifact
from .exit_code import certainly_invalid
from .layout import Layout, laid_out
from .machine import git_state
from .pairs import Cores, PairError, Pairs, cores
from .progress import about
from .resume import fingerprints
from .rule import WANTED, GateError, Record, Rule, unscreened, unsettled
from .source import Case
from .workers import Side

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

LIMIT = 300.0  # seconds for one request to a worker, which may be to compile
COSTLY_PAIRS = 2  # of the screen, of a case that takes long to prepare in every process
FEW = 4  # suspects that are measured thoroughly from the beginning: they take no long time


@dataclass
class Gate:
    """Base and head, laid out and ready to be compared; ``known`` are the cases that base has by its own listing.

    Attributes:
        source: of the cases.
        base: the commit that is compared with.
        head: what the working tree is called.
        sides: base and head, laid out.
        cases: all that was selected.
        records: what is known of each case, those that are gone included.
        folder: of this run, gone after it.
        rule: the numbers to decide by.
        seed: of the order of cases and of sides.
        limit: seconds that a worker may take for one request.
        known: the cases that base has by its own listing.
        names: of all cases, those of other shards and those that are gone too.
        shard: which part of the cases this is, of how many; None for all.
        log: prints a line.
        fingerprints: hashes of what is compared, see :mod:`.resume`.
        spent: seconds of the interrupted run that this one goes on from, and then of this one too.
        counts_memory: whether page faults and growth per call are counted after all pairs.
        invalid: why no more pairs are measured, where they could not make the run valid.
    """

    source: Benchmarks
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
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    spent: float = 0.0
    counts_memory: bool = False
    invalid: Sequence[str] = ()

    def expected(self, pair: float, starting: float, cases: int) -> float:
        """Return about how many seconds a pass takes after its first pair, where few cases look slower.

        Of identical cases a tenth are suspects, most of which are let go after as many pairs as a screen has.

        Args:
            pair: seconds of the first pair.
            starting: seconds of these in which both processes started.
            cases: of the pass, canaries included.
        """
        case = (pair - starting) / cases
        screen = (self.rule.screen - 1) * pair
        canary = self.rule.confirm * (starting + case)
        return screen + canary + self.rule.screen * case * cases / 10

    @property
    def elsewhere(self) -> int:
        """Number of cases that other shards measure."""
        return len(set(self.names) - self.records.keys())

    def run(self) -> Artifact:
        """Screen all cases and confirm the suspects, in a pass on one core and one on all, each with its canaries.

        A run that is certain to be invalid ends there and then.

        Raises:
            GateError: a side's workers do not even start.
            KeyboardInterrupt: an interrupt; :meth:`artifact` has all pairs that were measured to their end.
        """
        start = time.monotonic()
        try:
            self.measure()
        finally:
            self.spent += time.monotonic() - start
        return self.artifact()

    def timed(self, name: str) -> bool:
        """Return whether this case is known here and to be timed."""
        return name in self.records and self.records[name].state == "timed"

    def measure(self) -> None:
        """Measure all pairs into the records.

        Raises:
            GateError: a side's workers do not even start.
        """
        tolerances = {case.id: case.tolerance for case in self.cases}
        tolerances |= {canary: 0.0 for wanted in WANTED.values() for canary in wanted}
        rng = random.Random(self.seed)
        pairs = Pairs(self.sides, self.rule.blocks, self.limit, tolerances, self.folder, rng, self.known)
        timed = [case for case in self.cases if self.records[case.id].state == "timed"]
        if timed:
            passes = {
                many: [*names, *WANTED[many]]
                for many in (False, True)
                if (names := [case.id for case in timed if case.all_cores is many])
            }
            self.records |= {canary: Record(all_cores=many) for many in passes for canary in WANTED[many]}
            self.log(f"gate: {len(timed)} cases")
            try:
                for phase, times in (("screen", self.rule.screen), ("confirm", self.rule.most)):
                    for many, names in passes.items():
                        if not self.invalid:
                            self.phase(pairs, phase, times, names, cores(many))
                if not self.invalid and self.counts_memory:
                    memory.measure(self, timed)
            except PairError as error:
                raise GateError(str(error)) from error

    def artifact(self, complete: bool = True) -> Artifact:
        """Return all that was measured so far.

        Args:
            complete: whether that is all there is to measure.
        """
        return Artifact(
            base=self.base,
            head=self.head,
            seed=self.seed,
            seconds=self.spent,
            machine=self.source.machine(self.folder),
            rule=self.rule,
            records=self.records,
            shard=self.shard,
            told=list(self.source.notes(self.records)),
            complete=complete,
            fingerprints=dict(self.fingerprints),
        )

    def phase(self, pairs: Pairs, phase: str, times: int, names: Sequence[str], place: Cores) -> None:
        """Measure pairs of these cases, or of the suspects among them, as long as they are not settled.

        In a confirmation most are let go at the first look; those that are left are measured thoroughly, and
        so are a few suspects from the beginning.

        Args:
            pairs: measures them.
            phase: ``screen`` or ``confirm``.
            times: pairs of each case, at most.
            names: of the cases of this pass.
            place: the cores that workers run on.
        """
        spent: list[float] = []
        for pair in range(times):
            if phase == "screen":
                waiting, end = unscreened(self.records, self.rule), times
                waiting = [name for name in waiting if pair < COSTLY_PAIRS or not pairs.costly(name)]
            else:
                waiting = unsettled(self.records, self.rule, self.elsewhere)
                end = (pair // self.rule.confirm + 1) * self.rule.confirm  # at the next look most are settled
            chosen = [name for name in names if name in waiting]
            if not chosen:
                return
            left = f", about {spent[-1] * (end - pair) / 60:.1f} min left" if spent else ""
            self.log(f"gate: {phase} {pair + 1} of {end}, {len(chosen)} cases on {place.threads} threads{left}")
            start = time.monotonic()
            thorough = phase == "confirm" and (pair >= self.rule.screen or len(chosen) <= FEW)
            pairs.measure(self.records, chosen, place, phase, thorough)
            spent.append(time.monotonic() - start)
            self.invalid = certainly_invalid(self.records, self.rule, part=self.shard is not None)
            if self.invalid:
                self.log(f"gate: no more pairs are measured, as no outcome could make the run valid: {self.invalid[0]}")
                return
            if phase == "screen" and pair == 0:
                expected = self.expected(spent[0], pairs.starting, len(chosen))
                self.log(f"gate: {about(expected)} expected after this pair")


@contextmanager
def opened(
    source: Benchmarks,
    root: Path,
    revision: str,
    rule: Rule,
    seed: int = 0,
    limit: float = LIMIT,
    shard: tuple[int, int] | None = None,
) -> Iterator[Gate]:
    """Lay out base and head in a folder that is gone afterwards, and say which cases are to be timed.

    Args:
        source: of the cases.
        root: of the repository.
        revision: a name of the commit to compare with.
        rule: the numbers to decide by.
        seed: of all that is left to chance.
        limit: seconds that a worker may take for one request.
        shard: which part of the cases, of how many; None for all.

    Raises:
        GateError: an unknown revision, a base that lacks what is compared, a side whose import fails.
        OSError: a disk that is full or read-only.
    """
    commit = revisions.resolve(root, revision)
    with laid_out(source, root) as layout:
        yield compared(layout, commit, rule, seed, limit, shard)


def compared(layout: Layout, commit: str, rule: Rule, seed: int, limit: float, shard: tuple[int, int] | None) -> Gate:
    """Return the gate between a commit and the working tree, with what is known of each case before anything is timed.

    Args:
        layout: of the revisions.
        commit: full hash of base.
        rule: the numbers to decide by.
        seed: of all that is left to chance.
        limit: seconds that a worker may take for one request.
        shard: which part of the cases, of how many; None for all.

    Raises:
        GateError: a base that lacks what is compared, a side whose import fails.
    """
    source, base = layout.source, layout.side(commit, "base")
    known = list(source.listed(layout.code(commit), base))
    cases = source.cases()
    gone = [name for name in known if name not in {case.id for case in cases}]
    names = [*(case.id for case in cases), *gone]
    mine = of_shard([case.id for case in cases], shard) | of_shard(gone, shard)
    cases = [case for case in cases if case.id in mine]
    records = {case.id: Record(all_cores=case.all_cores) for case in cases}
    records |= {name: Record(state="gone") for name in gone if name in mine}
    head = layout.side(None, "head")
    for name, error in source.unchanged((layout.code(commit), layout.code(None)), (base, head), cases, limit).items():
        records[name].state, records[name].words = ("error", error) if error else ("unchanged", "")
    hashes = fingerprints((base, head), layout.folder)
    source.check((base, head), [case for case in cases if records[case.id].state == "timed"], limit)
    return Gate(
        source=source,
        base=commit,
        head=git_state(layout.root),
        sides=(base, head),
        cases=cases,
        records=records,
        folder=layout.folder,
        rule=rule,
        seed=seed,
        limit=limit,
        known=set(known),
        names=names,
        shard=shard,
        fingerprints=hashes,
    )


def of_shard(names: Sequence[str], shard: tuple[int, int] | None) -> set[str]:
    """Return the names of a part, every so many of all by their order in the alphabet.

    Args:
        names: of all cases.
        shard: number of the part, from 1, of how many; None for all.
    """
    if shard is None:
        return set(names)
    number, count = shard
    return set(sorted(names)[number - 1 :: count])
