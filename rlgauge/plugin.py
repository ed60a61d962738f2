"""The gate as a pytest plugin: ``pytest --gate-against REV``. Without that option the plugin does nothing.

Each case is a test of the run, which passes unless the case fails. Heavy modules are imported only when needed.

PYTEST_DONT_REWRITE: a worker imports this module before pytest loads it as a plugin, which would warn about that.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .artifact import Artifact, Outcome
    from .benchmarks.source import Benchmarks
    from .run import Gate

INVALID = 2  # exit code
INTERRUPTED = "interrupted: no verdict"
MARK = "rlgauge(cores, tolerance, outputs): cores to time a test on, and how to compare its outputs with base's"
NEED_AGAINST = (
    "--gate-anchor", "--gate-benchmarks", "--gate-own-benchmarks", "--gate-renamed", "--gate-build", "--gate-shard",
    "--gate-allow", "--gate-strict", "--gate-resume", "--gate-memory",
)  # fmt: skip
NEVER = 1e9  # seconds; pytest-timeout takes 0 as the time at which a session ends
OVERRIDDEN = {  # options of pytest and its plugins, with their values in the gate's own run
    "benchmark_only": False, "benchmark_skip": False, "benchmark_disable": False, "benchmark_json": None,
    "benchmark_save": None, "benchmark_autosave": None, "benchmark_compare": None, "benchmark_compare_fail": None,
    "benchmark_histogram": None, "durations": None, "maxfail": 0, "timeout": 0, "session_timeout": NEVER, "reruns": 0,
    "continue_on_collection_errors": False,
}  # fmt: skip
OUTPUTS = {"--gate-json": "gate_json", "--gate-markdown": "gate_markdown", "--junitxml": "xmlpath"}


@dataclass
class Run:
    """State of one gate run.

    Attributes:
        stack: cleans up at the end of the run.
        shard: as given by ``--gate-shard``.
        json: path of the JSON artifact.
        gates: the comparison with base and, if requested, with the anchor; empty until the sides are laid out.
        allowed: patterns and reasons of ``--gate-allow``.
        write: writer of each output file, by the option that names the file.
        done: artifact and outcome, once available.
        failed: one-line reason why there is no outcome.
    """

    source: Benchmarks
    stack: ExitStack
    rule: Any
    shard: tuple[int, int] | None
    json: Path
    gates: list[Gate] = field(default_factory=list)
    allowed: list[tuple[str, str]] = field(default_factory=list)
    write: dict[str, Callable[[bytes], None]] = field(default_factory=dict)
    done: tuple[Artifact, Outcome] | None = None
    failed: str = ""


RUN = pytest.StashKey[Run]()


def parse_rule(text: str) -> dict[str, str]:
    """Parse ``name=value,name=value``; raise ArgumentTypeError for any other text."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise ArgumentTypeError(f"{text!r}: write NAME=VALUE[,NAME=VALUE], for example tolerated=0.02")
    return {name: value for name, _, value in pairs}


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``2/4``, the second of four shards; raise ArgumentTypeError for any other text."""
    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ArgumentTypeError(f"{text!r}: write I/N, for example 2/4 for the second of four shards")
    return int(number), int(count)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's options."""
    from .fields import seconds

    group = parser.getgroup("rlgauge gate")
    group.addoption("--gate-against", metavar="REV", help="compare the speed of the working tree with this revision")
    group.addoption("--gate-anchor", metavar="REV", help="also compare with an older revision, which shows slow drift")
    group.addoption(
        "--gate-benchmarks",
        action="append",
        default=[],
        metavar="PATH",
        help="take this file or folder of benchmarks from the working tree on both sides (default: testpaths)",
    )
    group.addoption(
        "--gate-own-benchmarks",
        action="store_true",
        help="run each side's own benchmarks, matched by id (default: the working tree's benchmarks on both sides)",
    )
    group.addoption(
        "--gate-renamed",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="compare the revision's test OLD with the working tree's test NEW; needs --gate-own-benchmarks",
    )
    group.addoption(
        "--gate-build", metavar="COMMAND", help="build each side's tree with this command, in a separate environment"
    )
    group.addoption("--gate-shard", metavar="I/N", help="compare only every Nth benchmark, starting at the Ith")
    group.addoption(
        "--gate-json", type=Path, metavar="FILE", help="write all measurements to FILE (default: .rlgauge/gate.json)"
    )
    group.addoption("--gate-markdown", type=Path, metavar="FILE", help="write the verdicts to FILE as a Markdown table")
    group.addoption(
        "--gate-memory", action="store_true", help="also report rises of page faults and memory growth per call"
    )
    group.addoption(
        "--gate-resume", action="store_true", help="reuse the pairs of an interrupted run from the file of --gate-json"
    )
    group.addoption(
        "--gate-allow",
        action="append",
        default=[],
        metavar="ID-PATTERN=REASON",
        help="accept matching tests that are slower or gone; * and ? are wildcards; an error needs its exact id",
    )
    group.addoption(
        "--gate-strict", action="store_true", help="also fail tests that are inconclusive or whose output changed"
    )
    group.addoption(
        "--gate-rule",
        metavar="NAME=VALUE[,NAME=VALUE]",
        help="change numbers of the rule, for example screen=4,confirm=16,blocks=8,tolerated=0.01",
    )
    group.addoption(
        "--gate-limit",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="seconds that one call, or its preparation, may take (default: 300)",
    )
    group.addoption("--gate-seed", type=int, default=0, help="seed for the order of benchmarks and sides (default: 0)")


