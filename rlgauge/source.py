"""Where the gate's cases come from: what a source has to say of them, and how it lays out the two sides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import machine
from .workers import PYTHON, Side

if TYPE_CHECKING:
    import pytest

    from .rule import Record, Rule
    from .run import Gate

TOLERANCE = 3e-5  # of answers in float32: one machine, one library, so that the order of sums alone may differ


@dataclass(frozen=True)
class Case:
    """What is compared.

    Attributes:
        id: its name, the same from commit to commit.
        all_cores: it runs on all cores, in a pass of its own; else on one.
        tolerance: largest difference of answers that are the same, as a part of an array's largest value; infinite for
            answers that are not compared.
    """

    id: str
    all_cores: bool = False
    tolerance: float = TOLERANCE


Unchanged = dict[str, str]  # by name of a case that is not timed: why it is an error, or nothing if it is unchanged


class Source(ABC):
    """Lists cases, and lays out the sides whose workers prepare, time and close them, see :mod:`.worker`.

    Attributes:
        together: a worker holds all cases of a pair at once, and their blocks are mixed; else one after the other.
        lenient: a case that base's listing does not have, and that fails on base alone, is new, whatever the reason.
        collects: the cases are tests that pytest collects; else it collects nothing.
        cache: folder of what is kept from run to run.
        artifact: file of all that a run measured, where none is named.
    """

    together, lenient = True, False
    collects = False
    cache: Path
    artifact: Path

    def ready(self) -> AbstractContextManager[Any]:
        """Make ready what the tests need that are collected in the working tree, for as long as the run lasts."""
        return nullcontext()

    def collected(self, items: Sequence[pytest.Item]) -> None:  # noqa: B027 - not every source has tests
        """Take note of the tests that pytest has collected in the working tree, where the cases are among them.

        Args:
            items: all that were collected and selected.

        Raises:
            GateError: there is nothing to compare, or something that cannot be.
        """

    @abstractmethod
    def cases(self) -> Sequence[Case]:
        """Return the cases that are selected and can run here."""

    def case(self, name: str) -> Case:
        """Return a case by its name, selected or not.

        Args:
            name: of the case.

        Raises:
            GateError: there is none.
        """
        from .rule import GateError

        for case in self.cases():
            if case.id == name:
                return case
        raise GateError(f"unknown case {name!r}")

    def unable(self) -> Mapping[str, str]:
        """Return why cases that are selected cannot run here, by name."""
        return {}

    @abstractmethod
    def listed(self, code: Path, side: Side) -> Collection[str]:
        """Return the names of the selected cases that a revision has by its own benchmarks.

        Args:
            code: folder with the revision's own files.
            side: whose interpreter and variables are used.

        Raises:
            GateError: it cannot be asked.
        """

    @abstractmethod
    def export(self, root: Path, commit: str, folder: Path) -> None:
        """Write what a side needs of a commit.

        Args:
            root: of the repository.
            commit: its full hash.
            folder: where it is written.

        Raises:
            GateError: the commit lacks what is compared.
        """

    @abstractmethod
    def snapshot(self, root: Path, folder: Path) -> None:
        """Copy what a side needs of the working tree, so that edits during a run change nothing.

        Args:
            root: of the repository.
            folder: where it is copied to.
        """

    @abstractmethod
    def fingerprint(self, code: Path, case: Case) -> str:
        """Return a hash of all files that a case's speed depends on.

        Args:
            code: folder with a revision's files.
            case: one of those listed.
        """

    def unchanged(self, codes: Sequence[Path], sides: Sequence[Side], cases: Sequence[Case], limit: float) -> Unchanged:
        """Return the cases that need not be timed, as all files that their speed depends on are the same on both sides.

        Args:
            codes: folders with the files of base and of head.
            sides: base and head.
            cases: those that are selected.
            limit: seconds that a worker may take for one request.
        """
        base, head = codes
        return {case.id: "" for case in cases if self.fingerprint(base, case) == self.fingerprint(head, case)}

    @abstractmethod
    def lay_out(self, name: str, code: Path, benchmarks: Path, folder: Path, python: Path) -> Side:
        """Return a side with the code of one revision and the benchmarks of another.

        Args:
            name: ``base`` or ``head``.
            code: folder with the files of the revision that is timed.
            benchmarks: folder with the files of the working tree.
            folder: to be made for the side.
            python: interpreter of the side's environment.

        Raises:
            GateError: it cannot be made.
        """

    def environments(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``, the interpreter of a side, which stays until the end."""
        return nullcontext(lambda name, code: PYTHON)

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:  # noqa: B027 - nor checks
        """Find mistakes of the sides before anything is timed.

        Args:
            sides: base and head.
            cases: those that are to be timed.
            limit: seconds that a worker may take for one request.

        Raises:
            GateError: there is one.
        """

    def finish(self, gate: Gate, timed: Sequence[Case]) -> None:  # noqa: B027 - nor counts
        """Add to the records what is counted after all pairs.

        Args:
            gate: with the sides and the records.
            timed: the cases that were to be timed.

        Raises:
            PairError: a worker did not start.
        """

    def expected(self, alone: int, together: int, rule: Rule) -> float | None:
        """Return about how many seconds a run takes, None where nobody knows.

        Args:
            alone: cases on one core.
            together: cases on all cores.
            rule: the numbers to decide by.
        """
        return None

    def machine(self, root: Path) -> dict[str, Any]:
        """Return what the figures belong to, with ``cpu_model`` and ``cores`` at least.

        Args:
            root: of the repository.
        """
        return machine.this_machine()

    def power(self, root: Path, file: Path | None, minutes: float, rule: Rule, limit: float) -> str | None:
        """Measure the gate's error rates by this source's own means, and return them as a table; None without any.

        Args:
            root: of the repository.
            file: where what is measured is kept, if one is named.
            minutes: how long to measure; 0 says what is known.
            rule: the numbers to decide by.
            limit: seconds that a worker may take for one request.

        Raises:
            GateError: nothing was measured yet, or it cannot be read.
        """
        return None

    def everything(  # noqa: B027 - where all are selected already
        self, root: Path, arguments: Sequence[str] = (), deselected: bool = False
    ) -> None:
        """Select all cases, where none were: as they are listed in the working tree.

        Args:
            root: of the repository.
            arguments: of pytest, which select some.
            deselected: whether to take those that the repository itself deselects too.

        Raises:
            GateError: there are none.
        """

    def notes(self, records: Mapping[str, Record]) -> Sequence[str]:
        """Return what is to be said of a run beside its verdicts, a line each.

        Args:
            records: what is known of each case.
        """
        return ()
