"""Speed over commits: compare each commit with the release before it, and record the ratios in a file.

The file is append-only, with one line of JSON per commit and test. Ratios in the file are not measured again.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

from . import machine, measurements
from .benchmarks import origins, unchanged
from .benchmarks.source import Benchmarks
from .bisect import commits_between
from .case import Case, by_cores
from .fields import FieldError, parse
from .files import check_file
from .layout import Layout, laid_out
from .pairs import PairError, Pairs
from .progress import about, number_of
from .revisions import git, resolve
from .rule import GateError, Record
from .sampling import cores
from .statistics import FEWEST, interval, log_ratio


@dataclass(frozen=True)
class Entry:
    """A test at a commit, compared with an earlier commit, the anchor.

    Attributes:
        case: id of the test.
        version: hash of the test's source; ratios of different versions do not measure the same work.
        commit: full hash.
        anchor: full hash.
        log_ratios: per pair, the log of the commit's seconds over the anchor's.
        same_as: commit with identical files, if nothing was timed: the anchor, or the commit whose pairs are reused.
        machine: machine on which the pairs were measured.
        date: date of the measurement, for example ``2026-11-23``.
    """

    case: str
    version: str
    commit: str
    anchor: str
    log_ratios: list[float] = field(default_factory=list)
    same_as: str = ""
    machine: str = ""
    date: str = ""

    @property
    def state(self) -> str:
        """``timed``, ``unchanged``, or ``missing`` if the anchor lacks the test or the test is skipped."""
        return "unchanged" if self.same_as else "timed" if self.log_ratios else "missing"

    @property
    def middle(self) -> float:
        """Median log-ratio; 0 if the commit has the anchor's files."""
        return median(self.log_ratios) if self.log_ratios else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the median log-ratio; the extremes if there are fewer than six pairs."""
        return interval(self.log_ratios) if self.log_ratios else (0.0, 0.0)


def read(file: Path) -> list[Entry]:
    """Return the entries of a file, empty if it does not exist; raise GateError for an invalid line."""
    try:
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    except OSError as error:
        raise GateError(f"{file}: cannot be read: {error.strerror}; give another --file") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        try:
            if not line.endswith(b"\n"):
                raise ValueError("the line is incomplete")
            entries.append(parse(Entry, json.loads(line)))
        except (FieldError, ValueError) as error:
            wrong = f"{file}, line {number}: not a line that rlgauge history writes: {error}"
            raise GateError(f"{wrong}; delete the line, or give another --file") from error
    return entries


def in_order(root: Path) -> list[str]:
    """Return the commits of the current branch along first parents, oldest first."""
    return git(root, "rev-list", "--first-parent", "--reverse", resolve(root, "HEAD")).decode().split()


def release_before(root: Path, commit: str) -> str | None:
    """Return the commit of the nearest tag before a commit, or None."""
    try:
        tag = git(root, "describe", "--tags", "--abbrev=0", f"{commit}^").decode().strip()
    except subprocess.CalledProcessError:
        return None
    return resolve(root, f"refs/tags/{tag}")


def is_ancestor(root: Path, first: str, second: str) -> bool:
    """Return whether `first` is an ancestor of `second`."""
    try:
        git(root, "merge-base", "--is-ancestor", first, second)
    except subprocess.CalledProcessError:
        return False
    return True


def version_of(file: Path, name: str) -> str:
    """Return a hash of a test's source without comments, or of the whole file if it does not define the test."""
    node: ast.AST | None = None
    with suppress(SyntaxError, ValueError):  # the user may be editing the file
        node = ast.parse(file.read_bytes())
    for part in name.partition("[")[0].split("::")[1:]:
        node = next((child for child in getattr(node, "body", ()) if getattr(child, "name", "") == part), None)
    source = ast.unparse(node).encode() if node else file.read_bytes()
    return hashlib.sha256(source).hexdigest()[:12]


