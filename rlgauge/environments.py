"""The interpreter of each side: this one if it satisfies the side's lock file, else one of another environment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Protocol

from packaging.requirements import InvalidRequirement, Requirement

from .process import started
from .progress import Progress, to_stderr
from .rule import GateError

if sys.platform != "win32":  # on Windows, the gate only reports that it is not supported
    import fcntl

KEPT = 2  # most recently used environments; one may take several GB
ELSEWHERE = "PIP_PREFIX", "PIP_PYTHON", "PIP_TARGET", "PIP_USER"  # variables that make pip install elsewhere
INCLUDE = re.compile(r"^[ \t]*(?:-r|--requirement|-c|--constraint)[ \t=]*(\S+)", re.MULTILINE)


LOCAL = re.compile(  # a local project, such as -e . or ./libs/core
    r"^[ \t]*(?:(?:-e|--editable)[ \t=]*)?(?:file:(?!//))?"
    r"(?!\S*\.(?:gz|whl|zip)\b)\.{1,2}(?:/\S*)?(?:\[[^]]*\])?(?:[ \t;].*)?$",
    re.MULTILINE,
)


class PythonFor(Protocol):
    """Returns the interpreter of a side, given its name, its tree and the trees of both sides."""

    def __call__(self, name: str, code: Path, codes: Sequence[Path] = (), /) -> Path:
        """Return the interpreter of a side."""
        ...


@contextmanager
def cached(pattern: str, count: int) -> Iterator[Callable[[Path, Callable[[], None]], bool]]:
    """Provide ``ensure(folder, create)``, which calls `create` unless a directory is complete.

    It returns whether it has created the directory. No other gate removes the directory until this context ends. Of
    those beside it whose names match `pattern`, the `count` most recently used ones are kept.
    """
    with ExitStack() as locks:
        locked: set[Path] = set()

        def ensure(folder: Path, create: Callable[[], None]) -> bool:
            ready, created = folder / ".ready", False
            if folder not in locked:
                folder.parent.mkdir(parents=True, exist_ok=True)
                with ExitStack() as lock:  # after a failure, this gate may try again
                    guard = lock.enter_context(folder.with_suffix(".lock").open("w", encoding="utf-8"))
                    fcntl.flock(guard, fcntl.LOCK_SH)
                    if not ready.exists():
                        fcntl.flock(guard, fcntl.LOCK_EX)  # another gate may be creating it
                        if created := not ready.exists():
                            create()
                            ready.touch()
                        fcntl.flock(guard, fcntl.LOCK_SH)
                    locks.enter_context(lock.pop_all())
                locked.add(folder)
            ready.touch()
            remove_old(folder.parent, pattern, count)
            return created

        yield ensure


@contextmanager
def environments(cache: Path, lock: str, folder: str = ".") -> Iterator[PythonFor]:
    """Provide ``python_for(name, code, codes)``, whose environments no other gate removes until this context ends.

    `codes` are the trees of both sides. If one of them needs an environment, the other gets one too, unless it has no
    lock file. If only one side had an environment, packages that no lock file names would exist on the other side
    only. Raises GateError if an environment cannot be created.

    Args:
        cache: directory in which environments are kept.
        lock: path of the lock file, relative to `folder`.
        folder: directory of a side's tree in which pip runs.
    """
    with cached("env-*", KEPT) as ensure:

        def python_for(name: str, code: Path, codes: Sequence[Path] = ()) -> Path:
            locks = dict.fromkeys(tree / folder / lock for tree in (code, *codes))
            missing = {file: found for file in locks if (found := missing_requirement(text_of(file)))}
            own = code / folder / lock
            if not missing or not own.exists():
                return Path(sys.executable)
            whose = f"{name}'s" if own in missing else "the other side's"
            reason = f"{whose} lock file needs {missing.get(own) or next(iter(missing.values()))}"
            files = locked_files(own, code / folder)
            key = b"\0".join([f"{sys.version} {sys.base_prefix}".encode(), *(file.read_bytes() for file in files)])
            environment = cache / f"env-{hashlib.sha256(key).hexdigest()[:16]}"

            def made() -> None:
                log(f"{reason}: creating an environment for {name}")
                create(environment, code, code / folder, lock, name)

            if not ensure(environment, made):
                log(f"{reason}: using an environment of an earlier run for {name}")
            return environment / "bin" / "python"

        yield python_for


def log(line: str) -> None:
    """Print a line of the gate's progress."""
    to_stderr(f"gate: {line}")


def lock_files(lock: Path) -> list[Path]:
    """Return a lock file and those that it includes with ``-r`` or ``-c``, if they exist."""
    files = [lock] if lock.exists() else []
    for file in files:  # grows
        included = [file.parent / match[1] for match in INCLUDE.finditer(content_of(file))]
        files += [path for path in dict.fromkeys(included) if path.is_file() and path not in files]
    return files


