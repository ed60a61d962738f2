"""Build trees, each in its own environment; cache the builds by a hash of everything that affects them."""

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
from contextlib import contextmanager, suppress
from pathlib import Path

from rlgauge import process, revisions
from rlgauge.environments import ELSEWHERE, PythonFor, cached, log
from rlgauge.machine import SET_BY_HOOKS
from rlgauge.resume import hash_of_installed
from rlgauge.rule import GateError

from .finder import KNOWN

KEPT = 4  # most recently used builds
FLAGS = (  # environment variables that change a compiler's output
    "CC", "CXX", "CFLAGS", "CPPFLAGS", "CXXFLAGS", "FFLAGS", "LDFLAGS", "RUSTFLAGS",
)  # fmt: skip
FLAG_PREFIXES = "CARGO_", "CMAKE_", "CYTHON", "MATURIN_", "MYPYC_", "PYO3_", "SKBUILD_"  # prefixes of further ones
BUILD_FILES = (  # files of a project that may read environment variables
    "setup.py", "setup.cfg", "pyproject.toml", "*build*.py", "build.rs", "CMakeLists.txt", "meson.build", "Makefile",
)  # fmt: skip
VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
UNRELATED = "HOME", "LANG", "PATH", "PWD", "PYTEST_CURRENT_TEST", "SHELL", "USER"  # do not affect a build
VERSIONS = (  # variables that set the version for build backends that would otherwise ask git
    "SETUPTOOLS_SCM_PRETEND_VERSION", "PDM_BUILD_SCM_VERSION", "POETRY_DYNAMIC_VERSIONING_BYPASS",
)  # fmt: skip
# variables that point to other environments and repositories
NOT_INHERITED = *ELSEWHERE, "PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "UV_SYSTEM_PYTHON", *SET_BY_HOOKS
ERROR = re.compile(r"(^|[\s:])(fatal )?error(\[\w+\])?: ")  # of a compiler, not of pip itself
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
        raise GateError(f"build command {command!r} cannot be parsed: {error}; correct its quotes") from error
    if not words:
        raise GateError("build command: it is empty; give one, for example 'python -m pip install --no-deps .'")
    with cached("build-*", KEPT) as ensure:

        def python_for(name: str, code: Path, codes: Sequence[Path] = ()) -> Path:
            names = {name for name in os.environ if name in FLAGS or name.startswith(FLAG_PREFIXES)}
            names |= variables_read(code / folder)
            flags = [(name, os.environ[name]) for name in sorted(names)]
            here = f"{sys.version} {sys.prefix} {flags} {hash_of_installed()} {compilers(code / folder)}"
            key = f"{folder} {command} {here} {revisions.digest(code, files_of(code))}"
            target = cache / f"build-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

            def made() -> None:
                log(f"building {name}: {command}")
                build(target, code, words, name, folder)

            ensure(target, made)
            return interpreter(target)

        yield python_for


def compilers(folder: Path) -> list[str]:
    """Return the versions of the compilers that a build in a directory would use; the directory may pin them."""
    found, cwd = list[str](), folder if folder.is_dir() else None
    for words in (os.environ.get("CC") or "cc", os.environ.get("CXX") or "c++", "rustc"):
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):  # not installed, or not a command
            command = [*shlex.split(words), "--version"]
            found.append(subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8", timeout=30).stdout)
    return found


def variables_read(folder: Path) -> set[str]:
    """Return the names of set environment variables that a project's build files mention, such as ``SKIP_CYTHON``."""
    files = [path for name in BUILD_FILES for path in folder.glob(name) if path.is_file()]
    texts = [path.read_text("utf-8", errors="replace") for path in files]
    return {name for name in VARIABLE.findall("\n".join(texts)) if name in os.environ and name not in UNRELATED}


def interpreter(target: Path) -> Path:
    """Return the interpreter of a build, given the build's directory."""
    return target / "env" / "bin" / "python"


def tree_of(python: Path) -> Path:
    """Return the tree that was built for an interpreter."""
    return python.parents[2] / "tree"


def log_of(python: Path) -> Path:
    """Return the file with the output of the build command, given the build's interpreter."""
    return python.parents[2].with_suffix(".log")


def packages_of(python: Path) -> Path:
    """Return the ``site-packages`` directory of a build's interpreter."""
    relative = sysconfig.get_path(
        "purelib", "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix", {"base": ""}
    ).lstrip("/")
    return python.parents[1] / relative


def compiled_modules(python: Path) -> set[str]:
    """Return the compiled modules in a build's environment, as paths without suffixes."""
    files = (path.relative_to(packages_of(python)).as_posix() for path in packages_of(python).rglob("*.so"))
    return {name.partition(".")[0] for name in files}


def cause(output: str) -> str:
    """Return the line of a build's output that explains its failure: its first error, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("hint:", "note:", "[notice]"))]
    errors = [line for line in lines if ERROR.search(line) and not line.endswith(("-with-error", "-failed"))]
    return (errors or lines[-1:] or [""])[0]


def build(target: Path, code: Path, words: Sequence[str], name: str, folder: str = ".") -> None:
    """Copy a tree to `target` and run a command in it, in an environment that can also import the packages here.

    Raises GateError with the reason in the command's output if it fails; `target` is then removed.

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
        revisions.commit_all(target / "tree", "v0.0.0")  # builds ask git for files and the version
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target / "env")], check=True)
        python = interpreter(target)
        sites = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
        # Lines run in a scope with `known_paths`: pip passes an empty set to find the folders that isolation removes.
        lines = [f"import site; site.addsitedir({path!r}, known_paths)" for path in sites if Path(path).is_dir()]
        packages_of(python).mkdir(parents=True, exist_ok=True)
        (packages_of(python) / PATH_FILE).write_text("\n".join([*lines, FINDERS_LAST]) + "\n", "utf-8")
        for script in map(python.with_name, ("pip", "pip3")):  # a pip on the user's PATH installs into another Python
            script.write_text(f'#!/bin/sh\nexec "{python}" -m pip "$@"\n', "utf-8")
            script.chmod(0o755)
        variables = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        for variable in VERSIONS:  # a build may be used for several commits
            variables.setdefault(variable, "0")
        variables.setdefault("PYTHONUNBUFFERED", "1")  # otherwise buffered output may follow the error
        variables |= {"VIRTUAL_ENV": str(target / "env"), "PATH": f"{python.parent}:{variables.get('PATH', '')}"}
        cwd = target / "tree" / folder
        with process.started(words, cwd=cwd, env=variables | {"PWD": str(cwd)}) as command:
            output, _ = command.communicate()
        file = log_of(python)
        file.write_text(output, "utf-8")
        if command.returncode:
            reason = cause(output) or f"exit code {command.returncode}"
            raise GateError(f"{name}: the build failed: {reason}; its output is in {file}")
        shutil.rmtree(target / "tree" / ".git")
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError | subprocess.CalledProcessError):
            raise GateError(f"{name}: the build failed: {error}") from error
        raise
