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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .rule import GateError

SUBMODULE = "160000"  # mode of its entry in an index
MANY, LARGE = 200_000, 2 * 10**9  # files and bytes of a tree, above which `include` is suggested
NO_LFS = ("-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "-c", "filter.lfs.required=false")  # no network
POINTER_SIZE = 1024  # bytes, at most
POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")

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


def top_of(folder: Path) -> Path:
    """Return the top level of the git repository that a folder is in, as a real path.

    Raises:
        GateError: git is not installed, or refuses, with its own words.
    """
    return Path(os.fsdecode(asked(folder, "rev-parse", "--show-toplevel")).rstrip("\n")).resolve()


def common_folder(folder: Path) -> Path:
    """Return the git directory that all worktrees of a repository share.

    Raises:
        GateError: git is not installed, or refuses, with its own words.
    """
    return (folder / os.fsdecode(asked(folder, "rev-parse", "--git-common-dir")).rstrip("\n")).resolve()


def asked(folder: Path, *arguments: str) -> bytes:
    """Return what a git command prints.

    Raises:
        GateError: git is not installed, or refuses, with its own words.
    """
    try:
        return git(folder, *arguments)
    except OSError as error:
        raise GateError(f"git cannot be run: {error.strerror}; install git") from error
    except subprocess.CalledProcessError as error:
        raise GateError(f"{folder}: {words_of(error)}") from error


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
    shallow = asked(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
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


def export(root: Path, commit: str, folder: Path, parts: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
    """Write the files of a commit as a checkout has them, with its submodules, also what an archive would leave out.

    Args:
        root: of the repository.
        commit: its full hash.
        folder: where they are written.
        parts: files and folders, of which those that the commit has are written; all unless given.
        ignore: patterns of files that need not be there: submodules and LFS objects.

    Raises:
        GateError: the commit, a submodule or an LFS object is not in this clone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder.absolute().with_name(f"{folder.name}.index")
    try:
        within = os.fsdecode(git(root, "rev-parse", "--show-prefix")).strip()
        top = root / os.fsdecode(git(root, "rev-parse", "--show-cdup")).strip()
        git(top, "read-tree", f"{commit}:{within}", index=index)
        names = git(top, "ls-files", "-z", "--", *parts, index=index) if parts else None
        told = ["--all"] if names is None else ["-z", "--stdin"]
        git(top, *NO_LFS, "checkout-index", *told, f"--prefix={folder.absolute()}{os.sep}", given=names, index=index)
        for path, recorded in submodules(top, parts, index).items():
            if not matched(path, ignore):
                check_submodule(root, path, recorded)
                export(root / path, recorded, folder / path, (), inner(ignore, path))
    except subprocess.CalledProcessError as error:
        raise GateError(f"{commit[:12]} cannot be written: {words_of(error)}") from error
    finally:
        index.unlink(missing_ok=True)
    fill_pointers(root, folder, ignore, f"git lfs fetch origin {commit[:12]}")


def snapshot(root: Path, folder: Path, parts: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
    """Copy the working tree, new files and submodules included, so that edits during a run change nothing.

    Args:
        root: of the repository.
        folder: where it is copied to.
        parts: files and folders; all unless given.
        ignore: patterns of files that need not be there: submodules and LFS objects.

    Raises:
        GateError: it is no repository; a submodule or an LFS object is not in this clone.
    """
    there = asked(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *parts)
    names = [
        name
        for name in filter(None, os.fsdecode(there).split("\0"))
        if (root / name).is_symlink() or (root / name).is_file()  # a deleted file is still listed
    ]
    size = sum((root / name).lstat().st_size for name in names)
    if not parts and (len(names) > MANY or size > LARGE):
        print(
            f"gate: both sides get {len(names):,} files, {size / 1e9:.1f} GB: list the paths that benchmarks need under"
            " include in [tool.rlgauge]",
            file=sys.stderr,
            flush=True,
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name, follow_symlinks=False)
    for path in submodules(root, parts):
        if not matched(path, ignore):
            check_submodule(root, path)
            snapshot(root / path, folder / path, (), inner(ignore, path))
    fill_pointers(root, folder, ignore, "git lfs pull")


def submodules(root: Path, parts: Sequence[str] = (), index: Path | None = None) -> dict[str, str]:
    """Return the commit that an index records for each submodule, by its path.

    Args:
        root: folder of the repository that git runs in.
        parts: files and folders; all unless given.
        index: file of an index in the place of the repository's own.
    """
    found = {}
    for line in filter(
        None, os.fsdecode(git(root, "ls-files", "--stage", "-z", "--", *parts, index=index)).split("\0")
    ):
        (mode, recorded, _), path = line.partition("\t")[0].split(), line.partition("\t")[2]
        if mode == SUBMODULE:
            found[path] = recorded
    return found


def check_submodule(root: Path, path: str, recorded: str | None = None) -> None:
    """Check that a submodule is checked out, and has a commit.

    Args:
        root: of the repository.
        path: of the submodule, relative to the root.
        recorded: the commit; any unless given.

    Raises:
        GateError: it is not, with the command that helps.
    """
    ignored = "or add it to ignore in [tool.rlgauge]"
    if not (root / path / ".git").exists():
        raise GateError(f"submodule {path} is not checked out: run git submodule update --init {path}, {ignored}")
    if recorded:
        try:
            git(root / path, "cat-file", "-e", f"{recorded}^{{commit}}")
        except subprocess.CalledProcessError as error:
            fetch = f"git -C {path} fetch origin {recorded}"
            raise GateError(f"submodule {path} lacks commit {recorded[:12]}: run {fetch}, {ignored}") from error


def fill_pointers(root: Path, folder: Path, ignore: Sequence[str], fetch: str) -> None:
    """Put LFS objects of this clone in the place of their pointers in a tree.

    Args:
        root: of the repository.
        folder: the tree.
        ignore: patterns of files that need not be there.
        fetch: command that gets what is missing.

    Raises:
        GateError: an object is not in this clone.
    """
    pointers = {path.relative_to(folder).as_posix(): oid for path in folder.rglob("*") if (oid := pointed(path))}
    if not pointers:
        return
    given = "\0".join(pointers).encode() + b"\0"
    words = os.fsdecode(git(root, "check-attr", "-z", "--stdin", "filter", given=given)).split("\0")
    by_lfs = {name for name, value in zip(words[::3], words[2::3]) if value == "lfs"}
    store, lacking = common_folder(root) / "lfs" / "objects", []
    for name in sorted(by_lfs & pointers.keys()):
        stored = store / pointers[name][:2] / pointers[name][2:4] / pointers[name]
        if stored.is_file():
            shutil.copyfile(stored, folder / name)
        elif not matched(name, ignore):
            lacking.append(name)
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise GateError(
            f"LFS objects are not in this clone: {', '.join(lacking[:3])}{more}; run {fetch}, or add them to ignore in "
            "[tool.rlgauge]"
        )


def pointed(path: Path) -> str:
    """Return the hash of the LFS object that a file points to; empty if it is no pointer."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > POINTER_SIZE:
        return ""
    found = POINTER.match(path.read_bytes())
    return found[1].decode() if found else ""


def matched(name: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches a path."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def inner(patterns: Iterable[str], path: str) -> list[str]:
    """Return the patterns that may match in a submodule, relative to it."""
    within = [pattern.removeprefix(f"{path}/") for pattern in patterns if pattern.startswith(f"{path}/")]
    return [*within, *(pattern for pattern in patterns if pattern.startswith("*"))]


def ignored(root: Path, parts: Sequence[str], pattern: str) -> list[str]:
    """Return the files in some folders that git ignores and whose names match a pattern.

    Args:
        root: of the repository.
        parts: folders.
        pattern: of names, as ``*.py``.
    """
    told = "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"
    return listed(root, *told, *(f"{part}/{pattern}" for part in parts)) if parts else []


def untracked(root: Path, parts: Sequence[str], pattern: str) -> list[str]:
    """Return the files in some folders that git does not track, ignored or not, and whose names match a pattern.

    Args:
        root: of the repository.
        parts: folders.
        pattern: of names, as ``*.so``.
    """
    return listed(root, "ls-files", "-z", "--others", "--", *(f"{part}/{pattern}" for part in parts)) if parts else []


def listed(root: Path, *arguments: str) -> list[str]:
    """Return the paths that a git command prints with ``-z``."""
    return [name for name in os.fsdecode(git(root, *arguments)).split("\0") if name]


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
