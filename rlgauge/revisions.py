"""Write both sides to disk: export base from git, and copy head from the working tree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .machine import outside_hooks
from .progress import to_stderr
from .rule import GateError

SUBMODULE = "160000"  # mode of a submodule's index entry
MANY_FILES, MANY_BYTES = 200_000, 2 * 10**9  # size of a tree, above which `include` is suggested
NO_LFS = ("-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "-c", "filter.lfs.required=false")  # no network
CACHED = re.compile(r"(^|/)(\.[^/]*|__pycache__|[^/]*\.egg-info|[^/]*\.py[co])(/|$)")  # files that tools write
NEUTRAL = (  # settings without which the user's could run hooks, ask for a password, or change files
    "user.name=rlgauge", "user.email=rlgauge@localhost", "commit.gpgsign=false", "tag.gpgsign=false", "core.hooksPath=",
    "core.autocrlf=false", "core.safecrlf=false", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false",
)  # fmt: skip
MAX_POINTER_SIZE = 1024  # bytes of a pointer file
POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\n")

if sys.platform != "win32":  # on Windows, the gate only reports that it is not supported
    import fcntl


def git(root: Path, *arguments: str, stdin: bytes | None = None, index: Path | None = None, **variables: str) -> bytes:
    """Return the output of a git command, ignoring the repository that a calling git hook has set.

    `index` is an index file to use instead of the repository's own, `variables` are further environment variables.
    """
    environment = outside_hooks() | variables
    environment |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True, **given)
    return bytes(done.stdout)


def make_repository(tree: Path, top: Path, commit: str) -> None:
    """Make a tree a repository at a commit, with the objects and tags of the repository at `top`.

    Otherwise, git commands in the tree would find the repository in whose ``.git`` it lies.
    """
    hash_name = os.fsdecode(git(top, "rev-parse", "--show-object-format")).strip()  # the user's default may be another
    git(tree, "init", "--quiet", "--template=", GIT_DEFAULT_HASH=hash_name, GIT_DEFAULT_REF_FORMAT="files")
    objects = common_folder(top) / "objects"
    (tree / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n", "utf-8")
    (tree / ".git" / "packed-refs").write_bytes(
        git(top, "for-each-ref", "--format=%(objectname) %(refname)", "refs/tags")
    )
    shallow = common_folder(top) / "shallow"
    if shallow.exists():  # otherwise git looks for commits that the clone lacks
        shutil.copy(shallow, tree / ".git" / "shallow")
    with suppress(subprocess.CalledProcessError):  # HEAD of a repository without commits
        commit = os.fsdecode(git(top, "rev-parse", "--verify", "--quiet", commit)).strip()
        git(tree, "-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref", "HEAD", commit)
        git(tree, "read-tree", "HEAD")


def commit_all(tree: Path, tag: str = "") -> None:
    """Make a tree a repository with one commit of all its files, and a tag if one is given."""
    options = [*NO_LFS, "-c", "filter.lfs.clean=", *(word for setting in NEUTRAL for word in ("-c", setting))]
    checked_git(tree, "init", "--quiet", "--template=")
    checked_git(tree, *options, "add", "--all", "--force")
    checked_git(tree, *options, "commit", "--quiet", "--allow-empty", "--no-verify", "--message=files")
    if tag:
        checked_git(tree, *options, "tag", "--annotate", "--message=files", tag)


def top_of(folder: Path) -> Path:
    """Return the top level of the git repository that contains a directory, with symbolic links resolved."""
    return Path(os.fsdecode(checked_git(folder, "rev-parse", "--show-toplevel")).rstrip("\n")).resolve()


def common_folder(folder: Path) -> Path:
    """Return the git directory shared by all worktrees of a repository."""
    return (folder / os.fsdecode(checked_git(folder, "rev-parse", "--git-common-dir")).rstrip("\n")).resolve()


def checked_git(folder: Path, *arguments: str) -> bytes:
    """Return the output of a git command; raise GateError with git's message if it fails or git is not installed."""
    try:
        return git(folder, *arguments)
    except OSError as error:
        raise GateError(f"git cannot be run: {error.strerror}; install git") from error
    except subprocess.CalledProcessError as error:
        raise GateError(f"{folder}: {error_line(error)}") from error


