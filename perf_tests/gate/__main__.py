"""Measure the gate's error rates on a small repository (small), or write the tables about them (docs)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perf_tests.report.readme import insert
from rl_impls.common.files import write_whole
from rlgauge import power
from rlgauge.command import ended
from rlgauge.config import read
from rlgauge.rule import GateError

from .selfcheck import small

ROOT = Path(__file__).parents[2]
DOCUMENT, OTHERS, README = Path("docs/gate.md"), Path("docs/gate-your-own.md"), Path("README.md")
MARKERS = "<!-- gate: generated -->", "<!-- end of gate -->"  # in each page


def docs(options: argparse.Namespace) -> int:
    """Write the error rates of ``small`` and, if given, of ``rlgauge power`` into the pages about the gate."""
    rounds = small.read(small.FILE)
    pages = {OTHERS: small.table(rounds), README: small.rates_table(rounds)}
    if options.power:
        pages[DOCUMENT] = power.table(power.read(options.power), read(ROOT).rules())
    for page, text in pages.items():
        file = options.root / page
        write_whole(file, insert(file.read_text(), *MARKERS, text).encode())
    return 0


def measure_small(options: argparse.Namespace) -> int:
    """Measure more rounds of ``small``, if any are asked for, and print the table."""
    if options.rounds < 0:
        raise GateError(f"--rounds: {options.rounds} is out of range; choose 0 or more")
    if options.rounds:
        small.measure(options.file, options.rounds)
    print(small.table(small.read(options.file)))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code, 2 for an error."""
    parser = argparse.ArgumentParser(prog="python -m perf_tests.gate", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("docs", help="write the tables of error rates into docs and the README")
    power = "also write the error rates in FILE, which rlgauge power wrote, to docs/gate.md"
    command.add_argument("--power", type=Path, metavar="FILE", help=power)
    root = "update the pages in this folder (default: this repository)"
    command.add_argument("--root", type=Path, default=ROOT, help=root)
    command.set_defaults(run=docs)
    command = commands.add_parser("small", help="measure the error rates on a small generated repository")
    command.add_argument(
        "--rounds",
        type=int,
        default=7,
        metavar="N",
        help="measure N rounds of 3 minutes; 0 only prints the table (default: 7)",
    )
    command.add_argument(
        "--file",
        type=Path,
        default=small.FILE,
        help="add the rounds to this file (default: small.jsonl in perf_tests/gate/selfcheck)",
    )
    command.set_defaults(run=measure_small)
    options = parser.parse_args(arguments)
    return ended(lambda: options.run(options))


if __name__ == "__main__":
    sys.exit(main())
