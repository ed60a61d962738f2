"""Benchmarks of a repository that uses pytest-benchmark, and the two sides that the gate runs them on."""

from __future__ import annotations

import functools
import glob
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rlgauge
from rlgauge import machine, process, revisions
from rlgauge.allowed import last_match, parse_renamed
from rlgauge.case import TOLERANCE, Case
from rlgauge.config import FILE, Config
from rlgauge.environments import PythonFor, environments
from rlgauge.interrupts import defer_interrupts
from rlgauge.progress import number_of
from rlgauge.rule import GateError
from rlgauge.workers import PYTHON, Side, Worker, WorkerError, cache_variables, interpreter_options

from . import command, installed, marks, origins, trees, unchanged
from .builds import builds, compiled_modules, log_of, packages_of, tree_of
from .finder import PackageFinder
from .fixture import is_benchmark, missing_plugin, skip_reason
from .project import Project, is_test_folder
from .unchanged import Unchanged

if TYPE_CHECKING:
    import pytest

CONFCUTDIR = re.compile("--confcutdir(=|$)")
VERSIONS = ("numpy", "pytest", "pytest-benchmark")
SHOWN = 5  # ignored files in the report
COLLECT_LIMIT = 120.0  # minimum timeout for collecting a side's tests, in seconds
Imports = tuple[list[str], list[str]]  # packages under test, and the directories from which they are imported
# As python -m, but without the working directory on the path; Python 3.10 has no -P.
# The standard library comes first, because the root of a project may hold a profile.py or types.py.
START = """\
import os, sys
library = os.path.dirname(os.__file__)
first = library, os.path.join(library, "lib-dynload")
sys.path[:] = [*first, *(path for path in sys.path if path and path not in first)]
import runpy
runpy.run_module("rlgauge.benchmarks.worker", run_name="__main__", alter_sys=True)
"""


