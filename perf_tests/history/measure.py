"""Compares every commit after one with its anchor, by pairs of the gate, and keeps what they say."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perf_tests.gate.source import EACH, START, Suite, case_of
from perf_tests.gate.tolerances import tolerance
from perf_tests.selection import Selection
from perf_tests.suite.case import Variant
from perf_tests.suite.process import CACHE
from rlgauge import revisions
from rlgauge.bisect import between
from rlgauge.layout import Layout, laid_out
from rlgauge.pairs import PairError, Pairs, cores
from rlgauge.progress import about
from rlgauge.rule import GateError, Record, Rule
from rlgauge.run import LIMIT
from rlgauge.statistics import log_ratio

from .entries import Entry, append, read, timed
from .releases import anchor_before, anchor_of

PAIRS, MINUTES = 16, 12.0


@dataclass
class History:
    """What is measured into a file.

    Attributes:
        root: of the repository.
        file: of entries; its name is the label of the machine.
        variants: the benchmarks.
        anchor: a revision that all commits are compared with; the last release of each unless it is named.
        pairs: of processes that a commit gets, at most.
        minutes: that a commit gets, at most.
        blocks: of each case in a pair.
        limit: seconds that a worker may take for one request.
        seed: of the order of cases and of sides.
        log: prints a line.
        failed: cases that could not be measured, with the reason.
    """

    root: Path
    file: Path
    variants: Sequence[Variant]
    anchor: str | None = None
    pairs: int = PAIRS
    minutes: float = MINUTES
    blocks: int = field(default_factory=lambda: Rule().blocks)
    limit: float = LIMIT
    seed: int = 0
    log: Callable[[str], None] = print
    failed: list[str] = field(default_factory=list)

    def measure(self, since: str, cache: Path = CACHE / "gate") -> None:
        """Compare every commit after one, up to HEAD along first parents, with its anchor; keep each when it is done.

        Args:
            since: a revision before HEAD.
            cache: folder of what the runs of this clone share.

        Raises:
            GateError: an unknown revision, no commit after it, no anchor but the commit itself, entries that cannot be
                read or written.
        """
        earlier, commits = revisions.resolve(self.root, since), between(self.root, since, "HEAD")
        anchors = {commit: anchor_of(self.root, commit, self.anchor) for commit in commits}
        if self.anchor and all(commit == anchor for commit, anchor in anchors.items()):
            raise GateError(f"--anchor {self.anchor}: it is the commit that is to be compared with it")
        read(self.file)
        most = "" if len(commits) == 1 else f", {about(60 * self.minutes * len(commits))} in all"
        self.log(f"history: {len(commits)} commits, at most {self.minutes:g} min each{most}")
        with laid_out(Suite(Selection(tier="full"), cache), self.root) as there:
            for number, commit in enumerate(commits, start=1):
                anchor = anchors[commit]
                for before, names in self.broken(anchor).items():  # a new release, compared with the one before
                    self.compare(there, anchor, before, None, names, "release")
                if commit != anchor:
                    names = [variant.id for variant in self.variants]
                    self.compare(there, commit, anchor, earlier, names, f"{number} of {len(commits)}")
                earlier = commit

    def broken(self, anchor: str) -> dict[str, list[str]]:
        """Return the anchors before this one, each with the cases whose ratios do not go on from it to this one.

        Args:
            anchor: full hash.
        """
        entries, found = read(self.file), dict[str, list[str]]()
        for variant in self.variants:
            key = variant.id, variant.case.version
            before = anchor_before(self.root, entries, *key, anchor)
            kept = any((e.commit, e.anchor, e.case, e.version) == (anchor, before, *key) for e in entries)
            if before is not None and not kept:
                found.setdefault(before, []).append(variant.id)
        return found

    def compare(
        self, there: Layout, commit: str, anchor: str, earlier: str | None, names: Sequence[str], where: str
    ) -> None:
        """Keep an entry of each case that has none: measured, or carried where nothing has changed.

        Args:
            there: the commits, laid out.
            commit: full hash.
            anchor: full hash of what it is compared with.
            earlier: the commit before, whose entries may be carried; None where none may.
            names: ids of the cases.
            where: how far the whole run is, in words.
        """
        entries, added, changed = read(self.file), [], []
        kept = {(e.case, e.version, e.anchor) for e in entries if e.commit == commit}
        variants = [variant for variant in self.variants if variant.id in names]
        for variant in variants:
            key = variant.id, variant.case.version
            if (*key, anchor) in kept:
                continue
            carried = self.carried(there, commit, anchor, earlier, variant, entries)
            if carried is None:
                changed.append(variant)
            elif (*key, carried["anchor"]) not in kept:
                added.append(self.entry(variant, commit, **carried))
        known = len(variants) - len(added) - len(changed)
        counts = f"{known} known, {len(added)} unchanged, {len(changed)} to measure"
        self.log(f"history: {where}, {commit[:12]} against {anchor[:12]}: {counts}")
        if changed:
            added += self.timed(there, commit, anchor, changed)
        if added:
            append(self.file, added)

    def carried(
        self,
        there: Layout,
        commit: str,
        anchor: str,
        earlier: str | None,
        variant: Variant,
        entries: Sequence[Entry],
    ) -> dict[str, object] | None:
        """Return the fields of the entry of a case that need not be measured, None where it must be.

        Args:
            there: the commits, laid out.
            commit: full hash.
            anchor: full hash of what it is compared with.
            earlier: the commit before, if its entries may be carried.
            variant: the benchmark.
            entries: what is kept.
        """
        case = case_of(variant)
        own = there.fingerprint(commit, case)
        if own == there.fingerprint(anchor, case):
            return {
                "anchor": anchor,
                "state": "unchanged",
                "same_as": anchor,
                "ratio": 1.0,
                "low": 1.0,
                "high": 1.0,
                "n": 0,
            }
        if earlier is None or own != there.fingerprint(earlier, case):
            return None
        wanted = (earlier, variant.id, variant.case.version)
        found = [e for e in entries if (e.commit, e.case, e.version) == wanted and e.state != "lacking"]
        if not found:
            return None
        entry = ([e for e in found if e.anchor == anchor] or found)[-1]
        same = {name: getattr(entry, name) for name in ("anchor", "ratio", "low", "high", "n")}
        return {"state": "unchanged", "same_as": entry.same_as or entry.commit, **same}

    def timed(self, there: Layout, commit: str, anchor: str, variants: Sequence[Variant]) -> Iterator[Entry]:
        """Measure cases, and return the entry of each that could be.

        Args:
            there: the commits, laid out.
            commit: full hash.
            anchor: full hash of what it is compared with.
            variants: the benchmarks.
        """
        records = {variant.id: Record() for variant in variants}
        sides = there.side(anchor, "base"), there.side(commit, "head")
        tolerances = {variant.id: tolerance(variant) for variant in variants}
        rng = random.Random(f"{self.seed} {commit}")
        pairs = Pairs(sides, self.blocks, self.limit, tolerances, there.folder, rng)
        passes = {many: [v.id for v in variants if (v.case.cores != "one") is many] for many in (False, True)}
        try:
            for _ in self.within_minutes(passes):
                for many, names in passes.items():
                    if names:
                        pairs.measure(records, names, cores(many), "confirm")
        except PairError as error:
            raise GateError(str(error)) from error
        for variant in variants:
            record = records[variant.id]
            if record.state == "timed":
                yield self.entry(variant, commit, anchor=anchor, **timed([log_ratio(pair) for pair in record.confirm]))
            elif record.state == "new":
                yield self.entry(variant, commit, anchor=anchor, state="lacking", n=0)
            else:
                self.failed.append(f"{variant.id} at {commit[:12]}: {record.words}")
                self.log(f"history: {self.failed[-1]}")

    def within_minutes(self, passes: Mapping[bool, Sequence[str]]) -> Iterator[int]:
        """Return the numbers of the pairs that a commit gets: as many as are wanted, or as fit into its minutes.

        Args:
            passes: ids of cases on one core and on all.

        Raises:
            GateError: not even one fits.
        """
        start, last = time.monotonic(), 0.0
        each = sum(START + len(names) * EACH[many] for many, names in passes.items() if names)
        count = sum(map(len, passes.values()))
        times = min(self.pairs, int(60 * self.minutes / each))
        if times < 1:
            raise GateError(
                f"--minutes: got {self.minutes:g}, wanted {each / 60:.2g} or more: what a pair of {count} cases takes"
            )
        fewer = "" if times == self.pairs else f" of {self.pairs}, as more would take over {self.minutes:g} min"
        self.log(f"history: {count} cases, {times} pairs{fewer}, {about(times * each)} expected")
        for pair in range(times):
            begun = time.monotonic()
            if pair and begun + last - start > 60 * self.minutes:
                self.log(f"history: {pair} pairs, as one more would take over {self.minutes:g} min")
                return
            yield pair
            last = max(last, time.monotonic() - begun)

    def entry(self, variant: Variant, commit: str, **fields: object) -> Entry:
        """Return an entry of today.

        Args:
            variant: the benchmark.
            commit: full hash.
            fields: the others.
        """
        return Entry.model_validate(
            {
                "machine": self.file.stem,
                "date": datetime.date.today().isoformat(),
                "commit": commit,
                "case": variant.id,
                "version": variant.case.version,
                **fields,
            }
        )
