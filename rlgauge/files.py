"""Files for what takes minutes to measure: room for them is taken before, and they are written whole."""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

WRITTEN = 60.0  # seconds in which a linker writes on


class Unwritable(RuntimeError):
    """A file or a folder cannot be written; the message names it and says why."""


@contextmanager
def naming(path: Path, option: str = "") -> Iterator[None]:
    """Name this path, and the option that gave it, where the system refuses something.

    Args:
        path: of the file or folder; nothing is written where :func:`reserved` gets None.
        option: name of the option that gave it, if any.
    """
    try:
        yield
    except OSError as error:
        raise Unwritable(f"{option} {path}: cannot be written: {error.strerror or error}".lstrip()) from error


@contextmanager
def reserved(path: Path | None, room: int, option: str = "") -> Iterator[Callable[[bytes], None]]:
    """Take so many bytes of room for a file, if one is named; return what writes it, whole or not at all.

    Until then, and where it is never called, what the file held stays. The option that named it is said in errors.

    Args:
        path: of the file or folder; nothing is written where :func:`reserved` gets None.
        room: bytes.
        option: name of the option that gave it, if any.

    Raises:
        Unwritable: the file is a folder or a device, its folder cannot be written, or there is no room.
    """
    if path is None:
        yield lambda data: None
        return
    target = path.resolve()
    with naming(path, option):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise OSError("it is no file")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with naming(path, option):
            os.posix_fallocate(handle, 0, room)

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
    """Write files, each whole, and none of them unless there is room for all.

    Args:
        contents: what each file is to hold, by its path.

    Raises:
        Unwritable: one cannot be written.
    """
    with ExitStack() as stack:
        writes = [stack.enter_context(reserved(path, len(content))) for path, content in contents.items()]
        for write, content in zip(writes, contents.values()):
            write(content)


def check_folder(path: Path) -> None:
    """Raise Unwritable unless files can be made in a folder; make it where it is missing.

    Args:
        path: of the file or folder; nothing is written where :func:`reserved` gets None.
    """
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()


def whole(library: Path) -> bool:
    """Return whether a 64-bit ELF file reaches to the end of its table of sections, which a linker writes last.

    Args:
        library: its file.
    """
    with library.open("rb") as file:
        head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return False
    (start,), (size, count) = struct.unpack_from("=Q", head, 40), struct.unpack_from("=HH", head, 58)
    return bool(library.stat().st_size >= start + size * count > 0)


def remove_halves(cache: Path) -> str:
    """Remove the libraries of a compile cache that a compiler was killed over; return how many in words, if any.

    torch would not make them anew: it fails, or takes the processor for one that lacks the fast instructions. What was
    written to a moment ago is left: a compiler of another process may be at it.

    Args:
        cache: folder of the compile cache.
    """
    now = time.time()
    halves = [
        library for library in cache.rglob("*.so") if now - library.stat().st_mtime > WRITTEN and not whole(library)
    ]
    for library in halves:
        library.unlink()
    return f"{cache}: {len(halves)} half-written libraries removed" if halves else ""
