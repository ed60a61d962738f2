"""What of a repository is a benchmark, what is the code under test, and how a side's tree is made of both."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

NAMED = re.compile("(tests?|testing|bench(mark)?s?|perf(ormance)?([_-]?tests?)?)", re.IGNORECASE)  # a folder of tests
NO_PACKAGE = ("src", "build", "dist", "docs", "doc", "examples", "scripts", "tools", "node_modules")
NO_CODE = ("setup", "conftest", "noxfile", "tasks", "fabfile", "dodo", "versioneer")  # modules of a root that are tools


def benchmark_paths(files: Iterable[str]) -> list[str]:
    """Return the files and folders of benchmarks: of each file the topmost folder that is called so, or itself.

    Args:
        files: with benchmarks, relative to the root.
    """
    found: dict[str, None] = {}
    for file in files:
        path = PurePosixPath(file)
        folders = [folder for folder in reversed(path.parents) if NAMED.fullmatch(folder.name)]
        found[str(folders[0] if folders else path)] = None
    return sorted(found)


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


def packages(tree: Path, benchmarks: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """Return the names of the packages and modules at the top of a tree, or in its ``src``, that are no benchmarks.

    At the top, a folder without ``__init__.py`` may be one, too.

    Args:
        tree: of a revision.
        benchmarks: files and folders of benchmarks.
        more: folders that are on pytest's path, relative to the tree.
    """
    found = {PurePosixPath(place).stem for place in places(tree, benchmarks, more)}
    known = [*benchmarks, *(name for name in more if name != ".")]
    return sorted(found | {folder.name for folder in tree.iterdir() if is_namespace(folder, tree, known)})


def is_namespace(folder: Path, tree: Path, known: Sequence[str]) -> bool:
    """Return whether a folder at the top of a tree, without ``__init__.py``, may be a package all the same.

    Args:
        folder: at the top.
        tree: of a revision.
        known: what is something else: benchmarks, and folders that are on pytest's path.
    """
    if (
        not folder.is_dir()
        or not folder.name.isidentifier()
        or folder.name in NO_PACKAGE
        or NAMED.fullmatch(folder.name)
    ):
        return False
    if inside(folder.name, known) or (folder / "pyvenv.cfg").exists() or (folder / "__init__.py").exists():
        return False
    return any(folder.rglob("*.py"))


def places(tree: Path, benchmarks: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """Return where these packages and modules are, relative to the tree.

    Args:
        tree: of a revision.
        benchmarks: files and folders of benchmarks.
        more: folders that are on pytest's path, relative to the tree.
    """
    found = []
    for top in roots(tree, more):
        for path in top.iterdir():
            place = path.relative_to(tree).as_posix()
            if inside(place, benchmarks) or not path.stem.isidentifier():
                continue
            module = path.suffix == ".py" and path.stem not in NO_CODE
            if module or (
                path.is_dir() and ((path / "__init__.py").is_file() or (top != tree and any(path.rglob("*.py"))))
            ):
                found.append(place)
    return sorted(found)


def folders_of(root: Path, modules: Sequence[str]) -> list[str]:
    """Return the folders, as ``lib``, of those modules that lie neither at the top of a repository nor in ``src``.

    Folders of tests are none: ``tests/pkg`` is called as the package that it tests.

    Args:
        root: of the repository.
        modules: their names.
    """
    elsewhere = [name for name in modules if not any(holds(top, name) for top in roots(root))]
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


def roots(tree: Path, more: Sequence[str] = ()) -> list[Path]:
    """Return the folders of a tree from which its packages are imported.

    Args:
        tree: of a revision.
        more: folders that are on pytest's path, relative to the tree.
    """
    folders = dict.fromkeys([*(tree / name for name in more if name != "."), tree / "src", tree])
    return [folder for folder in folders if folder.is_dir() and not (folder / "__init__.py").exists()]


def code_files(tree: Path, benchmarks: Sequence[str], ignored: Sequence[str]) -> Iterator[Path]:
    """Return the files of a tree that the speed of its benchmarks may depend on, but for the benchmarks themselves.

    Args:
        tree: of a revision.
        benchmarks: files and folders of benchmarks.
        ignored: patterns of other files that it does not depend on.
    """
    for path in tree.rglob("*"):
        name = path.relative_to(tree).as_posix()
        if path.is_file() and not inside(name, benchmarks) and not any(fnmatchcase(name, one) for one in ignored):
            yield path


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

    Args:
        folder: to be made.
        code: tree with the code.
        benchmarks: tree with the benchmarks.
        paths: files and folders that are of it.
    """
    shutil.copytree(code, folder, symlinks=True)
    for path in paths:
        here, there = folder / path, benchmarks / path
        if here.is_dir() and not here.is_symlink():
            shutil.rmtree(here)
        else:
            here.unlink(missing_ok=True)
        if there.is_dir():
            shutil.copytree(there, here, symlinks=True)
        elif there.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(there, here)
