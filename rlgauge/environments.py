"""The interpreter of each side: this one if it satisfies the side's lock file, else one in a new environment."""

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

if sys.platform != "win32":  # where the gate only reports that it is not supported
    import fcntl

KEPT = 2  # most recently used environments, of 2.3 GB each


@contextmanager
def environments(cache: Path, lock: str) -> Iterator[Callable[[str, Path], Path]]:
    """Provide ``python_for(name, folder)``, whose environments no other gate removes until this context ends.

    `lock` is the path of the lock file within a side's directory.
    """
    with ExitStack() as held:
        yield lambda name, folder: python_for(name, folder, cache, lock, held)


def python_for(name: str, folder: Path, cache: Path, lock: str, held: ExitStack) -> Path:
    """Return the interpreter of a side, and report if it is not the current one.

    A used environment stays locked until `held` is closed. Raises GateError if the environment cannot be created.
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
        fcntl.flock(used, fcntl.LOCK_EX)  # another gate may be creating it
        if not ready.exists():
            say(f"{name}'s lock file needs {lacking}: creating an environment for it")
            make(environment, folder, lock, name)
        fcntl.flock(used, fcntl.LOCK_SH)
    else:
        say(f"{name}'s lock file needs {lacking}: using an environment of an earlier run")
    ready.touch()
    remove_old(cache, "env-*", KEPT)
    return environment / "bin" / "python"


def say(words: str) -> None:
    """Print a line of progress to standard error."""
    print(f"gate: {words}", file=sys.stderr, flush=True)


def lines(text: str) -> Iterator[str]:
    """Yield the lines of a lock file that name a package."""
    for line in text.splitlines():
        wanted = line.partition(" #")[0].rstrip(" \\").strip()
        if wanted and not wanted.startswith(("#", "--")):
            yield wanted


def lacks(text: str) -> str | None:
    """Return the first requirement of a lock file that is not installed here, with the reason; None if all are."""
    for wanted in lines(text):
        try:
            requirement = Requirement(wanted)
        except InvalidRequirement:
            return f"{wanted} (a file that may have changed)"
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            here = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            return f"{wanted} (not installed)"
        if requirement.url or not requirement.specifier.contains(here, prereleases=True):
            return f"{wanted} (installed: {here})"
    return None


def commands(environment: Path, lock: str) -> list[list[str]]:
    """Return the commands that create an environment and install everything in the lock file."""
    install = ["install", "--disable-pip-version-check", "--progress-bar=off", "--no-deps", "-r", lock]
    return [
        [sys.executable, "-m", "venv", str(environment)],
        [str(environment / "bin" / "python"), "-m", "pip", *install],
    ]


def make(environment: Path, folder: Path, lock: str, name: str) -> None:
    """Create the environment of a lock file and show the progress; a failure leaves no files."""
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
            raise GateError(f"{name}'s environment cannot be created from its lock file: {error.output}") from error
        raise


def follow(command: list[str], folder: Path, progress: Progress) -> None:
    """Run a command, with a step of progress for each package that pip collects.

    If it fails, the output of the CalledProcessError has the error lines, or else the last line.
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
                    progress.say("installing the packages")
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        words = [line for line in said if "ERROR" in line] or said[-1:]
        raise subprocess.CalledProcessError(running.returncode, command, "; ".join(words))


def remove_old(cache: Path, pattern: str, kept: int) -> None:
    """Remove environments or builds, except the `kept` most recently used ones and those in use by a gate."""
    ready = {path.parent: path.stat().st_mtime_ns for path in cache.glob(f"{pattern}/.ready")}
    found = [path for path in cache.glob(pattern) if path.is_dir()]
    for old in sorted(found, key=lambda path: ready.get(path, 0), reverse=True)[kept:]:
        with old.with_suffix(".lock").open("w") as used:
            try:
                fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(old, ignore_errors=True)
