"""Which files of a tree a process imports or opens."""

from __future__ import annotations

import os
import sys
from typing import Any

OPENED = ("open", "ctypes.dlopen", "sqlite3.connect")  # audit events whose first argument is a path
# modules that are imported when a process starts by other means, of which no event tells
SPAWNERS = (
    "multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver",
    "joblib.externals.loky.backend.popen_loky_posix", "loky.backend.popen_loky_posix",
)  # fmt: skip
SPAWNED = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system")


class Loaded:
    """Notes what is loaded from now on, by an audit hook: it stays for as long as the process.

    A process that is started may load anything: that is noted, not what it loads.

    Args:
        tree: folder whose files are noted.
    """

    def __init__(self, tree: str) -> None:
        self.prefix, self.files, self.spawned = f"{os.path.realpath(tree)}{os.sep}", set[str](), False
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event of the interpreter."""
        if event in OPENED and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            self.files.add(os.path.abspath(os.fsdecode(arguments[0])))
        elif event in SPAWNED:
            self.spawned = True

    def take(self) -> dict[str, Any]:
        """Return the files, relative to the tree, that were loaded since this was called last, and all modules.

        Modules are asked for their files, as those that are loaded from a cache of bytecode are not opened.
        """
        modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        files = {os.path.realpath(file) for file in [*self.files, *filter(None, modules)]}
        spawned = self.spawned or not sys.modules.keys().isdisjoint(SPAWNERS)
        self.files, self.spawned = set(), False
        inside = [file[len(self.prefix) :] for file in files if file.startswith(self.prefix)]
        return {"files": sorted(file for file in inside if "__pycache__" not in file), "spawned": spawned}
