"""Both sides on disk: base out of git, head as the working tree is."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .rule import GateError

if sys.platform != "win32":  # where the gate only says that it does not run
    import fcntl


def git(root: Path, *arguments: str, given: bytes | None = None, index: Path | None = None) -> bytes:
    """Return what a git command prints, of the repository it is run in.

    Args:
        root: of the repository.
        arguments: of git.
        given: what it reads.
        index: file of an index in the place of the repository's own.

    Raises:
        subprocess.CalledProcessError: git refuses.
    """
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")  # set where a hook calls
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    environment |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    done = subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True, **how)
    return bytes(done.stdout)


def check_root(root: Path, here: Path) -> None:
    """Find a root above the repository: pytest takes what follows an option for a path of tests, where it exists.

    Args:
        root: that pytest has chosen.
        here: folder in which it was called.

    Raises:
        GateError: it is above.
    """
    try:
        top = Path(os.fsdecode(git(here, "rev-parse", "--show-toplevel")).strip())
    except (OSError, subprocess.CalledProcessError):  # no repository: it is said where a revision is asked for
        return
    if root in top.parents:
        raise GateError(f"rootdir: got {root}, above the repository {top}: write --gate-json=FILE, with =, not a space")


def resolve(root: Path, revision: str) -> str:
    """Return the commit that a revision names.

    Args:
        root: of the repository.
        revision: a name of a commit, such as a branch.

    Raises:
        GateError: git refuses, with its own words, or there is no such commit, with what may help.
    """
    try:
        shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    except OSError as error:
        raise GateError(f"git cannot be run: {error.strerror}; install git") from error
    except subprocess.CalledProcessError as error:
        raise GateError(f"{root}: {words_of(error)}") from error
    try:
        if revision.startswith("-"):
            raise subprocess.CalledProcessError(128, ["git"])
        return git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError as error:
        hints = [*(["this clone is shallow: git fetch --unshallow"] if shallow else []), *missing(root, revision)]
        raise GateError("; ".join([f"unknown revision {revision!r}", *hints])) from error


def words_of(error: subprocess.CalledProcessError) -> str:
    """Return what git printed, in one line."""
    return " ".join(error.stderr.decode(errors="replace").split()) or str(error)


def missing(root: Path, revision: str) -> list[str]:
    """Return what may help where a repository has no such revision.

    Args:
        root: of the repository.
        revision: that it lacks.
    """
    names = git(root, "for-each-ref", "--format=%(refname:short)").decode().split()
    near = [f"origin/{revision}"] if f"origin/{revision}" in names else get_close_matches(revision, names, 1)
    if near:
        return [f"did you mean {near[0]!r}?"]
    if not re.fullmatch(r"[\w./-]*[g-zG-Z_/-][\w./-]*", revision) or revision.startswith(("HEAD", "-")):
        return []  # no name of a branch
    try:
        fetched = git(root, "config", "--get-all", "remote.origin.fetch").decode().split()
    except subprocess.CalledProcessError:  # it has no such remote
        return []
    if any("*" in refspec for refspec in fetched):
        return []
    branch = revision.removeprefix("origin/")
    fetch = f"git fetch origin {branch}:refs/remotes/origin/{branch}"
    return [f"this clone has only some branches: {fetch}, and compare with origin/{branch}"]


def export(root: Path, commit: str, folder: Path, parts: Sequence[str] = ()) -> None:
    """Write the files of a commit as a checkout has them, also those that an archive would leave out.

    Args:
        root: of the repository.
        commit: its full hash.
        folder: where they are written.
        parts: files and folders; all unless given.

    Raises:
        GateError: it cannot be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder.absolute().with_name(f"{folder.name}.index")
    try:
        within = os.fsdecode(git(root, "rev-parse", "--show-prefix")).strip()
        top = root / os.fsdecode(git(root, "rev-parse", "--show-cdup")).strip()
        git(top, "read-tree", f"{commit}:{within}", index=index)
        names = git(top, "ls-files", "-z", "--error-unmatch", "--", *parts, index=index) if parts else None
        told = ["--all"] if names is None else ["-z", "--stdin"]
        git(top, "checkout-index", *told, f"--prefix={folder.absolute()}{os.sep}", given=names, index=index)
    except subprocess.CalledProcessError as error:
        raise GateError(f"{commit[:12]} cannot be written: {words_of(error)}") from error
    finally:
        index.unlink(missing_ok=True)


def snapshot(root: Path, folder: Path, parts: Sequence[str] = ()) -> None:
    """Copy the working tree, new files included, so that edits during a run change nothing.

    Args:
        root: of the repository.
        folder: where it is copied to.
        parts: files and folders; all unless given.

    Raises:
        GateError: it is no repository.
    """
    try:
        listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *parts)
    except subprocess.CalledProcessError as error:
        raise GateError(f"{root}: {words_of(error)}") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (root / name).is_symlink() or (root / name).is_file():  # a deleted file is still listed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name, follow_symlinks=False)


def ignored(root: Path, parts: Sequence[str], pattern: str) -> list[str]:
    """Return the files that git ignores, of those in some folders that are called so.

    Args:
        root: of the repository.
        parts: folders.
        pattern: of names, as ``*.py``.
    """
    told = "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"
    listed = git(root, *told, *(f"{part}/{pattern}" for part in parts)) if parts else b""
    return [name for name in os.fsdecode(listed).split("\0") if name]


def digest(folder: Path, parts: Iterable[Path]) -> str:
    """Return a hash of files, by their names in a folder and what they hold; bytecode, which Python writes, is none.

    Args:
        folder: that they are in.
        parts: files and folders.
    """
    found = hashlib.sha256()
    for path in sorted(path for path in parts if path.is_file() and path.parent.name != "__pycache__"):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return found.hexdigest()


@contextmanager
def turn(cache: Path) -> Iterator[None]:
    """Wait until nothing else with this cache is measured: two that measure side by side are each other's noise.

    The lock ends with its process, however that ends.

    Args:
        cache: folder that the runs of this clone share.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "turn.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            said = f"something else is measured in this clone (pid {file.read()}): waiting for it"
            print(said, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def workspace(cache: Path) -> Iterator[Path]:
    """Return a folder for one run at its turn, gone after it; those of runs that were killed go too.

    Args:
        cache: folder that the runs of this clone share.
    """
    with turn(cache):
        for old in cache.glob("run-*"):
            if not Path("/proc", old.name.split("-")[1]).exists():
                shutil.rmtree(old, ignore_errors=True)
        prefix = f"run-{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=cache, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
