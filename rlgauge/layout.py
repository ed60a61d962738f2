"""Revisions on disk, each prepared as a side of pairs, by default with the working tree's benchmarks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import revisions
from .environments import PythonFor
from .rule import GateError
from .workers import PYTHON, Side

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

WORKING_TREE = "working-tree"


class Layout:
    """The files of revisions, written on first use; ``None`` denotes the working tree.

    Args:
        folder: temporary directory of this run.
        python_for: returns a side's interpreter, given its name, the directory of its files, and those of both sides.
    """

    def __init__(self, source: Benchmarks, root: Path, folder: Path, python_for: PythonFor) -> None:
        self.source, self.root, self.folder, self.python_for = source, root, folder, python_for
        self.sides: dict[tuple[str | None, str, Path], Side] = {}
        (folder / "pytest.ini").touch()  # a tree without an ini file must not get that of the repository above it
        source.snapshot(folder / WORKING_TREE)

    def code(self, commit: str | None) -> Path:
        """Return the directory with the files of a revision, given its full hash."""
        folder = self.folder / (commit or WORKING_TREE)
        if not folder.exists():
            try:
                self.source.export(str(commit), folder)
            except GateError:
                shutil.rmtree(folder, ignore_errors=True)  # another call must not use the files written so far
                raise
        return folder

    def pair(self, base: str, head: str | None) -> tuple[Side, Side]:
        """Return two revisions as the sides of pairs."""
        codes = self.code(base), self.code(head)
        return self.side(base, "base", codes), self.side(head, "head", codes)

    def side(self, commit: str | None, name: str, codes: Sequence[Path] = ()) -> Side:
        """Return a revision as a side; `codes` are the directories of both sides, which get one kind of environment."""
        code = self.code(commit)
        python = self.python_for(commit[:12] if commit else name, code, codes)
        key = commit, name, python
        if key not in self.sides:
            kind = "here" if python == PYTHON else "made"  # names of equal length, so that paths have equal lengths too
            folder = self.side_folder(commit, name) / kind
            self.sides[key] = self.source.lay_out(name, commit, code, self.folder / WORKING_TREE, folder, python)
        return self.sides[key]

    def side_folder(self, commit: str | None, name: str) -> Path:
        """Return the directory of a revision as a side."""
        return self.folder / "sides" / name / (commit[:12] if commit else WORKING_TREE)

    def remove(self, commit: str) -> None:
        """Delete the files of a revision that is not needed any more."""
        self.sides = {key: side for key, side in self.sides.items() if key[0] != commit}
        for name in ("base", "head"):
            shutil.rmtree(self.side_folder(commit, name), ignore_errors=True)
        shutil.rmtree(self.folder / commit, ignore_errors=True)


@contextmanager
def laid_out(source: Benchmarks, root: Path) -> Iterator[Layout]:
    """Wait for other measurements of this clone, then provide a layout in a temporary directory."""
    with revisions.workspace(source.cache) as folder, source.environments() as python_for:
        yield Layout(source, root, folder, python_for)
