"""Import given packages from given directories, even if they are also found elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class PackageFinder(MetaPathFinder):
    """Looks for packages in directories ahead of ``sys.path``, where pytest inserts test directories first."""

    def __init__(self, names: Collection[str], folders: Sequence[str]) -> None:
        self.names, self.folders = frozenset(names), list(folders)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find one of these packages; a directory without ``__init__.py`` is left to ``sys.path``."""
        if path is not None or fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, self.folders)
        return spec if spec and spec.loader and spec.origin else None

    def remove(self) -> None:
        """Uninstall this finder."""
        sys.meta_path.remove(self)
