"""The command line of ``rlgauge``: ``gate``, ``compare``, ``rank``, ``history``, ``bisect``, ``power`` and others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from . import subcommands
from .command import ended
from .fields import number, seconds
from .machine import version
from .options import parse_rule
from .plan import OUTPUTS, Plan
from .power import SLOWDOWNS
from .rule import INVALID, GateError
from .run import LIMIT


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; an expected error prints one line and returns code 2.

    `arguments` are those of the command line, by default the process's own.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given[:2] == ["history", "show"]:
        given = ["history show", *given[2:]]
    if given[:1] == ["gate"] and (len(given) == 1 or (given[1].startswith("-") and given[1] not in ("-h", "--help"))):
        given = ["gate", "", *given[1:]]  # no revision is given: all words are pytest's arguments
    parser, commands = parsers()
    options, rest = parser.parse_known_args(given)
    hint = did_you_mean(rest, commands.get(given[0], parser)) if rest else ""
    if options.run is subcommands.history and options.since is None:
        missing = "the following arguments are required: --since"
        commands["history"].error(f"unrecognized arguments: {' '.join(rest)}{hint}" if hint else missing)
    if options.run in (subcommands.history, subcommands.power):
        options.arguments = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    if sys.platform != "linux":
        print(f"rlgauge: {sys.platform} is not supported; run it on Linux", file=sys.stderr)
        return INVALID

    def run() -> int:
        try:
            return int(options.run(options))
        except GateError as error:
            if "unrecognized arguments" in str(error):
                raise GateError(f"{error}{hint}") from None
            raise

    return ended(run)


def did_you_mean(rest: Sequence[str], command: argparse.ArgumentParser) -> str:
    """Return ``; did you mean --minutes?`` for the first unknown option that is similar to one of a command."""
    known = [name for name in command._option_string_actions if name.startswith("--")]
    for word in rest:
        if word.startswith("--") and (similar := get_close_matches(word.partition("=")[0], known, 1)):
            return f"; did you mean {similar[0]}?"
    return ""


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the command-line parser, and the parser of each command by name."""
    about = "Find out whether a change made your Python code slower, with known error rates."
    parser = argparse.ArgumentParser(prog="rlgauge", description=about)
    parser.add_argument("--version", action="version", version=f"rlgauge {version('rlgauge')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add_command(name: str, about: str, **options: Any) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=f"{about[:1].upper()}{about[1:]}.", **options)

    command = add_command(
        "gate",
        "compare the working tree with a revision, like pytest --gate-against REV",
        usage="rlgauge gate [REVISION] [PYTEST-ARG ...]",
    )
    command.set_defaults(run=subcommands.gate)
    add = command.add_argument
    add("revision", metavar="REVISION", help="revision to compare with (default: `against` in [tool.rlgauge])")
    add("arguments", nargs=argparse.REMAINDER, metavar="PYTEST-ARG", help="arguments of pytest")

    command = add_command("demo", "find a planted slowdown in a scratch repository, and explain the output")
    command.set_defaults(run=subcommands.demo)
    add = command.add_argument
    add("folder", type=Path, nargs="?", metavar="DIR", help="new folder for the repository (default: a temporary one)")

    command = add_command("replay", "recompute the verdicts of a run from its JSON artifact")
    command.set_defaults(run=subcommands.replay)
    command.add_argument("file", type=Path, metavar="FILE", help="artifact that --gate-json wrote")
    add_rule(command)

    command = add_command("merge", "merge the artifacts of all shards, and compute the verdicts")
    command.set_defaults(run=subcommands.merge)
    add = command.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="artifacts, one per shard")
    add("--json", type=Path, metavar="FILE", help="write the merged artifact to FILE")
    add("--markdown", type=Path, metavar="FILE", help="write the verdicts to FILE as a Markdown table")

    command = add_command("bisect", "find the commit that slowed a benchmark")
    command.set_defaults(run=subcommands.bisect)
    add = command.add_argument
    add("benchmark", metavar="BENCHMARK", help="id of the benchmark, or a pattern that matches only it")
    add("good", metavar="GOOD", help="revision before the slowdown")
    add("bad", metavar="BAD", help="revision after the slowdown")
    add_rule(command)
    add_limit(command)

    command = add_command("compare", "measure how many times as fast one benchmark is as another")
    command.set_defaults(run=subcommands.compare)
    add = command.add_argument
    add("first", nargs="?", metavar="A", help="id of a benchmark, or a pattern that matches only it")
    add("second", nargs="?", metavar="B", help="id or pattern of the benchmark to compare with A")
    add("--file", type=Path, help="compare the benchmarks in this TOML file, which has a [[comparison]] table per pair")
    only = "measure only this comparison of --file; repeatable"
    add("--only", action="append", default=[], metavar="NAME", help=only)
    add("--threads-a", type=int, metavar="N", help="give A's process N threads and cores (default: from --cores)")
    add("--threads-b", type=int, metavar="N", help="give B's process N threads and cores (default: from --cores)")
    cores = "run both processes on one core or on all (default: from marks and settings)"
    add("--cores", default=Plan.cores, metavar="one|all", help=cores)
    seed = "set the seed for the order of sides and comparisons (default: %(default)s)"
    add("--seed", type=int, default=Plan.seed, metavar="N", help=seed)
    add_plan(command, "seconds, difference, spread, peak_rss, allocated")

    command = add_command("rank", "rank benchmarks by time or another measure; they may tie")
    command.set_defaults(run=subcommands.rank)
    command.add_argument("patterns", nargs="+", metavar="PATTERN", help="ids or patterns of two or more benchmarks")
    add_plan(command, "seconds, spread, peak_rss, allocated")

    command = add_command(
        "history",
        "compare each commit with the last tag before it, or with --since; history show prints the results",
        allow_abbrev=False,
        usage="rlgauge history --since REVISION [--pairs N] [--minutes N] [--file FILE] [--limit SECONDS] "
        "[PYTEST-ARG ...]",
        epilog="All other arguments go to pytest, for example: rlgauge history --since v1.0 benchmarks -k sort",
    )
    command.set_defaults(run=subcommands.history)
    add = command.add_argument
    add("--since", metavar="REVISION", help="measure the commits after this revision; required")
    add("--pairs", type=int, default=16, metavar="N", help="measure N pairs per commit (default: %(default)s)")
    minutes = "stop after N minutes per commit, but measure at least six pairs (default: %(default)g)"
    add("--minutes", type=number, default=12.0, metavar="N", help=minutes)
    add("--file", type=Path, help=f"add the measured ratios to FILE (default: {subcommands.HISTORY})")
    add_limit(command)

    command = add_command("history show", "print the steps and the drift in a history")
    command.set_defaults(run=subcommands.show_history)
    command.add_argument("--json", action="store_true", help="print all ratios and steps as JSON")
    command.add_argument(
        "--file", type=Path, help=f"read the measured ratios from FILE (default: {subcommands.HISTORY})"
    )

    command = add_command(
        "power",
        "measure the gate's error rates on this repository's benchmarks",
        allow_abbrev=False,
        epilog="All other arguments go to pytest, for example: rlgauge power --minutes 60 benchmarks -k sort",
    )
    command.set_defaults(run=subcommands.power)
    add = command.add_argument
    add("--minutes", type=number, metavar="N", help="measure for N minutes; 0 only prints the table (default: 0)")
    add("--file", type=Path, help="add the measured pairs to FILE (default: power.jsonl or canaries.jsonl in .rlgauge)")
    canaries = "measure only the canaries (built-in benchmarks), until the file has PAIRS pairs"
    add("--canaries", type=int, metavar="PAIRS", help=canaries)
    add(
        "--fault",
        action="append",
        metavar="MODULE:FUNCTION[=PATTERN]",
        help="also inject this fault into head: FUNCTION takes the timed callable and returns a slower one; PATTERN "
        "selects the tests (default: all); repeatable",
    )
    defaults = ",".join(f"{slowdown:g}" for slowdown in SLOWDOWNS)
    slowdowns = f"slow each call of head by these fractions; 0 is always measured too (default: {defaults})"
    add("--slowdowns", metavar="FRACTION[,FRACTION]", help=slowdowns)
    add_rule(command)
    add_limit(command)
    return parser, commands.choices


