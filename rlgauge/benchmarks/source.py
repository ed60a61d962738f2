"""Benchmarks of a repository that uses pytest-benchmark, and the two sides that the gate runs them on."""

from __future__ import annotations

import functools
import glob
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rlgauge
from rlgauge import machine, revisions
from rlgauge.allowed import matches, renamed
from rlgauge.config import FILE, Config, settings_folder
from rlgauge.environments import environments
from rlgauge.interrupts import held
from rlgauge.progress import number_of
from rlgauge.rule import GateError, Record
from rlgauge.source import TOLERANCE, Case
from rlgauge.workers import PYTHON, Side, Worker, WorkerError, both, caches

from . import command, marks, trees
from .builds import builds, packages_of, tree_of
from .finder import First
from .fixture import is_benchmark, missing_plugin
from .installed import compiled_by, editable, is_environment, is_module, modules_of, on_path, version

if TYPE_CHECKING:
    import pytest

FOLDER = ".rlgauge"  # output directory for the user
VERSIONS = ("numpy", "pytest", "pytest-benchmark")
Unchanged = dict[str, str]  # test id -> error message, or "" if the test is unchanged
# As python -m, but without the working directory on the path; Python 3.10 has no -P.
START = """\
import runpy, sys
sys.path[:] = filter(None, sys.path)
runpy.run_module("rlgauge.benchmarks.worker", run_name="__main__", alter_sys=True)
"""


