"""Import chosen packages from chosen folders, wherever else they are found."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class First(MetaPathFinder):
    """Looks for packages in folders before ``sys.path``, where pytest puts the folders of tests first.

    Args:
        names: of the packages and modules.
        folders: that they are in.
    """

    def __init__(self, names: Collection[str], folders: Sequence[str]) -> None:
        self.names, self.folders = frozenset(names), list(folders)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of these packages; a folder without ``__init__.py`` is left to ``sys.path``."""
        if path is not None or fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, self.folders)
        return spec if spec and spec.loader and spec.origin else None

    def remove(self) -> None:
        """Look no more."""
        sys.meta_path.remove(self)