def add_rule(command: argparse.ArgumentParser) -> None:
    """Add the option that overrides parameters of the decision rule."""
    text = "override numbers of the decision rule, for example confirm=24,tolerated=0.02"
    command.add_argument("--rule", type=parse_rule, default={}, metavar="NAME=VALUE[,NAME=VALUE]", help=text)


def add_limit(command: argparse.ArgumentParser) -> None:
    """Add the option that limits the time of preparing a test, of two calls, and of listing the tests."""
    text = "limit the seconds per step: listing the tests, preparing a test, two calls of it (default: %(default)g)"
    command.add_argument("--limit", type=seconds, default=LIMIT, metavar="SECONDS", help=text)


def add_plan(command: argparse.ArgumentParser, measures: str) -> None:
    """Add the options that ``compare`` and ``rank`` share; `measures` are the built-in ones, for the help."""
    add = command.add_argument
    measure = f"compare this measure: {measures}, or a number in extra_info['figures'] (default: %(default)s)"
    add("--measure", default=Plan.measure, metavar="NAME", help=measure)
    add("--items", action="store_true", help="compare the time per item instead of per call")
    outputs = "choose how to compare the outputs of the benchmarks (default: %(default)s)"
    add("--outputs", choices=OUTPUTS, default=Plan.outputs, help=outputs)
    precision = (
        "stop when half the interval is at most this fraction of the ratio (for a difference: of the longer time; "
        "default: %(default)g)"
    )
    add("--precision", type=number, default=Plan.precision, metavar="FRACTION", help=precision)
    minutes = (
        "stop after N minutes (with --file: N per comparison), but measure at least six pairs; with 0, noisy tests and "
        "long calls also get fewer samples per pair (default: %(default)g)"
    )
    add("--minutes", type=number, default=Plan.minutes, metavar="N", help=minutes)
    add("--json", type=Path, metavar="FILE", help="write all results to FILE as JSON")
    add("--resume", action="store_true", help="reuse the results of an interrupted run")
    add_limit(command)


if __name__ == "__main__":
    sys.exit(main())
