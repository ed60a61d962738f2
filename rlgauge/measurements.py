"""Append-only files of measurements, one line of JSON each, so that an interrupted measurement can be continued."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from .files import reserved
from .rule import GateError


def append(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Append lines to a file, all or none; raise Unwritable if that fails."""
    before = file.read_bytes() if file.exists() else b""
    after = before + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    with reserved(file, len(after)) as write:
        write(after)


def read(file: Path, kinds: Collection[str], command: str) -> list[dict[str, Any]]:
    """Return the lines of a file whose ``what`` must be one of `kinds`.

    Raises GateError for any other file; `command` is the command that writes such files.
    """
    lines: list[dict[str, Any]] = []
    try:
        for text in file.read_text("utf-8").splitlines():
            lines.append(json.loads(text))
            if (what := lines[-1]["what"]) not in kinds:
                raise ValueError(f"unknown line {what!r} (choose from {', '.join(kinds)})")
    except FileNotFoundError as error:
        raise GateError(f"nothing has been measured yet; run: {command}") from error
    except OSError as error:
        raise GateError(f"{file}: cannot be read: {error.strerror}; give another file") from error
    except (ValueError, KeyError, TypeError) as error:
        number = len(lines) + isinstance(error, json.JSONDecodeError)
        wrong = f"{file}: not a file that {command} writes: line {number}: {error}"
        raise GateError(f"{wrong}; give another file") from error
    return lines
