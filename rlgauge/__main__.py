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
from typing import TYPE_CHECKING

from . import report
from .artifact import Artifact, read
from .benchmarks.installed import version
from .benchmarks.source import Benchmarks
from .command import ended
from .config import Config, settings_folder
from .config import read as settings
from .fields import FieldError
from .files import reserved
from .merge import merged
from .plugin import ROOM, rule_of
from .power import DOSES, canary_rates, doses_of, faults_of
from .power import rates as measured_rates
from .progress import number_of
from .revisions import resolve
from .rule import VOID, GateError, rule_with
from .run import LIMIT

if TYPE_CHECKING:
    from .compare import Plan

HISTORY = Path(".rlgauge", "history.jsonl")


def gate(options: argparse.Namespace) -> int:
    """Compare the working tree with a revision, by default that of the settings, by running pytest with the gate."""
    import pytest

    revision = options.revision or settings(settings_folder(Path.cwd())).against
    if not revision:
        raise GateError('rlgauge gate: give a revision, for example main, or set against = "main" in [tool.rlgauge]')
    return int(pytest.main([f"--gate-against={revision}", *options.arguments]))


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
    """Find the commit that slowed a benchmark."""
    from .bisect import bisect as search
    from .compare import listed, named

    root, config, source = here()
    rule = config.rules(options.rule)
    with interruptible("no commit was found"):
        cases = listed(source, root)
        case = cases[named(options.benchmark, cases, "rlgauge bisect")]
        source.names = [case.id]  # workers collect only its file
        step = search(source, root, options.good, options.bad, case, rule, limit=options.limit)
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
def interruptible(words: str = "nothing is written") -> Iterator[None]:
    """Report an interrupt as one line with exit code 2; `words` say what is left of the measurement."""
    try:
        yield
    except KeyboardInterrupt:
        raise GateError(f"interrupted: {words}") from None


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
            raise GateError(f"--{name}: {getattr(options, name):g} is not above 0; choose a larger number")
    _, _, source = here()
    file = options.file or Path.cwd() / HISTORY
    resolve(Path.cwd(), options.since)
    with interruptible(f"repeat the command to continue; finished commits are in {file}"):
        source.everything(Path.cwd(), options.arguments)
        found = History(source, Path.cwd(), file, options.pairs, options.minutes, options.limit, to_stderr)
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
    found = drawn(read(file), in_order(Path.cwd()))
    if not found:
        raise GateError(
            f"{file}: no ratios of this branch's commits; to measure them, run: rlgauge history --since REV"
        )
    print(json.dumps(found, indent=1) if options.json else markdown(found))
    return 0


