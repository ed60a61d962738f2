"""Output files of long measurements: disk space is reserved in advance, and files are written atomically."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

RESERVED = 1 << 20  # bytes reserved for a file before anything is measured


class Unwritable(RuntimeError):
    """A file or directory cannot be written; the message has its path and the reason."""


@contextmanager
def naming(path: Path, option: str = "") -> Iterator[None]:
    """Add the path, and the option that set it, to an operating system error."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"{option} {path}: cannot be written: {error.strerror or error}".lstrip()) from error


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
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
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
