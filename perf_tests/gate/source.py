"""This suite's cases, as the gate takes them: ``[tool.rlgauge] source`` names :func:`source`."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perf_tests.selection import Selection, select, selection_of
from perf_tests.suite import machine
from perf_tests.suite.case import Variant
from perf_tests.suite.cases import variants
from perf_tests.suite.process import CACHE
from rl_impls import backends
from rlgauge import revisions
from rlgauge.environments import environments
from rlgauge.rule import GateError, Rule
from rlgauge.run import LIMIT, Gate
from rlgauge.source import Case, Source
from rlgauge.workers import Side

from . import memory
from .starts import COMPILERS, WORKER
from .tolerances import tolerance

if TYPE_CHECKING:
    import pytest

FOLDERS = ("rl_impls", "perf_tests", "rlgauge", "requirements")
LOCK = "requirements/py311.txt"
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


def case_of(variant: Variant) -> Case:
    """Return what the gate is to know of a benchmark.

    Args:
        variant: the benchmark.
    """
    return Case(variant.id, variant.case.cores != "one", tolerance(variant))


def variant_of(name: str) -> Variant:
    """Return a benchmark by its id, of any tier.

    Args:
        name: its id.

    Raises:
        GateError: there is none.
    """
    if name not in variants():
        raise GateError(f"unknown case {name!r}; pytest --collect-only --benchmark-only --tier full lists them")
    return variants()[name]


class Suite(Source):
    """The benchmarks of a selection.

    Args:
        selection: what was asked for; tells which of base's cases are gone.
        cache: folder of what runs share: locks, environments, their own folders.
    """

    def __init__(self, selection: Selection, cache: Path = CACHE / "gate") -> None:
        self.selection, self.cache, self.artifact = selection, cache, cache.parent / "gate.json"
        self.digest = functools.cache(digest)
        self.selected = select(selection)
        lacking = {backend: backends.get(backend).missing() for backend in {v.backend for v in self.selected}}
        self.lacking = {v.id: f"{v.backend}: {lacking[v.backend]}" for v in self.selected if lacking[v.backend]}

    def cases(self) -> Sequence[Case]:
        """Return the cases whose backends can run here."""
        return [case_of(variant) for variant in self.selected if variant.id not in self.lacking]

    def unable(self) -> Mapping[str, str]:
        """Return why cases cannot run here: what their backends lack."""
        return self.lacking

    def listed(self, code: Path, side: Side) -> Collection[str]:
        """Return the ids that base itself has, of selected cases and of those that would be, were they here.

        Args:
            code: folder with base's own code.
            side: whose interpreter and variables are used.

        Raises:
            GateError: base's import fails.
        """
        known = json.loads(told(side, code, LISTING).splitlines()[-1])
        here = {variant.id for variant in self.selected}  # of another tier there, perhaps
        return [
            id
            for id, tier, *parts in known
            if id in here or (self.selection.has(tier) and self.selection.keeps(*parts))
        ]

    def export(self, root: Path, commit: str, folder: Path) -> None:
        """Write the folders of a commit that the gate needs.

        Args:
            root: of the repository.
            commit: its full hash.
            folder: where it is written.

        Raises:
            GateError: the commit has no ``rl_impls``.
        """
        there = revisions.git(root, "ls-tree", "--name-only", commit, "--", *FOLDERS).decode().split()
        if "rl_impls" not in there:
            raise GateError(f"base {commit[:12]} has no rl_impls: there is nothing to compare")
        revisions.export(root, commit, folder, there)

    def snapshot(self, root: Path, folder: Path) -> None:
        """Copy these folders of the working tree.

        Args:
            root: of the repository.
            folder: where they are copied to.
        """
        revisions.snapshot(root, folder, FOLDERS)

    def fingerprint(self, code: Path, case: Case) -> str:
        """Return a hash of what a case's workload depends on.

        Args:
            code: folder with a revision's files.
            case: one of those listed.
        """
        return self.digest(code, variants()[case.id].case.workload)

    def lay_out(self, name: str, code: Path, benchmarks: Path, folder: Path, python: Path) -> Side:
        """Return a side with one revision's ``rl_impls`` and another's ``perf_tests``.

        Args:
            name: ``base`` or ``head``.
            code: folder with the ``rl_impls`` wanted.
            benchmarks: folder with the ``perf_tests`` wanted.
            folder: to be made for the side.
            python: interpreter of the side's environment.
        """
        shutil.copytree(code / "rl_impls", folder / "rl_impls")
        for problem in (benchmarks / "rl_impls").glob("*/problem.py"):  # inputs are head's on both sides
            place = folder / problem.relative_to(benchmarks)
            place.parent.mkdir(exist_ok=True)
            shutil.copy(problem, place)
        for part in ("perf_tests", "rlgauge"):
            (folder / part).symlink_to(benchmarks / part)
        return Side(name, folder, python, WORKER, COMPILERS)

    def environments(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``: this interpreter, or one that has what the side's lock file wants."""
        return environments(self.cache, LOCK)

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:
        """Import the source files of these cases on head, so that a mistake in one is known before anything is timed.

        Args:
            sides: base and head.
            cases: those that are to be timed.
            limit: seconds that it may take.

        Raises:
            GateError: an import fails.
        """
        timed = [variants()[case.id] for case in cases]
        files = {f"rl_impls.{v.case.workload}._{backends.get(v.backend).source}" for v in timed}
        if files:
            told(sides[1], sides[1].root, IMPORTS, *sorted(files))

    def finish(self, gate: Gate, timed: Sequence[Case]) -> None:
        """Count fresh memory with default malloc.

        Args:
            gate: with the sides and the records.
            timed: the cases that were to be timed.
        """
        gate.log("gate: fresh memory, with default malloc")
        memory.measure(gate.sides, gate.limit, gate.folder, gate.records, [variants()[case.id] for case in timed])

    def expected(self, alone: int, together: int, rule: Rule) -> float:
        """Return about how many seconds a run takes.

        Args:
            alone: cases on one core.
            together: cases on all cores.
            rule: the numbers to decide by.
        """
        screen = sum(START + count * EACH[many] for many, count in ((False, alone), (True, together)) if count)
        suspects = sum(SUSPECTS * count * EACH[many] for many, count in ((False, alone), (True, together)))
        return rule.screen * screen + rule.confirm * (START + suspects) + (alone + together) * FORKED

    def case(self, name: str) -> Case:
        """Return a case by its id, of any tier.

        Args:
            name: its id.

        Raises:
            GateError: there is none.
        """
        return case_of(variant_of(name))

    def power(self, root: Path, file: Path | None, minutes: float, rule: Rule, limit: float) -> str:
        """Measure the gate's error rates on chosen cases, several doses and real mistakes; return them as a table.

        Args:
            root: of the repository.
            file: where the pairs are kept; the one of this suite unless given.
            minutes: how long to measure; 0 says what is known.
            rule: the numbers to decide by.
            limit: not used: the default.
        """
        from .selfcheck import power, power_table

        kept = file or power.POWER
        if minutes > 0:
            power.measure(everything(), root, kept, minutes)
        return power_table.table(power_table.read(kept), rule)

    def machine(self, root: Path) -> dict[str, Any]:
        """Return what the figures belong to.

        Args:
            root: of the repository.
        """
        return machine.info(root)


def source(config: pytest.Config | None = None) -> Suite:
    """Return the cases that a run of pytest has selected, or all.

    Args:
        config: of the run, if there is one.
    """
    return Suite(selection_of(config)) if config else everything()


def everything() -> Suite:
    """Return all cases, whatever their tier."""
    return Suite(Selection(tier="full"))


def digest(folder: Path, workload: str) -> str:
    """Return a hash of all that a workload's speed depends on: its code, its cases, the lock files.

    Args:
        folder: with the code of a side.
        workload: its name.
    """
    code = folder / "rl_impls"
    parts = [
        *code.glob("*.py"),
        *(code / "common").rglob("*"),
        *(code / workload).rglob("*"),
        *folder.glob(f"perf_tests/suite/cases/{workload}.py"),
        *(folder / LOCK).parent.rglob("*"),
    ]
    return revisions.digest(folder, parts)


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