class Benchmarks(Project):
    """The repository's tests that use the ``benchmark`` fixture or mark, and the sides that run them.

    Args:
        root, config, run: see :class:`.project.Project`.
        environment: environment variables for workers; those of this process by default.
        limit: timeout for collecting a side's tests, in seconds; at least ``COLLECT_LIMIT``.

    Attributes:
        own_benchmarks: whether each side has its own benchmarks, rather than head's.
        names: ids of the selected benchmarks.
        collected: ids of all benchmarks that the run has collected, including those that it deselects.
        paths: files and directories of benchmarks.
        renamed: head's test id by base's.
        marks: arguments of each test's ``rlgauge`` mark.
        arguments: pytest arguments for workers, if `run` is None.
        broken: why files cannot be collected, by file, if `run` is None.
        origins: where each side imports a package from.
        outside: packages that a side imports from its build instead of its tree.
        generated: package files that git ignores, which no revision has.
        left_out: paths in the benchmark directories that git ignores, and repositories of their own there.
        python_for: returns the interpreter of a tree's build; None outside :meth:`ready`.
        warnings: further lines for the report.
    """

    def __init__(
        self,
        root: Path,
        config: Config,
        run: pytest.Config | None,
        environment: Mapping[str, str] | None = None,
        limit: float = COLLECT_LIMIT,
    ) -> None:
        super().__init__(root, config, run)
        self.environment, self.limit = environment, limit
        self.own_benchmarks = bool(run and run.getoption("gate_own_benchmarks"))
        self.names: list[str] = []
        self.collected: set[str] = set()
        self.paths: list[str] = []
        self.renamed: dict[str, str] = {}
        self.marks: dict[str, dict[str, Any]] = {}
        self.arguments: list[str] = []
        self.broken: dict[str, str] = {}
        self.origins: dict[str, list[str]] = {}
        self.outside: set[str] = set()
        self.generated: list[str] = []
        self.left_out: list[str] = []
        self.python_for: PythonFor | None = None
        self.warnings: list[str] = []
        self.digest = functools.cache(self.digest_of)

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
                raise GateError(f"{name}: give an existing file or folder of this repository")
            chosen = [self.relative(path.resolve()) for path in paths]
            tracked = [path for path in chosen if not revisions.is_ignored(self.top, path)]
            if not tracked or (len(tracked) < len(chosen) and not glob.has_magic(pattern)):
                raise GateError(f"{name}: git ignores it, so neither side has it; remove it from .gitignore")
            found += tracked
        if not found and self.run:
            named = [Path(path) for path in self.run.getini("testpaths") if is_test_folder(Path(path).name)]
            found = [self.relative((self.root / path).resolve()) for path in named if (self.root / path).is_dir()]
        files = [self.file_of(name) for name in self.names]
        found += trees.benchmark_paths([file for file in files if not trees.is_inside(file, found)], self.top)
        found += [file for file in trees.conftests(found, self.top) if not trees.is_inside(file, found)]
        found = trees.outermost(found)
        packages = [*trees.packages(self.top, found, *self.import_folders(found)), *self.project_modules]
        if "." in found or not (self.build or packages):
            if not self.build:
                self.refuse_compiled(found)
            raise GateError(
                f"no package under test: all modules are benchmarks, in {', '.join(found)}; name only the benchmarks "
                "(as benchmarks in [tool.rlgauge] or with --gate-benchmarks), or run pytest in the package's folder"
            )
        return found

    # Selection of benchmarks

    def select_items(self, items: Sequence[pytest.Item]) -> None:
        """Select the benchmarks among pytest's tests; raise GateError for none, or for a missing plugin."""
        if not items:
            raise GateError(f"no test is selected: {self.why_none()}")
        chosen = [item for item in items if is_benchmark(item)]
        if not chosen:
            given = self.selection()
            hint = f", and {given} may deselect others" if given else ""
            tests = number_of(len(items), "selected test")
            raise GateError(f"no benchmark is selected: none of {tests} uses the fixture or mark benchmark{hint}")
        for item in chosen:
            if message := missing_plugin(item):
                raise GateError(message)
        self.names = [item.nodeid for item in chosen]
        renamed = self.run.getoption("gate_renamed") if self.run else []
        if renamed and not self.own_benchmarks:
            raise GateError("--gate-renamed: add --gate-own-benchmarks, without which it has no effect")
        self.renamed = parse_renamed(renamed, self.names)
        self.marks = {item.nodeid: marks.of(item) for item in chosen}
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
                path = os.pathsep.join(map(str, [self.link_tool(folder), *imports[1], *users_path()]))
                self.arguments = command.for_workers(arguments, ())
                files = [] if arguments else [self.relative(self.root)]
                worker = self.worker_arguments(self.top, folder, files, imports)
                side = Side("head", self.top, PYTHON, worker, {"PYTHONPATH": path}, start=self.root)
                found = self.collect(side, deselected)
                self.marks, self.broken = found["listing"], found["broken"]
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
            raise GateError("no benchmark was found: no test uses the fixture or mark benchmark")
        self.paths = self.benchmark_paths()

    def collect(self, side: Side, deselected: bool = False) -> dict[str, Any]:
        """Return what a worker collects and selects: see :meth:`.worker.WorkerPlugin.listing`.

        `deselected` includes tests that the project's own hooks deselect.
        """
        limit, cores = max(self.limit, COLLECT_LIMIT), process.available_cores()
        with defer_interrupts(), Worker(side, cores, len(cores), limit) as worker:
            worker.ask("listing", deselected=deselected)
            return worker.reply()

    def benchmarks_of(self, code: Path, side: Side) -> Collection[str]:
        """Return the selected benchmarks in a revision's own files; empty if these cannot be determined.

        `side` provides the interpreter and environment variables.
        """
        paths = [path for path in self.collected_paths() if (code / path.partition("::")[0]).exists()]
        if not paths or command.selects_by_cache(self.run):
            return []
        imports = self.imports(code, side.python)
        folder = self.folder_of(side)
        worker = self.worker_arguments(code, folder / "own", paths, imports, renamed=self.renamed)
        variables = {**side.variables, "PYTHONPATH": self.search_path(code, side.python, folder)}
        try:
            own = replace(side, root=code, worker=worker, variables=variables, start=self.start_in(code))
            found = self.collect(own)
        except WorkerError as error:  # do not report anything as gone
            self.warnings.append(f"base's own benchmarks cannot be listed, so none is reported as gone: {error}")
            return []
        self.warnings += [
            f"base's own benchmarks in {file} cannot be listed, so none is reported as gone: {reason}"
            for file, reason in found["broken"].items()
        ]
        return {*found["listing"], *self.renamed.values()}

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
            tolerance = last_match(self.config.tolerances, name, marks.tolerance(mark, TOLERANCE))
            cases.append(Case(name, cores == "all", float(tolerance)))
        return cases

    # Trees of both sides

    def parts(self) -> list[str]:
        """Return the paths of the repository to copy to both sides; empty means everything."""
        if not self.config.include:
            return []
        ini = self.ini_file()
        settings = [self.relative(folder / FILE) for folder in {self.root, self.settings} if (folder / FILE).is_file()]
        named = [*self.config.include, *([self.config.lock] if self.config.lock else [])]
        return [*map(self.from_settings, named), *self.paths, *([ini] if ini else []), *settings]

    def export(self, commit: str, folder: Path) -> None:
        """Write the files of a commit (full hash) that a side needs to a directory, with the generated files."""
        revisions.export(self.top, commit, folder, self.parts(), self.ignore)
        trees.copy_files([name for name in self.generated if not (folder / name).exists()], self.top, folder)

    def snapshot(self, folder: Path) -> None:
        """Copy the working tree, including generated Python files of its packages that git ignores.

        Raises GateError for untracked compiled files: base would run without them, or not at all.
        """
        revisions.snapshot(self.top, folder, self.parts(), self.ignore)
        self.left_out = revisions.left_out(self.top, self.paths) if self.paths else []
        if self.build:  # it generates and compiles them
            return
        self.refuse_compiled(self.paths)
        folders, bases = self.import_folders(self.paths)
        # A directory that git ignores, such as build/lib, holds head's code, which base must not import.
        copied = [name for name in folders if (folder / name).is_dir()]
        packages = trees.package_paths(self.top, self.paths, copied, bases)
        self.generated = revisions.ignored(self.top, packages, "*.py")
        trees.copy_files(self.generated, self.top, folder)

    def refuse_compiled(self, benchmarks: Sequence[str]) -> None:
        """Raise GateError for a compiled file of the packages under test that git does not track."""
        folders, bases = self.import_folders(benchmarks)
        packages = trees.package_paths(self.top, benchmarks, folders, bases)
        libraries = [f"{name[:-3]}.*so" if name.endswith(".py") else f"{name}/*.so" for name in packages]
        libraries += [f":(glob){folder}/*.{kind}*.so" for folder in folders for kind in ("cpython-", "abi3")]
        for name in [*revisions.untracked(self.top, libraries), *installed.compiled_files(self.root, self.top)]:
            if not revisions.matches_any(name, self.ignore):
                projects = [folder for folder in (self.top / name).parents if trees.is_project(folder)]
                project = os.path.relpath(projects[0], self.start) if projects else "."
                what = "." if project == "." else f"./{project} ."
                raise GateError(
                    f"{name} is compiled and not in git, so neither side has it; give the command that builds it (as "
                    "build in [tool.rlgauge] or with --gate-build), for example 'python -m pip install --no-deps "
                    f"{what}'; if no test uses it, add it to ignore in [tool.rlgauge]"
                )

    def lay_out(self, name: str, commit: str | None, code: Path, benchmarks: Path, folder: Path, python: Path) -> Side:
        """Create a side in `folder`: a tree with a revision's (built) code, and head's benchmarks or its own.

        Args:
            name: ``base`` or ``head``.
            commit: the revision; None for the working tree.
            code: tree of the revision.
            benchmarks: tree of the working tree.
            folder: new directory for the side.
            python: interpreter of the side's environment.
        """
        tree, ini = folder / "tree" / self.top.name, self.ini_file()  # a test may look for a folder of this name
        if ini and not (benchmarks / ini).exists():
            raise GateError(f"git ignores {ini}, pytest's configuration file, so neither side has it: commit it")
        built, kept = (tree_of(python), code) if self.build else (code, None)
        renamed = self.renamed if name == "base" else {}
        files = self.files_of(self.names, renamed)
        if self.own_benchmarks:  # the side's pytest settings too, if it has them
            files = [file for file in files if (code / file).exists()]
            if not files:
                raise GateError(
                    "--gate-own-benchmarks: base has none of these benchmark files; give the ids of its tests with "
                    "--gate-renamed OLD=NEW"
                )
            trees.overlay(tree, built, code, self.paths, kept)
            trees.copy_files([ini] if ini and not (tree / ini).exists() else [], benchmarks, tree)
        else:  # both sides use head's pytest settings
            trees.overlay(tree, built, benchmarks, [*self.shared_paths(code), *([ini] if ini else [])], kept)
        revisions.make_repository(tree, self.top, commit or "HEAD")
        tool = self.link_tool(folder)
        if python != PYTHON and not self.build:  # an environment of a lock file, where the project is not installed
            for info in installed.metadata_folders(self.root, self.top):
                (tool / info.name).symlink_to(info)
        inherited = os.environ if self.environment is None else self.environment
        variables = {"PYTHONPATH": self.search_path(tree, python, folder), **cache_variables(folder, inherited)}
        if python != PYTHON:  # commands that a test starts are those of the side
            variables["PATH"] = f"{python.parent}{os.pathsep}{inherited.get('PATH', '')}"
            variables["VIRTUAL_ENV"] = str(python.parents[1])
        worker = self.worker_arguments(tree, folder, files, self.imports(tree, python), renamed=renamed)
        return Side(name, tree, python, worker, variables, start=self.start_in(tree), inherited=self.environment)

    @staticmethod
    def folder_of(side: Side) -> Path:
        """Return the directory in which :meth:`lay_out` has created a side."""
        return side.root.parents[1]

    def has_plugin(self, name: str) -> bool:
        """Return whether a worker's pytest will load one of pytest's built-in plugins."""
        if self.run:
            return self.run.pluginmanager.hasplugin(name)
        return not {f"no:{name}", f"-pno:{name}"}.intersection([*command.forwarded(None), *self.arguments])

    def link_tool(self, folder: Path) -> Path:
        """Return a new directory for ``PYTHONPATH`` that holds this package alone, unlike ``site-packages``."""
        tool = folder / "tool"
        tool.mkdir(parents=True)
        (tool / "rlgauge").symlink_to(Path(rlgauge.__file__).parent)
        return tool

    def shared_paths(self, code: Path) -> list[str]:
        """Return the benchmark paths, and each ``conftest.py`` above them that a revision has but head may lack."""
        return [*self.paths, *trees.conftests(self.paths, code)]

    def imports(self, tree: Path, python: Path) -> Imports:
        """Return the packages under test in a tree or its build, and the directories they are imported from."""
        names = {*trees.packages(tree, self.paths, *self.import_folders(self.paths)), *self.project_modules}
        if self.build:
            modules = filter(installed.is_module, packages_of(python).iterdir())
            built = {path.name.partition(".")[0] for path in modules}
            names |= {name for name in built if not is_test_folder(name)}  # many wheels contain their tests
        names -= {*sys.stdlib_module_names} - {*self.project_modules}  # a script in the root that no test can import
        names.discard(rlgauge.__name__)  # both sides run with this version of it
        return sorted(names), self.own_folders(tree, python)

    def own_folders(self, tree: Path, python: Path) -> list[str]:
        """Return the directories from which a side imports the packages under test."""
        built = [str(packages_of(python))] if self.build else []
        return [*built, *self.source_folders(tree)]

    def source_folders(self, tree: Path) -> list[str]:
        """Return the directories of a tree that hold the source files of packages."""
        return list(map(str, trees.import_roots(tree, self.import_folders(self.paths)[0])))

    def search_path(self, tree: Path, python: Path, folder: Path) -> str:
        """Return a side's ``PYTHONPATH``: this package (in `folder`), its build, its tree, then the user's entries.

        The user's entries inside the repository point into the side's tree.
        """
        users = [tree / self.relative(path) if path.is_relative_to(self.top) else path for path in users_path()]
        return os.pathsep.join(map(str, [folder / "tool", *self.own_folders(tree, python), *users]))

    def worker_arguments(
        self,
        tree: Path,
        folder: Path,
        files: Sequence[str],
        imports: Imports = ([], []),
        trace: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Return the interpreter arguments that start a worker in a tree.

        The interpreter does not add the working directory to its path, so that a built package is found before its
        source tree.

        Args:
            tree: directory the worker runs in.
            folder: directory for temporary files.
            files: files to collect, relative to the tree.
            imports: packages under test, and the directories from which they are imported.
            trace: record which files are loaded.
            renamed: head's id of a test by its id in this tree.
        """
        ini = self.ini_file()
        top = re.compile(rf"(?<![\w.-]){re.escape(str(self.top))}(?![\w.-])")  # but not /top-2 or /data/top
        selection = [top.sub(lambda _: str(tree), word) for word in [*command.forwarded(self.run), *self.arguments]]
        options = [f"--rootdir={tree / self.relative(self.root)}"]
        inipath = tree / ini if ini else self.inipath
        found = inipath is not None and inipath.exists()
        if found:
            options += ["-c", str(inipath)]
        if tree != self.top and not (ini and found) and not any(map(CONFCUTDIR.match, selection)):
            # the tree has no ini file: pytest would also load each conftest.py above it, up to the next such file
            options += [f"--confcutdir={tree / self.relative(self.root)}"]
        options += ["-o", "required_plugins="]  # some plugins are disabled in workers
        if self.has_plugin("cacheprovider"):
            options += ["-o", f"cache_dir={folder / 'cache'}"]
        if self.has_plugin("faulthandler"):
            options += ["-o", "faulthandler_timeout=0"]
        packages, folders = imports
        copied, _ = self.import_folders(self.paths)
        settings = {
            "arguments": [*selection, *command.COMMON, *options, *(str(tree / file) for file in files)],
            "packages": packages,
            "import_folders": folders if self.build else [],
            "sources": self.source_folders(tree),
            "prefix": sys.prefix,
            "root": str(self.top),
            "folder": str(folder.resolve()),
            "tree": str(tree.resolve()),
            "copied": [str(self.top / name) for name in copied if (self.top / name).is_dir() and tree != self.top],
            "trace": trace,
            "own_benchmarks": self.own_benchmarks,
            "renamed": renamed or {},
        }
        return *interpreter_options(), "-c", START, json.dumps(settings)

    # Builds and environments

    def environments(self) -> AbstractContextManager[PythonFor]:
        """Return ``python_for(name, code, codes)``: this interpreter, or that of the side's build or lock file."""
        if self.build:
            return nullcontext(self.python_for) if self.python_for else self.builds()
        if self.config.lock:
            return environments(self.cache, self.config.lock, self.relative(self.settings))
        return nullcontext(lambda name, code, codes=(): PYTHON)

    def builds(self) -> AbstractContextManager[PythonFor]:
        """Return ``python_for(name, code)``, which builds a tree unless a cached build exists."""
        from_option = bool(self.run and self.run.getoption("gate_build"))
        folder = self.relative(self.start if from_option else self.settings)
        return builds(self.cache, self.build, lambda code: list(trees.code_files(code, [], self.ignore)), folder)

    @contextmanager
    def ready(self) -> Iterator[Imports]:
        """Build the working tree if necessary, so that pytest can collect its tests in this process.

        Yields the packages under test and the directories they are imported from.
        """
        if not self.build:
            yield self.imports(self.top, PYTHON)
            return
        with self.builds() as self.python_for:
            with revisions.workspace(self.cache) as folder:
                self.snapshot(folder / "head")
                python = self.python_for("head", folder / "head")
            packages, folders = self.imports(tree_of(python), python)
            packages = [name for name in packages if not is_test_folder(name)]
            finder = PackageFinder(packages, folders, self.source_folders(self.top))
            finder.forget_sources()
            try:
                yield packages, folders
            finally:
                finder.remove()
                self.python_for = None

    # Checks and reports

    def digest_of(self, code: Path, only: tuple[str, ...] = (".",), without: tuple[str, ...] = ()) -> str:
        """Return a hash of a tree's files in `only`, its lock files, and the side's own benchmarks, if it has any.

        Generated files count even outside `only`, because a revision may track its own version of them. Files in
        `without`, ignored files and benchmarks that both sides share never count.
        """
        shared, own = ([], self.paths) if self.own_benchmarks else (self.shared_paths(code), [])
        included = [*only, *own, *self.generated]
        files = [
            file
            for file in trees.code_files(code, [*shared, *without], self.ignore)
            if trees.is_lock(file) or trees.is_inside(file.relative_to(code).as_posix(), included)
        ]
        return revisions.digest(code, files)

    def compare_locks(self, codes: Sequence[Path]) -> None:
        """Warn if the lock files of two trees differ, although both sides run with the packages installed here."""
        files = [{path.relative_to(code) for path in trees.code_files(code, ["."], [])} for code in codes]
        base, head = codes
        differing = [
            file.as_posix()
            for file in sorted(files[0] | files[1])
            if revisions.digest(base, [base / file]) != revisions.digest(head, [head / file])
        ]
        if differing and not self.config.lock and not self.build:
            names = ", ".join(differing)
            self.warnings.append(
                f"base and head differ in {names}, but both run with the packages that are installed here; to compare "
                "with each side's own, name a lock file as lock in [tool.rlgauge]"
            )

    def unchanged(self, codes: Sequence[Path], sides: Sequence[Side], cases: Sequence[Case], limit: float) -> Unchanged:
        """Return the tests not to be timed, see :func:`.unchanged.find`."""
        return unchanged.find(self, codes, sides, cases, limit)

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:
        """Verify that each side imports the packages under test from its own tree; raise GateError if not."""
        self.origins, self.outside = origins.check(self, sides, cases, limit)
        if self.build:
            logs = [str(log_of(side.python)) for side in sides]
            self.compare_builds([compiled_modules(side.python) for side in sides], logs)

    def compare_builds(self, compiled: Sequence[set[str]], logs: Sequence[str]) -> None:
        """Warn if the builds of both sides and the installed package differ in their compiled modules.

        A build may continue without an extension that fails to compile.
        """
        base, head = compiled
        here = {name.partition(".")[0] for name in installed.compiled_files(self.root, self.top)}
        if lacking := sorted((base ^ head) | (here - base)):
            self.warnings.append(
                f"not compiled everywhere: {', '.join(lacking)}; an optional extension may have failed to compile, "
                f"see {' and '.join(logs)}"
            )

    def machine(self) -> dict[str, Any]:
        """Describe the machine and the Python and package versions that results belong to."""
        versions = {package: installed.version(package) for package in VERSIONS}
        return machine.this_machine() | {"python": platform.python_version(), "versions": versions}

    def notes(self) -> list[str]:
        """Return report lines: the benchmark paths, generated files, and where each side imports its packages from.

        A package that both sides import from their trees is only listed with pytest's ``-v``.
        """
        verbose = bool(self.run and self.run.getoption("verbose") > 0)
        whose = "each side runs its own" if self.own_benchmarks else "both sides run the working tree's"
        lines = [f"{whose} benchmarks: {', '.join(self.paths)}"]
        if self.generated:
            files = ", ".join(self.generated)
            lines.append(f"generated files, copied from the working tree to both sides: {files}")
        known = [*self.ignore, *self.generated]
        if left_out := [name for name in self.left_out if not trees.is_ignored(name.rstrip("/"), known)]:
            more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
            lines.append(f"on neither side, because git leaves them out: {', '.join(left_out[:SHOWN])}{more}")
        lines += dict.fromkeys(self.warnings)
        shown = [name for name in self.origins if verbose or name in self.outside]
        return lines + [f"{name}: {', '.join(self.origins[name])}" for name in shown]


def module_path(name: str) -> str:
    """Return the path of a module or package, given its name; any other text is returned unchanged."""
    try:
        spec = find_spec(name)
    except (AttributeError, ImportError, ValueError):
        return name
    folders = list((spec and spec.submodule_search_locations) or ())
    return folders[0] if folders else (spec and spec.origin) or name


def users_path() -> list[Path]:
    """Return the user's entries of ``PYTHONPATH``."""
    return [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