def check_root(root: Path, here: Path) -> None:
    """Reject a pytest root above the repository, a result of ``--gate-json FILE`` with a space instead of ``=``.

    pytest does not know the option so early, and takes its value for a path of tests if that path exists.
    """
    try:
        top = Path(os.fsdecode(git(here, "rev-parse", "--show-toplevel")).strip())
    except (OSError, subprocess.CalledProcessError):  # not a repository: resolve() reports it
        return
    if root in top.parents:
        raise GateError(
            f"rootdir {root} is above the repository {top}: add --rootdir={top}; if you gave --gate-json FILE, write "
            "--gate-json=FILE"
        )


def shallow_hints(root: Path) -> list[str]:
    """Return a hint if a clone is shallow, else nothing."""
    shallow = checked_git(root, "rev-parse", "--is-shallow-repository").strip() == b"true"
    return ["this clone is shallow; run git fetch --unshallow"] if shallow else []


def is_revision(root: Path, name: str) -> bool:
    """Return whether a name denotes a commit."""
    try:
        resolve(root, name)
    except GateError:
        return False
    return True


def resolve(root: Path, revision: str) -> str:
    """Return the full hash of the commit that a revision names; raise GateError with hints if there is none."""
    hints = shallow_hints(root)
    check_unambiguous(root, revision)
    try:
        if revision.startswith("-"):
            raise subprocess.CalledProcessError(128, ["git"])
        return git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError as error:
        found = [*hints, *hints_for(root, revision)] or ["give a branch, a tag or a commit"]
        raise GateError("; ".join([f"unknown revision {revision!r}", *found])) from error


