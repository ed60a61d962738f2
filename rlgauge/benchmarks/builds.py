"""Trees that are built before import, each in its own environment, cached by the hash of its files."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rlgauge import revisions
from rlgauge.environments import remove_old, say
from rlgauge.rule import GateError

if sys.platform != "win32":  # where the gate only reports that it is not supported
    import fcntl

KEPT = 4  # most recently used builds
BESIDE = "beside.pth"  # makes packages installed here importable in the build's environment


@contextmanager
def builds(
    cache: Path, command: str, files_of: Callable[[Path], Sequence[Path]], place: str = "."
) -> Iterator[Callable[[str, Path], Path]]:
    """Provide ``python_for(name, code)``: the interpreter of an environment in which that tree is built.

    Args:
        cache: directory in which builds are kept.
        command: command that builds the tree it is run in.
        files_of: returns the files of a tree that its build depends on.
        place: directory of the tree in which the command is run.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise GateError(f"--gate-build: {command!r} is not a shell command: {error}") from error
    if not words:
        raise GateError("--gate-build: give a command, for example 'python -m pip install --no-deps .'")
    with ExitStack() as held:
        locked: set[Path] = set()

        def python_for(name: str, code: Path) -> Path:
            wanted = f"{place} {command} {sys.version} {sys.prefix} {revisions.digest(code, files_of(code))}"
            folder = cache / f"build-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
            if folder not in locked:  # both sides may share a tree
                used = held.enter_context(folder.with_suffix(".lock").open("w"))
                fcntl.flock(used, fcntl.LOCK_EX)  # until this run ends: runs of one clone take turns
                locked.add(folder)
            if not (folder / ".ready").exists():
                say(f"building {name}: {command}")
                build(folder, code, words, name, place)
            (folder / ".ready").touch()
            remove_old(cache, "build-*", KEPT)
            return interpreter(folder)

        yield python_for


def interpreter(folder: Path) -> Path:
    """Return the interpreter of a build, given the build's directory."""
    return folder / "env" / "bin" / "python"


def tree_of(python: Path) -> Path:
    """Return the tree that was built for an interpreter."""
    return python.parents[2] / "tree"


def packages_of(python: Path) -> Path:
    """Return the ``site-packages`` directory of a build's interpreter."""
    here = sysconfig.get_path("purelib", vars={"base": "", "platbase": ""}).lstrip("/")
    return python.parents[1] / here


def build(folder: Path, code: Path, words: Sequence[str], name: str, place: str = ".") -> None:
    """Copy a tree and run a command in it, in an environment that can also import the packages installed here.

    Raises GateError with the command's last line of output if it fails; the build's directory is then removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(code, folder / "tree", symlinks=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        python = interpreter(folder)
        places = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
        lines = [f"import site; site.addsitedir({place!r})" for place in places if Path(place).is_dir()]
        packages_of(python).mkdir(parents=True, exist_ok=True)
        (packages_of(python) / BESIDE).write_text("\n".join(lines) + "\n")
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        variables.setdefault("SETUPTOOLS_SCM_PRETEND_VERSION", "0")  # a tree is not a git repository
        variables.setdefault("PYTHONUNBUFFERED", "1")  # otherwise its output may follow the error
        variables |= {"VIRTUAL_ENV": str(folder / "env"), "PATH": f"{python.parent}:{variables.get('PATH', '')}"}
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done: Any = subprocess.run(words, cwd=folder / "tree" / place, env=variables, **how)  # type: ignore[call-overload]
        if done.returncode:
            said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            last = said[-1] if said else f"exit code {done.returncode}"
            raise GateError(f"{name}: the build failed: {last}")
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise GateError(f"{name}: the build failed: {error}") from error
        raise
