"""Commits laid out on disk, each to be a side of pairs, all with the working tree's benchmarks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import revisions
from .environments import environments
from .run import side_of
from .workers import Side


class Commits:
    """The code of commits, written when it is first asked for.

    Args:
        root: of the repository.
        folder: of this run, with the benchmarks in ``benchmarks``.
        python_for: returns the interpreter that a folder's lock file wants, given what it is called.
    """

    def __init__(self, root: Path, folder: Path, python_for: Callable[[str, Path], Path]) -> None:
        self.root, self.folder, self.python_for = root, folder, python_for
        self.side = functools.cache(self._side)
        self.digest = functools.cache(self._digest)

    def code(self, commit: str) -> Path:
        """Return the folder with a commit's own code.

        Args:
            commit: its full hash.

        Raises:
            GateError: the commit has no ``rl_impls``.
        """
        if not (self.folder / commit).exists():
            revisions.export(self.root, commit, self.folder / commit)
        return self.folder / commit

    def _side(self, commit: str, name: str) -> Side:
        code = self.code(commit)
        python = self.python_for(commit[:12], code)
        return side_of(name, self.folder / name / commit, code, self.folder / "benchmarks", python)

    def _digest(self, commit: str, workload: str) -> str:
        return revisions.digest(self.code(commit), workload)


@contextmanager
def laid_out(root: Path, cache: Path) -> Iterator[Commits]:
    """Return the commits of a repository, in a folder that is gone afterwards.

    Args:
        root: of the repository.
        cache: folder of what is kept from run to run, as environments.
    """
    with revisions.workspace(cache) as folder, environments(cache) as python_for:
        revisions.snapshot(root, folder / "benchmarks")
        yield Commits(root, folder, python_for)
