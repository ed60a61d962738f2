"""The gate's side of a repository whose benchmarks are tests that use pytest-benchmark."""

from __future__ import annotations

import functools
import inspect
import json
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from rlgauge.workers import PYTHON, Side, Worker, WorkerError, both

from . import trees
from .builds import builds, packages_of, tree_of

if TYPE_CHECKING:
    import pytest

CACHE = ".rlgauge"
QUIET = ("-q", "--no-header", "-p", "no:cacheprovider")
OFF = {"numprocesses": ("-n", "0"), "no_cov": ("--no-cov",)}  # what would disturb, by an option that tells it is there
VERSIONS = ("numpy", "pytest", "pytest-benchmark")


class Benchmarks(Source):
    """The tests of a repository that use the fixture ``benchmark``.

    Args:
        root: of the repository.
        config: its settings.
        run: of pytest, with the options of the gate; all tests unless given.
    """

    together, collects = False, True

    def __init__(self, root: Path, config: Config, run: pytest.Config | None) -> None:
        self.root, self.config, self.run = root, config, run
        self.cache, self.artifact = root / CACHE, root / CACHE / "gate.json"
        self.build = (run and run.getoption("gate_build")) or config.build
        if self.build and config.lock:
            raise GateError("build and lock: got both, wanted one: a build may install what a lock file wants")
        self.names: list[str] = []
        self.paths: list[str] = []
        self.told: list[str] = []
        self.digest = functools.cache(lambda code: revisions.digest(code, self.code_files(code)))
        self.cache.mkdir(exist_ok=True)
        (self.cache / ".gitignore").write_text("*\n")

    def collected(self, items: Sequence[pytest.Item]) -> None:
        """Take the tests that use ``benchmark``.

        Args:
            items: all that were collected and selected.

        Raises:
            GateError: there are none, or one that cannot be timed.
        """
        chosen = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]
        if not chosen:
            raise GateError(f"no benchmark was collected: none of {len(items)} tests uses the fixture benchmark")
        for item in chosen:
            if inspect.iscoroutinefunction(getattr(item, "function", None)):
                raise GateError(f"{item.nodeid}: async def: a benchmark is a function that runs its loop to its end")
        self.names = [item.nodeid for item in chosen]
        self.paths = self.benchmark_paths()

    def benchmark_paths(self) -> list[str]:
        """Return the files and folders that are head's on both sides.

        Raises:
            GateError: one that is named is not there, or outside of the repository.
        """
        given = (self.run.getoption("gate_benchmarks") if self.run else []) or self.config.benchmarks
        found = []
        for path in given:
            place = (self.root / path).resolve()
            if not place.exists() or not place.is_relative_to(self.root.resolve()):
                raise GateError(f"--gate-benchmarks: got {path}, wanted a file or folder of this repository")
            found.append(place.relative_to(self.root.resolve()).as_posix())
        if not found and self.run:
            found = [path for path in self.run.getini("testpaths") if self.holds_no_code(path)]
        rest = [name.partition("::")[0] for name in self.names]
        return found + trees.benchmark_paths([file for file in rest if not trees.inside(file, found)], self.root)

    def holds_no_code(self, path: str) -> bool:
        """Return whether a folder of tests is nothing else: no package at the top of the tree or of ``src``.

        Args:
            path: of a folder, relative to the root.
        """
        place = self.root / path
        return place.is_dir() and bool(trees.NAMED.search(place.name))

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
        return next((value for pattern, value in reversed(patterns.items()) if matches(name, pattern)), default)

    def listed(self, code: Path, side: Side) -> Collection[str]:
        """Return the benchmarks that a revision has by its own files, of those selected; none where it cannot say.

        Args:
            code: tree of the revision.
            side: whose interpreter and variables are used.
        """
        paths = [path for path in self.arguments() if (code / path.partition("::")[0]).exists()]
        if not paths:
            return []
        selected = [word for name, flag in FLAGS.items() if self.option(name) for word in (flag, self.option(name))]
        variables = {**side.variables, "PYTHONPATH": self.search_path(code, side.python)}
        worker = self.command([f"--basetemp={side.root.parent / 'temporary'}", *selected, *paths], [])
        own = replace(side, root=code, worker=worker, variables=variables)
        try:
            with held(), Worker(own, cores_of_all(), 1, LISTING) as asked:
                asked.ask("listing")
                found: list[str] = asked.reply()["listing"]
                return found
        except WorkerError:  # a file of it cannot be imported any more: nothing is known to be gone
            return []

    def option(self, name: str) -> Any:
        """Return an option of the run of pytest.

        Args:
            name: of the option.
        """
        return self.run.getoption(name, None) if self.run else None

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
        """Copy the working tree.

        Args:
            root: of the repository.
            folder: where it is copied to.
        """
        revisions.snapshot(root, folder)

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
        return list(trees.code_files(code, self.paths, self.config.ignore))

    def environments(self) -> AbstractContextManager[Callable[[str, Path], Path]]:
        """Return ``python_for(name, code)``: this interpreter, or that of the side's build or lock file."""
        if self.build:
            return builds(self.cache, self.build, self.code_files)
        if self.config.lock:
            return environments(self.cache, self.config.lock)
        return nullcontext(lambda name, code: PYTHON)

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
        trees.overlaid(tree, tree_of(python) if self.build else code, benchmarks, self.paths)
        (folder / "tool").mkdir()
        (folder / "tool" / "rlgauge").symlink_to(Path(rlgauge.__file__).parent)
        files = sorted({name.partition("::")[0] for name in self.names})
        variables = {
            "PYTHONPATH": f"{self.search_path(tree, python)}{os.pathsep}{folder / 'tool'}",
            "PYTHONSAFEPATH": "1",  # or what lies in the tree would come before what was built of it
        }
        arguments = [f"--basetemp={folder / 'temporary'}", *files]
        return Side(name, tree, python, self.command(arguments, self.packages(tree, python)), variables)

    def packages(self, tree: Path, python: Path) -> list[str]:
        """Return the names of the packages under test.

        Args:
            tree: of a side.
            python: interpreter of the side's environment.
        """
        found = set(trees.packages(tree, self.paths))
        if self.build:
            found |= {path.name.partition(".")[0] for path in packages_of(python).iterdir() if is_module(path)}
        return sorted(found)

    def search_path(self, tree: Path, python: Path) -> str:
        """Return where a side looks for modules first: in what was built of its tree, then in the tree.

        Args:
            tree: of a side.
            python: interpreter of the side's environment.
        """
        return os.pathsep.join(map(str, [*([packages_of(python)] if self.build else []), *trees.roots(tree)]))

    def command(self, arguments: Sequence[str], packages: Sequence[str]) -> tuple[str, ...]:
        """Return what starts a worker.

        Args:
            arguments: of its pytest.
            packages: names of the packages under test.
        """
        off = [word for name, words in OFF.items() if self.has(name) for word in words]
        told = {"arguments": [*QUIET, *off, *arguments], "packages": list(packages)}
        return "-m", "rlgauge.benchmarks.worker", json.dumps(told)

    def has(self, option: str) -> bool:
        """Return whether pytest knows an option, by a plugin that is installed.

        Args:
            option: its name.
        """
        return self.run is not None and hasattr(self.run.option, option)

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
        origins = [reply["origins"] for reply in found]
        imported = {name for reply in found for name in reply["imported"]} or {*origins[0], *origins[1]}
        if not imported:
            raise GateError(
                f"no package under test: all modules are among the benchmarks, {', '.join(self.paths)}, which are "
                "head's on both sides; name the benchmarks alone by --gate-benchmarks"
            )
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

    def notes(self, records: Mapping[str, Record]) -> Sequence[str]:
        """Return which paths are benchmarks, and from where each side imports what.

        Args:
            records: what is known of each case.
        """
        return [f"benchmarks, head's on both sides: {', '.join(self.paths)}", *self.told]


LISTING = 120.0  # seconds for base to collect its own tests
FLAGS = {"keyword": "-k", "markexpr": "-m"}


def cores_of_all() -> tuple[int, ...]:
    """Return the numbers of the cores of this process."""
    return tuple(sorted(os.sched_getaffinity(0)))


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
