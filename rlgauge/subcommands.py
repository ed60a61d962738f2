"""The subcommands of ``rlgauge``: each function takes the parsed options and returns the exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from . import report
from .artifact import read
from .benchmarks.source import Benchmarks
from .compare import WIDE, all_cases, resolve_id
from .compare import compare as compare_two
from .compare_file import compare_file
from .config import read as read_settings
from .config import settings_folder
from .fields import FieldError
from .files import RESERVED, reserved
from .kept_pairs import file_of
from .merge import merge_artifacts
from .plan import Plan
from .power import SLOWDOWNS, Measurement, parse_faults, parse_slowdowns
from .progress import number_of, to_stderr
from .ranking import rank as rank_all
from .revisions import is_revision, resolve
from .rule import GateError, rule_with

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


def replay(options: argparse.Namespace) -> int:
    """Decide again from an artifact, by its own rule or a changed one."""
    artifact = read(options.file)
    for each in filter(None, (artifact, artifact.anchor)):
        each.rule = rule_with(options.rule, each.rule, "--rule")
    outcome = artifact.decide()
    print(report.markdown(artifact, outcome), end="")
    return outcome.code


def merge(options: argparse.Namespace) -> int:
    """Merge the shards of one comparison, and decide over all of them."""
    artifact = merge_artifacts({str(file): read(file) for file in options.files})
    outcome = artifact.decide()
    text = report.markdown(artifact, outcome)
    with (
        reserved(options.json, RESERVED, "--json") as write_json,
        reserved(options.markdown, RESERVED, "--markdown") as write_markdown,
    ):
        write_json(artifact.to_json().encode())
        write_markdown(text.encode())
    print(text, end="")
    return outcome.code


def benchmarks_here(options: argparse.Namespace) -> Benchmarks:
    """Return the benchmarks of the working directory."""
    root = Path.cwd()
    return Benchmarks(root, read_settings(settings_folder(root)), None, limit=options.limit)


def bisect(options: argparse.Namespace) -> int:
    """Find the commit that slowed a benchmark."""
    from .bisect import bisect as search

    source = benchmarks_here(options)
    rule = source.config.rules(options.rule, "--rule")
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
    """Report an interrupt as one line with exit code 2; `remains` is the end of that line."""
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
    file_of("compare", source).unlink(missing_ok=True)
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
    file_of("rank", source).unlink(missing_ok=True)
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
            f"{file}: no ratios of this branch's commits; to measure them, run: rlgauge history --since REVISION"
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
    rule, faults = source.config.rules(options.rule, "--rule"), parse_faults(options.fault or [])
    if pairs is None and not options.minutes and given:
        raise GateError(f"rlgauge power: {' '.join(given)} has no effect without --minutes; add --minutes 60")
    measurement = Measurement(source, file, rule, options.limit, slowdowns, faults)
    with interruptible(f"repeat the command to continue; finished pairs are in {file}"):
        if pairs is not None:
            print(measurement.canary_rates(pairs))
        else:
            print(measurement.benchmark_rates(options.minutes or 0.0, options.arguments))
    return 0
