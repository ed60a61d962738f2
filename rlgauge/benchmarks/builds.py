"""Trees that are built before import, each in its own environment, cached by the hash of what determines the build."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from rlgauge import process, revisions
from rlgauge.environments import PythonFor, log, remove_old
from rlgauge.resume import hash_of_installed
from rlgauge.rule import GateError

from .finder import KNOWN

if sys.platform != "win32":  # where the gate only reports that it is not supported
    import fcntl

KEPT = 4  # most recently used builds
FLAGS = (  # variables that change what a compiler makes
    "CC", "CXX", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "FFLAGS", "LDFLAGS", "RUSTFLAGS",
)  # fmt: skip
FLAG_PREFIXES = "CARGO_", "CMAKE_", "CYTHON", "MATURIN_", "MYPYC_", "PYO3_", "SKBUILD_"  # of others that do
BUILD_FILES = (  # that may read variables
    "setup.py", "setup.cfg", "pyproject.toml", "*build*.py", "build.rs", "CMakeLists.txt", "meson.build", "Makefile",
)  # fmt: skip
VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
UNRELATED = "HOME", "LANG", "PATH", "PWD", "PYTEST_CURRENT_TEST", "SHELL", "USER"
VERSIONS = (  # variables that give a version to build backends that ask git for it
    "SETUPTOOLS_SCM_PRETEND_VERSION", "PDM_BUILD_SCM_VERSION", "POETRY_DYNAMIC_VERSIONING_BYPASS",
)  # fmt: skip
NOT_INHERITED = "PYTHONPATH", "PYTHONHOME", "UV_SYSTEM_PYTHON"  # variables that lead out of a build's environment
PATH_FILE = "outer.pth"  # makes packages installed here importable in the build's environment
# Finders for editable installs come last, in processes that a test starts too: otherwise they find the working tree.
FINDERS_LAST = f"import sys; sys.meta_path.sort(key=lambda finder: any(hasattr(finder, name) for name in {KNOWN}))"


@contextmanager
def builds(
    cache: Path, command: str, files_of: Callable[[Path], Sequence[Path]], folder: str = "."
) -> Iterator[PythonFor]:
    """Provide ``python_for(name, code)``: the interpreter of an environment in which that tree is built.

    Args:
        cache: directory in which builds are kept.
        command: command that builds the tree it is run in.
        files_of: returns the files of a tree that its build depends on.
        folder: directory of the tree in which the command is run.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise GateError(f"--gate-build: {command!r} is not a shell command: {error}") from error
    if not words:
        raise GateError("--gate-build: give a command, for example 'python -m pip install --no-deps .'")
    with ExitStack() as locks:
        locks_of: dict[Path, IO[str]] = {}

        def python_for(name: str, code: Path, codes: Sequence[Path] = ()) -> Path:
            names = {name for name in os.environ if name in FLAGS or name.startswith(FLAG_PREFIXES)}
            names |= variables_read(code / folder)
            flags = [(name, os.environ[name]) for name in sorted(names)]
            here = f"{sys.version} {sys.prefix} {flags} {hash_of_installed()}"
            key = f"{folder} {command} {here} {revisions.digest(code, files_of(code))}"
            target = cache / f"build-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
            if target not in locks_of:  # both sides may share a tree
                locks_of[target] = locks.enter_context(target.with_suffix(".lock").open("w"))
                fcntl.flock(locks_of[target], fcntl.LOCK_SH)  # until this run ends, so that nobody removes the build
            if not (target / ".ready").exists():
                fcntl.flock(locks_of[target], fcntl.LOCK_EX)  # another run may be building it
                if not (target / ".ready").exists():
                    log(f"building {name}: {command}")
                    build(target, code, words, name, folder)
                    (target / ".ready").touch()
                fcntl.flock(locks_of[target], fcntl.LOCK_SH)
            (target / ".ready").touch()
            remove_old(cache, "build-*", KEPT)
            return interpreter(target)

        yield python_for


def variables_read(folder: Path) -> set[str]:
    """Return the environment variables that are set, and that the files of a build name, such as ``SKIP_CYTHON``."""
    texts = [path.read_text(errors="replace") for name in BUILD_FILES for path in folder.glob(name) if path.is_file()]
    return {name for name in VARIABLE.findall("\n".join(texts)) if name in os.environ and name not in UNRELATED}


def interpreter(target: Path) -> Path:
    """Return the interpreter of a build, given the build's directory."""
    return target / "env" / "bin" / "python"


def tree_of(python: Path) -> Path:
    """Return the tree that was built for an interpreter."""
    return python.parents[2] / "tree"


def packages_of(python: Path) -> Path:
    """Return the ``site-packages`` directory of a build's interpreter."""
    relative = sysconfig.get_path("purelib", vars={"base": "", "platbase": ""}).lstrip("/")
    return python.parents[1] / relative


def compiled_modules(python: Path) -> set[str]:
    """Return the compiled modules in a build's environment, as paths without suffixes."""
    files = (path.relative_to(packages_of(python)).as_posix() for path in packages_of(python).rglob("*.so"))
    return {name.partition(".")[0] for name in files}


def build(target: Path, code: Path, words: Sequence[str], name: str, folder: str = ".") -> None:
    """Copy a tree to `target` and run a command in it, in an environment that can also import the packages here.

    Raises GateError with the command's last line of output if it fails; `target` is then removed.

    Args:
        target: directory of the build.
        code: tree to build.
        words: the command, as arguments.
        name: name of the side, for messages.
        folder: directory of the tree in which the command is run.
    """
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(code, target / "tree", symlinks=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target / "env")], check=True)
        python = interpreter(target)
        sites = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
        lines = [f"import site; site.addsitedir({path!r})" for path in sites if Path(path).is_dir()]
        packages_of(python).mkdir(parents=True, exist_ok=True)
        (packages_of(python) / PATH_FILE).write_text("\n".join([*lines, FINDERS_LAST]) + "\n")
        for script in map(python.with_name, ("pip", "pip3")):  # those on the user's PATH install into their own Python
            script.write_text(f'#!/bin/sh\nexec "{python}" -m pip "$@"\n')
            script.chmod(0o755)
        variables = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        for variable in VERSIONS:  # a tree is not a git repository
            variables.setdefault(variable, "0")
        variables.setdefault("PYTHONUNBUFFERED", "1")  # otherwise its output may follow the error
        variables |= {"VIRTUAL_ENV": str(target / "env"), "PATH": f"{python.parent}:{variables.get('PATH', '')}"}
        with process.started(words, cwd=target / "tree" / folder, env=variables) as command:
            output, _ = command.communicate()
        if command.returncode:
            printed = [line.strip() for line in output.splitlines() if line.strip()]
            last = printed[-1] if printed else f"exit code {command.returncode}"
            raise GateError(f"{name}: the build failed: {last}")
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise GateError(f"{name}: the build failed: {error}") from error
        raise
