"""Append-only files of measurements, one line of JSON each, so that an interrupted measurement can be continued."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from .rule import GateError


def keep(file: Path, line: Mapping[str, Any]) -> None:
    """Append a line to a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")


def read(file: Path, kinds: Collection[str], command: str) -> list[dict[str, Any]]:
    """Return the lines of a file whose ``what`` must be one of `kinds`.

    Raises GateError for any other file; `command` is the command that writes such files.
    """
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        if unknown := [line["what"] for line in lines if line["what"] not in kinds]:
            raise ValueError(f"unknown line {unknown[0]!r} (choose from {', '.join(kinds)})")
    except FileNotFoundError as error:
        raise GateError(f"nothing is measured yet; run: {command}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GateError(f"{file}: not a file that {command} writes: {error}") from error
    return lines