class History:
    """Compares commits with the releases before them.

    Args:
        file: JSON-lines file of entries.
        pairs: pairs of processes per commit.
        minutes: time after which a commit gets no more pairs, provided it has six.
        limit: seconds that a worker request may take.

    Attributes:
        failed: measurements that failed, with the reason.
    """

    def __init__(
        self, source: Benchmarks, file: Path, pairs: int, minutes: float, limit: float, log: Callable[[str], None]
    ) -> None:
        self.source, self.root, self.file = source, source.root, file
        self.pairs, self.minutes, self.limit, self.log = pairs, minutes, limit, log
        self.entries, self.failed = read(file), list[str]()
        here = machine.this_machine()
        self.machine = f"{machine.called(here)}, {here['cores']} cores"
        for entry in self.entries:
            if entry.machine != self.machine:
                raise GateError(
                    f"{file}: its ratios were measured on {entry.machine}, not on {self.machine}; give another --file"
                )
        self.versions: dict[str, str] = {}  # of each test that is measured

    def measure(self, since: str) -> None:
        """Compare every commit after `since` up to HEAD, along first parents; record each one's ratios when it is done.

        A release without ratios is compared with the last anchor before it, so that series continue across releases.
        `since` itself is the anchor of commits that have no tag before them. Raises GateError if nothing could be
        measured.
        """
        check_file(self.file, "--file")
        first, commits = resolve(self.root, since), commits_between(self.root, since, "HEAD")
        anchors = {commit: release_before(self.root, commit) or first for commit in commits}
        least = number_of(min(self.pairs, FEWEST), "pair")
        self.log(
            f"history: {number_of(len(commits), 'commit')} after {since}, at most {about(60 * self.minutes)} per "
            f"commit, but at least {least}"
        )
        earlier = first
        with laid_out(self.source, self.root) as layout:
            # another run may have added entries meanwhile, and the user may have edited a test
            self.entries, top = read(self.file), self.source.top
            self.versions = {name: version_of(top / self.source.file_of(name), name) for name in self.source.names}
            for number, commit in enumerate(commits, start=1):
                anchor = anchors[commit]
                if anchor != anchors.get(earlier) and (older := self.anchor_before(anchor)):
                    self.compare(layout, anchor, older, older, "release")
                self.compare(layout, commit, anchor, earlier, f"{number} of {len(commits)}")
                if earlier not in anchors.values():
                    layout.remove(earlier)
                earlier = commit
        if self.failed and not any(entry.commit in commits for entry in self.entries):
            raise GateError("history: no commit could be measured; the reason is above")

    def anchor_before(self, anchor: str) -> str | None:
        """Return the last of the other anchors that precede this one, or None."""
        others = dict.fromkeys(entry.anchor for entry in reversed(self.entries) if entry.anchor != anchor)
        return next((other for other in others if is_ancestor(self.root, other, anchor)), None)

    def find(self, case: Case, commit: str, anchor: str) -> Entry | None:
        """Return the entry of a test in its current version at a commit, or None."""
        key = case.id, self.versions[case.id], commit, anchor
        return next((e for e in self.entries if (e.case, e.version, e.commit, e.anchor) == key), None)

    def compare(self, layout: Layout, commit: str, anchor: str, earlier: str, progress: str) -> None:
        """Record entries of all tests that have none, measured or copied from a commit with the same files.

        `earlier` is the previous commit. `progress` says how far the whole run is, for the log.
        """
        cases = self.source.cases()
        waiting = {case.id: case for case in cases if not self.find(case, commit, anchor)}
        if not waiting:
            return
        added = []
        try:
            for other in dict.fromkeys((anchor, earlier)):
                for entry in self.copied(layout, commit, anchor, other, list(waiting.values())):
                    added.append(entry)
                    del waiting[entry.case]
            known = len(cases) - len(added) - len(waiting)
            counts = f"{known} measured before, {len(added)} unchanged, {len(waiting)} to measure"
            self.log(f"history: {progress}, {commit[:12]} against {anchor[:12]}: {counts}")
            if waiting:
                added += self.measured(layout, commit, anchor, list(waiting.values()))
        except (GateError, PairError) as error:
            self.fail(f"{commit[:12]} against {anchor[:12]}: {error}")
        if added:
            measurements.append(self.file, map(asdict, added))
            self.entries += added

    def fail(self, message: str) -> None:
        """Record and print a failed measurement."""
        self.failed.append(message)
        self.log(f"history: {message}")

    def entry(self, case: Case, commit: str, anchor: str, log_ratios: Sequence[float] = (), same_as: str = "") -> Entry:
        """Return an entry with today's date."""
        rounded, today = [round(value, 6) for value in log_ratios], datetime.date.today().isoformat()
        return Entry(case.id, self.versions[case.id], commit, anchor, rounded, same_as, self.machine, today)

    def copied(self, layout: Layout, commit: str, anchor: str, other: str, cases: Sequence[Case]) -> Iterator[Entry]:
        """Yield entries of the tests whose files are all the same as in another commit.

        That commit is the anchor, or one that was compared with the anchor.
        """
        of_other = {case.id: self.find(case, other, anchor) for case in cases}
        candidates = [case for case in cases if other == anchor or of_other[case.id]]
        if not candidates:
            return
        codes = layout.code(other), layout.code(commit)
        sides = layout.pair(other, commit)
        same = unchanged.find(self.source, codes, sides, candidates, self.limit)
        if same and self.source.digest(codes[0]) != self.source.digest(codes[1]):
            origins.check(self.source, sides, candidates, self.limit)  # a package from elsewhere may differ
        for case in candidates:
            if same.get(case.id) != "":
                continue
            if other == anchor:
                yield self.entry(case, commit, anchor, same_as=anchor)
            elif (entry := of_other[case.id]) and entry.state != "missing":
                yield replace(entry, commit=commit, same_as=entry.same_as or other)

    def measured(self, layout: Layout, commit: str, anchor: str, cases: Sequence[Case]) -> Iterator[Entry]:
        """Measure tests, and yield the entry of each successful one."""
        source, records = self.source, {case.id: Record() for case in cases}
        sides = layout.pair(anchor, commit)
        origins.check(source, sides, cases, self.limit)
        tolerances = {case.id: case.tolerance for case in cases}
        blocks, rng = source.config.rules().blocks, random.Random(commit)
        pairs = Pairs(sides, blocks, self.limit, tolerances, layout.folder, rng)
        passes = by_cores(cases)
        start, longest = time.monotonic(), 0.0
        for pair in range(self.pairs):
            pair_start = time.monotonic()
            if pair >= FEWEST and pair_start + longest > start + 60 * self.minutes:
                self.log(f"history: stopping after {pair} pairs; another would exceed {self.minutes:g} min")
                break
            for all_cores, names in passes.items():
                pairs.measure(records, names, cores(all_cores), "confirm")
            longest = max(longest, time.monotonic() - pair_start)
            if pair == 0:
                self.log(f"history: {about(longest * (self.pairs - 1))} expected for the remaining pairs")
        for case in cases:
            record = records[case.id]
            if record.state == "timed" and record.confirm:
                yield self.entry(case, commit, anchor, [log_ratio(pair) for pair in record.confirm])
            elif case.id in pairs.absent:
                yield self.entry(case, commit, anchor)
            else:
                self.fail(f"{case.id} at {commit[:12]}: {record.words}")
