"""The pages of the ledger: ``results/<machine>-claims.md`` with the JSON beside it, and the README's part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, model_validator

from rlgauge.files import Unwritable, write_all

from ..report.html.claims import Ratio
from ..report.html.runs import first
from ..report.readme import README, insert
from ..report.results import PAGES, name_of
from ..suite.claim import ClaimsError
from .ledger import FORMAT, VERSION
from .table import page, summary, table

START, END = "<!-- claims: generated -->", "<!-- end of claims -->"


class Context(BaseModel):
    """A comparison, with all that :func:`.ledger.told` keeps of it and a table says."""

    context: str
    base: str
    change: str
    measure: str
    ratio: Ratio | None
    low: Ratio | None
    high: Ratio | None
    n: int
    same_holds: bool | None
    verdict: str
    wide: bool | None = None  # of a ratio

    @model_validator(mode="after")
    def has_an_interval(self) -> Context:
        """Return this; refuse a ratio whose interval is missing."""
        if self.ratio is not None and None in (self.low, self.high, self.wide):
            raise ValueError("a ratio without low, high or wide")
        return self


class Figure(BaseModel):
    """A figure of ours beside the one that was stated."""

    what: str
    unit: str
    theirs: str
    ours: float | None


class Row(BaseModel):
    """A claim, with the code that it was measured with."""

    id: str
    workload: str
    words: str
    source: str
    promised: str
    least: Ratio | None
    same: str | None
    note: str
    contexts: list[Context]
    figures: list[Figure]
    code: str


class Ledger(BaseModel):
    """All claims, with nothing left out that a later run needs."""

    commit: str
    dirty: bool
    date: str
    machine: dict[str, Any]
    threads: int
    claims: list[Row]


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
        raise ClaimsError(f"{path}: version: got {found.get('version')!r}, wanted {VERSION}")
    try:
        Ledger.model_validate(found)
    except ValidationError as error:
        raise ClaimsError(f"{path}: wanted what perf_tests.claims writes: {first(error)}") from error
    return found


def kept_of(machine: Mapping[str, Any]) -> Path:
    """Return where the published ledger of a machine is kept, if there is one.

    Args:
        machine: as :func:`.suite.machine.info` says it.
    """
    return PAGES / f"{name_of(machine)}-claims.json"


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
    texts = {
        PAGES / f"{name}-claims.md": page(ledger),
        kept_of(ledger["machine"]): json.dumps(ledger, indent=1) + "\n",
        README: readme,
    }
    try:
        write_all({path: text.encode() for path, text in texts.items()})
    except Unwritable as error:
        raise ClaimsError(str(error)) from error