def check_unambiguous(root: Path, revision: str) -> None:
    """Reject a name that refs of different commits share, such as a branch and a tag: git silently takes the tag."""
    name = re.split(r"[~^]|@\{", revision)[0] or revision
    refs = [f"refs/{kind}/{name}" for kind in ("heads", "tags", "remotes")]
    listing = checked_git(root, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", *refs)
    commits = {words[0]: words[-1] for line in os.fsdecode(listing).splitlines() if (words := line.split())[0] in refs}
    if len(set(commits.values())) > 1:
        raise GateError(f"revision {revision!r} is ambiguous: give the full name, {' or '.join(commits)}")


def error_line(error: subprocess.CalledProcessError) -> str:
    """Return git's error output as one line."""
    return " ".join(error.stderr.decode(errors="replace").split()) or str(error)


def hints_for(root: Path, revision: str) -> list[str]:
    """Return hints for a revision that a repository does not have."""
    names = git(root, "for-each-ref", "--format=%(refname:short)").decode().split()
    near = [f"origin/{revision}"] if f"origin/{revision}" in names else get_close_matches(revision, names, 1)
    if near:
        return [f"did you mean {near[0]!r}?"]
    if not re.fullmatch(r"[\w./-]*[g-zG-Z_/-][\w./-]*", revision) or revision.startswith(("HEAD", "-")):
        return []  # not a branch name
    try:
        fetched = git(root, "config", "--get-all", "remote.origin.fetch").decode().split()
    except subprocess.CalledProcessError:  # there is no such remote
        return []
    if any("*" in refspec for refspec in fetched):
        return []
    branch = revision.removeprefix("origin/")
    fetch = f"git fetch origin {branch}:refs/remotes/origin/{branch}"
    return [f"this clone has only some branches; run {fetch}, and use origin/{branch}"]


def export(root: Path, commit: str, folder: Path, parts: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
    """Write the files of a commit as a checkout would, with submodules and files that ``git archive`` would omit.

    Files that a sparse checkout leaves out of the working tree are left out here too.

    `parts` are the files and directories to write, by default all, and `ignore` patterns of submodules and LFS objects
    that may be absent. Raises GateError if the commit, a submodule or an LFS object is not in this clone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    index = folder.absolute().with_name(f"{folder.name}.index")
    try:
        within = os.fsdecode(git(root, "rev-parse", "--show-prefix")).strip()
        top = root / os.fsdecode(git(root, "rev-parse", "--show-cdup")).strip()
        git(top, "read-tree", f"{commit}:{within}", index=index)
        left_out = not_checked_out(root)
        names = [
            name
            for name in split_at_null(git(top, "ls-files", "-z", "--", *parts, index=index))
            if name not in left_out
        ]
        command = "checkout-index", "-z", "--stdin", f"--prefix={folder.absolute()}{os.sep}"
        git(top, *NO_LFS, *command, stdin=os.fsencode("\0".join(names)), index=index)
        for path, recorded in submodules(top, parts, index).items():
            if not matches_any(path, ignore):
                check_submodule(root, path, recorded)
                export(root / path, recorded, folder / path, (), patterns_inside(ignore, path))
    except subprocess.CalledProcessError as error:
        raise GateError(f"commit {commit[:12]} cannot be exported: {error_line(error)}") from error
    finally:
        index.unlink(missing_ok=True)
    fill_pointers(root, folder, ignore, f"git lfs fetch origin {commit[:12]}")


def snapshot(root: Path, folder: Path, parts: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
    """Copy the working tree, including new files and submodules, so that edits during a run have no effect.

    For `parts` and `ignore` see :func:`export`.
    """
    output = checked_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *parts)
    names = [
        name
        for name in split_at_null(output)
        if (root / name).is_symlink() or (root / name).is_file()  # a deleted file is still listed
    ]
    size = sum((root / name).lstat().st_size for name in names)
    if not parts and (len(names) > MANY_FILES or size > MANY_BYTES):
        to_stderr(
            f"gate: copying {len(names):,} files, {size / 1e9:.1f} GB, to both sides; to copy fewer, set include "
            "in [tool.rlgauge] to the paths that benchmarks need"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name, follow_symlinks=False)
    for path in submodules(root, parts):
        if not matches_any(path, ignore):
            check_submodule(root, path)
            snapshot(root / path, folder / path, (), patterns_inside(ignore, path))
    fill_pointers(root, folder, ignore, "git lfs pull")


def left_out(root: Path, paths: Sequence[str]) -> list[str]:
    """Return the ignored files in some paths, and the repositories there that are not submodules, without caches."""
    ignored = git(root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", *paths)
    others = git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *paths)
    names = [*split_at_null(ignored), *(name for name in split_at_null(others) if name.endswith("/"))]
    return [name for name in names if not CACHED.search(name)]


def not_checked_out(root: Path) -> set[str]:
    """Return the files that a sparse checkout leaves out of the working tree."""
    entries = (entry.partition(" ") for entry in split_at_null(git(root, "ls-files", "-t", "-z")))
    return {name for tag, _, name in entries if tag == "S" and not os.path.lexists(root / name)}


def submodules(root: Path, parts: Sequence[str] = (), index: Path | None = None) -> dict[str, str]:
    """Return the commit that the index records for each submodule, by path.

    `index` is an index file to use instead of the repository's own.
    """
    commits = {}
    for line in split_at_null(git(root, "ls-files", "--stage", "-z", "--", *parts, index=index)):
        entry, _, path = line.partition("\t")
        mode, recorded, _ = entry.split()
        if mode == SUBMODULE:
            commits[path] = recorded
    return commits


def check_submodule(root: Path, path: str, recorded: str | None = None) -> None:
    """Check that a submodule is checked out and has the recorded commit, if given; a GateError names the remedy."""
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
    """Replace LFS pointer files in a tree with the objects in this clone.

    Raises GateError, which suggests the command `fetch`, if an object is missing and not matched by `ignore`.
    """
    pointers = {path.relative_to(folder).as_posix(): oid for path in folder.rglob("*") if (oid := lfs_object(path))}
    if not pointers:
        return
    stdin = os.fsencode("\0".join(pointers)) + b"\0"
    fields = os.fsdecode(git(root, "check-attr", "-z", "--stdin", "filter", stdin=stdin)).split("\0")
    by_lfs = {name for name, value in zip(fields[::3], fields[2::3]) if value == "lfs"}
    storage = os.fsdecode(git(root, "config", "--type=path", "--default=lfs", "--get", "lfs.storage")).rstrip("\n")
    store, missing = common_folder(root) / storage / "objects", list[str]()
    for name in sorted(by_lfs & pointers.keys()):
        stored = store / pointers[name][:2] / pointers[name][2:4] / pointers[name]
        if stored.is_file():
            shutil.copyfile(stored, folder / name)
        elif not matches_any(name, ignore):
            missing.append(name)
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise GateError(
            f"LFS objects are not in this clone: {', '.join(missing[:3])}{more}; run {fetch}, or add them to ignore in "
            "[tool.rlgauge]"
        )


def lfs_object(path: Path) -> str:
    """Return the hash of the LFS object that a file points to; empty if the file is not a pointer."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_POINTER_SIZE:
        return ""
    found = POINTER.match(path.read_bytes())
    return found[1].decode() if found else ""


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether any of the patterns matches a path."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def patterns_inside(patterns: Iterable[str], path: str) -> list[str]:
    """Return the patterns that may match inside a submodule, relative to it."""
    within = [pattern.removeprefix(f"{path}/") for pattern in patterns if pattern.startswith(f"{path}/")]
    return [*within, *(pattern for pattern in patterns if pattern.startswith("*"))]


def ignored(root: Path, parts: Sequence[str], pattern: str) -> list[str]:
    """Return the files in some directories that git ignores and whose names match a pattern such as ``*.py``."""
    command = "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"
    return split_at_null(git(root, *command, *(f"{part}/{pattern}" for part in parts))) if parts else []


def tracked(root: Path, names: Sequence[str]) -> list[str]:
    """Return the files that git tracks and that have one of these names, in any directory."""
    return split_at_null(git(root, "ls-files", "-z", "--", *(f":(glob)**/{name}" for name in names)))


def is_ignored(root: Path, path: str) -> bool:
    """Return whether git ignores a file or directory and tracks none of its files."""
    ignored = (
        subprocess.run(["git", "check-ignore", "--quiet", "--", path], cwd=root, env=outside_hooks()).returncode == 0
    )
    return ignored and not git(root, "ls-files", "-z", "--", path)


def untracked(root: Path, patterns: Sequence[str]) -> list[str]:
    """Return the files that match any of the patterns and that git does not track, ignored or not."""
    return split_at_null(git(root, "ls-files", "-z", "--others", "--", *patterns)) if patterns else []


def split_at_null(output: bytes) -> list[str]:
    """Return the entries in the output of a git command with ``-z``."""
    return [entry for entry in os.fsdecode(output).split("\0") if entry]


def digest(folder: Path, parts: Iterable[Path]) -> str:
    """Return a hash of files' relative paths and contents, excluding Python bytecode.

    Links to directories and to files outside `folder`, which may be large and which both sides share, count by target.
    """
    hash_, top = hashlib.sha256(), folder.resolve()
    kept = (path for path in parts if path.is_file() or path.is_symlink())
    for path in sorted(path for path in kept if path.parent.name != "__pycache__"):
        inside = path.is_file() and (not path.is_symlink() or path.resolve().is_relative_to(top))
        content = path.read_bytes() if inside else os.fsencode(os.readlink(path))
        hash_.update(os.fsencode(f"{path.relative_to(folder)} {len(content)}\n") + content)
    return hash_.hexdigest()


@contextmanager
def measurement_lock(cache: Path) -> Iterator[None]:
    """Wait until no other measurement uses this cache: measurements that run concurrently disturb each other.

    The lock is released when the process ends, however it ends. `cache` is the directory that all runs of a clone
    share.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "turn.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            to_stderr(f"waiting for another measurement in this clone (pid {file.read()})")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextmanager
def workspace(cache: Path) -> Iterator[Path]:
    """Wait for other measurements, then provide a temporary directory; directories of killed runs are removed."""
    with measurement_lock(cache):
        for old in cache.glob("run-*"):
            shutil.rmtree(old, ignore_errors=True)
        prefix = f"run-{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=cache, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
