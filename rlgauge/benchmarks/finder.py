"""Import given packages from given directories, even if they are also found elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# attributes with the names of modules, of the finders for editable installs of meson-python and scikit-build-core
KNOWN = "_top_level_modules", "known_source_files", "known_wheel_files"


class PackageFinder(MetaPathFinder):
    """Looks for packages in directories ahead of ``sys.path``, where pytest inserts test directories first.

    Finders for an editable install of these packages are set aside: they would still find the packages' submodules.
    """

    def __init__(self, names: Collection[str], folders: Sequence[str]) -> None:
        self.names, self.folders = frozenset(names), list(folders)
        self.set_aside = [finder for finder in sys.meta_path if self.is_editable(finder)]
        sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if finder not in self.set_aside)]

    def is_editable(self, finder: Any) -> bool:
        """Return whether a finder belongs to an editable install of one of these packages."""
        known = {name.partition(".")[0] for attribute in KNOWN for name in getattr(finder, attribute, ())}
        return not known.isdisjoint(self.names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find one of these packages; a directory without ``__init__.py`` is left to ``sys.path``."""
        if path is not None or fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, self.folders)
        return spec if spec and spec.loader and spec.origin else None

    def remove(self) -> None:
        """Uninstall this finder, and restore those that it has set aside."""
        sys.meta_path.remove(self)
        sys.meta_path[:0] = self.set_aside
