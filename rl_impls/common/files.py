"""Atomic file writes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see the old content or the new, never a part.

    Raises:
        OSError: the file cannot be written; its old content is kept.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}; choose another path", str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def copy_whole(original: Path, copy: Path) -> None:
    """Copy a file that :func:`write_whole` wrote, atomically and, where hard links are possible, without extra space.

    Raises:
        OSError: the copy cannot be written; the old content of `copy` is kept.
    """
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        os.link(original, temporary)
        os.replace(temporary, copy)
    except OSError:
        write_whole(copy, original.read_bytes())
    finally:
        temporary.unlink(missing_ok=True)
