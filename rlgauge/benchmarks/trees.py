"""Which parts of a repository are benchmarks and which are code under test, and how a side's tree combines them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

from rlgauge.revisions import matches_any

from .finder import TEST_FOLDER

NO_PACKAGE = ("src", "build", "dist", "docs", "doc", "examples", "scripts", "tools", "node_modules")
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
LOCK_FILES = (
    "*.lock", "*requirements*.txt", "*constraints*.txt", "pylock.toml", "pylock.*.toml", "conda-lock.yml",
    "environment.yml", "environment.yaml",
)  # fmt: skip
LOCK_FOLDERS = "requirements", "constraints"  # whose text files are lock files, for example requirements/py311.txt
NO_CODE = (  # a stray file and tools in a project's root
    "__init__", "setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer",
)  # fmt: skip


def benchmark_paths(files: Iterable[str], tree: Path) -> list[str]:
    """Return the files and directories of benchmarks, given the files that contain them.

    For each file, this is the topmost directory in its project with a typical test directory name, or the file itself.
    """
    found = set()
    for file in files:
        path = PurePosixPath(file)
        project = project_of(path, tree)
        inner = [folder for folder in reversed(path.parents) if folder != project and project in folder.parents]
        folders = [folder for folder in inner if TEST_FOLDER.fullmatch(folder.name)]
        found.add(str(folders[0] if folders else path))
    return sorted(found)


def helper_paths(files: Iterable[str], imported: Iterable[str], tree: Path) -> list[str]:
    """Return the directories ``test`` and ``tests`` in the projects of benchmark files, if they hold an imported file.

    The benchmarks may use helpers and fixtures from these directories.
    """
    projects = {project_of(PurePosixPath(file), tree) for file in files}
    folders = {str(project / name) for project in projects for name in ("test", "tests")}
    return sorted(folder for folder in folders if any(is_inside(file, [folder]) for file in imported))


def project_of(path: PurePosixPath, tree: Path) -> PurePosixPath:
    """Return the directory of the project that holds a file, or the top of the tree."""
    return next(folder for folder in path.parents if is_project(tree / folder) or folder == PurePosixPath("."))


def is_project(folder: Path) -> bool:
    """Return whether a directory holds a project of its own, with a file that says how to build it."""
    return any(os.path.isfile(folder / name) for name in PROJECT_FILES)


def projects(files: Iterable[str]) -> list[str]:
    """Return the directories that hold projects of their own, relative to the tree and without the tree itself."""
    paths = map(PurePosixPath, files)
    return sorted({str(path.parent) for path in paths if path.name in PROJECT_FILES} - {"."})


def conftests(paths: Iterable[str], root: Path) -> list[str]:
    """Return the ``conftest.py`` files in the parent directories of `paths`, which are relative to `root`."""
    files = {folder / "conftest.py" for path in paths for folder in PurePosixPath(path).parents}
    return sorted(str(file) for file in files if (root / file).is_file())


def is_inside(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path equals one of `paths` or lies inside one of them; ``*`` and ``?`` match part of a name."""
    return any(
        path == other or path.startswith(f"{other.rstrip('/')}/") or other == "." or fits(path, other)
        for other in paths
    )


def outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths, each once, without those inside another one."""
    different = list(dict.fromkeys(paths))
    return [path for path in different if not is_inside(path, [other for other in different if other != path])]


def fits(path: str, pattern: str) -> bool:
    """Return whether the first names of a path match a pattern with ``*`` or ``?``, name by name."""
    if not {"*", "?"}.intersection(pattern):
        return False
    names, wanted = path.split("/"), pattern.rstrip("/").split("/")
    return len(names) >= len(wanted) and all(map(fnmatchcase, names, wanted))


def packages(tree: Path, benchmarks: Sequence[str], folders: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return the names of the packages and modules under test.

    Args:
        tree: tree of a revision.
        benchmarks: files and directories of benchmarks.
        folders: directories from which packages are imported, relative to the tree.
        bases: those of these directories that hold other directories too, so that only ``__init__.py`` marks a package;
            the names of possible namespace packages in them are included.
    """
    names = {PurePosixPath(path).stem for path in package_paths(tree, benchmarks, folders, bases)}
    known = [*benchmarks, *(name for name in folders if name not in bases)]
    for base in bases:
        if (tree / base).is_dir():
            names |= {folder.name for folder in (tree / base).iterdir() if is_namespace(folder, tree, known)}
    return sorted(names)


def is_namespace(folder: Path, tree: Path, known: Sequence[str]) -> bool:
    """Return whether a directory without ``__init__.py`` may be a namespace package.

    `known` lists benchmarks and import directories, which are not packages.
    """
    return (
        may_hold_packages(folder)
        and folder.name.isidentifier()
        and not is_inside(folder.relative_to(tree).as_posix(), known)
        and any(folder.rglob("*.py"))
    )


