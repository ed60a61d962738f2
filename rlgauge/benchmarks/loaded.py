"""Record which files of a tree a process imports or opens, and which libraries it maps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

OPEN_EVENTS = ("open", "ctypes.dlopen", "sqlite3.connect")  # audit events whose first argument is a path
# modules that are imported when a process is started in ways that raise no audit event
SPAWNERS = (
    "multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver",
    "joblib.externals.loky.backend.popen_loky_posix", "loky.backend.popen_loky_posix",
)  # fmt: skip
SPAWN_EVENTS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")


class LoadedFiles:
    """Records loaded files by an audit hook, which stays until the process ends.

    A child process may load anything: only its start is recorded.

    Args:
        tree: directory whose files are recorded.
    """

    def __init__(self, tree: str) -> None:
        self.prefix, self.files, self.spawned = f"{os.path.realpath(tree)}{os.sep}", set[str](), False
        sys.addaudithook(self.record)

    def record(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle an audit event."""
        if event in OPEN_EVENTS and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            self.files.add(os.path.abspath(os.fsdecode(arguments[0])))
        elif event in SPAWN_EVENTS:
            self.spawned = True

    def take(self) -> dict[str, Any]:
        """Return the files of the tree that were opened since the last call, and the files of all imported modules.

        Paths are relative to the tree. Modules are included because those loaded from a bytecode cache are not opened.
        """
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        files = {os.path.realpath(file) for file in [*self.files, *filter(None, modules)]}
        spawned = self.spawned or not sys.modules.keys().isdisjoint(SPAWNERS)
        self.files, self.spawned = set(), False
        inside = [file[len(self.prefix) :] for file in files if file.startswith(self.prefix)]
        return {"files": sorted(file for file in inside if "__pycache__" not in file), "spawned": spawned}


class EarlyFiles:
    """A plugin that forgets the files that pytest and plugins open before the ``conftest.py`` files are loaded."""

    def __init__(self, files: LoadedFiles) -> None:
        self.files = files

    def pytest_load_initial_conftests(self) -> None:
        """Forget the files so far; pytest's own hook, which loads the ``conftest.py`` files, comes last."""
        self.files.take()


def imported_files(tree: str) -> list[str]:
    """Return the files of a tree from which this process has imported modules, relative to the tree."""
    prefix = f"{os.path.realpath(tree)}{os.sep}"
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {os.path.realpath(file) for file in modules if isinstance(file, str)}
    return sorted(file[len(prefix) :] for file in files if file.startswith(prefix))


def mapped_libraries() -> set[str]:
    """Return the files of the shared libraries that this process has loaded."""
    lines = Path("/proc/self/maps").read_text("utf-8", errors="replace").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if " r-xp " in line and ".so" in line}
