"""``python -m perf_tests.gate docs``, ``planted``, ``drift``, ``small``: what the gate is worth."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from perf_tests.report.readme import README, insert
from rl_impls.common.files import write_whole
from rlgauge.artifact import read as read_run
from rlgauge.command import ended
from rlgauge.plugin import rule_of
from rlgauge.progress import Progress
from rlgauge.rates import Rate
from rlgauge.rule import GateError, rule_with

from .selfcheck import drift, small
from .selfcheck.planted import CASES, found
from .selfcheck.power import POWER
from .selfcheck.power_table import RECORDED, example, read, table, whole_tier
from .source import variant_of

ROOT = Path(__file__).parents[2]
DOCUMENT, OTHERS = (ROOT / "docs" / name for name in ("gate.md", "gate-your-own.md"))
MARKERS = "<!-- gate: generated -->", "<!-- end of gate -->"  # in all pages


def docs(options: argparse.Namespace) -> int:
    """Put the rates of ``rlgauge power``, of ``small`` and of the recorded pairs into the pages about the gate.

    Args:
        options: the command line as parsed.
    """
    measured, rule = read(options.file), rule_with(options.rule)
    of_all = whole_tier(json.loads(RECORDED.read_bytes()), rule)
    pages = {DOCUMENT: f"{table(measured, rule)}\n\n{of_all}", README: example(measured, rule)}
    pages[OTHERS] = small.table(small.read(small.FILE))
    for page, text in pages.items():
        write_whole(page, insert(page.read_text(), *MARKERS, text).encode())
    return 0


def planted(options: argparse.Namespace) -> int:
    """Count how often bisect names the commit that slows a case, the next case at every try.

    Args:
        options: the command line as parsed.
    """
    if options.tries < 1:
        raise GateError(f"--tries: got {options.tries}, wanted at least 1")
    if not 0 < options.slowdown <= 10:
        raise GateError(f"--slowdown: got {options.slowdown}, wanted a part such as 0.1, up to 10")
    cases, rule = [variant_of(case) for case in options.case or CASES], rule_with(options.rule)
    right = []
    with Progress(options.tries, "tries") as progress:
        for number in range(options.tries):
            right.append(found(ROOT, cases[number % len(cases)], options.slowdown, rule, number, progress.say))
            progress.step(f"right so far: {sum(right)}")
    print(f"bisect names the commit: {Rate(sum(right), len(right))}")
    return 0


def show_drift(options: argparse.Namespace) -> int:
    """Print of how many cases of a run a drift is told, by itself and where samples are made to rise.

    Args:
        options: the command line as parsed.
    """
    records = read_run(options.artifact).records
    for rise in drift.RISES:
        print(f"samples that rise by {rise:.0%} within each pair are told to drift: {drift.told(records, rise)}")
    return 0


def measure_small(options: argparse.Namespace) -> int:
    """Run the gate and pytest-benchmark's own rule on a small repository, round after round; print the rates.

    Args:
        options: the command line as parsed.
    """
    if options.rounds < 0:
        raise GateError(f"--rounds: got {options.rounds}, wanted 0 or more")
    if options.rounds:
        small.measure(options.file, options.rounds)
    print(small.table(small.read(options.file)))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; a mistake is one line and code 2.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.gate", description=__doc__)
    commands = parser.add_subparsers(required=True)
    pages = commands.add_parser("docs", help="put what rlgauge power and small have measured into the pages")
    pages.add_argument("--file", type=Path, default=POWER, help="where the pairs are kept")
    pages.set_defaults(run=docs)
    hidden = commands.add_parser("planted", help="measure how often bisect names the right commit")
    hidden.add_argument("--case", action="append", help="what is slowed; several for a different one at each try")
    hidden.add_argument("--tries", type=int, default=5)
    hidden.add_argument("--slowdown", type=float, default=0.1, help="part of a call's own time")
    hidden.set_defaults(run=planted)
    drifts = commands.add_parser("drift", help="count how often samples that drift are told, in the pairs of a run")
    drifts.add_argument("artifact", type=Path, help="what make gate or pytest --gate-json wrote")
    drifts.set_defaults(run=show_drift)
    others = commands.add_parser("small", help="measure the error rates on a repository such as others have")
    others.add_argument(
        "--rounds", type=int, default=7, help="of about three minutes (default: 7); 0 says what is known"
    )
    others.add_argument("--file", type=Path, default=small.FILE, help="where the rounds are kept")
    others.set_defaults(run=measure_small)
    for command in (pages, hidden):
        command.add_argument("--rule", type=rule_of, default={}, help="as in confirm=16,tolerated=0.01")
    options = parser.parse_args(arguments)
    return ended(lambda: options.run(options))


if __name__ == "__main__":
    sys.exit(main())