class Benchmarks:
    """The repository's tests that use the ``benchmark`` fixture or mark, and the sides that run them.

    Args:
        root: pytest's root directory; test ids are relative to it.
        config: settings from ``[tool.rlgauge]``.
        run: pytest's configuration with the gate's options; None selects all tests.

    Attributes:
        top: top level of the git repository; all paths in trees are relative to it.
        settings: directory of the settings file; paths in the settings are relative to it.
        start: directory in which pytest was started; workers start in each side's copy of it.
        cache: directory of builds and environments that are kept between runs.
        artifact: default path of the JSON artifact.
    """

    def __init__(self, root: Path, config: Config, run: pytest.Config | None) -> None:
        self.root, self.config, self.run = root.resolve(), config, run
        self.top, self.settings = revisions.top_of(root), settings_folder(root).resolve()
        called = Path(run.invocation_params.dir).resolve() if run else self.root
        self.start = called if called.is_relative_to(self.top) else self.root
        self.cache, self.artifact = revisions.common_folder(root) / "rlgauge", root / FOLDER / "gate.json"
        self.own = bool(run and run.getoption("gate_own_benchmarks"))  # each side has its own benchmarks
        self.renamed: dict[str, str] = {}  # base's test id -> head's
        self.build = (run and run.getoption("gate_build")) or config.build
        if self.build and (config.lock or config.depends):
            other = "lock" if config.lock else "depends"
            raise GateError(f"build and {other} are both set: remove {other}, which has no effect on built packages")
        self.project = [name for name in modules_of(self.root, self.top) if not trees.NAMED.fullmatch(name)]
        self.names: list[str] = []
        self.words: list[str] = []  # pytest arguments for workers where there is no run
        self.marks: dict[str, dict[str, Any]] = {}  # test id -> arguments of its rlgauge mark
        self.paths: list[str] = []
        self.origins: dict[str, list[str]] = {}  # package -> where each side imports it from
        self.built_origins: set[str] = set()  # those that a side imports from elsewhere than its tree
        self.generated: list[str] = []  # package files that git ignores: no revision has them
        self.python_for: Callable[[str, Path], Path] | None = None  # set while the working tree's build is in use
        self.digest = functools.cache(self.digest_of)
        self.ignore = [*config.ignore, *(self.within(pattern) for pattern in config.ignore)]
        self.artifact.parent.mkdir(exist_ok=True)
        (self.artifact.parent / ".gitignore").write_text("*\n")

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Keep the benchmarks among the selected tests; raise GateError for none, or for a missing plugin."""
        if not items:
            raise GateError(f"no test is selected: {self.why_none()}")
        chosen = [item for item in items if is_benchmark(item)]
        if not chosen:
            raise GateError(
                f"no benchmark is selected: none of {number_of(len(items), 'test')} uses the fixture or mark benchmark"
            )
        for item in chosen:
            if missing := missing_plugin(item):
                raise GateError(missing)
        self.names = [item.nodeid for item in chosen]
        given = self.run.getoption("gate_renamed") if self.run else []
        if given and not self.own:
            raise GateError("--gate-renamed: add --gate-own-benchmarks, without which it has no effect")
        self.renamed = renamed(given, self.names)
        self.marks = {item.nodeid: marks.of(item) for item in chosen}
        self.paths = self.benchmark_paths()

    def why_none(self) -> str:
        """Return why pytest selects no test."""
        options = {"-k": "keyword", "-m": "markexpr"}
        given = [
            f"{option} {text!r}" for option, name in options.items() if self.run and (text := self.run.getoption(name))
        ]
        if given:
            return f"{' with '.join(given)} matches none; change the selection"
        return "pytest found none, or a plugin or conftest.py deselected all; give paths of benchmarks"

    def relative(self, path: Path) -> str:
        """Return a path relative to git's top level; raise ValueError for a path outside it."""
        return path.relative_to(self.top).as_posix()

    def within(self, path: str) -> str:
        """Convert a path or pattern in the settings to one relative to git's top level."""
        prefix = self.relative(self.settings)
        return os.path.normpath(path if prefix == "." else f"{prefix}/{path}")

    def file_of(self, name: str) -> str:
        """Return the file of a test, relative to git's top level."""
        return self.relative(Path(os.path.normpath(self.root / name.partition("::")[0])))

    def benchmark_paths(self) -> list[str]:
        """Return the benchmark files and directories (head's on both sides), relative to git's top level.

        Raises GateError if a named path is not in the repository, or if no code under test remains.
        """
        given = self.run.getoption("gate_benchmarks") if self.run else []
        found = []
        for path in given or self.config.benchmarks:
            base = self.start if given else self.settings
            places = sorted(base.glob(path)) if glob.has_magic(path) else [base / path]
            if not places or not all(place.exists() and place.resolve().is_relative_to(self.top) for place in places):
                raise GateError(f"--gate-benchmarks {path}: give an existing file or folder of this repository")
            found += [self.relative(place.resolve()) for place in places]
        if not found and self.run:
            tested = [path.rstrip("/") for path in self.run.getini("testpaths") if self.holds_tests(path)]
            found = [self.relative((self.root / path).resolve()) for path in tested]
        rest = [self.file_of(name) for name in self.names]
        found += trees.benchmark_paths([file for file in rest if not trees.inside(file, found)], self.top)
        found += [file for file in trees.conftests(found, self.top) if not trees.inside(file, found)]
        if not self.build and not trees.packages(self.top, found, *self.import_folders(found)):
            raise GateError(
                f"no package under test: all modules are benchmarks, in {', '.join(found)}; name only the benchmarks "
                "with --gate-benchmarks, or run pytest in the folder of the package"
            )
        return found

    def holds_tests(self, path: str) -> bool:
        """Return whether `path`, relative to pytest's root, is a directory with a typical test directory name."""
        return (self.root / path).is_dir() and bool(trees.NAMED.fullmatch(Path(path).name))

    def import_folders(self, benchmarks: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the directories from which packages are imported, and those among them that are bases.

        Both are relative to git's top level. The first are pytest's ``pythonpath``, the repository's directories on
        ``sys.path`` and those of editable installs, except those in `benchmarks`, which pytest itself adds. The bases
        need not be on the path: pytest's root, the directory where it was started, and that of the settings.
        """
        told = [Path(place).resolve() for place in self.run.getini("pythonpath")] if self.run else []
        bases = list(dict.fromkeys([self.root, self.start, self.settings]))
        guessed = [base / "src" for base in bases]
        guessed += [self.root / name for name in trees.folders_of(self.root, self.project)]
        found = [path for path in (*on_path(), *editable(), *guessed, *bases) if not is_environment(path, self.top)]
        ours = [self.relative(path) for path in found if path.is_relative_to(self.top)]
        kept = [self.relative(path) for path in told if path.is_relative_to(self.top)]
        # Before collection, a test directory is on the path only because of its conftest.py.
        kept += [
            name
            for name in ours
            if not trees.inside(name, benchmarks) and (benchmarks or not trees.NAMED.fullmatch(Path(name).name))
        ]
        return list(dict.fromkeys(kept)), [self.relative(base) for base in bases]

    def cases(self) -> Sequence[Case]:
        """Return the benchmarks; patterns in the settings take precedence over marks."""
        cores = self.config.cores
        return [
            Case(name, self.setting(cores, name, self.mark(name).get("cores", "one")) == "all", self.tolerance(name))
            for name in self.names
        ]

    def mark(self, name: str) -> dict[str, Any]:
        """Return the keyword arguments of a test's ``rlgauge`` mark."""
        return self.marks.get(name, {})

    def tolerance(self, name: str) -> float:
        """Return the largest relative difference allowed between the outputs of a test."""
        return float(self.setting(self.config.tolerances, name, marks.tolerance(self.mark(name), TOLERANCE)))

    @staticmethod
    def setting(patterns: Mapping[str, Any], name: str, default: Any) -> Any:
        """Return the setting of the last pattern that matches a test, or the default."""
        return next((value for pattern, value in reversed(list(patterns.items())) if matches(name, pattern)), default)

    def listed(self, code: Path, side: Side) -> Collection[str]:
        """Return the selected benchmarks in a revision's own files; empty where these cannot be determined.

        `side` provides the interpreter and environment variables.
        """
        paths = [path for path in self.arguments() if (code / path.partition("::")[0]).exists()]
        if not paths or command.selects_by_memory(self.run):
            return []
        worker = self.command(code, side.root.parent / "own", paths, [], [], renamed=self.renamed)
        variables = {**side.variables, "PYTHONPATH": self.search_path(code, side.python, side.root.parent)}
        try:
            own = replace(side, root=code, worker=worker, variables=variables, start=self.start_in(code))
            return {*self.collected_by(own)[0], *self.renamed.values()}
        except WorkerError:  # a file cannot be imported: do not report anything as gone
            return []

    def collected_by(self, side: Side, deselected: bool = False) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Return the mark settings of the benchmarks that a worker collects and selects, and their files.

        `deselected` includes tests that the project's own hooks deselect.
        """
        with held(), Worker(side, cores_of_all(), 1, LISTING) as worker:
            worker.ask("listing", deselected=deselected)
            reply = worker.reply()
            return reply["listing"], reply["files"]

    def arguments(self) -> list[str]:
        """Return the paths and test ids that pytest was asked to collect, relative to git's top level."""
        if not self.run:
            return [self.relative(self.root)]
        here, found = Path(self.run.invocation_params.dir), []
        for argument in self.run.args:
            file, colons, test = argument.partition("::")
            place = Path(os.path.abspath(here / file)).resolve()
            if place.is_relative_to(self.top):
                found.append(self.relative(place) + colons + test)
        return found or [self.relative(self.root)]

    def parts(self) -> list[str]:
        """Return the paths of the repository to copy to both sides; empty means everything."""
        if not self.config.include:
            return []
        ini = self.ini_file()
        told = [self.relative(folder / FILE) for folder in {self.root, self.settings} if (folder / FILE).is_file()]
        return [*map(self.within, self.config.include), *self.paths, *([ini] if ini else []), *told]

    def export(self, root: Path, commit: str, folder: Path) -> None:
        """Write the files of a commit (full hash) that a side needs to a directory."""
        revisions.export(self.top, commit, folder, self.parts(), self.ignore)

    def snapshot(self, root: Path, folder: Path) -> None:
        """Copy the working tree, including generated Python files of its packages that git ignores."""
        revisions.snapshot(self.top, folder, self.parts(), self.ignore)
        if not self.build:  # else the build generates them
            places = trees.places(self.top, self.paths, *self.import_folders(self.paths))
            self.refuse_compiled(places)
            self.generated = revisions.ignored(self.top, places, "*.py")
            trees.copied(self.generated, self.top, folder)

    def refuse_compiled(self, places: Sequence[str]) -> None:
        """Reject packages with untracked compiled files: base would run without them, or not at all."""
        found = [*revisions.untracked(self.top, places, "*.so"), *compiled_by(self.root, self.top)]
        if left := [name for name in found if not revisions.matched(name, self.ignore)]:
            raise GateError(
                f"{left[0]} is compiled and not in git, so neither side has it; give the command that builds it, for "
                "example --gate-build 'python -m pip install --no-deps .'; or add it to ignore in [tool.rlgauge]"
            )

    def digest_of(self, code: Path, only: tuple[str, ...] = (".",), without: tuple[str, ...] = ()) -> str:
        """Return a hash of a tree's files in `only`, its lock files, and the side's own benchmarks, if it has any.

        Files in `without`, ignored files and benchmarks that both sides share are excluded.
        """
        shared, own = ([], self.paths) if self.own else (self.paths, [])
        files = trees.code_files(code, [*shared, *without, *self.generated], self.ignore)
        counted = [*only, *own]
        chosen = [
            file for file in files if trees.is_lock(file) or trees.inside(file.relative_to(code).as_posix(), counted)
        ]
        return revisions.digest(code, chosen)

    def unchanged(self, codes: Sequence[Path], sides: Sequence[Side], cases: Sequence[Case], limit: float) -> Unchanged:
        """Return the tests not to be timed, by id.

        The value is ``""`` if everything the test loads is identical on both sides, else an error in the settings.
        """
        if self.digest(codes[0]) == self.digest(codes[1]):
            return {case.id: "" for case in cases}
        narrowed: dict[tuple[str, ...], list[Case]] = {}
        for case in cases:
            narrowed.setdefault(self.depends(case.id), []).append(case)
        found: dict[str, str] = {}
        for paths, chosen in narrowed.items():
            if not paths:
                found |= dict.fromkeys(
                    [case.id for case in chosen] if self.same(codes, sides, chosen, limit) else [], ""
                )
            elif self.digest(codes[0], paths) == self.digest(codes[1], paths):
                found |= self.narrowed(sides, chosen, paths, limit)
        return found

    def depends(self, name: str) -> tuple[str, ...]:
        """Return the paths a test depends on by the settings, relative to git's top level; empty means everything."""
        return tuple(map(self.within, self.setting(self.config.depends, name, [])))

    def same(self, codes: Sequence[Path], sides: Sequence[Side], cases: Sequence[Case], limit: float) -> bool:
        """Return whether both sides have the same files, except for sibling projects that neither side loads.

        The tests are run once if sibling projects differ.
        """
        base, head = codes
        if self.digest(base) == self.digest(head):
            return True
        own = [self.relative(folder) for folder in (self.root, self.start, self.settings)]
        files = {path.relative_to(code).as_posix() for code in codes for path in trees.code_files(code, [], [])}
        others = [
            folder
            for folder in trees.projects(files)
            if not any(trees.inside(path, [folder]) for path in [*own, *self.paths])
        ]
        if self.build or self.digest(base, (".",), tuple(others)) != self.digest(head, (".",), tuple(others)):
            return False
        loaded: set[str] = set()
        for side in sides:
            traced = self.traced(side, [case.id for case in cases], limit)
            if traced is None:
                return False
            loaded |= set().union(*traced.values())
        unused = tuple(folder for folder in others if not any(trees.inside(name, [folder]) for name in loaded))
        return self.digest(base, (".",), unused) == self.digest(head, (".",), unused)

    def narrowed(self, sides: Sequence[Side], cases: Sequence[Case], paths: Sequence[str], limit: float) -> Unchanged:
        """Return ``""`` for tests that load nothing outside `paths` and shared files, an error for the others."""
        files: dict[str, list[str]] = {}
        for case in cases:
            files.setdefault(case.id.partition("::")[0], []).append(case.id)
        allowed = [*paths, *self.paths, *self.generated]
        found: dict[str, str] = {}
        for names in files.values():
            traced = [self.traced(side, names, limit) for side in sides]
            if None in traced:
                continue
            for name in names:
                loaded = set().union(*(each[name] for each in traced if each))
                outside = sorted(file for file in loaded if not trees.inside(file, allowed) and self.counts(file))
                found[name] = f"it loads {outside[0]}: add the file to its depends in [tool.rlgauge]" if outside else ""
        return found

    def counts(self, file: str) -> bool:
        """Return whether a change of this file could affect a benchmark: it is neither ignored nor a lock file."""
        return not revisions.matched(file, self.ignore) and not trees.is_lock(Path(file))

    def traced(self, side: Side, names: Sequence[str], limit: float) -> dict[str, set[str]] | None:
        """Run tests once and return the files of the side's tree that each imports or opens.

        Imports during collection count for every test. None if a test fails, is skipped or starts a process, so that
        the files are not known.
        """
        folder = side.root.parent
        packages, first = self.packages(side.root, side.python), self.own_folders(side.root, side.python)
        of_base = self.renamed if side.name == "base" else {}
        files = self.files_of(names, of_base)
        worker = self.command(side.root, folder, files, packages, first, trace=True, renamed=of_base)
        found: dict[str, set[str]] = {}
        try:
            with held(), Worker(replace(side, worker=worker), cores_of_all(), 1, limit) as process:
                process.ask("loaded")
                common = process.reply()
                for name in names:
                    process.ask("prepare", identity=name)
                    if not {"failed", "skipped"}.isdisjoint(process.reply()):
                        return None
                    process.ask("close", identity=name)
                    process.reply()
                    process.ask("loaded")
                    reply = process.reply()
                    if reply["spawned"] or common["spawned"]:
                        return None
                    found[name] = {*reply["files"], *common["files"]}
        except WorkerError:
            return None
        return found

    def environments(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``: this interpreter, or that of the side's build or lock file."""
        if self.build:
            return nullcontext(self.python_for) if self.python_for else self.builds()
        if self.config.lock:
            return environments(self.cache, self.config.lock)
        return nullcontext(lambda name, code: PYTHON)

    def builds(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``, which builds a tree unless a cached build exists."""
        told = bool(self.run and self.run.getoption("gate_build"))
        place = self.relative(self.start if told else self.settings)
        return builds(self.cache, self.build, lambda code: list(trees.code_files(code, [], self.ignore)), place)

    @contextmanager
    def ready(self) -> Iterator[tuple[list[str], list[str]]]:
        """Build the working tree if necessary, so that pytest can collect its tests in this process.

        Yields the packages under test and the directories they are imported from.
        """
        if not self.build:
            yield self.packages(self.top, PYTHON), self.own_folders(self.top, PYTHON)
            return
        with self.builds() as self.python_for:
            names, folders = self.built()
            first = First(names, folders)
            try:
                yield names, folders
            finally:
                first.remove()
                self.python_for = None

    def built(self) -> tuple[list[str], list[str]]:
        """Build the working tree; return its packages, without test packages, and the directories they are in."""
        assert self.python_for
        with revisions.workspace(self.cache) as folder:
            self.snapshot(self.root, folder / "head")
            python = self.python_for("head", folder / "head")
        tree = tree_of(python)
        names = [name for name in self.packages(tree, python) if not trees.NAMED.fullmatch(name)]
        return names, self.own_folders(tree, python)

    def lay_out(self, name: str, code: Path, benchmarks: Path, folder: Path, python: Path) -> Side:
        """Create a side in `folder`: a tree with a revision's (built) code, and head's benchmarks or its own.

        Args:
            name: ``base`` or ``head``.
            code: tree of the revision.
            benchmarks: tree of the working tree.
            folder: new directory for the side.
            python: interpreter of the side's environment.
        """
        tree, ini = folder / "tree", self.ini_file()
        of_base = self.renamed if name == "base" else {}
        files = self.files_of(self.names, of_base)
        if self.own:  # the side's pytest settings too, if it has them
            files = [file for file in files if (code / file).exists()]
            if not files:
                raise GateError(
                    "--gate-own-benchmarks: base has none of these benchmark files; give the ids of its tests with "
                    "--gate-renamed OLD=NEW"
                )
            trees.overlaid(tree, tree_of(python) if self.build else code, code, self.paths)
            trees.copied([ini] if ini and not (tree / ini).exists() else [], benchmarks, tree)
        else:  # both sides use head's pytest settings
            paths = [*self.paths, *([ini] if ini else [])]
            trees.overlaid(tree, tree_of(python) if self.build else code, benchmarks, paths)
        trees.copied([name for name in self.generated if not (tree / name).exists()], benchmarks, tree)
        (tree / ".git").mkdir(exist_ok=True)  # code that searches for the repository root stops here
        (folder / "tool").mkdir()
        (folder / "tool" / "rlgauge").symlink_to(Path(rlgauge.__file__).parent)
        variables = {"PYTHONPATH": self.search_path(tree, python, folder), **caches(folder)}
        packages, first = self.packages(tree, python), self.own_folders(tree, python)
        worker = self.command(tree, folder, files, packages, first, renamed=of_base)
        return Side(name, tree, python, worker, variables, start=self.start_in(tree))

    def files_of(self, names: Collection[str], renamed: Mapping[str, str]) -> list[str]:
        """Return the files of tests, given head's ids; `renamed` maps ids on this side to head's."""
        own = [old for old, new in renamed.items() if new in names]
        return sorted({self.file_of(name) for name in [*own, *({*names} - {*renamed.values()})]})

    def ini_file(self) -> str | None:
        """Return pytest's configuration file relative to git's top level, or None if it is outside the repository."""
        ini = self.run.inipath.resolve() if self.run and self.run.inipath else None
        return self.relative(ini) if ini and ini.is_relative_to(self.top) else None

    def start_in(self, tree: Path) -> Path:
        """Return the directory of a tree in which its workers start, and create it if the revision lacks it."""
        for folder in (self.root, self.start):
            (tree / self.relative(folder)).mkdir(parents=True, exist_ok=True)
        return tree / self.relative(self.start)

    def packages(self, tree: Path, python: Path) -> list[str]:
        """Return the names of the packages under test in a side's tree or in its build."""
        found = {*trees.packages(tree, self.paths, *self.import_folders(self.paths)), *self.project}
        if self.build:
            found |= {path.name.partition(".")[0] for path in packages_of(python).iterdir() if is_module(path)}
        return sorted(found)

    def search_path(self, tree: Path, python: Path, folder: Path) -> str:
        """Return a side's ``PYTHONPATH``: its build, its tree, this package (in `folder`), then the user's entries."""
        own = [*self.own_folders(tree, python), folder / "tool"]
        return os.pathsep.join(map(str, [*own, *self.users_path(tree)]))

    def own_folders(self, tree: Path, python: Path) -> list[str]:
        """Return the directories from which a side imports the packages under test."""
        built = [packages_of(python)] if self.build else []
        return list(map(str, [*built, *trees.roots(tree, self.import_folders(self.paths)[0])]))

    def users_path(self, tree: Path) -> list[Path]:
        """Return the user's ``PYTHONPATH`` entries; those inside the repository point into the side's tree."""
        entries = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        return [tree / self.relative(entry) if entry.is_relative_to(self.top) else entry for entry in entries]

    def command(
        self,
        tree: Path,
        folder: Path,
        files: Sequence[str],
        packages: Sequence[str],
        first: Sequence[str],
        trace: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Return the interpreter arguments that start a worker in a tree.

        A built package must be found before its source tree, so the interpreter does not add the working directory to
        its path.

        Args:
            tree: directory the worker runs in.
            folder: directory for temporary files.
            files: files to collect, relative to the tree.
            packages: names of the packages under test.
            first: directories from which these are imported.
            trace: record which files are loaded.
            renamed: head's id of a test by its id in this tree.
        """
        ini = self.ini_file()
        own = [f"--rootdir={tree / self.relative(self.root)}", f"--basetemp={folder / 'temporary'}"]
        own += (
            ["-c", str(tree / ini)] if ini else ["-c", str(self.run.inipath)] if self.run and self.run.inipath else []
        )
        if self.run is None or self.run.pluginmanager.hasplugin("cacheprovider"):
            own += ["-o", f"cache_dir={folder / 'cache'}"]
        if self.run is None or self.run.pluginmanager.hasplugin("faulthandler"):
            own += ["-o", "faulthandler_timeout=0"]
        words = [word.replace(str(self.top), str(tree)) for word in [*command.forwarded(self.run), *self.words]]
        folders, _ = self.import_folders(self.paths)
        told = {
            "arguments": command.arguments(self.run, words, [*own, *(str(tree / file) for file in files)]),
            "packages": list(packages),
            "first": list(first) if self.build else [],
            "root": str(self.top),
            "folder": str(folder.resolve()),
            "tree": str(tree.resolve()),
            "copied": [str(self.top / name) for name in folders if (self.top / name).is_dir() and tree != self.top],
            "trace": trace,
            "own": self.own,
            "renamed": renamed or {},
        }
        return "-c", START, json.dumps(told)

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:
        """Verify that each side imports the packages under test from its own tree; raise GateError if not."""
        here = cores_of_all()
        try:
            with held(), Worker(sides[0], here, 1, limit) as base, Worker(sides[1], here, 1, limit) as head:
                found = both((base, head), "origins")
        except WorkerError as error:
            raise GateError(str(error)) from error
        for side, reply in zip(sides, found, strict=True):
            for case in cases:
                if case.id in reply["missing"]:  # the side may have its own environment
                    raise GateError(f"{side.name}: {reply['missing'][case.id]}")
            if reply["strays"]:
                raise GateError(
                    f"{side.name} imports {reply['strays'][0]} from the repository instead of its own tree, so both "
                    "sides would run the same code; if the package is compiled, add --gate-build"
                )
        origins = [reply["origins"] for reply in found]
        imported = {name for reply in found for name in reply["imported"]} or {*origins[0], *origins[1]}
        for name in sorted(imported - self.hidden(sides, origins)):
            for side, places in zip(sides, origins, strict=True):
                own = [side.root.resolve(), *([side.python.parents[1].resolve()] if self.build else [])]
                if name in places and not any(Path(places[name]).is_relative_to(place) for place in own):
                    raise GateError(
                        f"{side.name} imports {name} from {places[name]} instead of its own tree, so both sides would "
                        "run the same code; if the package is compiled, add --gate-build"
                    )
            where = [(side, Path(places[name])) for side, places in zip(sides, origins) if name in places]
            self.origins[name] = [f"{side.name} {place_in(side, path)}" for side, path in where]
            if not all(path.is_relative_to(side.root.resolve()) for side, path in where):
                self.built_origins.add(name)

    def hidden(self, sides: Sequence[Side], origins: Sequence[Mapping[str, str]]) -> set[str]:
        """Return directories without ``__init__.py`` that an installed package of the same name shadows."""
        folders, bases = self.import_folders(self.paths)
        known = {Path(place).stem for side in sides for place in trees.places(side.root, self.paths, folders, bases)}
        return {
            name
            for name in {*origins[0], *origins[1]} - known - {*self.project}
            if any((side.root / base / name).is_dir() for side in sides for base in bases)
            and all("site-packages" in places.get(name, "site-packages") for places in origins)
        }

    def machine(self, root: Path) -> dict[str, Any]:
        """Describe the machine and the Python and package versions that results belong to."""
        versions = {package: version(package) for package in VERSIONS}
        return machine.this_machine() | {"python": platform.python_version(), "versions": versions}

    def everything(self, root: Path, arguments: Sequence[str] = (), deselected: bool = False) -> None:
        """Select all benchmarks of the working tree, or those that pytest arguments select.

        For `deselected` see :meth:`collected_by`. Raises GateError if the selection is empty.
        """
        folder = self.cache / "listing"
        try:
            with self.ready() as (names, folders):
                path = os.pathsep.join(map(str, [*folders, Path(rlgauge.__file__).parents[1]]))
                self.words = command.selecting(arguments, ())
                worker = self.command(self.top, folder, [] if arguments else [self.relative(self.root)], names, folders)
                side = Side("head", self.top, PYTHON, worker, {"PYTHONPATH": path}, start=self.root)
                self.marks, files = self.collected_by(side, deselected)
                self.words = command.selecting(arguments, files)
                self.names = list(self.marks)
        except WorkerError as error:
            raise GateError(str(error)) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not self.names:
            if arguments:
                raise GateError(f"no benchmark is selected by: {' '.join(arguments)}; change the selection")
            raise GateError("no benchmark was found: no test uses the fixture or mark benchmark")
        self.paths = self.benchmark_paths()

    def notes(self, records: Mapping[str, Record]) -> Sequence[str]:
        """Return report lines: the benchmark paths, generated files, and where each side imports its packages from.

        A package that both sides import from their trees is only listed with pytest's ``-v``.
        """
        verbose = bool(self.run and self.run.getoption("verbose") > 0)
        shown = [name for name in self.origins if verbose or name in self.built_origins]
        made = (
            [f"generated files, copied from the working tree to both sides: {', '.join(self.generated)}"]
            if self.generated
            else []
        )
        whose = "each side's own" if self.own else "head's version on both sides"
        return [
            f"benchmarks, {whose}: {', '.join(self.paths)}",
            *made,
            *(f"{name}: {', '.join(self.origins[name])}" for name in shown),
        ]


def place_in(side: Side, path: Path) -> str:
    """Return a path relative to a side's tree, or to its environment if it is in its build."""
    tree = side.root.resolve()
    if path.is_relative_to(tree):
        return path.relative_to(tree).as_posix()
    return f"{path.relative_to(side.python.parents[1].resolve()).as_posix()} of its build"


LISTING = 120.0  # seconds to collect a side's tests


def cores_of_all() -> tuple[int, ...]:
    """Return the ids of the cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))
