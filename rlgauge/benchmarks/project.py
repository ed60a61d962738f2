"""The project whose benchmarks are run: its directories, settings and files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rlgauge import revisions
from rlgauge.config import Config, settings_folder
from rlgauge.rule import GateError

from . import installed, trees
from .finder import TEST_FOLDER

if TYPE_CHECKING:
    import pytest

FOLDER = ".rlgauge"  # output directory for the user
NOT_FOR_PIP = "Pipfile.lock", "pdm.lock", "poetry.lock", "uv.lock"  # lock files of other tools


class Project:
    """A project in a git repository. Paths given as text are relative to git's top level.

    Args:
        root: pytest's root directory; test ids are relative to it.
        config: settings from ``[tool.rlgauge]``.
        run: pytest's configuration with the gate's options; None selects all tests.

    Attributes:
        top: top level of the git repository; all paths in trees are relative to it.
        inipath: pytest's configuration file, if any; without a run, known once the tests are listed.
        pythonpath: directories of pytest's setting ``pythonpath``.
        settings: directory of the settings file; paths in the settings are relative to it.
        start: directory in which pytest was started; workers start in each side's copy of it.
        cache: directory of builds and environments that are kept between runs.
        artifact: default path of the JSON artifact.
        copied_projects: directories of the repository's projects that are installed as copies and not compiled.
        copied_modules: directory of each project that is installed as a copy, by module name.
        project_modules: installed modules of the nearest project, and of those that are installed as copies.
        helpers: folders of tests from which the benchmarks may import something; known with the benchmarks.
        build: command that builds a tree, if any.
        ignore: patterns of files that do not count as changes.
        outputs: those among them that match the files that this run writes.
    """

    def __init__(self, root: Path, config: Config, run: pytest.Config | None) -> None:
        self.root, self.config, self.run = root.resolve(), config, run
        self.top = revisions.top_of(root)
        self.inipath: Path | None = run.inipath if run else None
        self.pythonpath = list(map(Path, run.getini("pythonpath"))) if run else []
        started_in = Path(run.invocation_params.dir).resolve() if run else self.root
        self.start = started_in if started_in.is_relative_to(self.top) else self.root
        self.settings = settings_folder(root, self.start).resolve()
        self.cache, self.artifact = revisions.common_folder(root) / "rlgauge", root / FOLDER / "gate.json"
        for folder in (self.top, self.cache.parent):
            if os.pathsep in str(folder):
                raise GateError(f"{folder}: PYTHONPATH cannot name a folder with a colon; rename it")
        self.build = (run and run.getoption("gate_build")) or config.build
        if self.build and (config.lock or config.depends):
            other = "lock" if config.lock else "depends"
            raise GateError(f"build and {other} are both set: remove {other}, which has no effect on built packages")
        if Path(config.lock).name in NOT_FOR_PIP:
            how = "export it, for example with uv export, to a requirements.txt that git tracks, and set lock to that"
            raise GateError(f"lock {config.lock!r}: pip cannot read it; {how}")
        if config.lock and not (self.settings / config.lock).is_file():
            raise GateError(f"lock {config.lock!r}: {self.settings} has no such file; name one that exists")
        projects = [self.top / name for name in revisions.tracked(self.top, trees.PROJECT_FILES)]
        projects = [path.parent for path in projects if not any(map(is_test_folder, path.relative_to(self.top).parts))]
        self.copied_projects, self.copied_modules = installed.copied_projects(self.top, projects)
        modules = {*installed.modules_of(self.root, self.top), *self.copied_modules}
        self.project_modules = sorted(name for name in modules if not is_test_folder(name))
        self.helpers: list[str] = []
        # a pattern such as *.md matches anywhere, a path is relative to the settings
        self.ignore = [*filter(glob.has_magic, config.ignore), *map(self.from_settings, config.ignore)]
        self.outputs: list[str] = []
        self.artifact.parent.mkdir(exist_ok=True)
        (self.artifact.parent / ".gitignore").write_text("*\n", "utf-8")

    def relative(self, path: Path) -> str:
        """Return a path relative to git's top level; raise ValueError for a path outside it."""
        return path.relative_to(self.top).as_posix()

    def from_settings(self, path: str) -> str:
        """Convert a path or pattern in the settings to one relative to git's top level."""
        prefix = self.relative(self.settings)
        return os.path.normpath(path if prefix == "." else f"{prefix}/{path}")

    def leave_out(self, path: Path) -> None:
        """Do not count a file that the run writes as a change, nor its temporary file."""
        target = path.resolve()
        if target.is_relative_to(self.top):
            folder = self.relative(target.parent)
            self.outputs += [os.path.normpath(f"{folder}/{name}") for name in (target.name, f".{target.name}.*")]
            self.ignore += self.outputs[-2:]

    def file_of(self, name: str) -> str:
        """Return the file of a test; raise GateError if it is not in the repository."""
        path = Path(os.path.normpath(self.root / name.partition("::")[0]))
        if not path.is_relative_to(self.top):
            raise GateError(f"{path} is not in the repository {self.top}: give paths inside the repository")
        return self.relative(path)

    def ini_file(self) -> str | None:
        """Return pytest's configuration file, or None if it is outside the repository."""
        ini = self.inipath.resolve() if self.inipath else None
        return self.relative(ini) if ini and ini.is_relative_to(self.top) else None

    def import_folders(self, benchmarks: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the directories from which packages are imported, and those among them that are bases.

        The first list has pytest's ``pythonpath``, the repository's directories on ``sys.path``, those of editable
        installs, the bases, and likely directories such as ``src``. It leaves out directories in `benchmarks`, which
        pytest itself adds, unless they are in `helpers`. The bases are pytest's root, the directory where it was
        started, that of the settings, and projects that are installed as copies. They need not be on the path.
        """
        bases = list(dict.fromkeys([self.root, self.start, self.settings, *self.copied_projects]))
        guessed = [base / "src" for base in bases if not trees.shadows_library(base / "src")]
        projects = [self.root, *self.copied_projects]
        guessed += [project / name for project in projects for name in trees.folders_of(project, self.project_modules)]
        on_path = [*installed.path_folders(), *installed.editable_folders()]
        for checkout in self.other_checkouts:  # their counterparts in this repository
            guessed += [self.root / path.relative_to(checkout) for path in on_path if path.is_relative_to(checkout)]
        candidates = (*on_path, *guessed, *bases)
        resolved = [path.resolve() for path in self.pythonpath]
        folders = [self.relative(path) for path in resolved if path.is_relative_to(self.top)]
        for path in candidates:
            if path.is_relative_to(self.top) and not installed.is_environment(path, self.top):
                folder = self.relative(path)
                added = trees.is_inside(folder, benchmarks) and not trees.is_inside(folder, self.helpers)
                # Before collection, a test directory is on the path only because of its conftest.py.
                if not added and (benchmarks or not is_test_folder(Path(folder).name)):
                    folders.append(folder)
        return list(dict.fromkeys(folders)), [self.relative(base) for base in bases]

    @cached_property
    def other_checkouts(self) -> list[Path]:
        """Directories outside the repository from which the nearest project is installed as editable."""
        return installed.other_checkouts(self.root, self.top)

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

    def start_in(self, tree: Path) -> Path:
        """Return the directory of a tree in which its workers start, and create it if the revision lacks it."""
        for folder in (self.root, self.start):
            (tree / self.relative(folder)).mkdir(parents=True, exist_ok=True)
        return tree / self.relative(self.start)


def is_test_folder(name: str) -> bool:
    """Return whether a directory's name is typical of tests or benchmarks."""
    return bool(TEST_FOLDER.fullmatch(name))
