"""Benchmarks of a repository that uses pytest-benchmark: which are selected, by pytest or by a listing in a worker."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlgauge import process, revisions
from rlgauge.allowed import last_match, parse_renamed
from rlgauge.case import TOLERANCE, Case
from rlgauge.config import Config
from rlgauge.interrupts import defer_interrupts
from rlgauge.progress import number_of
from rlgauge.rule import GateError
from rlgauge.workers import PYTHON, Side, Worker, WorkerError

from . import command, marks, trees
from .builds import tree_of
from .items import is_benchmark, missing_plugin, replacing_module, skip_reason
from .loaded import imported_files
from .project import is_test_folder
from .sides import ProjectSides, folder_of, link_tool

if TYPE_CHECKING:
    import pytest

COLLECT_LIMIT = 120.0  # minimum timeout for collecting a side's tests, in seconds


class Benchmarks(ProjectSides):
    """The repository's tests that use the ``benchmark`` fixture or mark, and the sides that run them.

    Args:
        root, config, run, environment: see :class:`.sides.ProjectSides`.
        limit: timeout for collecting a side's tests, in seconds; at least ``COLLECT_LIMIT``.

    Attributes:
        collected: ids of all benchmarks that the run has collected, including those that it deselects.
        marks: arguments of each test's ``rlgauge`` mark.
        broken: why files cannot be collected, by file, if `run` is None.
        imported: files of the repository from which the collection has imported modules.
    """

    def __init__(
        self,
        root: Path,
        config: Config,
        run: pytest.Config | None,
        environment: Mapping[str, str] | None = None,
        limit: float = COLLECT_LIMIT,
    ) -> None:
        super().__init__(root, config, run, environment)
        self.limit = limit
        self.collected: set[str] = set()
        self.marks: dict[str, dict[str, Any]] = {}
        self.broken: dict[str, str] = {}
        self.imported: list[str] = []

    def benchmark_paths(self) -> list[str]:
        """Return the benchmark files and directories, which are head's on both sides.

        Raises GateError if a named path is not in the repository, or if no code under test remains.
        """
        given = self.run.getoption("gate_benchmarks") if self.run else []
        found = []
        for pattern in given or self.config.benchmarks:
            base = self.start if given else self.settings
            names = glob.glob(pattern, root_dir=base, recursive=True) if glob.has_magic(pattern) else [pattern]
            paths = sorted(base / name for name in names)
            name = f"--gate-benchmarks {pattern}" if given else f"benchmarks {pattern!r} in [tool.rlgauge]"
            if not paths or not all(path.exists() and path.resolve().is_relative_to(self.top) for path in paths):
                raise GateError(f"{name}: this repository has no such file or folder; give an existing one")
            chosen = [self.relative(path.resolve()) for path in paths]
            tracked = [path for path in chosen if not revisions.is_ignored(self.top, path)]
            if not tracked or (len(tracked) < len(chosen) and not glob.has_magic(pattern)):
                raise GateError(f"{name}: git ignores it, so neither side has it; remove it from .gitignore")
            found += tracked
        if not found and self.run:
            named = [path for path in self.run.getini("testpaths") if is_test_folder(Path(path).name)]
            folders = [(self.root / path).resolve() for path in named]
            found = [self.relative(path) for path in folders if path.is_dir() and path.is_relative_to(self.top)]
        files = [self.file_of(name) for name in self.names]
        found += trees.benchmark_paths([file for file in files if not trees.is_inside(file, found)], self.top)
        helpers = trees.helper_paths(files, self.imported, self.top)
        self.helpers = [folder for folder in helpers if not any(trees.is_inside(path, [folder]) for path in found)]
        found += self.helpers
        found += [file for file in trees.conftests(found, self.top) if not trees.is_inside(file, found)]
        found = trees.outermost(found)
        packages = [*trees.packages(self.top, found, *self.import_folders(found)), *self.project_modules]
        if "." in found or not (self.build or packages):
            if not self.build:
                self.refuse_compiled(found)
            raise GateError(
                f"no package under test: all modules in {', '.join(found)} count as benchmarks; name only the "
                "benchmarks (as benchmarks in [tool.rlgauge] or with --gate-benchmarks), or run pytest in the folder "
                "of the package"
            )
        return found

    def select_items(self, items: Sequence[pytest.Item]) -> None:
        """Select the benchmarks among pytest's tests; raise GateError for none, or for a missing plugin."""
        if not items:
            raise GateError(f"no test is selected: {self.why_none()}")
        chosen = [item for item in items if is_benchmark(item)]
        if not chosen:
            given = self.selection()
            hint = f", and {given} may deselect others" if given else "; give paths of benchmarks"
            if replaced := next(filter(None, map(replacing_module, items)), None):
                hint = f"; {replaced} replaces the plugin's fixture: define it only if the plugin is not installed"
            tests = number_of(len(items), "selected test")
            raise GateError(f"no benchmark is selected: of {tests}, none uses the 'benchmark' fixture or mark{hint}")
        for item in chosen:
            if message := missing_plugin(item):
                raise GateError(message)
            if not item.path.is_relative_to(item.config.rootpath):  # its id does not lead to its file
                inside = item.path.resolve().is_relative_to(self.top)
                hint = f"add --rootdir={self.top}" if inside else "give paths inside the repository"
                raise GateError(f"{item.path} is outside rootdir {item.config.rootpath}: {hint}")
        self.names = [item.nodeid for item in chosen]
        renamed = self.run.getoption("gate_renamed") if self.run else []
        if renamed and not self.own_benchmarks:
            raise GateError("--gate-renamed: it has no effect without --gate-own-benchmarks; add that option")
        self.renamed = parse_renamed(renamed, self.names)
        self.marks = {item.nodeid: marks.of(item) for item in chosen}
        self.imported = imported_files(str(self.top))
        self.paths = self.benchmark_paths()

    def why_none(self) -> str:
        """Return why pytest selects no test."""
        reporter = self.run.pluginmanager.getplugin("terminalreporter") if self.run else None
        skipped = reporter.stats.get("skipped") if reporter else None
        end = f"; {skipped[0].nodeid} was skipped: {skip_reason(skipped[0])}" if skipped else ""
        if given := self.selection():
            return f"{given} matches none; change the selection{end}"
        return f"pytest found none, or a plugin or conftest.py deselected all; give paths of benchmarks{end}"

    def selection(self) -> str:
        """Return the options that select tests by keyword or mark, for a message; empty if there are none."""
        options = {"-k": "keyword", "-m": "markexpr"}
        values = {option: self.run.getoption(name) for option, name in options.items()} if self.run else {}
        return " with ".join(f"{option} {value!r}" for option, value in values.items() if value)

    def select(self, arguments: Sequence[str] = (), deselected: bool = False) -> None:
        """Select all benchmarks of the working tree, or those that pytest arguments select.

        For `deselected` see :meth:`collect`. Raises GateError if the selection is empty.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="rlgauge-listing-") as name, self.ready() as imports:
                folder = Path(name)
                link_tool(folder)
                self.arguments = command.for_workers(arguments, ())
                files = [] if arguments else [self.relative(self.root)]
                worker = self.worker_arguments("head", self.top, folder, files, imports)
                variables = {"PYTHONPATH": self.search_path(self.top, folder, imports)}
                side = Side("head", self.top, PYTHON, worker, variables, start=self.root)
                found = self.collect(side, deselected)
                self.marks, self.broken, self.imported = found["listing"], found["broken"], found["imported"]
                self.inipath = Path(found["inipath"]) if found["inipath"] else None
                self.pythonpath = list(map(Path, found["pythonpath"]))
                self.arguments = command.for_workers(arguments, found["files"])
                self.names = list(self.marks)
        except WorkerError as error:
            raise GateError(str(error)) from error
        if not self.names:
            if arguments:
                reasons = "".join(f"; {file} cannot be collected: {why}" for file, why in self.broken.items())
                raise GateError(f"no benchmark is selected by: {' '.join(arguments)}; change the selection{reasons}")
            raise GateError(
                "no benchmark was found: no test uses the 'benchmark' fixture or mark; run the command in the folder "
                "of your tests"
            )
        self.paths = self.benchmark_paths()

    def collect(self, side: Side, deselected: bool = False) -> dict[str, Any]:
        """Return what a worker collects and selects: see :meth:`.worker.WorkerPlugin.listing`.

        `deselected` includes tests that the project's own hooks deselect.
        """
        limit, cores = max(self.limit, COLLECT_LIMIT), process.available_cores()
        with defer_interrupts(), Worker(side, cores, len(cores), limit) as worker:
            worker.ask("listing", deselected=deselected)
            return worker.reply()

    def benchmarks_of(self, commit: str, code: Path, side: Side) -> tuple[list[str], list[str], list[str]]:
        """Return the benchmarks that a commit selects, those among them that are gone on head, and warnings.

        The commit's own files, in `code`, and its own pytest settings decide what it selects; if the run names paths,
        these replace ``testpaths``. `side` provides the interpreter and environment variables.
        """
        named = self.run is None or self.run.args_source.name == "ARGS"  # otherwise testpaths may name them
        code = code.resolve()  # pytest uses testpaths only if it starts in its root directory
        wanted = self.collected_paths() if named else [self.relative(self.start)]
        paths = [path for path in wanted if (code / path.partition("::")[0]).exists()]
        if not paths or command.selects_by_cache(self.run):
            return [], [], []
        imports, folder = self.imports(tree_of(side.python) if self.build else code, side.python), folder_of(side)
        given = self.run and self.run.getoption("inifilename", None)
        finds = not given and len(paths) == len(wanted)  # from fewer paths, pytest may find another ini file
        files = paths if named else []
        worker = self.worker_arguments(side.name, code, folder / "own", files, imports, finds_ini=finds)
        variables = {**side.variables, "PYTHONPATH": self.search_path(code, folder, imports)}
        own = replace(side, root=code, worker=worker, variables=variables, start=self.start_in(code))
        revisions.make_repository(code, self.top, commit)  # a project may ask git for its version
        try:
            found = self.collect(own)
        except WorkerError as error:  # do not report anything as gone
            return [], [], [f"base's own benchmarks cannot be listed, so none is reported as gone: {error}"]
        finally:
            shutil.rmtree(code / ".git")
        warnings = [
            f"base's own benchmarks in {file} cannot be listed, so none is reported as gone: {reason}"
            for file, reason in found["broken"].items()
        ]
        selection = found["selection"].replace(str(code), str(self.top))
        deselected = [name for name in found["listing"] if name in self.collected and name not in self.names]
        if self.run and selection != command.selection(self.run):  # the settings of both sides differ
            deselected = []
        elif deselected:  # by a hook, perhaps at random
            what = number_of(len(deselected), "benchmark")
            where = f"{what}, for example {deselected[0]}"
            warnings.append(f"not compared, because a hook deselects them on head but not on base: {where}")
        names = [*dict.fromkeys([*found["listing"], *self.renamed.values()])]
        has = {*self.names, *deselected}
        return names, [name for name in names if name not in has], warnings

    def collected_paths(self) -> list[str]:
        """Return the paths and test ids that pytest was asked to collect."""
        found = []
        if self.run:
            for argument in self.run.args:
                file, colons, test = argument.partition("::")
                file = module_path(file) if self.run.getoption("pyargs") else file
                path = Path(os.path.normpath(Path(self.run.invocation_params.dir).resolve() / file))
                path = path if path.is_relative_to(self.top) else path.resolve()  # ids keep links inside the repository
                if path.is_relative_to(self.top):
                    found.append(self.relative(path) + colons + test)
        return found or [self.relative(self.root)]

    def cases(self) -> Sequence[Case]:
        """Return the benchmarks; patterns in the settings take precedence over marks."""
        cases = []
        for name in self.names:
            mark = self.marks.get(name, {})
            cores = last_match(self.config.cores, name, mark.get("cores", "one"))
            settings = {"tolerance": last_match(self.config.tolerances, name, mark.get("tolerance", TOLERANCE))}
            settings["outputs"] = last_match(self.config.outputs, name, mark.get("outputs", "close"))
            cases.append(Case(name, cores == "all", marks.tolerance(settings)))
        return cases


def module_path(name: str) -> str:
    """Return the path of a module or package, given its name; any other text is returned unchanged."""
    try:
        spec = find_spec(name)
    except (AttributeError, ImportError, ValueError):
        return name
    folders = list((spec and spec.submodule_search_locations) or ())
    return folders[0] if folders else (spec and spec.origin) or name
