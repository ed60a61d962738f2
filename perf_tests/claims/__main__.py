"""Measure published claims: ``python -m perf_tests.claims [WORKLOAD ...] [--only ID] [--list]``.

``rlgauge compare --file`` measures six pairs of each comparison, then more pairs of the unclear ones, widest interval
first. Results are kept beside the output file until the code changes, so that an interrupted run can be resumed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlgauge.command import ended
from rlgauge.files import reserved
from rlgauge.machine import git_state
from rlgauge.rule import GateError

from ..suite import machine, process
from .catalogue import Claim, ClaimsError, by_name, claims_of, node_id, workloads
from .ledger import FORMAT, VERSION, row, unclear
from .measure import ROOT, measure, timed
from .pages import check_cores, show
from .returns import evidence
from .table import lines_of

RESULT = process.CACHE / "claims.json"
ROOM = 1 << 20  # upper bound for the size of the result in bytes


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; ``claims`` in the result are the selected ones."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.claims", description="Measure published claims.")
    parser.add_argument(
        "workload", nargs="*", help="workloads whose claims to measure, separated by spaces or commas (default: all)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="measure only this claim; repeatable")
    parser.add_argument("--list", action="store_true", help="print the claims without measuring them")
    parser.add_argument(
        "--minutes",
        type=float,
        default=50.0,
        metavar="N",
        help="stop adding pairs to unclear claims after N minutes (default: 50)",
    )
    parser.add_argument("--fresh", action="store_true", help="discard the results of an interrupted run")
    parser.add_argument(
        "--output",
        type=Path,
        default=RESULT,
        metavar="FILE",
        help="write the results to FILE as JSON (default: .cache/claims.json)",
    )
    parser.add_argument("--pages", action="store_true", help="also write the results into results/ and the README")
    options = parser.parse_args(arguments)
    if not 0 <= options.minutes < math.inf:
        parser.error(f"--minutes: {options.minutes:g} is out of range; choose 0 or more")
    if options.pages and (options.workload or options.only):
        parser.error("--pages: the pages show all claims; leave out --only and the workloads")
    names = [name for word in options.workload for name in word.split(",")]
    for name in names:
        if name not in workloads():
            parser.error(f"unknown workload {name!r} (choose from {', '.join(workloads())})")
    try:
        found = [claim for name in names or workloads() for claim in claims_of(name)]
    except ClaimsError as error:
        parser.error(str(error))
    options.claims = [claim for claim in found if claim.id in needed(found, options.only)]
    for wanted in options.only:
        if wanted not in {claim.id for claim in found}:
            parser.error(f"unknown claim {wanted!r}; to print the ids, give --list")
    return options


def needed(claims: Sequence[Claim], only: Sequence[str]) -> set[str]:
    """Return the ids of the claims to measure: the chosen ones (default: all), and those in their ``most_of``."""
    chosen = set(only) or {claim.id for claim in claims}
    return chosen | {other for claim in claims if claim.id in chosen for other in claim.most_of}


def measured(claims: Sequence[Claim], folder: Path, minutes: float) -> list[dict[str, Any]]:
    """Measure claims and return their ledger rows.

    ``folder`` keeps partial results for resuming. No pairs are added to unclear claims after ``minutes``.
    """
    comparisons = [
        claim.comparison(context)
        for claim in claims
        for context, pair in claim.contexts.items()
        if not claim.needs(*pair)
    ]
    tests = {
        node_id(claim.workload, figure.test): str(by_name(claim.workload)[figure.test].params["backend"])
        for claim in claims
        for figure in claim.figures
        if figure.of != "peak_rss" and not claim.needs(figure.test)
    }
    findings = {trial: evidence(trial) for claim in claims for trial in claim.evidence.values()}
    known = measure(list(dict.fromkeys(comparisons)), folder, minutes, lambda found: unclear(claims, found, findings))
    info, by_id = timed(tests), {claim.id: claim for claim in claims}
    return [row(claim, by_id, known, info, findings) for claim in claims]


def head() -> dict[str, Any]:
    """Return the ledger's metadata: format, commit, date, machine and threads."""
    state = git_state(ROOT)
    return {
        "format": FORMAT,
        "version": VERSION,
        "commit": state.removesuffix("+dirty"),
        "dirty": state.endswith("+dirty"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.info(ROOT),
        "threads": process.cores(),
    }


@contextmanager
def interruptible(folder: Path) -> Iterator[None]:
    """Turn Ctrl-C into a GateError that names the folder with the partial results."""
    try:
        yield
    except KeyboardInterrupt:
        raise GateError(f"interrupted: repeat the command to continue; finished comparisons are in {folder}") from None


def run(options: argparse.Namespace) -> int:
    """List or measure the claims; return 1 if one of them could not be measured."""
    if options.list:
        for claim in options.claims:
            print(f"{claim.id}: {claim.words} (promised: {claim.promised})")
        return 0
    if options.pages:
        check_cores(head())
    folder = options.output.with_suffix(".kept")
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    with interruptible(folder), reserved(options.output, ROOM, "--output") as write:
        ledger = {**head(), "claims": measured(options.claims, folder, options.minutes)}
        print("\n".join(lines_of(ledger["claims"])), flush=True)
        write((json.dumps(ledger, indent=1) + "\n").encode())
    if options.pages:
        show(ledger)
    failed = [
        row["id"]
        for row in ledger["claims"]
        if any(each["verdict"] == "error" for each in row["contexts"])
        or any("error" in figure for figure in row["figures"])
    ]
    if failed:
        print(f"claims that could not be measured: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and measure the claims; return the exit code."""
    options = parse(arguments)
    return ended(lambda: run(options), ClaimsError)


if __name__ == "__main__":
    sys.exit(main())