def locked_files(lock: Path, folder: Path) -> list[Path]:
    """Return the files that decide what a lock file installs: itself, those it includes, and local packages.

    pip finds a local package, such as ``./a-1.0-py3-none-any.whl``, relative to `folder`, in which it runs.
    """
    names = (line.split()[0].removeprefix("file:") for line in requirements(text_of(lock)))
    return [*lock_files(lock), *filter(os.path.isfile, (folder / name for name in names))]


def content_of(file: Path) -> str:
    """Return the text of one lock file; like pip, accept a byte order mark and a comment that is not UTF-8."""
    return file.read_text("utf-8-sig", errors="replace")


def requirements(text: str) -> Iterator[str]:
    """Yield the lines of a lock file that name a package, except local projects, which are imported from the tree."""
    for line in LOCAL.sub("", text).splitlines():
        requirement = line.partition(" #")[0].rstrip(" \\").strip()
        if requirement and not requirement.startswith(("#", "--", "-i ", "-f ")) and not INCLUDE.match(requirement):
            yield requirement


def text_of(lock: Path) -> str:
    """Return the text of a lock file and of those that it includes."""
    return "\n".join(content_of(file) for file in lock_files(lock))


def missing_requirement(text: str) -> str | None:
    """Return the first requirement of a lock file that is not installed here, with the reason; None if all are."""
    for line in requirements(text):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            return f"{line} (a file that may have changed)"
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            return f"{line} (not installed)"
        if requirement.url or not requirement.specifier.contains(installed, prereleases=True):
            return f"{line} (installed: {installed})"
    return None


def commands(environment: Path, lock: str) -> list[list[str]]:
    """Return the commands that create an environment and install everything in the lock file."""
    install = ["install", "--disable-pip-version-check", "--progress-bar=off", "--no-deps", "-r", lock]
    return [
        [sys.executable, "-m", "venv", str(environment)],
        [str(environment / "bin" / "python"), "-m", "pip", *install],
    ]


def create(environment: Path, tree: Path, folder: Path, lock: str, name: str) -> None:
    """Create the environment of a lock file and show the progress; a failure leaves no files."""
    shutil.rmtree(environment, ignore_errors=True)
    total = sum(1 for _ in requirements(text_of(folder / lock))) or 1  # 1 for a file without packages
    try:
        with without_local(tree, folder / lock), Progress(total, "packages") as progress:
            for command in commands(environment, lock):
                run(command, folder, progress)
    except BaseException as error:
        shutil.rmtree(environment, ignore_errors=True)
        if isinstance(error, subprocess.CalledProcessError):
            raise GateError(f"{name}'s environment cannot be created from its lock file: {error.output}") from error
        raise


@contextmanager
def without_local(tree: Path, lock: Path) -> Iterator[None]:
    """Remove local projects from a tree's lock file and those in the tree that it includes, within the context."""
    files = [file for file in lock_files(lock) if file.resolve().is_relative_to(tree.resolve())]
    kept = {file: file.read_bytes() for file in files if LOCAL.search(content_of(file))}
    try:
        for file in kept:
            file.write_text(LOCAL.sub("", content_of(file)), "utf-8")
        yield
    finally:
        for file, content in kept.items():
            file.write_bytes(content)


def run(command: list[str], folder: Path, progress: Progress) -> None:
    """Run a command, with a step of progress for each package that pip collects.

    If it fails, the output of the CalledProcessError has the error lines, or else the last line.
    """
    output = []
    variables = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    with started(command, cwd=folder, env=variables) as process:
        assert process.stdout
        for line in map(str.strip, process.stdout):
            output.append(line)
            if line.startswith(("Collecting ", "Processing ")):
                progress.step()
            elif line.startswith("Installing "):
                progress.say("installing the packages")
    if process.returncode:
        errors = [line for line in output if "ERROR" in line] or output[-1:]
        raise subprocess.CalledProcessError(process.returncode, command, "; ".join(errors))


def remove_old(cache: Path, pattern: str, kept: int) -> None:
    """Remove environments or builds, except the `kept` most recently used ones and those in use by a gate."""
    last_used = {path.parent: path.stat().st_mtime_ns for path in cache.glob(f"{pattern}/.ready")}
    folders = [path for path in cache.glob(pattern) if path.is_dir()]
    for old in sorted(folders, key=lambda path: last_used.get(path, 0), reverse=True)[kept:]:
        with old.with_suffix(".lock").open("w", encoding="utf-8") as guard:
            try:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            (old / ".ready").unlink(missing_ok=True)  # first: an interrupt may leave the other files
            shutil.rmtree(old, ignore_errors=True)
            old.with_suffix(".log").unlink(missing_ok=True)
