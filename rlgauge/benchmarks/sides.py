"""The two sides of a comparison: trees of a revision's code and the benchmarks, and the workers that run in them."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import rlgauge
from rlgauge import revisions
from rlgauge.config import FILE, Config
from rlgauge.environments import PythonFor, environments, locked_files
from rlgauge.rule import GateError
from rlgauge.workers import PYTHON, Side, cache_variables

from . import command, installed, trees
from .builds import builds, packages_of, tree_of
from .finder import PackageFinder, real_path
from .project import Project, is_test_folder

if TYPE_CHECKING:
    import pytest

CONFCUTDIR = re.compile("--confcutdir(=|$)")
TOOL = "tool"  # name of the directory for this package in a side's directory
Imports = tuple[list[str], list[str]]  # packages under test, and the directories from which they are imported


class ProjectSides(Project):
    """A project whose revisions can be laid out as the sides of a comparison.

    Args:
        root, config, run: see :class:`.project.Project`.
        environment: environment variables for workers; those of this process by default.

    Attributes:
        own_benchmarks: whether each side has its own benchmarks, rather than head's.
        names: ids of the selected benchmarks.
        paths: files and directories of benchmarks.
        renamed: head's test id by base's.
        arguments: pytest arguments for workers, if `run` is None.
        generated: package files that git ignores, which no revision has.
        left_out: paths in the benchmark directories that git ignores, and repositories there that are not submodules.
        python_for: returns the interpreter of a tree's build; None outside :meth:`ready`.
    """

    def __init__(
        self, root: Path, config: Config, run: pytest.Config | None, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(root, config, run)
        self.environment = environment
        self.own_benchmarks = bool(run and run.getoption("gate_own_benchmarks"))
        self.names: list[str] = []
        self.paths: list[str] = []
        self.renamed: dict[str, str] = {}
        self.arguments: list[str] = []
        self.generated: list[str] = []
        self.left_out: list[str] = []
        self.python_for: PythonFor | None = None
        self.digest = functools.cache(self.digest_of)

    # Trees

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
        trees.keep_outer_links(folder, self.top)
        trees.copy_files([name for name in self.generated if not (folder / name).exists()], self.top, folder)

    def snapshot(self, folder: Path) -> None:
        """Copy the working tree, including generated Python files of its packages that git ignores.

        Raises GateError for untracked compiled files: base would run without them, or not at all.
        """
        revisions.snapshot(self.top, folder, self.parts(), self.ignore)
        trees.keep_outer_links(folder, self.top)
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
            why = f"git ignores {ini}, pytest's configuration file, so neither side has it"
            raise GateError(f"{why}; remove it from .gitignore")
        built, kept = (tree_of(python), code) if self.build else (code, None)
        files = self.files_on(name, self.names)
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
        tool = link_tool(folder)
        infos = [] if self.build else installed.source_metadata(self.top)
        infos = [info for info in infos if not (tree / self.relative(info)).exists()]
        if python != PYTHON and not self.build:  # an environment of a lock file, where the project is not installed
            infos += installed.metadata_folders(self.root, self.top)
        for info in infos:
            (tool / info.name).symlink_to(info)
        imports = self.imports(tree, python)
        inherited = self.inherited_in(tree)
        variables = {"PYTHONPATH": self.search_path(tree, folder, imports), **cache_variables(folder, inherited)}
        if python != PYTHON:  # commands that a test starts are those of the side
            variables["PATH"] = f"{python.parent}{os.pathsep}{inherited.get('PATH', '')}"
            variables["VIRTUAL_ENV"] = str(python.parents[1])
        worker = self.worker_arguments(name, tree, folder, files, imports)
        return Side(name, tree, python, worker, variables, start=self.start_in(tree), inherited=inherited)

    def shared_paths(self, code: Path) -> list[str]:
        """Return the benchmark paths, and each ``conftest.py`` above them that a revision has but head may lack."""
        return [*self.paths, *trees.conftests(self.paths, code)]

    def digest_of(self, code: Path, only: tuple[str, ...] = (".",), without: tuple[str, ...] = ()) -> str:
        """Return a hash of a tree's files in `only`, its lock files, and the side's own benchmarks, if it has any.

        Lock files have a typical name, or belong to the setting `lock`, see :func:`.environments.locked_files`.

        Generated files count even outside `only`, because a revision may track its own version of them. Files in
        `without`, ignored files and benchmarks that both sides share do not count, except lock files.
        """
        shared, own = ([], self.paths) if self.own_benchmarks else (self.shared_paths(code), [])
        included = [*only, *own, *self.generated]
        files = [
            file
            for file in trees.code_files(code, [*shared, *without], self.ignore)
            if trees.is_lock(file) or trees.is_inside(file.relative_to(code).as_posix(), included)
        ]
        locked = list[Path]()
        if self.config.lock:
            locked = locked_files(code / self.from_settings(self.config.lock), code / self.relative(self.settings))
        return revisions.digest(code, {*files, *locked})

    # Workers

    def imports(self, tree: Path, python: Path) -> Imports:
        """Return the packages under test in a tree or its build, and the directories they are imported from."""
        names = {*trees.packages(tree, self.paths, *self.import_folders(self.paths)), *self.project_modules}
        folders = self.source_folders(tree)
        if self.build:
            packages = packages_of(python)
            built = {path.name.partition(".")[0] for path in filter(installed.is_module, packages.iterdir())}
            names |= {name for name in built if not is_test_folder(name)}  # many wheels contain their tests
            folders = [str(packages), *folders]
        names -= {*sys.stdlib_module_names} - {*self.project_modules}  # a script in the root that no test can import
        names.discard(rlgauge.__name__)  # both sides run with this version of it
        return sorted(names), folders

    def source_folders(self, tree: Path) -> list[str]:
        """Return the directories of a tree that hold the source files of packages."""
        return list(map(str, trees.import_roots(tree, self.import_folders(self.paths)[0])))

    def search_path(self, tree: Path, folder: Path, imports: Imports) -> str:
        """Return the ``PYTHONPATH`` of a side in `folder`: this package, its build, its tree, then the user's entries.

        The user's entries inside the repository point into the side's tree.
        """
        users = [tree / self.relative(path) if path.is_relative_to(self.top) else path for path in users_path()]
        return os.pathsep.join(map(str, [folder / TOOL, *imports[1], *users]))

    def inherited_in(self, tree: Path) -> dict[str, str]:
        """Return the user's environment variables; one that names a file in the repository names its copy in a tree."""
        users, top = os.environ if self.environment is None else self.environment, f"{self.top}{os.sep}"
        paths = {  # a folder above the repository may have another name
            name: value if value.startswith(top) else os.path.join(real_path(folder), file)
            for name, value in users.items()
            for folder, file in [os.path.split(value)]
            if os.path.isabs(value)
        }
        copies = {name: str(tree / path.removeprefix(top)) for name, path in paths.items() if path.startswith(top)}
        return {**users, **{name: copy for name, copy in copies.items() if os.path.isfile(copy)}}

    def names_in_shell(self) -> list[str]:
        """Return other paths of the top level by which the user's shell knows it, through links above it."""
        shell = Path(os.sep, os.environ.get("PWD", ""))
        return [str(path) for path in (shell, *shell.parents) if path != self.top and real_path(path) == str(self.top)]

    def renamed_on(self, name: str) -> Mapping[str, str]:
        """Return head's id of each renamed test by its id on a side, ``base`` or ``head``."""
        return self.renamed if name == "base" else {}

    def files_on(self, name: str, tests: Collection[str]) -> list[str]:
        """Return the files of tests on a side, ``base`` or ``head``, given head's ids."""
        renamed = self.renamed_on(name)
        old_ids = [old for old, new in renamed.items() if new in tests]
        return sorted({self.file_of(test) for test in [*old_ids, *({*tests} - {*renamed.values()})]})

    def worker_arguments(
        self,
        name: str,
        tree: Path,
        folder: Path,
        files: Sequence[str],
        imports: Imports,
        trace: bool = False,
        finds_ini: bool = False,
    ) -> tuple[str, ...]:
        """Return the interpreter arguments that start a worker in a tree.

        Args:
            name: ``base`` or ``head``.
            tree: directory the worker runs in.
            folder: directory for temporary files.
            files: files to collect, relative to the tree.
            imports: packages under test, and the directories from which they are imported.
            trace: record which files are loaded.
            finds_ini: let pytest find the tree's ini file, which may have another name than that of the working tree.
        """
        ini = self.ini_file()
        names = "|".join(map(re.escape, [str(self.top), *self.names_in_shell()]))
        top = re.compile(rf"(?<![\w.-])({names})(?![\w.-])")  # but not /top-2 or /data/top
        selection = [top.sub(lambda _: str(tree), word) for word in [*command.forwarded(self.run), *self.arguments]]
        options = [f"--rootdir={tree / self.relative(self.root)}"]
        inipath = tree / ini if ini else self.inipath
        found = inipath is not None and inipath.exists() and not (ini and finds_ini)
        if found:
            options += ["-c", str(inipath)]
        if tree != self.top and not (ini and found) and not any(map(CONFCUTDIR.match, selection)):
            # the tree has no ini file: pytest would also load each conftest.py above it, up to the next such file
            options += [f"--confcutdir={tree / self.relative(self.root)}"]
        options += ["-o", "required_plugins="]  # some plugins are disabled in workers
        if command.has_plugin("cacheprovider", self.run, self.arguments):
            options += ["-o", f"cache_dir={folder / 'cache'}"]
        if command.has_plugin("faulthandler", self.run, self.arguments):
            options += ["-o", "faulthandler_timeout=0"]
        packages, folders = imports
        copied, _ = self.import_folders(self.paths)
        arguments = [*selection, *command.COMMON, *options, *(str(tree / file) for file in files)]
        settings = {
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
            "renamed": self.renamed_on(name),
        }
        return command.start(settings, arguments)

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


def link_tool(folder: Path) -> Path:
    """Return a new directory for ``PYTHONPATH`` that holds this package alone, unlike ``site-packages``."""
    tool = folder / TOOL
    tool.mkdir(parents=True)
    (tool / "rlgauge").symlink_to(Path(rlgauge.__file__).parent)
    return tool


def folder_of(side: Side) -> Path:
    """Return the directory in which :meth:`ProjectSides.lay_out` has created a side."""
    return side.root.parents[1]


def users_path() -> list[Path]:
    """Return the user's entries of ``PYTHONPATH``."""
    return [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
