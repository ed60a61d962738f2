"""The commands of ``rlgauge``: ``gate``, ``compare``, ``rank``, ``history``, ``bisect``, ``power`` and others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from . import report
from .artifact import Artifact, read
from .benchmarks.source import Benchmarks
from .command import ended
from .compare import WIDE, all_cases, resolve_id
from .compare import compare as compare_two
from .compare_file import compare_file
from .config import read as read_settings
from .config import settings_folder
from .fields import FieldError, seconds
from .files import RESERVED, reserved
from .machine import version
from .merge import merge_artifacts
from .options import parse_rule
from .plan import OUTPUTS, Plan
from .power import SLOWDOWNS, Measurement, parse_faults, parse_slowdowns
from .progress import number_of, to_stderr
from .ranking import rank as rank_all
from .revisions import is_revision, resolve
from .rule import INVALID, GateError, rule_with
from .run import LIMIT

HISTORY = Path(".rlgauge", "history.jsonl")


def gate(options: argparse.Namespace) -> int:
    """Run pytest with the gate, against the given revision or else the one in the settings."""
    import pytest

    default = read_settings(settings_folder(Path.cwd())).against
    revision, arguments = options.revision, options.arguments
    is_path = bool(revision) and Path(revision.partition("::")[0]).exists()
    if default and is_path and not is_revision(Path.cwd(), revision):
        revision, arguments = "", [revision, *arguments]  # the paths of tests
    if not (revision or default):
        raise GateError(
            'rlgauge gate: no revision is given; give one, for example main, or set against = "main" in [tool.rlgauge]'
        )
    return int(pytest.main([f"--gate-against={revision or default}", *arguments]))


def demo(options: argparse.Namespace) -> int:
    """Find a planted slowdown in a scratch repository."""
    from .demo import demo as show

    return show(options.folder)


def print_outcome(artifact: Artifact) -> int:
    """Print the outcome of an artifact; return its exit code."""
    outcome = artifact.decide()
    print(report.markdown(artifact, outcome), end="")
    return outcome.code


def replay(options: argparse.Namespace) -> int:
    """Decide again from an artifact, by its own rule or a changed one."""
    artifact = read(options.file)
    for each in filter(None, (artifact, artifact.anchor)):
        each.rule = rule_with(options.rule, each.rule)
    return print_outcome(artifact)


def merge(options: argparse.Namespace) -> int:
    """Merge the shards of one comparison, and decide over all of them."""
    artifact = merge_artifacts({str(file): read(file) for file in options.files})
    text = report.markdown(artifact, artifact.decide())
    with (
        reserved(options.json, RESERVED, "--json") as write_json,
        reserved(options.markdown, RESERVED, "--markdown") as write_markdown,
    ):
        write_json(artifact.to_json().encode())
        write_markdown(text.encode())
    return print_outcome(artifact)


def benchmarks_here(options: argparse.Namespace) -> Benchmarks:
    """Return the benchmarks of the working directory."""
    root = Path.cwd()
    return Benchmarks(root, read_settings(settings_folder(root)), None, limit=options.limit)


def bisect(options: argparse.Namespace) -> int:
    """Find the commit that slowed a benchmark."""
    from .bisect import bisect as search

    source = benchmarks_here(options)
    rule = source.config.rules(options.rule)
    with interruptible("no commit was found"):
        cases = all_cases(source, [options.benchmark])
        case = cases[resolve_id(options.benchmark, cases, "rlgauge bisect", source.broken)]
        source.names = [case.id]  # workers collect only its file
        commit = search(source, options.good, options.bad, case, rule, limit=options.limit)
    print(f"slowed by {commit}")
    return 0


def plan_of(options: argparse.Namespace) -> Plan:
    """Build the plan from the command-line options."""
    try:
        return Plan(**{field.name: vars(options)[field.name] for field in fields(Plan) if field.name in options})
    except FieldError as error:
        raise GateError(f"--{error.path[0].replace('_', '-')}: {error.problem}") from error


@contextmanager
def interruptible(remains: str = "to resume, repeat the command with --resume") -> Iterator[None]:
    """Report an interrupt as one line with exit code 2; `remains` says what is kept of the measurement."""
    try:
        yield
    except KeyboardInterrupt:
        raise GateError(f"interrupted: {remains}") from None


def compare(options: argparse.Namespace) -> int:
    """Compare two benchmarks, or every pair listed in a file."""
    if (options.file is None) == (options.second is None) or (options.file and options.first):
        raise GateError("rlgauge compare: give two benchmarks, A and B, or --file FILE")
    if options.only and not options.file:
        raise GateError("--only: it has no effect without --file; add --file FILE")
    plan, source = plan_of(options), benchmarks_here(options)
    if options.file:
        out = options.json or source.artifact.with_name("compare.json")
        return compare_file(source, Path.cwd(), options.file, plan, out, options.resume, to_stderr, options.only)
    if options.json:
        source.leave_out(options.json)
    with interruptible(), reserved(options.json, RESERVED, "--json") as write:
        result = compare_two(source, options.first, options.second, plan, to_stderr, options.resume)
        write(result.to_json().encode())
    print(result)
    if result.half_width > plan.precision and result.verdict != WIDE:
        allowed = f"--precision {plan.precision:g} allows"
        print(f"The interval is wider than {allowed}; give more --minutes, or use an idle machine.")
    return 0


def rank(options: argparse.Namespace) -> int:
    """Print the ranking of several benchmarks."""
    plan, source = plan_of(options), benchmarks_here(options)
    if options.json:
        source.leave_out(options.json)
    with interruptible(), reserved(options.json, RESERVED, "--json") as write:
        ranking = rank_all(source, options.patterns, plan, to_stderr, options.resume)
        write(ranking.to_json().encode())
    print(ranking)
    return 0


def history(options: argparse.Namespace) -> int:
    """Compare each commit with the release before it; return 1 if a test could not be measured at some commit."""
    from .history import History

    for name in ("pairs", "minutes"):
        if not getattr(options, name) > 0:
            raise GateError(f"--{name}: {getattr(options, name):g} is not above 0; choose a larger number")
    source, file = benchmarks_here(options), options.file or Path.cwd() / HISTORY
    resolve(source.root, options.since)
    with interruptible(f"repeat the command to continue; finished commits are in {file}"):
        source.select(options.arguments)
        found = History(source, file, options.pairs, options.minutes, options.limit, to_stderr)
        found.measure(options.since)
    show = f"rlgauge history show{f' --file {file}' if options.file else ''}"
    print(f"{number_of(len(found.entries), 'ratio')} in {file}; to see them, run: {show}")
    return 1 if found.failed else 0


def show_history(options: argparse.Namespace) -> int:
    """Print the steps and the drift in a history."""
    from .history import in_order, read
    from .history_table import drawn, markdown

    file = options.file or Path.cwd() / HISTORY
    if not file.exists():
        raise GateError(f"{file}: no such file; to write it, run: rlgauge history --since REVISION")
    cases = drawn(read(file), in_order(Path.cwd()))
    if not cases:
        raise GateError(
            f"{file}: no ratios of this branch's commits; to measure them, run: rlgauge history --since REV"
        )
    print(json.dumps(cases, indent=1) if options.json else markdown(cases))
    return 0


def power(options: argparse.Namespace) -> int:
    """Measure the gate's error rates on this repository's benchmarks, continuing the file, and print them."""
    source, pairs = benchmarks_here(options), options.canaries
    file = options.file or source.artifact.with_name("power.jsonl" if pairs is None else "canaries.jsonl")
    given = [f"--{name}" for name in ("slowdowns", "fault") if getattr(options, name) is not None]
    given += options.arguments
    if pairs is not None:
        given = ["--minutes"] * (options.minutes is not None) + given
        if given:
            raise GateError(f"--canaries: canaries are measured alone; leave out {' '.join(given)}")
        if pairs < 1:
            raise GateError(f"--canaries: {pairs} is too small; choose 1 or more")
        slowdowns: tuple[float, ...] = ()
    else:
        if options.minutes is not None and not options.minutes >= 0:
            raise GateError(f"--minutes: {options.minutes:g} is out of range; choose 0 or more")
        slowdowns = SLOWDOWNS if options.slowdowns is None else parse_slowdowns(options.slowdowns)
    rule, faults = source.config.rules(options.rule), parse_faults(options.fault or [])
    if pairs is None and not options.minutes and given:
        raise GateError(f"rlgauge power: {' '.join(given)} has no effect without --minutes; add --minutes 60")
    measurement = Measurement(source, file, rule, options.limit, slowdowns, faults)
    with interruptible(f"repeat the command to continue; finished pairs are in {file}"):
        if pairs is not None:
            print(measurement.canary_rates(pairs))
        else:
            print(measurement.benchmark_rates(options.minutes or 0.0, options.arguments))
    return 0


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
    if options.run in (history, power):
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

    command = commands.add_parser(
        "gate",
        help="compare the working tree with a revision, like pytest --gate-against REV",
        usage="rlgauge gate [REVISION] [PYTEST-ARG ...]",
    )
    command.set_defaults(run=gate)
    add = command.add_argument
    add("revision", metavar="REVISION", help="revision to compare with (default: `against` in [tool.rlgauge])")
    add("arguments", nargs=argparse.REMAINDER, metavar="PYTEST-ARG", help="arguments of pytest")

    command = commands.add_parser(
        "demo", help="find a planted slowdown in a scratch repository, and explain the output"
    )
    command.set_defaults(run=demo)
    add = command.add_argument
    add("folder", type=Path, nargs="?", metavar="DIR", help="new folder for the repository (default: temporary)")

    command = commands.add_parser("replay", help="recompute the verdicts of a run from its JSON artifact")
    command.set_defaults(run=replay)
    command.add_argument("file", type=Path, metavar="FILE", help="artifact that --gate-json wrote")
    add_rule(command)

    command = commands.add_parser("merge", help="merge the artifacts of all shards, and compute the verdicts")
    command.set_defaults(run=merge)
    add = command.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="artifacts, one per shard")
    add("--json", type=Path, metavar="FILE", help="write the merged artifact to FILE")
    add("--markdown", type=Path, metavar="FILE", help="write the verdicts to FILE as a Markdown table")

    command = commands.add_parser("bisect", help="find the commit that slowed a benchmark")
    command.set_defaults(run=bisect)
    add = command.add_argument
    add("benchmark", metavar="BENCHMARK", help="id of the benchmark, or a pattern that matches only it")
    add("good", metavar="GOOD", help="revision before the slowdown")
    add("bad", metavar="BAD", help="revision after the slowdown")
    add_rule(command)
    add_limit(command)

    command = commands.add_parser("compare", help="measure how many times as fast one benchmark is as another")
    command.set_defaults(run=compare)
    add = command.add_argument
    add("first", nargs="?", metavar="A", help="id of a benchmark, or a pattern that matches only it")
    add("second", nargs="?", metavar="B", help="id or pattern of the benchmark to compare with A")
    add("--file", type=Path, help="TOML file with one [[comparison]] table per pair of benchmarks")
    only = "measure only this comparison of --file; repeatable"
    add("--only", action="append", default=[], metavar="NAME", help=only)
    add("--threads-a", type=int, metavar="N", help="number of threads and cores of A's process (default: from --cores)")
    add("--threads-b", type=int, metavar="N", help="number of threads and cores of B's process (default: from --cores)")
    cores = "cores of both processes (default: from marks and settings)"
    add("--cores", default=Plan.cores, metavar="one|all", help=cores)
    seed = "seed for the order of sides and comparisons (default: %(default)s)"
    add("--seed", type=int, default=Plan.seed, metavar="N", help=seed)
    add_plan(command, "seconds, difference, spread, peak_rss, allocated")

    command = commands.add_parser("rank", help="rank benchmarks by time or another measure; they may tie")
    command.set_defaults(run=rank)
    command.add_argument("patterns", nargs="+", metavar="PATTERN", help="ids or patterns of two or more benchmarks")
    add_plan(command, "seconds, spread, peak_rss, allocated")

    command = commands.add_parser(
        "history",
        help="compare commits with the previous release; history show prints the results",
        allow_abbrev=False,
        usage="rlgauge history --since REVISION [--pairs N] [--minutes N] [--file FILE] [--limit S] [PYTEST-ARG ...]",
        epilog="All other arguments go to pytest, for example: rlgauge history --since v1.0 benchmarks -k sort",
    )
    command.set_defaults(run=history)
    add = command.add_argument
    add("--since", required=True, metavar="REVISION", help="measure the commits after this revision")
    add("--pairs", type=int, default=16, metavar="N", help="pairs of processes per commit (default: %(default)s)")
    minutes = "stop after N minutes per commit, but measure at least six pairs (default: %(default)g)"
    add("--minutes", type=float, default=12.0, metavar="N", help=minutes)
    add("--file", type=Path, help=f"file for the measured ratios (default: {HISTORY})")
    add_limit(command)

    command = commands.add_parser("history show", help="print the steps and the drift in a history")
    command.set_defaults(run=show_history)
    command.add_argument("--json", action="store_true", help="print all ratios and steps as JSON")
    command.add_argument("--file", type=Path, help=f"file with the measured ratios (default: {HISTORY})")

    command = commands.add_parser(
        "power",
        help="measure the gate's error rates on this repository's benchmarks",
        allow_abbrev=False,
        epilog="All other arguments go to pytest, for example: rlgauge power --minutes 60 benchmarks -k sort",
    )
    command.set_defaults(run=power)
    add = command.add_argument
    add("--minutes", type=float, metavar="N", help="minutes to measure; 0 only prints the table (default: 0)")
    add("--file", type=Path, help="file of the measured pairs (default: power.jsonl or canaries.jsonl in .rlgauge)")
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
    text = "override parameters of the decision rule, for example confirm=16,tolerated=0.01"
    command.add_argument("--rule", type=parse_rule, default={}, metavar="NAME=VALUE[,NAME=VALUE]", help=text)


def add_limit(command: argparse.ArgumentParser) -> None:
    """Add the option that limits the time of a call."""
    text = "timeout for one call, for its preparation, and for listing the tests (default: %(default)g)"
    command.add_argument("--limit", type=seconds, default=LIMIT, metavar="SECONDS", help=text)


def add_plan(command: argparse.ArgumentParser, measures: str) -> None:
    """Add the options that ``compare`` and ``rank`` share; `measures` are the built-in ones, for the help."""
    add = command.add_argument
    measure = f"what to compare: {measures}, or a number in extra_info['figures'] (default: %(default)s)"
    add("--measure", default=Plan.measure, metavar="NAME", help=measure)
    add("--items", action="store_true", help="compare the time per item instead of per call")
    outputs = "how to compare the outputs of the benchmarks (default: %(default)s)"
    add("--outputs", choices=OUTPUTS, default=Plan.outputs, help=outputs)
    precision = "stop when half the interval is at most this fraction of the ratio (default: %(default)g)"
    add("--precision", type=float, default=Plan.precision, metavar="FRACTION", help=precision)
    minutes = (
        "stop after N minutes, but measure at least six pairs; with 0, also take fewer samples per pair "
        "(default: %(default)g)"
    )
    add("--minutes", type=float, default=Plan.minutes, metavar="N", help=minutes)
    add("--json", type=Path, metavar="FILE", help="write all results to FILE as JSON")
    add("--resume", action="store_true", help="reuse the results of an interrupted run")
    add_limit(command)


if __name__ == "__main__":
    sys.exit(main())
