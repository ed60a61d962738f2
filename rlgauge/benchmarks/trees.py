"""What of a repository is a benchmark, what is the code under test, and how a side's tree is made of both."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath

NAMED = re.compile("(tests?|testing|bench(mark)?s?|perf(ormance)?([_-]?tests?)?)", re.IGNORECASE)  # a folder of tests
NO_PACKAGE = ("src", "build", "dist", "docs", "doc", "examples", "scripts", "tools", "node_modules")
PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")  # files that say how a project is built
LOCKS = (
    "*.lock", "requirements*.txt", "constraints*.txt", "pylock.toml", "pylock.*.toml", "Pipfile.lock", "conda-lock.yml",
)  # fmt: skip
NO_CODE = ("setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer")  # modules of a root that are tools


def benchmark_paths(files: Iterable[str], tree: Path) -> list[str]:
    """Return the files and folders of benchmarks.

    Of each file it is the topmost folder in its project that is called like a folder of tests, or the file itself.

    Args:
        files: with benchmarks, relative to the tree.
        tree: of a repository.
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
    """Return whether a folder holds a project of its own, by the files that say how to build one."""
    return any((folder / name).is_file() for name in PROJECT)


def projects(files: Iterable[str]) -> list[str]:
    """Return the folders of a tree that hold projects of their own, but for the tree itself.

    Args:
        files: of the tree, relative to it.
    """
    return sorted({str(PurePosixPath(name).parent) for name in files if PurePosixPath(name).name in PROJECT} - {"."})


def conftests(paths: Iterable[str], root: Path) -> list[str]:
    """Return the ``conftest.py`` of the folders above some paths, which the benchmarks in these share.

    Args:
        paths: files and folders, relative to the root.
        root: of the working tree.
    """
    above = {folder / "conftest.py" for path in paths for folder in PurePosixPath(path).parents}
    return sorted(str(file) for file in above if (root / file).is_file())


def inside(path: str, paths: Iterable[str]) -> bool:
    """Return whether a path is one of some, or in one of them.

    Args:
        path: relative to the root.
        paths: files and folders, relative to the root.
    """
    return any(path == other or path.startswith(f"{other.rstrip('/')}/") or other == "." for other in paths)


def packages(tree: Path, benchmarks: Sequence[str], folders: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Return the names of the packages and modules under test.

    Args:
        tree: of a revision.
        benchmarks: files and folders of benchmarks.
        folders: from which packages are imported, relative to the tree.
        bases: those of these folders in which a package needs ``__init__.py`` to be told from other folders; the names
            of the others count too.
    """
    found = {PurePosixPath(place).stem for place in places(tree, benchmarks, folders, bases)}
    known = [*benchmarks, *(name for name in folders if name not in bases)]
    for base in bases:
        if (tree / base).is_dir():
            found |= {folder.name for folder in (tree / base).iterdir() if is_namespace(folder, tree, known)}
    return sorted(found)


def is_namespace(folder: Path, tree: Path, known: Sequence[str]) -> bool:
    """Return whether a folder without ``__init__.py`` may be a package all the same.

    Args:
        folder: in the tree.
        tree: of a revision.
        known: what is something else: benchmarks, and folders from which packages are imported.
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
    """Return where the packages and modules under test are, relative to the tree.

    Args:
        tree: of a revision.
        benchmarks: files and folders of benchmarks.
        folders: from which packages are imported, relative to the tree.
        bases: those of these folders in which a package needs ``__init__.py``.
    """
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
    """Return the folders, as ``lib``, of those modules that lie neither in a project's own folder nor in its ``src``.

    Folders of tests are none: ``tests/pkg`` is called as the package that it tests.

    Args:
        root: of the project.
        modules: their names.
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
    """Return whether a module lies in a folder.

    Args:
        folder: that is or may be on the path.
        module: its name, of a package or a file.
    """
    return (folder / module / "__init__.py").is_file() or (folder / f"{module}.py").is_file()


def roots(tree: Path, folders: Sequence[str]) -> list[Path]:
    """Return the folders of a tree from which its packages are imported: those that are there, and are no packages.

    Args:
        tree: of a revision.
        folders: relative to the tree.
    """
    return [tree / name for name in folders if (tree / name).is_dir() and not (tree / name / "__init__.py").exists()]


def code_files(tree: Path, without: Sequence[str], ignored: Sequence[str]) -> Iterator[Path]:
    """Return the files of a tree, lock files always, but for some folders and patterns.

    Args:
        tree: of a revision.
        without: files and folders, as those of benchmarks.
        ignored: patterns of files, relative to the tree.
    """
    for path in tree.rglob("*"):
        name = path.relative_to(tree).as_posix()
        if path.is_file() and (
            is_lock(path) or not (inside(name, without) or any(fnmatchcase(name, p) for p in ignored))
        ):
            yield path


def is_lock(path: PurePath) -> bool:
    """Return whether a file says which versions of other packages are installed."""
    return any(fnmatchcase(path.name, pattern) for pattern in LOCKS)


def copied(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy files from one tree to another.

    Args:
        names: of the files, relative to both.
        source: tree that has them.
        target: tree that gets them.
    """
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, target / name)


def overlaid(folder: Path, code: Path, benchmarks: Path, paths: Sequence[str]) -> None:
    """Make a tree of one revision's code and another's benchmarks.

    Code is linked, not copied; benchmarks are copied, as tests may write into their own folders.

    Args:
        folder: to be made.
        code: tree with the code.
        benchmarks: tree with the benchmarks.
        paths: files and folders that are of it.
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
    """Make a hard link to a file."""
    os.link(source, target, follow_symlinks=False)
