"""Write the ledger: ``results/<machine>-claims.md``, the JSON next to it, and a section of the README."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlgauge.files import write_all

from ..report.readme import README, insert
from ..report.results import PAGES, name_of
from .catalogue import ClaimsError
from .table import page, summary

START, END = "<!-- claims: generated -->", "<!-- end of claims -->"


def section(ledger: Mapping[str, Any], name: str) -> str:
    """Return the README's part of a ledger, given the machine's name."""
    return f"{summary(ledger['claims'])} [All of them]({PAGES.name}/{name}-claims.md)."


def show(ledger: Mapping[str, Any]) -> None:
    """Write the page, the JSON and the README's section, all or none."""
    name = name_of(ledger["machine"])
    try:
        readme = insert(README.read_text(), START, END, section(ledger, name))
    except ValueError as error:
        raise ClaimsError(f"{README}: {error}") from error
    texts = {
        PAGES / f"{name}-claims.md": page(ledger),
        PAGES / f"{name}-claims.json": json.dumps(ledger, indent=1) + "\n",
        README: readme,
    }
    write_all({path: text.encode() for path, text in texts.items()})
