"""The interpreter of each side: this one where it has what the side's lock file wants, else one that is made to."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from .progress import Progress
from .rule import GateError

if sys.platform != "win32":  # where the gate only says that it does not run
    import fcntl

KEPT = 2  # environments, of 2.3 GB each: those used last


@contextmanager
def environments(cache: Path, lock: str) -> Iterator[Callable[[str, Path], Path]]:
    """Return ``python_for(name, folder)``; no other gate removes what it returns until this ends.

    Args:
        cache: folder in which environments are kept.
        lock: path of the lock file inside of a side's folder.
    """
    with ExitStack() as held:
        yield lambda name, folder: python_for(name, folder, cache, lock, held)


def python_for(name: str, folder: Path, cache: Path, lock: str, held: ExitStack) -> Path:
    """Return the interpreter of a side, whose lock file is in this folder, and say where that is not this one.

    Args:
        name: what the side is called.
        folder: with the side's code and lock file.
        cache: folder in which environments are kept.
        lock: path of the lock file inside of the folder.
        held: keeps the lock of an environment in use.

    Raises:
        GateError: its environment cannot be made.
    """
    wanted = folder / lock
    lacking = lacks(wanted.read_text()) if wanted.exists() else None
    if lacking is None:
        return Path(sys.executable)
    environment = cache / f"env-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]}"
    ready = environment / ".ready"
    cache.mkdir(parents=True, exist_ok=True)
    used = held.enter_context(environment.with_suffix(".lock").open("w"))
    fcntl.flock(used, fcntl.LOCK_SH)
    if not ready.exists():
        fcntl.flock(used, fcntl.LOCK_EX)  # another gate may be making it
        if not ready.exists():
            say(f"{name}'s lock file wants {lacking}: making its environment, {environment}")
            make(environment, folder, lock, name)
        fcntl.flock(used, fcntl.LOCK_SH)
    else:
        say(f"{name}'s lock file wants {lacking}: it runs in {environment}")
    ready.touch()
    remove_old(cache, "env-*", KEPT)
    return environment / "bin" / "python"


def say(words: str) -> None:
    """Print a line.

    Args:
        words: what to print.
    """
    print(f"gate: {words}", file=sys.stderr, flush=True)


def lines(text: str) -> Iterator[str]:
    """Return the lines of a lock file that name a package.

    Args:
        text: of a lock file.
    """
    for line in text.splitlines():
        wanted = line.partition(" #")[0].rstrip(" \\").strip()
        if wanted and not wanted.startswith(("#", "--")):
            yield wanted


def lacks(text: str) -> str | None:
    """Return the first line of a lock file that is not what is installed here, and what is; None if there is none.

    Args:
        text: of a lock file.
    """
    for wanted in lines(text):
        try:
            requirement = Requirement(wanted)
        except InvalidRequirement:
            return f"{wanted} (a file, which may have changed)"
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            here = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            return f"{wanted} (not installed here)"
        if requirement.url or not requirement.specifier.contains(here, prereleases=True):
            return f"{wanted} (here it is {here})"
    return None


def commands(environment: Path, lock: str) -> list[list[str]]:
    """Return what makes an environment: an empty one, then all that the lock file names.

    Args:
        environment: folder of the environment.
        lock: path of the lock file inside of the folder that they run in.
    """
    install = ["install", "--disable-pip-version-check", "--progress-bar=off", "--no-deps", "-r", lock]
    return [
        [sys.executable, "-m", "venv", str(environment)],
        [str(environment / "bin" / "python"), "-m", "pip", *install],
    ]


def make(environment: Path, folder: Path, lock: str, name: str) -> None:
    """Make an environment of the lock file in this folder, and show how far that is; what fails leaves nothing.

    Args:
        environment: folder of the environment.
        folder: of the side.
        lock: path of the lock file inside of the folder.
        name: what the side is called.

    Raises:
        GateError: it cannot be made, with what pip says.
    """
    shutil.rmtree(environment, ignore_errors=True)
    total = sum(1 for _ in lines((folder / lock).read_text()))
    try:
        with Progress(total, "packages") as progress:
            for command in commands(environment, lock):
                follow(command, folder, progress)
        (environment / ".ready").touch()
    except BaseException as error:
        shutil.rmtree(environment, ignore_errors=True)
        if isinstance(error, subprocess.CalledProcessError):
            raise GateError(f"{name}'s environment cannot be made from its lock file: {error.output}") from error
        raise


def follow(command: list[str], folder: Path, progress: Progress) -> None:
    """Run a command to its end, a step of progress for each package that pip collects.

    Args:
        command: program and arguments.
        folder: where it runs.
        progress: shows how far it is.

    Raises:
        CalledProcessError: it failed; its output is what it says of errors, or else its last line.
    """
    said = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout
        try:
            for line in map(str.strip, running.stdout):
                said.append(line)
                if line.startswith(("Collecting ", "Processing ")):
                    progress.step()
                elif line.startswith("Installing "):
                    progress.say("all are there, installing them")
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        words = [line for line in said if "ERROR" in line] or said[-1:]
        raise subprocess.CalledProcessError(running.returncode, command, "; ".join(words))


def remove_old(cache: Path, pattern: str, kept: int) -> None:
    """Remove all environments or builds but those used last, and those that a gate uses now.

    Args:
        cache: folder in which they are kept.
        pattern: of their names.
        kept: how many stay.
    """
    ready = {path.parent: path.stat().st_mtime_ns for path in cache.glob(f"{pattern}/.ready")}
    found = [path for path in cache.glob(pattern) if path.is_dir()]
    for old in sorted(found, key=lambda path: ready.get(path, 0), reverse=True)[kept:]:
        with old.with_suffix(".lock").open("w") as used:
            try:
                fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(old, ignore_errors=True)
