"""The gate's side of a repository whose benchmarks are tests that use pytest-benchmark."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rlgauge
from rlgauge import revisions
from rlgauge.allowed import matches
from rlgauge.config import Config
from rlgauge.environments import environments
from rlgauge.interrupts import held
from rlgauge.rule import GateError, Record
from rlgauge.source import TOLERANCE, Case, Source
from rlgauge.workers import PYTHON, Side, Worker, WorkerError, both, caches

from . import command, trees
from .builds import builds, packages_of, tree_of
from .fixture import is_benchmark, missing_plugin

if TYPE_CHECKING:
    import pytest

CACHE = ".rlgauge"
VERSIONS = ("numpy", "pytest", "pytest-benchmark")


class Benchmarks(Source):
    """The tests of a repository that use the fixture ``benchmark`` or have that mark.

    Args:
        root: of the repository.
        config: its settings.
        run: of pytest, with the options of the gate; all tests unless given.
    """

    together, collects, lenient = False, True, True

    def __init__(self, root: Path, config: Config, run: pytest.Config | None) -> None:
        self.root, self.config, self.run = root, config, run
        self.cache, self.artifact = root / CACHE, root / CACHE / "gate.json"
        self.build = (run and run.getoption("gate_build")) or config.build
        if self.build and config.lock:
            raise GateError("build and lock: got both, wanted one: a build may install what a lock file wants")
        self.project = [name for name in modules_of(root) if not trees.NAMED.fullmatch(name)]
        self.names: list[str] = []
        self.paths: list[str] = []
        self.told: list[str] = []
        self.generated: list[str] = []  # files of packages that git ignores: no revision has them
        self.python_for: Callable[[str, Path], Path] | None = None  # where what is built here is in use already
        self.digest = functools.cache(lambda code: revisions.digest(code, self.code_files(code)))
        self.cache.mkdir(exist_ok=True)
        (self.cache / ".gitignore").write_text("*\n")

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Take the tests that are benchmarks.

        Args:
            items: all that were collected and selected.

        Raises:
            GateError: there are none, or the plugin whose fixture they use is missing.
        """
        chosen = [item for item in items if is_benchmark(item)]
        if not chosen:
            raise GateError(
                f"no benchmark was collected: none of {len(items)} tests uses the fixture benchmark or has that mark"
            )
        for item in chosen:
            if missing := missing_plugin(item):
                raise GateError(missing)
        self.names = [item.nodeid for item in chosen]
        self.paths = self.benchmark_paths()

    def benchmark_paths(self) -> list[str]:
        """Return the files and folders that are head's on both sides.

        Raises:
            GateError: one that is named is not there, or outside of the repository; or nothing else is left.
        """
        given = (self.run.getoption("gate_benchmarks") if self.run else []) or self.config.benchmarks
        found, root = [], self.root.resolve()
        for path in given:
            place = (root / path).resolve()
            if not place.exists() or not place.is_relative_to(root):
                raise GateError(f"--gate-benchmarks: got {path}, wanted a file or folder of this repository")
            found.append(place.relative_to(root).as_posix())
        if not found and self.run:
            found = [path.rstrip("/") for path in self.run.getini("testpaths") if self.holds_tests(path)]
        rest = [name.partition("::")[0] for name in self.names]
        found += trees.benchmark_paths([file for file in rest if not trees.inside(file, found)])
        found += [file for file in trees.conftests(found, root) if not trees.inside(file, found)]
        if not self.build and not trees.packages(root, found, self.on_path()):
            raise GateError(
                f"no package under test: all modules are among the benchmarks, {', '.join(found)}, which are head's on "
                "both sides; name the benchmarks alone by --gate-benchmarks, and run pytest where the package is"
            )
        return found

    def holds_tests(self, path: str) -> bool:
        """Return whether a folder is called as one of tests is.

        Args:
            path: of a folder, relative to the root.
        """
        return (self.root / path).is_dir() and bool(trees.NAMED.fullmatch(Path(path).name))

    def on_path(self) -> list[str]:
        """Return the folders that pytest puts on the path, and those of the project's modules, relative to the root."""
        places = [Path(place) for place in self.run.getini("pythonpath")] if self.run else []
        named = [place.relative_to(self.root).as_posix() for place in places if place.is_relative_to(self.root)]
        return list(dict.fromkeys([*named, *trees.folders_of(self.root, self.project)]))

    def cases(self) -> Sequence[Case]:
        """Return the tests."""
        cores = self.config.cores
        return [Case(name, self.setting(cores, name, "one") == "all", self.tolerance(name)) for name in self.names]

    def case(self, name: str) -> Case:
        """Return a test by its id, which need not have been collected.

        Args:
            name: its id.

        Raises:
            GateError: it is in no file of this repository.
        """
        file = name.partition("::")[0]
        if not (self.root / file).is_file() or file == name:
            raise GateError(f"unknown case {name!r}: wanted the id of a test, as in benchmarks/test_x.py::test_y")
        self.names = [*self.names, name]
        self.paths = self.benchmark_paths()
        return self.cases()[-1]

    def tolerance(self, name: str) -> float:
        """Return by how much the answers of a test may differ.

        Args:
            name: of the test.
        """
        return float(self.setting(self.config.tolerances, name, TOLERANCE))

    @staticmethod
    def setting(patterns: Mapping[str, Any], name: str, default: Any) -> Any:
        """Return the setting of the last pattern that names a test.

        Args:
            patterns: settings by pattern.
            name: of the test.
            default: where none does.
        """
        return next((value for pattern, value in reversed(list(patterns.items())) if matches(name, pattern)), default)

    def listed(self, code: Path, side: Side) -> Collection[str]:
        """Return the benchmarks that a revision has by its own files, of those selected; none where it cannot say.

        Args:
            code: tree of the revision.
            side: whose interpreter and variables are used.
        """
        paths = [path for path in self.arguments() if (code / path.partition("::")[0]).exists()]
        if not paths or command.selects_by_memory(self.run):
            return []
        worker = self.command(code, side.root.parent / "own", paths, [])
        variables = {**side.variables, "PYTHONPATH": self.search_path(code, side.python, side.root.parent)}
        try:
            return self.collected_by(replace(side, root=code, worker=worker, variables=variables))
        except WorkerError:  # a file of it cannot be imported any more: nothing is known to be gone
            return []

    def collected_by(self, side: Side) -> list[str]:
        """Return the benchmarks that a worker collects and selects.

        Args:
            side: that it is of.

        Raises:
            WorkerError: it ends before it has collected.
        """
        with held(), Worker(side, cores_of_all(), 1, LISTING) as worker:
            worker.ask("listing")
            found: list[str] = worker.reply()["listing"]
            return found

    def arguments(self) -> list[str]:
        """Return what the run of pytest was asked to collect, relative to the root."""
        if not self.run:
            return ["."]
        here, found = Path(self.run.invocation_params.dir), []
        for argument in self.run.args:
            file, colons, test = argument.partition("::")
            place = Path(os.path.abspath(here / file))
            if place.is_relative_to(self.root):
                found.append((place.relative_to(self.root).as_posix() or ".") + colons + test)
        return found or ["."]

    def export(self, root: Path, commit: str, folder: Path) -> None:
        """Write all files of a commit.

        Args:
            root: of the repository.
            commit: its full hash.
            folder: where they are written.
        """
        revisions.export(root, commit, folder)

    def snapshot(self, root: Path, folder: Path) -> None:
        """Copy the working tree, with files of its packages that were generated and that git ignores, as a version.

        Args:
            root: of the repository.
            folder: where it is copied to.
        """
        revisions.snapshot(root, folder)
        if not self.build:  # which generates them
            self.generated = revisions.ignored(root, trees.places(root, self.paths, self.on_path()), "*.py")
            trees.copied(self.generated, root, folder)

    def fingerprint(self, code: Path, case: Case) -> str:
        """Return a hash of all files of a tree but the benchmarks, which are the same on both sides.

        Args:
            code: tree of the revision.
            case: any.
        """
        return self.digest(code)

    def code_files(self, code: Path) -> list[Path]:
        """Return the files of a tree that the speed of its benchmarks may depend on.

        Args:
            code: tree of a revision.
        """
        found = trees.code_files(code, self.paths, self.config.ignore)
        return [file for file in found if file.relative_to(code).as_posix() not in self.generated]

    def environments(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``: this interpreter, or that of the side's build or lock file."""
        if self.build:
            return nullcontext(self.python_for) if self.python_for else self.builds()
        if self.config.lock:
            return environments(self.cache, self.config.lock)
        return nullcontext(lambda name, code: PYTHON)

    def builds(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``, which builds a tree where that was not done yet."""
        return builds(self.cache, self.build, lambda code: list(trees.code_files(code, [], self.config.ignore)))

    @contextmanager
    def ready(self) -> Iterator[list[str]]:
        """Build the working tree where it has to be built, so that its tests can be collected here; say where to."""
        if not self.build:
            yield []
            return
        before = sys.path[:]
        with self.builds() as self.python_for:
            try:
                places = self.built_places()
                sys.path[:0] = places
                yield places
            finally:
                sys.path[:], self.python_for = before, None

    def built_places(self) -> list[str]:
        """Return where the modules are that were built of the working tree, and then the working tree itself.

        pytest puts the folder of a test before all others, unless it is known: what is not built would come first.

        Raises:
            GateError: the build fails.
        """
        assert self.python_for
        with revisions.workspace(self.cache) as folder:
            self.snapshot(self.root, folder / "head")
            python = self.python_for("head", folder / "head")
        return list(map(str, [packages_of(python), *trees.roots(tree_of(python), self.on_path()), self.root]))

    def lay_out(self, name: str, code: Path, benchmarks: Path, folder: Path, python: Path) -> Side:
        """Return a side: a tree with a revision's code, built where it has to be, and head's benchmarks.

        Args:
            name: ``base`` or ``head``.
            code: tree of the revision.
            benchmarks: tree of the working tree.
            folder: to be made for the side.
            python: interpreter of the side's environment.
        """
        tree = folder / "tree"
        ini = self.run and self.run.inipath  # what pytest is told about the tests is head's
        told = [ini.relative_to(self.root).as_posix()] if ini and ini.is_relative_to(self.root) else []
        trees.overlaid(tree, tree_of(python) if self.build else code, benchmarks, [*self.paths, *told])
        trees.copied([name for name in self.generated if not (tree / name).exists()], benchmarks, tree)
        (folder / "tool").mkdir()
        (folder / "tool" / "rlgauge").symlink_to(Path(rlgauge.__file__).parent)
        variables = {"PYTHONPATH": self.search_path(tree, python, folder), **caches(folder)}
        files = sorted({name.partition("::")[0] for name in self.names})
        return Side(name, tree, python, self.command(tree, folder, files, self.packages(tree, python)), variables)

    def packages(self, tree: Path, python: Path) -> list[str]:
        """Return the names of the packages under test.

        Args:
            tree: of a side.
            python: interpreter of the side's environment.
        """
        found = set(trees.packages(tree, self.paths, self.on_path())) | set(self.project)
        if self.build:
            found |= {path.name.partition(".")[0] for path in packages_of(python).iterdir() if is_module(path)}
        return sorted(found)

    def search_path(self, tree: Path, python: Path, folder: Path) -> str:
        """Return where a side looks for modules first: in what was built of its tree, then in the tree.

        Args:
            tree: of a side.
            python: interpreter of the side's environment.
            folder: of the side, with this package in ``tool``.
        """
        built = [packages_of(python)] if self.build else []
        own = [*built, *trees.roots(tree, self.on_path()), folder / "tool"]
        return os.pathsep.join(map(str, [*own, *self.users_path(tree)]))

    def users_path(self, tree: Path) -> list[Path]:
        """Return the entries of the user's ``PYTHONPATH``; those in the repository as folders of a side.

        Args:
            tree: of the side.
        """
        root = self.root.resolve()
        entries = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        return [tree / entry.relative_to(root) if entry.is_relative_to(root) else entry for entry in entries]

    def command(self, tree: Path, folder: Path, files: Sequence[str], packages: Sequence[str]) -> tuple[str, ...]:
        """Return what starts a worker.

        What lies in the tree must not come before what was built of it: the interpreter does not look there first.

        Args:
            tree: that it runs in.
            folder: in which it may write.
            files: that its pytest collects.
            packages: names of the packages under test.
        """
        own = [f"--rootdir={tree}", f"--basetemp={folder / 'temporary'}"]
        if self.run is None or self.run.pluginmanager.hasplugin("cacheprovider"):
            own += ["-o", f"cache_dir={folder / 'cache'}"]
        if self.run is None or self.run.pluginmanager.hasplugin("faulthandler"):
            own += ["-o", "faulthandler_timeout=0"]
        told = {
            "arguments": command.arguments(self.run, [*own, *files]),
            "packages": list(packages),
            "root": str(self.root.resolve()),
            "folder": str(folder.resolve()),
        }
        return "-P", "-m", "rlgauge.benchmarks.worker", json.dumps(told)

    def check(self, sides: Sequence[Side], cases: Sequence[Case], limit: float) -> None:
        """Prove that each side imports the packages under test from its own tree.

        Args:
            sides: base and head.
            cases: those that are to be timed.
            limit: seconds that a worker may take for one request.

        Raises:
            GateError: one does not, or there is no package under test.
        """
        if not cases:
            return
        here = cores_of_all()
        try:
            with held(), Worker(sides[0], here, 1, limit) as base, Worker(sides[1], here, 1, limit) as head:
                found = both((base, head), "origins")
        except WorkerError as error:
            raise GateError(str(error)) from error
        for side, reply in zip(sides, found, strict=True):
            for case in cases:
                if case.id in reply["missing"]:  # in an environment of its own
                    raise GateError(f"{side.name}: {reply['missing'][case.id]}")
            if reply["strays"]:
                raise GateError(
                    f"{side.name} imports {reply['strays'][0]} of the repository itself, not of its own tree: both "
                    "sides would run the same code; a package that is compiled needs --gate-build"
                )
        origins = [reply["origins"] for reply in found]
        imported = {name for reply in found for name in reply["imported"]} or {*origins[0], *origins[1]}
        for name in sorted(imported):
            for side, places in zip(sides, origins, strict=True):
                own = [side.root.resolve(), *([side.python.parents[1].resolve()] if self.build else [])]
                if name in places and not any(Path(places[name]).is_relative_to(place) for place in own):
                    raise GateError(
                        f"{side.name} imports {name} from {places[name]}, which is not its own tree: both sides would "
                        "run the same code; a package that is compiled needs --gate-build"
                    )
            files = [f"{side.name} {places[name]}" for side, places in zip(sides, origins) if name in places]
            self.told.append(f"{name}: {', '.join(files)}")

    def machine(self, root: Path) -> dict[str, Any]:
        """Return what the figures belong to.

        Args:
            root: of the repository.
        """
        versions = {package: version(package) for package in VERSIONS}
        return super().machine(root) | {"python": platform.python_version(), "versions": versions}

    def everything(self, root: Path) -> None:
        """Select all benchmarks of the working tree.

        Args:
            root: of the repository.

        Raises:
            GateError: there are none, or they cannot be collected.
        """
        folder = self.cache / "listing"
        try:
            with self.ready() as built:
                path = os.pathsep.join(map(str, [*built, *trees.roots(root), Path(rlgauge.__file__).parents[1]]))
                side = Side("head", root, PYTHON, self.command(root, folder, ["."], []), {"PYTHONPATH": path})
                self.names = self.collected_by(side)
        except WorkerError as error:
            raise GateError(str(error)) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not self.names:
            raise GateError("no benchmark was collected: no test uses the fixture benchmark or has that mark")
        self.paths = self.benchmark_paths()

    def notes(self, records: Mapping[str, Record]) -> Sequence[str]:
        """Return which paths are benchmarks, and from where each side imports what.

        Args:
            records: what is known of each case.
        """
        made = [f"generated, the working tree's on both sides: {', '.join(self.generated)}"] if self.generated else []
        return [f"benchmarks, head's on both sides: {', '.join(self.paths)}", *made, *self.told]


LISTING = 120.0  # seconds for base to collect its own tests


def cores_of_all() -> tuple[int, ...]:
    """Return the numbers of the cores of this process."""
    return tuple(sorted(os.sched_getaffinity(0)))


def modules_of(root: Path) -> list[str]:
    """Return the names of the modules that the project of a repository has installed here, none where it has not.

    Args:
        root: of the repository.
    """
    try:
        name = tomllib.loads((root / "pyproject.toml").read_text())["project"]["name"]
        files = metadata.files(name) or []
    except (OSError, ValueError, KeyError, TypeError, metadata.PackageNotFoundError):
        return []
    tops = {Path(file.parts[0]) for file in files if len(file.parts) > 1 or file.suffix in (".py", ".so")}
    return sorted(
        name for name in {top.name.partition(".")[0] for top in tops} if name.isidentifier() and "__" not in name
    )


def is_module(path: Path) -> bool:
    """Return whether what is installed at a path can be imported.

    Args:
        path: in an environment's folder of packages.
    """
    return (path.is_dir() and path.suffix == "" and path.name != "__pycache__") or path.suffix in (".py", ".so")


def version(package: str) -> str:
    """Return the version of a package that is installed.

    Args:
        package: its name.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