def to_stderr(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def power(options: argparse.Namespace) -> int:
    """Measure the gate's error rates on this repository's benchmarks, continuing the file, and print them."""
    root, config, source = here()
    rule, kept = config.rules(options.rule), "repeat the command to continue; finished pairs are in {}"
    if (pairs := options.canaries) is not None:
        given = [f"--{name}" for name in ("minutes", "slowdowns", "fault") if getattr(options, name) is not None]
        given += options.arguments
        if given:
            raise GateError(f"--canaries: leave out {' '.join(given)}: canaries are measured alone")
        if pairs < 1:
            raise GateError(f"--canaries: {pairs} is too small; choose 1 or more")
        file = options.file or source.artifact.with_name("canaries.jsonl")
        with interruptible(kept.format(file)):
            print(canary_rates(source, root, file, pairs, rule, options.limit))
        return 0
    file = options.file or source.artifact.with_name("power.jsonl")
    asked = options.minutes or 0.0, rule, options.limit, faults_of(options.fault or [])
    doses = DOSES if options.slowdowns is None else doses_of(options.slowdowns)
    with interruptible(kept.format(file)):
        print(measured_rates(source, root, file, *asked, options.arguments, doses))
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; a mistake prints one line and returns code 2.

    `arguments` are those of the command line, by default the process's own.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if words[:2] == ["history", "show"]:
        words = ["history show", *words[2:]]
    if words[:1] == ["gate"] and (len(words) == 1 or (words[1].startswith("-") and words[1] not in ("-h", "--help"))):
        words = ["gate", "", *words[1:]]  # without a revision, all others are pytest's arguments
    parser, commands = parsers()
    options, rest = parser.parse_known_args(words)
    hint = did_you_mean(rest, commands.get(words[0], parser)) if rest else ""
    if options.run in (history, power):
        options.arguments = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    if sys.platform != "linux":
        print(f"rlgauge: run it on Linux; it does not support {sys.platform}", file=sys.stderr)
        return VOID

    def run() -> int:
        try:
            return int(options.run(options))
        except GateError as error:
            raise GateError(f"{error}{hint}") if "unrecognized arguments" in str(error) else error from None

    return ended(run)


def did_you_mean(rest: Sequence[str], command: argparse.ArgumentParser) -> str:
    """Return ``; did you mean --minutes?`` for the first unknown option that is similar to one of a command."""
    known = [name for name in command._option_string_actions if name.startswith("--")]
    for word in rest:
        if word.startswith("--") and (near := get_close_matches(word.partition("=")[0], known, 1)):
            return f"; did you mean {near[0]}?"
    return ""


def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the command line, and that of each command by name."""
    parser = argparse.ArgumentParser(prog="rlgauge", description=__doc__)
    parser.add_argument("--version", action="version", version=f"rlgauge {version('rlgauge')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    against = commands.add_parser(
        "gate",
        help="compare the working tree with a revision, like pytest --gate-against REV",
        usage="rlgauge gate [REVISION] [PYTEST-ARG ...]",
    )
    against.add_argument(
        "revision", metavar="REVISION", help="revision to compare with (default: against in [tool.rlgauge])"
    )
    against.add_argument("arguments", nargs=argparse.REMAINDER, metavar="PYTEST-ARG", help="arguments of pytest")
    against.set_defaults(run=gate)
    again = commands.add_parser("replay", help="compute the verdicts of a JSON artifact again")
    again.add_argument("file", type=Path, metavar="FILE", help="artifact that --gate-json wrote")
    again.set_defaults(run=replay)
    half = commands.add_parser("bisect", help="find the commit that slowed a benchmark")
    half.add_argument("benchmark", metavar="BENCHMARK", help="id of the benchmark, or a pattern that matches only it")
    half.add_argument("good", metavar="GOOD", help="revision before the slowdown")
    half.add_argument("bad", metavar="BAD", help="revision after the slowdown")
    half.set_defaults(run=bisect)
    rates = commands.add_parser(
        "power",
        help="measure the gate's error rates on these benchmarks",
        allow_abbrev=False,
        epilog="All other arguments are pytest's, for example: rlgauge power --minutes 60 benchmarks -k sort",
    )
    rates.add_argument(
        "--minutes", type=float, metavar="N", help="minutes to measure; 0 only prints the table (default: 0)"
    )
    rates.add_argument(
        "--file", type=Path, help="file of the measured pairs (default: power.jsonl or canaries.jsonl in .rlgauge)"
    )
    rates.add_argument(
        "--canaries", type=int, metavar="PAIRS", help="measure only the canaries, until the file holds PAIRS pairs"
    )
    rates.add_argument(
        "--fault",
        action="append",
        metavar="MODULE:FUNCTION[=PATTERN]",
        help="also slow head by a function that replaces the callable of a test with a slower one; it applies to tests "
        "that match the pattern, by default all; repeatable",
    )
    rates.add_argument(
        "--slowdowns",
        metavar="FRACTION[,FRACTION]",
        help="slowdowns of head, as fractions of a call, besides 0 (default: 0.02,0.05,0.1)",
    )
    rates.set_defaults(run=power)
    two = commands.add_parser("compare", help="measure how many times as fast one benchmark is as another")
    two.add_argument("first", nargs="?", metavar="A", help="id of a benchmark, or a pattern that matches only it")
    two.add_argument("second", nargs="?", metavar="B", help="id or pattern of the benchmark to compare with A")
    two.add_argument("--file", type=Path, help="TOML file with one [[comparison]] table per pair of benchmarks")
    two.add_argument("--resume", action="store_true", help="reuse the results of an interrupted run of --file")
    two.add_argument(
        "--measure",
        default="seconds",
        metavar="NAME",
        help="seconds, difference, spread, peak_rss, allocated, or a number in extra_info['figures'] "
        "(default: seconds)",
    )
    two.add_argument("--threads-a", type=int, metavar="N", help="threads and cores of A's process (default: --cores)")
    two.add_argument("--threads-b", type=int, metavar="N", help="threads and cores of B's process (default: --cores)")
    two.add_argument(
        "--cores", default="", metavar="one|all", help="cores of both processes (default: from marks and settings)"
    )
    two.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed for the order of sides and comparisons (default: 0)"
    )
    two.set_defaults(run=compare)
    order = commands.add_parser("rank", help="order benchmarks by time, with ties")
    order.add_argument("patterns", nargs="+", metavar="PATTERN", help="ids or patterns of two or more benchmarks")
    order.set_defaults(run=rank)
    for command in (two, order):
        command.add_argument("--items", action="store_true", help="compare the time per item instead of per call")
        command.add_argument(
            "--outputs",
            choices=("close", "same", "ignore"),
            default="close",
            help="how to compare the outputs of the benchmarks (default: close)",
        )
        command.add_argument(
            "--precision",
            type=float,
            default=0.03,
            metavar="FRACTION",
            help="stop when the interval's half width is this fraction of the ratio (default: 0.03)",
        )
        command.add_argument(
            "--minutes",
            type=float,
            default=5.0,
            metavar="N",
            help="stop after N minutes, but not before six pairs (default: 5)",
        )
        command.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE as JSON")
    over = commands.add_parser(
        "history",
        help="compare commits with the previous release; history show prints the results",
        allow_abbrev=False,
        usage="rlgauge history --since REVISION [--pairs N] [--minutes N] [--file FILE] [--limit S] [PYTEST-ARG ...]",
        epilog="All other arguments are pytest's, for example: rlgauge history --since v1.0 benchmarks -k sort",
    )
    over.add_argument("--since", required=True, metavar="REVISION", help="measure the commits after this revision")
    over.add_argument("--pairs", type=int, default=16, metavar="N", help="pairs of processes per commit (default: 16)")
    over.add_argument(
        "--minutes",
        type=float,
        default=12.0,
        metavar="N",
        help="stop a commit after N minutes, but not before six pairs (default: 12)",
    )
    over.set_defaults(run=history)
    shown = commands.add_parser("history show", help="print steps and drift of a history")
    shown.add_argument("--json", action="store_true", help="print all ratios and steps as JSON")
    shown.set_defaults(run=show_history)
    for command in (over, shown):
        command.add_argument("--file", type=Path, help=f"file of the ratios (default: {HISTORY})")
    shards = commands.add_parser("merge", help="compute the verdicts over the artifacts of all shards")
    shards.add_argument("files", type=Path, nargs="+", metavar="FILE", help="artifacts, one per shard")
    shards.add_argument("--json", type=Path, metavar="FILE", help="write the merged artifact to FILE")
    shards.add_argument("--markdown", type=Path, metavar="FILE", help="write the verdicts to FILE as a Markdown table")
    shards.set_defaults(run=merge)
    for command in (again, half, rates):
        command.add_argument(
            "--rule",
            type=rule_of,
            default={},
            metavar="NAME=VALUE[,NAME=VALUE]",
            help="change numbers of the rule, for example confirm=16,tolerated=0.01",
        )
    for command in (half, rates, two, order, over):
        command.add_argument(
            "--limit",
            type=float,
            default=LIMIT,
            metavar="SECONDS",
            help="seconds that one request to a worker may take (default: 300)",
        )
    return parser, commands.choices


if __name__ == "__main__":
    sys.exit(main())
