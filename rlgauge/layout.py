"""Revisions on disk, each prepared as a side of pairs, by default with the working tree's benchmarks."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import revisions
from .rule import GateError
from .workers import Side

if TYPE_CHECKING:
    from .benchmarks.source import Benchmarks

WORKING_TREE = "working-tree"


class Layout:
    """The files of revisions, written on first use; ``None`` denotes the working tree.

    Args:
        folder: temporary directory of this run.
        python_for: returns a side's interpreter, given its name and the directory of its files.
    """

    def __init__(self, source: Benchmarks, root: Path, folder: Path, python_for: Callable[[str, Path], Path]) -> None:
        self.source, self.root, self.folder, self.python_for = source, root, folder, python_for
        self.side = functools.cache(self._side)
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

    def _side(self, commit: str | None, name: str) -> Side:
        code = self.code(commit)
        python = self.python_for(commit[:12] if commit else name, code)
        folder = self.folder / "sides" / name / (commit[:12] if commit else WORKING_TREE)  # paths of equal length
        return self.source.lay_out(name, code, self.folder / WORKING_TREE, folder, python)


@contextmanager
def laid_out(source: Benchmarks, root: Path) -> Iterator[Layout]:
    """Wait for other measurements of this clone, then provide a layout in a temporary directory."""
    with revisions.workspace(source.cache) as folder, source.environments() as python_for:
        yield Layout(source, root, folder, python_for)
