"""The commands of ``rlgauge``: ``gate``, ``compare``, ``rank``, ``history``, ``bisect``, ``power`` and others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from . import report
from .artifact import Artifact, read
from .benchmarks.source import Benchmarks
from .command import ended
from .config import Config, settings_folder
from .config import read as settings
from .fields import FieldError
from .files import reserved
from .merge import merged
from .plugin import ROOM, rule_of
from .power import canary_rates, doses_of, faults_of
from .power import rates as measured_rates
from .revisions import resolve
from .rule import VOID, GateError, rule_with
from .run import LIMIT

if TYPE_CHECKING:
    from .compare import Plan

HISTORY = Path(".rlgauge", "history.jsonl")


def gate(options: argparse.Namespace) -> int:
    """Compare the working tree with a revision, by running pytest with the gate."""
    import pytest

    return int(pytest.main(["--gate-against", options.revision, *options.arguments]))


def told(artifact: Artifact) -> int:
    """Print the outcome of an artifact; return its exit code."""
    outcome = artifact.decide()
    print(report.markdown(artifact, outcome), end="")
    return outcome.code


def replay(options: argparse.Namespace) -> int:
    """Decide again from an artifact, by its own rule or a changed one."""
    artifact = read(options.file)
    for each in filter(None, (artifact, artifact.anchor)):
        each.rule = rule_with(options.rule, each.rule)
    return told(artifact)


def merge(options: argparse.Namespace) -> int:
    """Decide over the shards of one comparison together."""
    artifact = merged({str(file): read(file) for file in options.files})
    outcome = artifact.decide()
    with reserved(options.json, ROOM, "--json") as json, reserved(options.markdown, ROOM, "--markdown") as markdown:
        json(artifact.to_json().encode())
        markdown(report.markdown(artifact, outcome).encode())
    return told(artifact)


def here() -> tuple[Path, Config, Benchmarks]:
    """Return the working directory, its settings, and its benchmarks."""
    root = Path.cwd()
    config = settings(settings_folder(root))
    return root, config, Benchmarks(root, config, None)


def bisect(options: argparse.Namespace) -> int:
    """Find the commit that slowed a case."""
    from .bisect import bisect as search

    root, config, source = here()
    rule = config.rules(options.rule)
    step = search(source, root, options.good, options.bad, source.case(options.case), rule, limit=options.limit)
    print(f"slowed by {step}")
    return 0


def plan_of(options: argparse.Namespace) -> tuple[Benchmarks, Plan]:
    """Return the benchmarks of the working directory, and how to compare them."""
    from .compare import Plan

    given = {field.name: vars(options)[field.name] for field in fields(Plan) if field.name in options}
    try:
        plan = Plan(**given)
    except FieldError as error:
        raise GateError(f"--{error.path[0].replace('_', '-')}: {error.problem}") from error
    _, _, source = here()
    return source, plan


@contextmanager
def interruptible() -> Iterator[None]:
    """Report an interrupt as one line with exit code 2."""
    try:
        yield
    except KeyboardInterrupt:
        raise GateError("interrupted: nothing is written") from None


def compare(options: argparse.Namespace) -> int:
    """Compare two benchmarks, or every pair listed in a file."""
    from .compare import WIDE
    from .compare import compare as compared
    from .compare_file import compare_file

    if (options.file is None) == (options.second is None) or (options.file and options.first):
        raise GateError("rlgauge compare: give two benchmarks, A and B, or --file FILE")
    if options.resume and not options.file:
        raise GateError("--resume: only a --file of comparisons can be resumed")
    source, plan = plan_of(options)
    if options.file:
        out = options.json or source.artifact.with_name("compare.json")
        return compare_file(source, Path.cwd(), options.file, plan, out, options.resume, to_stderr)
    with interruptible(), reserved(options.json, ROOM, "--json") as json:
        found = compared(source, Path.cwd(), options.first, options.second, plan, to_stderr)
        json(found.to_json().encode())
    print(found)
    if found.half_width > plan.precision and found.verdict != WIDE:
        print(f"The interval is wider than {plan.precision:.1%}: give more --minutes, or run on an idle machine.")
    return 0


def rank(options: argparse.Namespace) -> int:
    """Print the ranking of several benchmarks."""
    from .compare import rank as ranked

    source, plan = plan_of(options)
    with interruptible(), reserved(options.json, ROOM, "--json") as json:
        found = ranked(source, Path.cwd(), options.patterns, plan, to_stderr)
        json(found.to_json().encode())
    print(found)
    return 0


def history(options: argparse.Namespace) -> int:
    """Compare commits with the release before them; return 1 if a test could not be measured at one of them."""
    from .history import History

    for name in ("pairs", "minutes"):
        if not getattr(options, name) > 0:
            raise GateError(f"--{name}: got {getattr(options, name):g}; give a number above 0")
    _, _, source = here()
    file = options.file or Path.cwd() / HISTORY
    resolve(Path.cwd(), options.since)
    source.everything(Path.cwd(), options.arguments)
    found = History(source, Path.cwd(), file, options.pairs, options.minutes, options.limit, to_stderr)
    found.measure(options.since)
    print(f"{len(found.entries)} ratios in {file}: rlgauge history show{f' --file {file}' if options.file else ''}")
    return 1 if found.failed else 0


def show_history(options: argparse.Namespace) -> int:
    """Print the steps and the drift in a history."""
    from .history import in_order, read
    from .history_table import drawn, markdown

    file = options.file or Path.cwd() / HISTORY
    if not file.exists():
        raise GateError(f"{file}: no such file; rlgauge history --since REVISION writes it")
    found = drawn(read(file), in_order(Path.cwd()))
    if not found:
        raise GateError(f"{file}: it has no ratios of the commits of this branch: rlgauge history --since REVISION")
    print(json.dumps(found, indent=1) if options.json else markdown(found))
    return 0


def to_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def power(options: argparse.Namespace) -> int:
    """Measure the gate's error rates on this repository's benchmarks, continuing the file, and print them."""
    root, config, source = here()
    if (pairs := options.canaries) is not None:
        if options.fault or options.arguments:
            raise GateError(f"--canaries: got {' '.join(options.arguments) or '--fault'} too, which is of tests")
        if pairs < 1:
            raise GateError(f"--canaries: got {pairs}, wanted 1 or more")
        file = options.file or source.artifact.with_name("canaries.jsonl")
        print(canary_rates(source, root, file, pairs, config.rules(options.rule), options.limit))
        return 0
    file = options.file or source.artifact.with_name("power.jsonl")
    asked = options.minutes, config.rules(options.rule), options.limit, faults_of(options.fault)
    print(measured_rates(source, root, file, *asked, options.arguments, doses_of(options.slowdowns)))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; a mistake prints one line and returns code 2.

    `arguments` are those of the command line, by default the process's own.
    """
    parser = argparse.ArgumentParser(prog="rlgauge", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    against = commands.add_parser("gate", help="compare the working tree with a revision: pytest --gate-against REV")
    against.add_argument("revision")
    against.add_argument("arguments", nargs=argparse.REMAINDER, help="of pytest")
    against.set_defaults(run=gate)
    again = commands.add_parser("replay", help="decide again from a JSON artifact")
    again.add_argument("file", type=Path)
    again.set_defaults(run=replay)
    half = commands.add_parser("bisect", help="find the commit that slowed a case")
    for name in ("case", "good", "bad"):
        half.add_argument(name)
    half.set_defaults(run=bisect)
    rates = commands.add_parser(
        "power",
        help="measure the gate's own error rates on these benchmarks",
        allow_abbrev=False,
        epilog="All other arguments are pytest's, as in: rlgauge power --minutes 60 benchmarks -k sort",
    )
    rates.add_argument("--minutes", type=float, default=0.0, help="how long to measure; 0 prints what is known")
    rates.add_argument("--file", type=Path, help="where the pairs are kept (default: in the gate's own folder)")
    rates.add_argument(
        "--canaries", type=int, metavar="PAIRS", help="measure the canaries alone, until the file holds so many pairs"
    )
    rates.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION[=PATTERN]",
        help="also slow head by a function that replaces the callable of a test with a slower one; "
        "in the tests that fit the pattern, or in all; may be given several times",
    )
    rates.add_argument(
        "--slowdowns",
        default="0.02,0.05,0.1",
        metavar="PART[,PART]",
        help="parts of a call by which head is slowed, beside 0 for the same code (default: 0.02,0.05,0.1)",
    )
    rates.set_defaults(run=power)
    two = commands.add_parser("compare", help="measure how many times as fast one benchmark is as another")
    two.add_argument("first", nargs="?", metavar="A", help="id of a benchmark, or a pattern that fits it alone")
    two.add_argument("second", nargs="?", metavar="B", help="id or pattern of the benchmark to compare with A")
    two.add_argument("--file", type=Path, help="TOML file with a [[comparison]] for each two benchmarks to compare")
    two.add_argument("--resume", action="store_true", help="go on from what an interrupted run of --file left")
    two.add_argument(
        "--measure",
        default="seconds",
        metavar="NAME",
        help="seconds, difference, spread, peak_rss, allocated, or a number of extra_info['figures'] "
        "(default: seconds)",
    )
    two.add_argument("--threads-a", type=int, metavar="N", help="threads and cores of A's process")
    two.add_argument("--threads-b", type=int, metavar="N", help="threads and cores of B's process")
    two.add_argument("--cores", default="", metavar="one|all", help="cores of both (default: as the tests' marks say)")
    two.add_argument("--seed", type=int, default=0, help="of the order of sides and of comparisons (default: 0)")
    two.set_defaults(run=compare)
    order = commands.add_parser("rank", help="order benchmarks by time, with ties")
    order.add_argument("patterns", nargs="+", metavar="PATTERN", help="ids or patterns of two or more benchmarks")
    order.set_defaults(run=rank)
    for command in (two, order):
        command.add_argument("--items", action="store_true", help="compare the time per item, not per call")
        command.add_argument(
            "--outputs",
            choices=("close", "same", "ignore"),
            default="close",
            help="how to compare outputs (default: close)",
        )
        command.add_argument(
            "--precision", type=float, default=0.03, help="half width of the interval to reach (default: 0.03)"
        )
        command.add_argument(
            "--minutes", type=float, default=5.0, help="stop after this time and six pairs (default: 5)"
        )
        command.add_argument("--json", type=Path, help="write all figures to this file")
    over = commands.add_parser(
        "history",
        help="compare commits with the release before them; then history show",
        allow_abbrev=False,
        usage="rlgauge history --since REVISION [--pairs N] [--minutes N] [--file FILE] [--limit S] [PYTEST-ARG ...]",
        epilog="All other arguments are pytest's, as in: rlgauge history --since v1.0 benchmarks -k sort",
    )
    over.add_argument("--since", required=True, metavar="REVISION", help="measure the commits after this one")
    over.add_argument("--pairs", type=int, default=16, help="of processes for each commit (default: 16)")
    over.add_argument(
        "--minutes", type=float, default=12.0, help="stop a commit after this time and six pairs (default: 12)"
    )
    over.set_defaults(run=history)
    shown = commands.add_parser("history show", help="print the steps and the drift of a history")
    shown.add_argument("--json", action="store_true", help="print all ratios and steps as JSON")
    shown.set_defaults(run=show_history)
    for command in (over, shown):
        command.add_argument("--file", type=Path, help=f"the ratios (default: {HISTORY})")
    shards = commands.add_parser("merge", help="decide over the artifacts of all shards")
    shards.add_argument("files", type=Path, nargs="+", metavar="FILE")
    shards.add_argument("--json", type=Path, help="the merged artifact")
    shards.add_argument("--markdown", type=Path, help="the verdicts as a table")
    shards.set_defaults(run=merge)
    for command in (again, half, rates):
        command.add_argument("--rule", type=rule_of, default={}, help="as in confirm=16,tolerated=0.01")
    for command in (half, rates, two, order, over):
        command.add_argument("--limit", type=float, default=LIMIT, help="seconds for one request to a worker")
    words = sys.argv[1:] if arguments is None else arguments
    if words[:2] == ["history", "show"]:
        words = ["history show", *words[2:]]
    options, rest = parser.parse_known_args(words)
    if options.run in (history, power):
        options.arguments = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if sys.platform != "linux":
        print(f"rlgauge: it runs on Linux, this is {sys.platform}", file=sys.stderr)
        return VOID
    return ended(lambda: options.run(options))


if __name__ == "__main__":
    sys.exit(main())
