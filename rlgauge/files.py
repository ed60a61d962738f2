"""Output files of long measurements: disk space is reserved in advance, and files are written atomically."""

from __future__ import annotations

import errno
import glob
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":  # on Windows, the gate only reports that it is not supported
    import fcntl

RESERVED = 1 << 20  # bytes reserved for a file before anything is measured
MARK, MIN_AGE = "rlgauge-", 60.0  # part of a temporary file's name; seconds after which its process has locked it


class Unwritable(RuntimeError):
    """A file or directory cannot be written; the message has its path and the reason."""


@contextmanager
def naming(path: Path, option: str = "") -> Iterator[None]:
    """Add the path, and the option that set it, to an operating system error."""
    try:
        yield
    except OSError as error:
        fix = "choose another path" if option else "change its permissions or free space"
        raise Unwritable(f"{option} {path}: cannot be written: {error.strerror or error}; {fix}".lstrip()) from error


@contextmanager
def reserved(path: Path | None, room: int, option: str = "") -> Iterator[Callable[[bytes], None]]:
    """Reserve disk space for a file; yield a function that writes it atomically, or does nothing if `path` is None.

    Until that call, and without it, the previous content stays.

    Args:
        path: file to write, or None.
        room: bytes to reserve.
        option: command-line option that set the path, for error messages.

    Raises:
        Unwritable: the path is not a regular file, its directory cannot be written, or the disk is full.
    """
    if path is None:
        yield lambda data: None
        return
    target = path.resolve()
    with naming(path, option):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise OSError("not a regular file")
        remove_abandoned(target)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.{MARK}")
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)  # until this process ends, however it ends
        with naming(path, option):
            try:
                os.posix_fallocate(handle, 0, room)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:  # musl does not emulate it on file systems that lack it
                    raise

        def write(data: bytes) -> None:
            with naming(path, option), open(handle, "wb", closefd=False) as file:
                file.write(data)
                file.truncate()
                os.fsync(handle)
                os.fchmod(handle, 0o644)
                os.replace(temporary, target)

        yield write
    finally:
        os.close(handle)
        Path(temporary).unlink(missing_ok=True)


def remove_abandoned(target: Path) -> None:
    """Remove the temporary files for a target that killed processes have left."""
    for path in target.parent.glob(f"{glob.escape(f'.{target.name}.{MARK}')}*"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - path.stat().st_mtime > MIN_AGE:
                path.unlink()


def write_all(contents: Mapping[Path, bytes]) -> None:
    """Write files atomically, and none of them unless there is space for all."""
    with ExitStack() as stack:
        writes = [stack.enter_context(reserved(path, len(content))) for path, content in contents.items()]
        for write, content in zip(writes, contents.values()):
            write(content)


def check_file(path: Path, option: str) -> None:
    """Raise Unwritable unless a file can be written; its content stays."""
    with reserved(path, RESERVED, option):
        return