def may_hold_packages(folder: Path) -> bool:
    """Return whether a directory may hold packages.

    It is readable, no package or environment, and has no name such as ``docs``, ``scripts`` or ``tests``.
    """
    return (
        folder.is_dir()
        and folder.name not in NO_PACKAGE
        and not TEST_FOLDER.fullmatch(folder.name)
        and os.access(folder, os.R_OK | os.X_OK)
        and not (folder / "pyvenv.cfg").exists()
        and not (folder / "__init__.py").exists()
    )


def package_paths(tree: Path, benchmarks: Sequence[str], folders: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return the paths of the packages and modules under test; for the arguments see :func:`packages`."""
    found = set()
    for folder in import_roots(tree, folders):
        namespaces = folder.relative_to(tree).as_posix() not in bases
        for path in folder.iterdir():
            name = path.relative_to(tree).as_posix()
            if is_inside(name, benchmarks) or not path.stem.isidentifier():
                continue
            module = path.suffix == ".py" and path.stem not in NO_CODE
            package = path.is_dir() and (
                os.path.isfile(path / "__init__.py") or (namespaces and any(path.rglob("*.py")))
            )
            if module or package:
                found.add(name)
    return sorted(found)


def folders_of(root: Path, modules: Sequence[str]) -> list[str]:
    """Return the directories, such as ``lib``, of the modules that are neither in the project's root nor in ``src``.

    Test directories are excluded, since ``tests/pkg`` often has the name of the package it tests.
    """
    elsewhere = [name for name in modules if not any(has_module(top, name) for top in import_roots(root, ("src", ".")))]
    return sorted(
        folder.name
        for folder in root.iterdir()
        if may_hold_packages(folder)
        and not folder.name.startswith(".")
        and any(has_module(folder, name) for name in elsewhere)
    )


def has_module(folder: Path, name: str) -> bool:
    """Return whether a directory contains a package or module of this name."""
    return os.path.isfile(folder / name / "__init__.py") or os.path.isfile(folder / f"{name}.py")


def shadows_library(folder: Path) -> bool:
    """Return whether a directory, if it were on the import path, would hide modules of the standard library."""
    try:
        names = {name.removesuffix(".py") for name in os.listdir(folder)}
    except OSError:  # there is no such directory
        return False
    return any(has_module(folder, name) for name in names & sys.stdlib_module_names)


def import_roots(tree: Path, folders: Sequence[str]) -> list[Path]:
    """Return the existing directories among `folders`, relative to the tree, that are not packages themselves.

    The root of a project is no package, even if it contains a stray ``__init__.py``.
    """
    found = [tree / name for name in folders if (tree / name).is_dir()]
    return [folder for folder in found if is_project(folder) or not (folder / "__init__.py").exists()]


def code_files(tree: Path, without: Sequence[str], ignored: Sequence[str]) -> Iterator[Path]:
    """Yield the files and links of a tree, except some paths and ignored patterns; lock files are always included."""
    for path in tree.rglob("*"):
        name = path.relative_to(tree).as_posix()
        counts = is_lock(path) or not (is_inside(name, without) or is_ignored(name, ignored))
        if counts and (path.is_file() or path.is_symlink()):
            yield path


def is_ignored(name: str, ignored: Sequence[str]) -> bool:
    """Return whether a path matches a pattern under ``ignore``, or is inside a directory that does."""
    return is_inside(name, ignored) or matches_any(name, ignored)


def is_lock(path: PurePath) -> bool:
    """Return whether a file pins the versions of other packages."""
    return matches_any(path.name, LOCK_FILES) or (path.suffix == ".txt" and path.parent.name in LOCK_FOLDERS)


def copy_files(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy files, given by relative paths, from one tree to another."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def keep_outer_links(tree: Path, top: Path) -> None:
    """Make the links of a tree that lead out of the repository at `top` absolute, as the tree lies elsewhere.

    Those into its ``.git`` count too: git-annex keeps files there.
    """
    for link in [path for path in tree.rglob("*") if path.is_symlink()]:
        target = Path(os.path.normpath(top / link.relative_to(tree).parent / os.readlink(link)))
        outer = not target.is_relative_to(top) or ".git" in target.relative_to(top).parts
        if outer and target.exists():
            link.unlink()
            link.symlink_to(target)


def overlay(folder: Path, code: Path, benchmarks: Path, paths: Sequence[str], kept: Path | None = None) -> None:
    """Create a tree in `folder`, with the code of one tree and another's benchmarks, which are in `paths`.

    Code is hard-linked; benchmarks are copied, because tests may write into their own directories. `kept` is the tree
    of which `code` is a build that is kept for later runs: files that are in both are copied too.
    """

    def copy_or_link(source: str, target: str) -> None:
        copied = kept and (kept / Path(source).relative_to(code)).exists()
        (shutil.copy2 if copied else hard_link)(source, target, follow_symlinks=False)

    def are_benchmarks(directory: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(directory) / name).relative_to(code).as_posix() in paths]

    shutil.copytree(code, folder, symlinks=True, ignore=are_benchmarks, copy_function=copy_or_link)
    for path in paths:
        target, source = folder / path, benchmarks / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.exists():
            shutil.copy(source, target)


def hard_link(source: str, target: str, follow_symlinks: bool) -> None:
    """Create a hard link to a file; copy it where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=follow_symlinks)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=follow_symlinks)
