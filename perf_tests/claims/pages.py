"""The pages of the ledger: ``results/<machine>-claims.md`` with the JSON beside it, and the README's part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..report.page import name_of
from ..report.readme import PAGES, README, as_json, insert, write
from ..suite.claim import ClaimsError
from .ledger import FORMAT, VERSION
from .table import page, summary, table

START, END = "<!-- claims: generated -->", "<!-- end of claims -->"


def read(path: Path) -> dict[str, Any]:
    """Return a ledger.

    Args:
        path: of its JSON.

    Raises:
        ClaimsError: it is none, or of a newer version.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ClaimsError(f"{path}: wanted what perf_tests.claims writes: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ClaimsError(f"{path}: wanted what perf_tests.claims writes: its format is not {FORMAT!r}")
    if found.get("version") != VERSION:
        raise ClaimsError(f"{path}: version: got {found.get('version')}, wanted {VERSION}")
    return found


def front(ledger: Mapping[str, Any], name: str) -> str:
    """Return the README's part.

    Args:
        ledger: as ``claims.json`` holds it.
        name: of the machine.
    """
    judged = [
        {**row, "contexts": [each for each in row["contexts"] if each["ratio"] is not None]}
        for row in ledger["claims"]
        if row["least"] is not None
    ]
    shown = table([row for row in judged if row["contexts"]])
    where = f"{PAGES.name}/{name}-claims.md"
    return (
        f"{summary(ledger['claims'])} [All of them, with what each says and where]({where}).\n\n"
        f"<details><summary>Every published figure that was tried here</summary>\n\n{shown}\n\n</details>"
    )


def show(ledger: Mapping[str, Any]) -> None:
    """Write the pages, whole.

    Args:
        ledger: as ``claims.json`` holds it.

    Raises:
        ClaimsError: the README has no place for it.
    """
    name = name_of(ledger["machine"])
    try:
        readme = insert(README.read_text(), START, END, front(ledger, name))
    except ValueError as error:
        raise ClaimsError(f"{README}: {error}") from error
    write({
        PAGES / f"{name}-claims.md": page(ledger),
        PAGES / f"{name}-claims.json": as_json(ledger),
        README: readme,
    })  # fmt: skip
