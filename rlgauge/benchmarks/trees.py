"""Which parts of a repository are benchmarks and which are code under test, and how a side's tree combines them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

NAMED = re.compile("(tests?|testing|bench(mark)?s?|perf(ormance)?([_-]?tests?)?)", re.IGNORECASE)  # test directories
NO_PACKAGE = ("src", "build", "dist", "docs", "doc", "examples", "scripts", "tools", "node_modules")
PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")  # build configuration files
LOCKS = (
    "*.lock", "requirements*.txt", "constraints*.txt", "pylock.toml", "pylock.*.toml", "Pipfile.lock", "conda-lock.yml",
)  # fmt: skip
NO_CODE = ("setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer")  # tools in a project's root


def benchmark_paths(files: Iterable[str], tree: Path) -> list[str]:
    """Return the files and directories of benchmarks, given the files that contain them.

    For each file, this is the topmost directory in its project with a typical test directory name, or the file itself.
    """
    found: dict[str, None] = {}
    for file in files:
        path = PurePosixPath(file)
        project = next(folder for folder in path.parents if is_project(tree / folder) or folder == PurePosixPath("."))
        within = [folder for folder in reversed(path.parents) if folder != project and project in folder.parents]
        folders = [folder for folder in within if NAMED.fullmatch(folder.name)]
        found[str(folders[0] if folders else path)] = None
    return sorted(found)


def is_project(folder: Path) -> bool:
    """Return whether a directory holds a project of its own, with a file that says how to build it."""
    return any((folder / name).is_file() for name in PROJECT)


def projects(files: Iterable[str]) -> list[str]:
    """Return the directories that hold projects of their own, relative to the tree and without the tree itself."""
    return sorted({str(PurePosixPath(name).parent) for name in files if PurePosixPath(name).name in PROJECT} - {"."})


def conftests(paths: Iterable[str], root: Path) -> list[str]:
    """Return the ``conftest.py`` files in the parent directories of `paths`, which are relative to `root`."""
    above = {folder / "conftest.py" for path in paths for folder in PurePosixPath(path).parents}
    return sorted(str(file) for file in above if (root / file).is_file())


def inside(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path equals one of `paths` or lies inside one of them."""
    return any(path == other or path.startswith(f"{other.rstrip('/')}/") or other == "." for other in paths)


def packages(tree: Path, benchmarks: Sequence[str], folders: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return the names of the packages and modules under test.

    Args:
        tree: tree of a revision.
        benchmarks: files and directories of benchmarks.
        folders: directories from which packages are imported, relative to the tree.
        bases: those of these directories that hold other directories too, so that only ``__init__.py`` marks a package;
            the names of possible namespace packages in them are included.
    """
    found = {PurePosixPath(place).stem for place in places(tree, benchmarks, folders, bases)}
    known = [*benchmarks, *(name for name in folders if name not in bases)]
    for base in bases:
        if (tree / base).is_dir():
            found |= {folder.name for folder in (tree / base).iterdir() if is_namespace(folder, tree, known)}
    return sorted(found)


def is_namespace(folder: Path, tree: Path, known: Sequence[str]) -> bool:
    """Return whether a directory without ``__init__.py`` may be a namespace package.

    `known` lists benchmarks and import directories, which are not packages.
    """
    if (
        not folder.is_dir()
        or not folder.name.isidentifier()
        or folder.name in NO_PACKAGE
        or NAMED.fullmatch(folder.name)
    ):
        return False
    if (
        inside(folder.relative_to(tree).as_posix(), known)
        or (folder / "pyvenv.cfg").exists()
        or (folder / "__init__.py").exists()
    ):
        return False
    return any(folder.rglob("*.py"))


def places(tree: Path, benchmarks: Sequence[str], folders: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return the paths of the packages and modules under test; for the arguments see :func:`packages`."""
    found = set()
    for folder in roots(tree, folders):
        anything = folder.relative_to(tree).as_posix() not in bases
        for path in folder.iterdir():
            place = path.relative_to(tree).as_posix()
            if inside(place, benchmarks) or not path.stem.isidentifier():
                continue
            module = path.suffix == ".py" and path.stem not in NO_CODE
            package = path.is_dir() and ((path / "__init__.py").is_file() or (anything and any(path.rglob("*.py"))))
            if module or package:
                found.add(place)
    return sorted(found)


def folders_of(root: Path, modules: Sequence[str]) -> list[str]:
    """Return the directories, such as ``lib``, of the modules that are neither in the project's root nor in ``src``.

    Test directories are excluded, since ``tests/pkg`` often has the name of the package it tests.
    """
    elsewhere = [name for name in modules if not any(holds(top, name) for top in roots(root, ("src", ".")))]
    return sorted(
        folder.name
        for folder in root.iterdir()
        if folder.is_dir()
        and folder.name not in NO_PACKAGE
        and not folder.name.startswith(".")
        and not NAMED.fullmatch(folder.name)
        and not (folder / "pyvenv.cfg").exists()
        and not (folder / "__init__.py").exists()
        and any(holds(folder, name) for name in elsewhere)
    )


def holds(folder: Path, module: str) -> bool:
    """Return whether a directory contains a package or module of this name."""
    return (folder / module / "__init__.py").is_file() or (folder / f"{module}.py").is_file()


def roots(tree: Path, folders: Sequence[str]) -> list[Path]:
    """Return the existing directories among `folders`, relative to the tree, that are not packages themselves."""
    return [tree / name for name in folders if (tree / name).is_dir() and not (tree / name / "__init__.py").exists()]


def code_files(tree: Path, without: Sequence[str], ignored: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a tree, except some paths and ignored patterns; lock files are always included."""
    for path in tree.rglob("*"):
        name = path.relative_to(tree).as_posix()
        if path.is_file() and (
            is_lock(path) or not (inside(name, without) or any(fnmatchcase(name, p) for p in ignored))
        ):
            yield path


def is_lock(path: PurePath) -> bool:
    """Return whether a file pins the versions of other packages."""
    return any(fnmatchcase(path.name, pattern) for pattern in LOCKS)


def copied(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy files, given by relative paths, from one tree to another."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def overlaid(folder: Path, code: Path, benchmarks: Path, paths: Sequence[str]) -> None:
    """Create a tree in `folder`, with the code of one tree and another's benchmarks, which are in `paths`.

    Code is hard-linked; benchmarks are copied, because tests may write into their own directories.
    """

    def head_s(within: str, names: list[str]) -> list[str]:
        places = [(Path(within) / name).relative_to(code).as_posix() for name in names]
        return [name for name, place in zip(names, places) if place in paths]

    shutil.copytree(code, folder, symlinks=True, ignore=head_s, copy_function=linked)
    for path in paths:
        here, there = folder / path, benchmarks / path
        here.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir():
            shutil.copytree(there, here, symlinks=True)
        elif there.exists():
            shutil.copy(there, here)


def linked(source: str, target: str) -> None:
    """Create a hard link to a file, or to a symbolic link itself."""
    os.link(source, target, follow_symlinks=False)
