"""Import finder of a worker: imports given packages from given directories, and nothing that both sides share."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Collection, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

TEST_FOLDER = re.compile("(tests?|testing|bench(es|marks?|marking|s)?|perf(ormance)?([_-]?tests?)?)", re.IGNORECASE)
TESTS = re.compile(f"{TEST_FOLDER.pattern}|conftest|(test|bench|perf)_.*|.*_(test|bench|benchmark)s?", re.IGNORECASE)
# attributes that hold module names in the import finders of editable installs (meson-python, scikit-build-core)
KNOWN = "_top_level_modules", "known_source_files", "known_wheel_files"


@functools.cache
def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path without symbolic links."""
    return os.path.realpath(path)


class PackageFinder(MetaPathFinder):
    """Looks for packages in directories ahead of ``sys.path``, where pytest inserts test directories first.

    Finders for an editable install of these packages are set aside: they would still find the packages' submodules.

    Args:
        names: names of the packages.
        folders: directories from which they are imported.
        sources: directories of their source trees, from which pytest collects tests that are inside a package.
    """

    def __init__(self, names: Collection[str], folders: Sequence[str], sources: Sequence[str] = ()) -> None:
        self.names, self.folders, self.sources = frozenset(names), list(folders), sources
        self.set_aside = [finder for finder in sys.meta_path if self.is_editable(finder)]
        sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if finder not in self.set_aside)]

    def is_editable(self, finder: Any) -> bool:
        """Return whether a finder belongs to an editable install of one of these packages."""
        known = {name.partition(".")[0] for attribute in KNOWN for name in getattr(finder, attribute, ())}
        return not known.isdisjoint(self.names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find one of these packages, or tests inside one; directories without ``__init__.py`` are left to the path."""
        folders, built, (package, _, name) = self.folders, None, fullname.rpartition(".")
        if path is not None:
            if fullname.partition(".")[0] not in self.names or not TESTS.fullmatch(name):
                return None
            built = PathFinder.find_spec(fullname, path)
            if built and built.origin and not built.origin.endswith(".py"):  # compiled: a module of the package
                return None
            folders = [str(Path(source, *package.split("."))) for source in self.sources]
        elif fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, folders)
        if not (spec and spec.loader and spec.origin):
            return None
        if path is not None and spec.submodule_search_locations is not None and built:
            spec.submodule_search_locations.extend(built.submodule_search_locations or [])  # for compiled submodules
        return spec

    def forget_sources(self) -> None:
        """Forget the modules of these packages that a ``conftest.py`` has imported from the source tree, except tests.

        A package that has loaded a compiled file is left alone, because that file cannot be loaded a second time.
        """
        files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
        compiled = {name.partition(".")[0] for name, file in files.items() if file.endswith(".so")}
        for name, file in files.items():
            package, *inner = name.split(".")
            ours = package in self.names - compiled and file.startswith(
                tuple(f"{each}{os.sep}" for each in self.sources)
            )
            if ours and not any(map(TESTS.fullmatch, inner)):
                del sys.modules[name]

    def remove(self) -> None:
        """Uninstall this finder, and restore the finders that it has set aside."""
        sys.meta_path.remove(self)
        sys.meta_path[:0] = self.set_aside


def leave_working_tree(settings: dict[str, Any]) -> None:
    """Import nothing from directories of the working tree that this side has copies of.

    Editable installs put them on ``sys.path`` or use an import finder. Those inside a directory of benchmarks, which
    are not on the side's own path, are replaced by their copies.
    """
    copied, root, tree = settings["copied"], settings["root"], settings["tree"]
    prefixes = [path for path in (settings["prefix"], sys.prefix, sys.base_prefix) if is_inside(path, [root])]
    kept = settings["folder"], tree, *prefixes, str(Path(__file__).parents[2])

    def in_tree(path: str) -> str:
        real = os.path.realpath(path)
        outside = tree == root or not is_inside(real, [root]) or "site-packages" in real
        return path if outside or is_inside(real, kept) else os.path.join(tree, os.path.relpath(real, root))

    sys.path[:] = [in_tree(entry) for entry in sys.path if os.path.realpath(entry) not in copied]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            mapping = getattr(module, "MAPPING", {})
            for package, path in list(mapping.items()):
                if is_inside(os.path.dirname(path), copied) and Path(path).stem == package.rpartition(".")[2]:
                    del mapping[package]
                else:  # for example a folder that has another name than its package, or is itself on the path
                    mapping[package] = in_tree(path)
            for paths in getattr(module, "NAMESPACES", {}).values():
                paths[:] = [path for path in paths if not is_inside(path, copied)]


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path is one of some directories, or in one of them."""
    return any(f"{os.path.realpath(path)}{os.sep}".startswith(f"{folder}{os.sep}") for folder in folders)
