"""Tests that need not be timed, because base and head have the same code for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlgauge import revisions
from rlgauge.allowed import last_match
from rlgauge.case import Case
from rlgauge.interrupts import defer_interrupts
from rlgauge.process import available_cores
from rlgauge.workers import Side, Worker, WorkerError

from . import origins, trees
from .sides import ProjectSides, folder_of

Unchanged = dict[str, str]  # test id -> error message, or "" if the test is unchanged


def find(
    source: ProjectSides, codes: Sequence[Path], sides: Sequence[Side], cases: Sequence[Case], limit: float
) -> Unchanged:
    """Return the tests not to be timed, by id.

    The value is ``""`` if everything the test loads is identical on both sides, else an error in the settings.
    """
    base, head = codes
    if source.digest(base) == source.digest(head):
        return {case.id: "" for case in cases}
    by_paths: dict[tuple[str, ...], list[str]] = {}
    for case in cases:
        paths = tuple(map(source.from_settings, last_match(source.config.depends, case.id, [])))
        by_paths.setdefault(paths, []).append(case.id)
    found: Unchanged = {}
    for paths, names in by_paths.items():
        if not paths:
            found |= dict.fromkeys(names if only_unused_differ(source, codes, sides, names, limit) else [], "")
        elif source.digest(base, paths) == source.digest(head, paths):
            found |= check_depends(source, sides, names, paths, limit)
    return found


def only_unused_differ(
    source: ProjectSides, codes: Sequence[Path], sides: Sequence[Side], names: Sequence[str], limit: float
) -> bool:
    """Return whether both sides differ only in sibling projects that neither side loads.

    The tests are run once if nothing else differs.
    """
    base, head = codes
    own = [*map(source.relative, (source.root, source.start, source.settings)), *source.paths]
    files = {path.relative_to(code).as_posix() for code in codes for path in trees.code_files(code, [], [])}
    siblings = [folder for folder in trees.projects(files) if not any(trees.is_inside(path, [folder]) for path in own)]
    if source.build or source.digest(base, (".",), tuple(siblings)) != source.digest(head, (".",), tuple(siblings)):
        return False
    loaded: set[str] = set()
    copies = source.copied_modules.keys() - origins.same_copies(source, codes)
    for side in sides:
        traced = trace(source, side, names, limit, copies)
        if traced is None:
            return False
        loaded |= set().union(*traced.values())
    unused = tuple(folder for folder in siblings if not any(trees.is_inside(name, [folder]) for name in loaded))
    return source.digest(base, (".",), unused) == source.digest(head, (".",), unused)


def check_depends(
    source: ProjectSides, sides: Sequence[Side], names: Sequence[str], paths: Sequence[str], limit: float
) -> Unchanged:
    """Return ``""`` for tests that load nothing outside `paths` and shared files, an error for the others."""
    files: dict[str, list[str]] = {}
    for name in names:
        files.setdefault(name.partition("::")[0], []).append(name)
    allowed = [*paths, *source.paths, *source.generated]
    found: Unchanged = {}
    for tests in files.values():
        traced = [trace(source, side, tests, limit) for side in sides]
        if None in traced:
            continue
        for name in tests:
            loaded = set().union(*(each[name] for each in traced if each))
            outside = sorted(
                file
                for file in loaded
                if not (trees.is_inside(file, allowed) or trees.is_lock(Path(file)))
                and not revisions.matches_any(file, source.ignore)
            )
            found[name] = f"it loads {outside[0]}: add the file to its depends in [tool.rlgauge]" if outside else ""
    return found


def trace(
    source: ProjectSides, side: Side, names: Sequence[str], limit: float, copies: Collection[str] = ()
) -> dict[str, set[str]] | None:
    """Run tests once and return the files of the side's tree that each imports or opens.

    Imports during collection count for every test. Returns None if the files cannot be known, because a test fails, is
    skipped or starts a process. Raises GateError if it imports one of the modules `copies` from outside the tree.
    """

    def loaded(process: Worker) -> dict[str, Any]:
        process.ask("loaded", copies=sorted(copies))
        reply = process.reply()
        for name, file in reply["copies"].items():
            raise origins.wrong_import(side, f"{name} from {file}", False)
        return reply

    files, imports = source.files_on(side.name, names), source.imports(side.root, side.python)
    worker = source.worker_arguments(side.name, side.root, folder_of(side), files, imports, trace=True)
    found: dict[str, set[str]] = {}
    try:
        with defer_interrupts(), Worker(replace(side, worker=worker), available_cores(), 1, limit) as process:
            common = loaded(process)
            for name in names:
                process.ask("prepare", identity=name)
                if not {"failed", "skipped"}.isdisjoint(process.reply()):
                    return None
                process.ask("close", identity=name)
                process.reply()
                reply = loaded(process)
                if reply["spawned"] or common["spawned"]:
                    return None
                # some do not exist, for example entries of sys.path that represent an editable install
                files_of_test = {*reply["files"], *common["files"]}
                found[name] = {file for file in files_of_test if (side.root / file).exists()}
    except WorkerError:
        return None
    return found
