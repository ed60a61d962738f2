"""The gate as a pytest plugin: ``pytest --gate-against REV``. Without that option the plugin does nothing.

Each case is a test of the run, which passes unless the case fails. Heavy modules are imported only when needed.

PYTEST_DONT_REWRITE: a worker imports this module before pytest loads it as a plugin, which would warn about that.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from .options import NEED_AGAINST, OVERRIDDEN, OWN_RESULTS, add_options, parse_rule, parse_shard, suggest_option
from .session import ENVIRONMENT, INTERRUPTED, INVALID, RUN, Run, measure_and_decide, output_paths

if TYPE_CHECKING:
    from .artifact import Outcome

WITHOUT_EFFECT = pytest.StashKey[list[str]]()  # given options that have none under the gate
MARK = "rlgauge(cores, tolerance, outputs): cores to time a test on, and how to compare its outputs with base's"
NONE_RAN = (
    "a hook of conftest.py or a plugin has skipped all of the gate's tests; skip tests in "
    "pytest_collection_modifyitems, not in pytest_runtest_setup"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's options."""
    add_options(parser)


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
        raise GateError(f"{option}: {error}") from error


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Override options that would skip verdicts, end the run early, distribute it, or report times it does not have."""
    if config.getoption("gate_against") is not None:
        config.stash[WITHOUT_EFFECT] = [name for name in OWN_RESULTS if config.getoption(name, None)]
        remove_if_empty(config.getoption("benchmark_json", None))
        for name, value in OVERRIDDEN.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)


def remove_if_empty(file: BinaryIO | Path | None) -> None:
    """Remove the file of ``--benchmark-json``, so that no later step reads an empty file.

    pytest-benchmark before 5.3 has created and opened it.
    """
    if file and not isinstance(file, Path) and os.path.isfile(file.name) and not os.path.getsize(file.name):
        file.close()
        os.unlink(file.name)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """Keep the environment for workers; disable pytest-cov, which would report that nothing is covered."""
    early_config.stash[ENVIRONMENT] = dict(os.environ)
    options = early_config.known_args_namespace
    if options.gate_against is not None and hasattr(options, "cov_source"):
        options.cov_source = []
    result = yield
    suggest_option(parser, args)  # a conftest.py may have added options
    return result


def pytest_configure(config: pytest.Config) -> None:
    """Validate the options; a mistake ends the run before the collection, with code 2, or 4 without ``--gate-against``.

    This runs before pytest's terminal reporter exists, which would print the mistake again. Without ``--gate-against``,
    options in the settings are not mistakes.
    """
    config.addinivalue_line("markers", MARK)
    revision = config.getoption("gate_against")
    if revision is None:
        for option in (str(word).partition("=")[0] for word in config.invocation_params.args):
            if option in NEED_AGAINST:
                raise pytest.UsageError(f"{option}: it has no effect without --gate-against; add --gate-against REV")
        return
    if sys.platform != "linux":
        pytest.exit(f"--gate-against: {sys.platform} is not supported; run it on Linux", returncode=INVALID)
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
                raise GateError(f"{option} {value!r}: no revision is given; give one, for example {option}=main")
        check_root(config.rootpath, config.invocation_params.dir)
        settings = read(settings_folder(config.rootpath, config.invocation_params.dir))
        with naming_option("--gate-rule"):
            changes = parse_rule(text) if (text := config.getoption("gate_rule")) else {}
            rule = settings.rules(changes, "--gate-rule")
        with naming_option("--gate-shard"):
            shard = parse_shard(text) if (text := config.getoption("gate_shard")) else None
        parse_allowed(config.getoption("gate_allow"))  # validate early, before the collection
        limit = config.getoption("gate_limit")
        source = Benchmarks(config.rootpath, settings, config, config.stash.get(ENVIRONMENT, None), limit)
        run = Run(source, stack, rule, shard, config.getoption("gate_json") or source.artifact)
        config.stash[RUN] = run
        for option, path in output_paths(config).items():
            run.write[option] = stack.enter_context(reserved(path, RESERVED, option))
            source.leave_out(path)
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
    for commit in commits:
        of_base = run.gates[0].names if run.gates else None
        run.gates.append(open_gate(layout, commit, run.rule, seed, limit, run.shard, of_base))
    names = [name for gate in run.gates for name in gate.names]
    run.allowed = parse_allowed(config.getoption("gate_allow"), names)
    check_allowed(run.allowed, names)


def case_names(run: Run) -> list[str]:
    """Return the names of the selected cases and of those that are gone."""
    return list(dict.fromkeys(name for gate in run.gates for name in gate.records))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep pytest-benchmark, which has read ``--benchmark-only``, from skipping the verdicts; set ``--codspeed``."""
    if RUN not in session.config.stash:
        return
    from .benchmarks.codspeed import set_option

    if benchmarks := getattr(session.config, "_benchmarksession", None):
        benchmarks.only = False
    set_option(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Suggest a test for an id that pytest does not find."""
    try:
        return (yield)
    except pytest.UsageError as error:
        if RUN not in session.config.stash or session.testsfailed:  # a module cannot be imported
            raise
        from .allowed import suggestion

        hints = []
        for argument in session.config.args:
            file, _, test = argument.partition("::")
            path = session.config.invocation_params.dir / file
            ends = f"::{test}", f"::{test.partition('[')[0]}"  # of the line `not found: ...::test`
            missing = any(text.partition("\n")[0].endswith(ends) for text in error.args)
            if missing and path.suffix == ".py" and path.is_file():
                module: pytest.Module = pytest.Module.from_parent(session, path=path.resolve())
                hint = suggestion(test, [item.nodeid for item in session.genitems(module)])
                hints += [argument + hint] if hint else []
        raise pytest.UsageError(*error.args, *hints) from None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Replace each benchmark with a test that reports its verdict."""
    from .benchmarks.items import is_benchmark

    run = config.stash.get(RUN, None)
    collected = list(items)
    yield
    if run and not session.testsfailed:
        from .benchmarks.codspeed import add_those_without_option

        add_those_without_option(session, collected, items, sys.modules[__name__])
        run.source.collected = {item.nodeid for item in collected if is_benchmark(item)}
        for name in ("lfplugin", "nfplugin"):  # keep pytest's cache of results: verdicts are not results
            if config.pluginmanager.hasplugin(name):
                config.pluginmanager.unregister(name=name)
        with exit_on_error():
            run.source.select_items(items)
            open_gates(config)
            if not case_names(run):  # there are fewer cases than shards
                run.done = measure_and_decide(config, run)
        lines = {item.nodeid: item.location[1] for item in collected}
        items[:] = [
            Verdict.from_parent(session, name=name, nodeid=name, line=lines.get(name) or 0) for name in case_names(run)
        ]


class NotPassed(Exception):
    """The case fails, or the run is invalid; the message gives the reason."""


class Verdict(pytest.Item):
    """The gate's verdict on a case as a test; the first one to run measures all cases.

    It has no fixtures and no function of its own, but hooks of a project may look for them.
    """

    def __init__(self, line: int = 0, **arguments: Any) -> None:
        self.line = line
        super().__init__(**arguments)
        self.fixturenames, self.funcargs, self.originalname = list[str](), dict[str, Any](), self.name
        self.function = self.obj = lambda: None
        self.module, self.cls, self.instance = sys.modules[__name__], None, None

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
        if message := report.failure(self.name, outcome):
            raise NotPassed(message)
        if finding.verdict == "skipped":
            pytest.skip("; ".join(finding.notes))
        if finding.verdict == "error":  # it is allowed
            pytest.skip(report.line(self.name, finding, here.excused[self.name]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return a failure as text, without a traceback."""
        return str(excinfo.value) if excinfo.errisinstance(NotPassed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Report the test by its file, its line there, counted from 0, and its name in that file."""
        file, _, test = self.name.partition("::")
        return self.config.rootpath / file, self.line, test


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


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Report the revisions that are compared and the number of cases by state."""
    from .progress import number_of

    run = config.stash.get(RUN, None)
    lines = []
    if run and (names := config.stash.get(WITHOUT_EFFECT, [])):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        text = f"gate: these options have no effect here: {options}"
        lines.append(f"{text}; the measurements are in {os.path.relpath(run.json)}")
    for gate in run.gates if run else ():
        states = ["to time" if record.state == "timed" else record.state for record in gate.records.values()]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        total = number_of(len(states), "benchmark")
        lines.append(f"gate: {gate.head} (the working tree) against {gate.base[:12]}: {total}, {counts}")
    return lines


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Exit with the gate's code, or 2 if the JUnit file cannot be written.

    If all failures are verdicts, pytest's section FAILURES is left out.
    """
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
    if run.done and (reporter := config.pluginmanager.getplugin("terminalreporter")):
        reports = [report for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
        if all(isinstance(report.longrepr, str) for report in reports):  # no traceback
            config.option.tbstyle = "no"  # no section FAILURES: the section gate has each reason in full
    return result


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Print the summary and the outcome of each comparison, or why there is none."""
    run = config.stash.get(RUN, None)
    if run is None or run.done is None:
        if run and exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED) and not config.option.collectonly:
            terminalreporter.write_line(f"invalid run, no verdict: {NONE_RAN}", red=True)
        return
    from . import report
    from .progress import rounded

    artifact, outcome = run.done
    compared = [("gate", artifact, outcome)]
    if artifact.anchor and outcome.anchor:
        compared.append(("gate, against the anchor", artifact.anchor, outcome.anchor))
    for title, one, found in compared:
        terminalreporter.section(title)
        for line in [*one.notes, *report.summary(found)]:
            terminalreporter.write_line(line)
        for line in found.wrong:
            terminalreporter.write_line(line, red=True)
        terminalreporter.write_line(
            f"{report.WORDS[found.own_code]}: {report.counted(found)}, "
            f"{rounded(one.seconds)}; all measurements: {os.path.relpath(run.json)}"
        )
