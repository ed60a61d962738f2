"""The files that a run of the gate writes: looked at before anything is timed, written whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl_impls.params import write_whole

from .rule import GateError


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Say in one line which file cannot be written.

    Raises:
        GateError: that line.
    """
    try:
        yield
    except OSError as error:
        raise GateError(f"{option} {path} cannot be written: {error}") from error


def check(option: str, path: Path) -> None:
    """Make a file's folder, and see that the file can be written there; what it holds stays.

    Raises:
        GateError: it cannot.
    """
    with writing(option, path):
        if path.exists() and not path.is_file():
            raise OSError("it is there and is no file")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
        if path.exists():
            path.open("r+b").close()


def write(option: str, path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        GateError: it cannot be written.
    """
    with writing(option, path):
        write_whole(path, text.encode())
