"""Write the ledger: ``results/<machine>-claims.md``, the JSON next to it, a chart, and a section of the README.

``python -m perf_tests.claims.pages results/<machine>-claims.json`` writes them again from a measured ledger. If that
lacks claims, as with ``--only``, the chart and the README stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlgauge.command import ended
from rlgauge.files import write_all

from ..report.readme import README, insert
from ..report.results import PAGES, devices, name_of
from .catalogue import ClaimsError, claims_of, workloads
from .chart import TITLE, svg
from .ledger import FORMAT, VERSION
from .table import page

START, END = "<!-- claims: generated -->", "<!-- end of claims -->"
CHART = README.parent / "docs/claims.svg"


def section(ledger: Mapping[str, Any], name: str) -> str:
    """Return the README's part of a ledger, given the machine's name."""
    picture = f"![{TITLE}]({CHART.relative_to(README.parent)})"
    where = f"{ledger['date'][:10]}, {devices(ledger['machine'])}"
    return f"{picture}\n\n{where}. [All verdicts]({PAGES.name}/{name}-claims.md)."


def read(path: Path) -> Any:
    """Return the ledger in a file; raise ClaimsError for anything else."""
    try:
        ledger = json.loads(path.read_text())
    except ValueError as error:
        raise ClaimsError(f"{path}: not JSON ({error}); give a file that make claims wrote") from error
    if not isinstance(ledger, dict) or (ledger.get("format"), ledger.get("version")) != (FORMAT, VERSION):
        raise ClaimsError(f"{path}: not a file of claims of version {VERSION}; write a new one with make claims")
    return ledger


def check_cores(ledger: Mapping[str, Any]) -> None:
    """Raise ClaimsError if a ledger, or its metadata alone, is from a process that could not use all cores."""
    used, cores = ledger["threads"], ledger["machine"]["cores"]
    if used < cores:
        raise ClaimsError(f"pages need claims measured on all {cores} cores, not on {used}; use all cores")


def show(ledger: Mapping[str, Any]) -> None:
    """Write the page and the JSON and, if no claim is missing, the chart and the README's section, all or none.

    Raises ClaimsError if claims are missing that the JSON of this machine has.
    """
    check_cores(ledger)
    name = name_of(ledger["machine"])
    kept = PAGES / f"{name}-claims.json"
    texts = {PAGES / f"{name}-claims.md": page(ledger), kept: json.dumps(ledger, indent=1) + "\n"}
    shown = {row["id"] for row in ledger["claims"]}
    missing = [claim.id for workload in workloads() for claim in claims_of(workload) if claim.id not in shown]
    if not missing:
        try:
            texts[README] = insert(README.read_text(), START, END, section(ledger, name))
        except ValueError as error:
            raise ClaimsError(f"{README}: {error}") from error
        texts[CHART] = svg(ledger["claims"])
    elif kept.exists():
        lost = {row["id"] for row in json.loads(kept.read_text())["claims"]} - shown
        if lost:
            raise ClaimsError(f"{kept} has claims that this file lacks, such as {min(lost)}; measure all claims")
    write_all({path: text.encode() for path, text in texts.items()})
    if missing:
        print(f"{README.name} and {CHART.name} are unchanged, because this file lacks {len(missing)} claims")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages of a measured ledger; return the exit code."""
    about = "Write the pages of published claims from a file that make claims wrote."
    parser = argparse.ArgumentParser(prog="python -m perf_tests.claims.pages", description=about)
    parser.add_argument("ledger", type=Path, help="JSON file that make claims wrote")
    options = parser.parse_args(arguments)

    def run() -> int:
        show(read(options.ledger))
        return 0

    return ended(run, ClaimsError)


if __name__ == "__main__":
    sys.exit(main())
