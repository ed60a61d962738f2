"""``python -m perf_tests.gate replay``, ``bisect``, ``power``, ``planted``, ``noise``; pytest runs the gate itself."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from perf_tests.progress import Progress
from perf_tests.report.readme import README, insert
from perf_tests.suite.case import Variant
from perf_tests.suite.cases import variants
from rl_impls.common.files import write_whole

from . import report
from .bisect import bisect
from .plugin import ROOT, rule_of
from .rule import VOID, GateError, rule_with
from .run import LIMIT, Artifact
from .selfcheck import noise
from .selfcheck.planted import CASES, found
from .selfcheck.power import measure
from .selfcheck.power_table import Rate, example, read, table

POWER = Path(__file__).with_name("selfcheck") / "power.jsonl"
INTERRUPTED = 130
DOCUMENT = ROOT / "docs" / "gate.md"
MARKERS = "<!-- gate: generated -->", "<!-- end of gate -->"  # in both pages


def replay(options: argparse.Namespace) -> int:
    """Decide again from what a run measured, by its own rule or another.

    Args:
        options: the command line as parsed.
    """
    try:
        artifact = Artifact.model_validate_json(options.file.read_bytes())
    except (OSError, ValueError) as error:
        raise GateError(f"{options.file}: not what a run of the gate wrote: {str(error).splitlines()[0]}") from error
    artifact.rule = rule_with(options.rule, artifact.rule)
    outcome = artifact.decide()
    print(report.markdown(artifact, outcome), end="")
    return outcome.code


def find_commit(options: argparse.Namespace) -> int:
    """Name the commit that slowed a case.

    Args:
        options: the command line as parsed.
    """
    rule = rule_with(options.rule)
    step = bisect(ROOT, options.good, options.bad, variant_of(options.case), rule, limit=options.limit)
    print(f"slowed by {step}")
    return 0


def variant_of(case: str) -> Variant:
    """Return the case of this name.

    Args:
        case: its id.

    Raises:
        GateError: there is none.
    """
    if case not in variants():
        raise GateError(f"unknown case {case!r}; pytest --collect-only --benchmark-only --tier full lists them")
    return variants()[case]


def power(options: argparse.Namespace) -> int:
    """Measure the gate's own error rates for some minutes, going on with the file, and print them.

    Args:
        options: the command line as parsed.
    """
    if options.minutes > 0:
        measure(ROOT, options.file, options.minutes)
    measured, rule = read(options.file), rule_with(options.rule)
    rates = table(measured, rule)
    print(rates)
    if options.docs:
        for page, text in ((DOCUMENT, rates), (README, example(measured, rule))):
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


def measure_noise(options: argparse.Namespace) -> int:
    """Count fresh memory on both sides of identical code, and print how far apart the counts are.

    Args:
        options: the command line as parsed.
    """
    if options.pairs < 1:
        raise GateError(f"--pairs: got {options.pairs}, wanted at least 1")
    noise.show(noise.counted(ROOT, options.pairs), print)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; a mistake is one line and code 2.

    Args:
        arguments: the command line, that of the process unless given.
    """
    parser = argparse.ArgumentParser(prog="python -m perf_tests.gate", description=__doc__)
    commands = parser.add_subparsers(required=True)
    again = commands.add_parser("replay", help="decide again from a JSON artifact")
    again.add_argument("file", type=Path)
    again.set_defaults(run=replay)
    half = commands.add_parser("bisect", help="find the commit that slowed a case")
    for name in ("case", "good", "bad"):
        half.add_argument(name)
    half.add_argument("--limit", type=float, default=LIMIT, help="seconds for one request to a worker")
    half.set_defaults(run=find_commit)
    rates = commands.add_parser("power", help="measure the gate's own error rates")
    rates.add_argument("--minutes", type=float, default=0.0, help="how long to measure; 0 prints what is known")
    rates.add_argument("--file", type=Path, default=POWER, help="where the pairs are kept")
    rates.add_argument("--docs", action="store_true", help="put the table into docs/gate.md, a verdict into the README")
    rates.set_defaults(run=power)
    hidden = commands.add_parser("planted", help="measure how often bisect names the right commit")
    hidden.add_argument("--case", action="append", help="what is slowed; several for a different one at each try")
    hidden.add_argument("--tries", type=int, default=5)
    hidden.add_argument("--slowdown", type=float, default=0.1, help="part of a call's own time")
    hidden.set_defaults(run=planted)
    same = commands.add_parser("noise", help="measure how much counts of fresh memory differ on identical code")
    same.add_argument("--pairs", type=int, default=40, help="pairs of processes (default: 40)")
    same.set_defaults(run=measure_noise)
    for command in (again, half, rates, hidden):
        command.add_argument("--rule", type=rule_of, default={}, help="as in confirm=16,tolerated=0.01")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that folders are removed
    try:
        code: int = options.run(options)
    except (GateError, OSError) as error:  # OSError: a disk that is full or read-only
        print(error, file=sys.stderr)
        return VOID
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