def output_paths(config: pytest.Config) -> dict[str, Path]:
    """Return the path of each file that the run writes, by option."""
    given = {option: config.getoption(name, None) for option, name in OUTPUTS.items()}
    given["--gate-json"] = config.stash[RUN].json
    return {option: Path(os.path.expandvars(path)).expanduser() for option, path in given.items() if path}


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Exit pytest with one line and code 2 on an interrupt and on errors of the gate and of the file system."""
    from .files import Unwritable
    from .rule import GateError

    try:
        yield
    except (GateError, Unwritable, OSError) as error:
        pytest.exit(str(error), returncode=INVALID)
    except KeyboardInterrupt:
        pytest.exit(INTERRUPTED, returncode=INVALID)


@contextmanager
def naming_option(option: str) -> Iterator[None]:
    """Prefix parsing errors with the name of the option."""
    from .rule import GateError

    try:
        yield
    except ArgumentTypeError as error:
        raise GateError(f"{option} {error}") from error


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Override options that would skip verdicts, end the run early, or report on a run that times nothing itself."""
    if config.getoption("gate_against") is not None:
        for name, value in OVERRIDDEN.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Disable pytest-cov in the gate's own run, where it would report that nothing is covered."""
    options = early_config.known_args_namespace
    if options.gate_against is not None and hasattr(options, "cov_source"):
        options.cov_source = []
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Validate the options; a mistake ends the run with code 2 before the collection.

    This runs before pytest's terminal reporter exists, which would print the mistake again.
    """
    config.addinivalue_line("markers", MARK)
    revision = config.getoption("gate_against")
    if revision is None:
        for option in NEED_AGAINST:
            if config.getoption(option.strip("-").replace("-", "_")):
                pytest.exit(f"{option}: add --gate-against REV, without which it has no effect", returncode=INVALID)
        return
    if sys.platform != "linux":
        pytest.exit(f"--gate-against: run it on Linux; it does not support {sys.platform}", returncode=INVALID)
    from .allowed import parse_allowed
    from .benchmarks.source import Benchmarks
    from .config import read, settings_folder
    from .files import RESERVED, reserved
    from .interrupts import by_sigterm
    from .revisions import check_root
    from .rule import GateError

    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.enter_context(by_sigterm())
    with exit_on_error():
        for option, value in (("--gate-against", revision), ("--gate-anchor", config.getoption("gate_anchor"))):
            if value is not None and not value.strip():
                raise GateError(f"{option} {value!r}: give a revision, for example {option}=main")
        if config.getoption("numprocesses", None) or (
            config.getoption("tx", None) and config.getoption("dist", "no") != "no"
        ):
            raise GateError("--gate-against: tests that run in parallel disturb the timing: add -n 0")
        check_root(config.rootpath, config.invocation_params.dir)
        settings = read(settings_folder(config.rootpath, config.invocation_params.dir))
        with naming_option("--gate-rule"):
            rule = settings.rules(parse_rule(text) if (text := config.getoption("gate_rule")) else {})
        with naming_option("--gate-shard"):
            shard = parse_shard(text) if (text := config.getoption("gate_shard")) else None
        parse_allowed(config.getoption("gate_allow"))  # validate early, before the collection
        source = Benchmarks(config.rootpath, settings, config)
        run = Run(source, stack, rule, shard, config.getoption("gate_json") or source.artifact)
        config.stash[RUN] = run
        for option, path in output_paths(config).items():
            run.write[option] = stack.enter_context(reserved(path, RESERVED, option))
        stack.enter_context(source.ready())


def open_gates(config: pytest.Config) -> None:
    """Lay out the sides after the cases have been collected."""
    from .allowed import check_allowed, parse_allowed
    from .layout import laid_out
    from .revisions import resolve
    from .run import open_gate

    run = config.stash[RUN]
    revisions = [config.getoption(name) for name in ("gate_against", "gate_anchor")]
    commits = [resolve(config.rootpath, revision) for revision in revisions if revision is not None]
    layout = run.stack.enter_context(laid_out(run.source, config.rootpath))
    seed, limit = config.getoption("gate_seed"), config.getoption("gate_limit")
    run.gates = [open_gate(layout, commit, run.rule, seed, limit, run.shard) for commit in commits]
    names = [name for gate in run.gates for name in gate.names]
    run.allowed = parse_allowed(config.getoption("gate_allow"), names)
    check_allowed(run.allowed, names)


def case_names(run: Run) -> list[str]:
    """Return the names of the selected cases and of those that are gone."""
    return list(dict.fromkeys(name for gate in run.gates for name in gate.records))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Set ``--benchmark-only`` for a conftest.py that skips or ignores benchmarks without it."""
    if RUN in session.config.stash:  # pytest-benchmark has read the option before, and would skip the verdicts
        session.config.option.benchmark_only = True


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Replace each benchmark with a test that reports its verdict."""
    run = config.stash.get(RUN, None)
    yield
    if run and not session.testsfailed:
        with exit_on_error():
            run.source.select_items(items)
            open_gates(config)
            if not case_names(run):  # there are fewer cases than shards
                run.done = measure_and_decide(config, run)
        items[:] = [Verdict.from_parent(session, name=name, nodeid=name) for name in case_names(run)]


class NotPassed(Exception):
    """The case fails, or the run is invalid; the message gives the reason."""


class Verdict(pytest.Item):
    """The gate's verdict on a case as a test; the first one to run measures all cases.

    It has no fixtures and no function of its own, but hooks of a project may look for them.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.fixturenames, self.funcargs, self.function = list[str](), dict[str, Any](), self.runtest

    def runtest(self) -> None:
        """Pass unless the case fails or the run is invalid."""
        from . import report
        from .rule import Finding

        run = self.config.stash[RUN]
        outcome = outcome_of(self.session, run)
        here = outcome if self.name in outcome.findings or not outcome.anchor else outcome.anchor
        finding = here.findings[self.name]
        defaults = vars(Finding("ok"))
        for name, value in vars(finding).items():
            if name == "verdict" or value != defaults[name]:
                self.user_properties.append((name, value))
        if self.name in outcome.excused:
            self.user_properties.append(("allowed", outcome.excused[self.name]))
        if finding.verdict == "skipped":
            pytest.skip("; ".join(finding.notes))
        if finding.verdict == "error" and self.name in here.excused and not here.wrong:
            pytest.skip(report.line(self.name, finding, here.excused[self.name]))
        if message := report.failure(self.name, outcome):
            raise NotPassed(message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return a failure as one line, without a traceback."""
        return str(excinfo.value) if excinfo.errisinstance(NotPassed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Report the test by its name alone, without a line number."""
        return self.session.path, None, self.name


def outcome_of(session: pytest.Session, run: Run) -> Outcome:
    """Return the outcome; the first call measures all cases and writes the output files."""
    from .files import Unwritable
    from .rule import GateError

    if run.done is None:
        if run.failed:
            raise NotPassed(run.failed)
        faulthandler.cancel_dump_traceback_later()  # the first verdict waits for all measurements
        try:
            run.done = measure_and_decide(session.config, run)
        except Exception as error:
            run.failed = str(error) or type(error).__name__
            session.shouldstop = "no verdict"
            if isinstance(error, GateError | Unwritable | OSError):
                raise NotPassed(str(error)) from error
            raise  # a bug in this package: show the traceback
    return run.done[1]


def measure_and_decide(config: pytest.Config, run: Run) -> tuple[Artifact, Outcome]:
    """Measure, decide, and write the output files.

    After an interrupt, the measurements so far are written, and pytest exits with code 2. The verdicts are printed if a
    file cannot be written.
    """
    from .interrupts import defer_interrupts

    log, artifacts = logger(config), []
    strict = config.getoption("gate_strict")
    if config.getoption("gate_resume"):
        resume_pairs(run, output_paths(config)["--gate-json"], log)
    try:
        for gate in run.gates:
            gate.log, gate.counts_memory = log, config.getoption("gate_memory")
            artifacts.append(gate.run())
    except KeyboardInterrupt:
        message = INTERRUPTED
        with suppress(KeyboardInterrupt), defer_interrupts():
            artifact = combine([*artifacts, run.gates[len(artifacts)].artifact(complete=False)], run.allowed, strict)
            if any(record.screen for record in artifact.records.values()):  # otherwise keep the file of an earlier run
                run.write["--gate-json"](artifact.to_json().encode())
                message += "; to resume, repeat the command with --gate-resume"
        pytest.exit(message, returncode=INVALID)
    artifact = combine(artifacts, run.allowed, strict)
    outcome = artifact.decide()
    write(artifact, outcome, run.write, log)
    return artifact, outcome


def combine(artifacts: Sequence[Artifact], allowed: list[tuple[str, str]], strict: bool) -> Artifact:
    """Combine the comparison with base and, if present, the one with the anchor into one artifact.

    If `strict` is true, inconclusive cases and changed outputs fail too.
    """
    for artifact in artifacts:
        artifact.allowed, artifact.strict = allowed, strict
    first, *others = artifacts
    first.anchor = others[0] if others else None
    return first


def resume_pairs(run: Run, file: Path, log: Callable[[str], None]) -> None:
    """Reuse the pairs of an interrupted run from `file`, or print why they cannot be reused."""
    from .artifact import read
    from .progress import number_of
    from .resume import resume, reusable
    from .rule import GateError

    try:
        before = read(file)
    except GateError as error:
        log(f"gate: nothing to resume, starting over: {error}")
        return
    if not before.interrupted:
        log(f"gate: nothing to resume, starting over: the run in {file} was not interrupted")
        return
    for gate, part in zip(run.gates, (before, before.anchor)):
        if part and (differing := resume(gate, part)):
            log(f"gate: starting over: changed since the interrupted run: {', '.join(differing)}")
        elif part:
            records = [gate.records[name] for name in reusable(gate.records)]
            pairs = sum(len(record.screen) + len(record.confirm) for record in records)
            what = f"{number_of(pairs, 'pair')} of {number_of(len(records), 'benchmark')}"
            log(f"gate: resuming with {what} from {file}; canaries are measured again")


def logger(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that prints a line while tests run."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def log(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)
            reporter.flush()  # pytest 7 buffers the line if the output is not a terminal

    return log if reporter else print


def write(
    artifact: Artifact, outcome: Outcome, files: Mapping[str, Callable[[bytes], None]], log: Callable[[str], None]
) -> None:
    """Write the artifact and the Markdown table; print the verdicts if a file cannot be written."""
    from . import report
    from .files import Unwritable

    try:
        files["--gate-json"](artifact.to_json().encode())
        if "--gate-markdown" in files:
            files["--gate-markdown"](report.markdown(artifact, outcome).encode())
    except Unwritable:
        log("\n".join(report.summary(outcome)))
        raise


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Report the revisions that are compared and the number of cases by state."""
    from .progress import number_of

    run = config.stash.get(RUN, None)
    lines = []
    for gate in run.gates if run else ():
        states = ["to time" if record.state == "timed" else record.state for record in gate.records.values()]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        total = number_of(len(states), "benchmark")
        lines.append(f"gate: {gate.head} (the working tree) against {gate.base[:12]}: {total}, {counts}")
    return lines


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Exit with the gate's code, or 2 if the JUnit file cannot be written."""
    config = session.config
    if RUN not in config.stash:
        return (yield)
    from .files import naming

    junit, run = output_paths(config).get("--junitxml"), config.stash[RUN]
    with exit_on_error(), naming(junit, "--junitxml") if junit else nullcontext():
        result = yield
    if run.done and session.exitstatus in (0, 1, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = run.done[1].code
    elif not config.option.collectonly:
        session.exitstatus = INVALID
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts that are not `ok`, the canaries and the outcome."""
    run = config.stash.get(RUN, None)
    if run is None or run.done is None:
        return
    from . import report

    artifact, outcome = run.done
    compared = [("gate", artifact, outcome)]
    if artifact.anchor and outcome.anchor:
        compared.append(("gate, against the anchor", artifact.anchor, outcome.anchor))
    for title, one, found in compared:
        terminalreporter.section(title)
        for line in [*one.told, *report.summary(found)]:
            terminalreporter.write_line(line)
        for line in found.wrong:
            terminalreporter.write_line(line, red=True)
        terminalreporter.write_line(
            f"{report.WORDS[found.own_code]}: {report.counted(found)}, "
            f"{one.seconds / 60:.1f} min; all measurements: {os.path.relpath(run.json)}"
        )
