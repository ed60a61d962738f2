"""Check that each side imports the packages under test from its own tree."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rlgauge.case import Case
from rlgauge.interrupts import defer_interrupts
from rlgauge.process import available_cores
from rlgauge.rule import GateError
from rlgauge.workers import Side, Worker, WorkerError, ask_both

from . import installed, trees
from .sides import ProjectSides


def check(
    source: ProjectSides, sides: Sequence[Side], cases: Sequence[Case], limit: float
) -> tuple[dict[str, list[str]], set[str], set[str]]:
    """Verify that each side imports the packages under test from its own tree.

    Returns where each side imports each package from, the packages that a side imports from its build instead of its
    tree, and the libraries of the working tree that both sides load. Raises GateError if a side imports a package from
    anywhere else.
    """
    cores = available_cores()
    try:
        with defer_interrupts(), ExitStack() as stack:
            workers = [stack.enter_context(Worker(side, cores, 1, limit)) for side in sides]
            replies = ask_both(workers, "origins")
    except WorkerError as error:
        raise GateError(str(error)) from error
    for side, reply in zip(sides, replies, strict=True):
        for case in cases:
            if case.id in reply["missing"]:  # the side may have its own environment
                raise GateError(f"{side.name}: {reply['missing'][case.id]}")
        if reply["strays"]:
            raise wrong_import(side, f"{reply['strays'][0]} from the repository", bool(source.build))
    found: dict[str, list[str]] = {}
    outside: set[str] = set()
    origins = [reply["origins"] for reply in replies]
    imported = {name for reply in replies for name in reply["imported"]} or {*origins[0], *origins[1]}
    same = same_copies(source, [side.root for side in sides])
    for name in sorted(imported - same - shadowed(source, sides, origins)):
        where = [(side, Path(paths[name])) for side, paths in zip(sides, origins, strict=True) if name in paths]
        for side, path in where:
            own = [side.root.resolve(), *([side.python.parents[1].resolve()] if source.build else [])]
            if not any(path.is_relative_to(folder) for folder in own):
                raise wrong_import(side, f"{name} from {path}", bool(source.build))
        found[name] = [f"{side.name} {path_in(side, path)}" for side, path in where]
        if not all(path.is_relative_to(side.root.resolve()) for side, path in where):
            outside.add(name)
    base, head = (set(reply["libraries"]) for reply in replies)
    return found, outside, base & head


def same_copies(source: ProjectSides, codes: Sequence[Path]) -> set[str]:
    """Return the modules of sibling projects, installed as copies, whose sources are equal on both sides."""
    folders = {name: source.relative(folder) for name, folder in source.copied_modules.items() if folder != source.root}
    return {name for name, folder in folders.items() if len({source.digest(code, (folder,)) for code in codes}) == 1}


def shadowed(source: ProjectSides, sides: Sequence[Side], origins: Sequence[Mapping[str, str]]) -> set[str]:
    """Return directories without ``__init__.py`` that an installed or standard module of the same name shadows."""
    folders, bases = source.import_folders(source.paths)
    known = {Path(path).stem for side in sides for path in trees.package_paths(side.root, source.paths, folders, bases)}
    return {
        name
        for name in {*origins[0], *origins[1]} - known - {*source.project_modules}
        if any((side.root / base / name).is_dir() for side in sides for base in bases)
        and (
            name in sys.stdlib_module_names
            or all(installed.is_installed(paths[name]) for paths in origins if name in paths)
        )
    }


def wrong_import(side: Side, source: str, built: bool) -> GateError:
    """Return the error for a side that imports a module from outside its own tree or build."""
    if built:
        hint = "if the package is an editable install, uninstall it; if it is another project's, build that project too"
    else:
        hint = (
            "if the package is compiled, give the command that builds it (as build in [tool.rlgauge] or with "
            "--gate-build); otherwise add its folder to pythonpath in pytest's settings"
        )
    return GateError(
        f"{side.name} imports {source} instead of its own tree, so both sides would run the same code; {hint}"
    )


def path_in(side: Side, path: Path) -> str:
    """Return a path relative to the side's tree, or to the environment of its build."""
    tree = side.root.resolve()
    if path.is_relative_to(tree):
        return path.relative_to(tree).as_posix()
    return f"{path.relative_to(side.python.parents[1].resolve()).as_posix()} of its build"
