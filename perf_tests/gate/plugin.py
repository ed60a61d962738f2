"""The gate as a pytest run: ``pytest perf_tests --gate-against REV``, one test per case of the gate tier."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from perf_tests.files import Unwritable, naming, reserved
from perf_tests.suite.process import CACHE

ROOT = Path(__file__).parents[2]
TEST = ROOT / "perf_tests" / "test_gate.py"
SELECTED = pytest.StashKey[Any]()  # selection and variants, set when the options are read
GATE = pytest.StashKey[Any]()  # the open gate
DOSED = pytest.StashKey[float]()  # part of its own time by which every sample of a plain run is slowed
ALLOWED = pytest.StashKey[Any]()  # patterns of what may be slower or gone, with the reasons
WRITE = pytest.StashKey[Mapping[str, Callable[[bytes], None]]]()  # by option, what writes its file
DONE = pytest.StashKey[Any]()  # artifact and outcome
ROOM = 1 << 20  # bytes taken for a file before anything is timed
OUTPUTS = {"--gate-json": "gate_json", "--gate-markdown": "gate_markdown", "--junitxml": "xmlpath"}


def rule_of(text: str) -> dict[str, str]:
    """Parse ``name=value,name=value``.

    Args:
        text: as given on the command line.
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and value for name, equals, value in pairs):
        raise ValueError(f"got {text!r}, wanted name=value[,name=value]")
    return {name: value for name, _, value in pairs}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the gate."""
    group = parser.getgroup("rlgauge gate")
    group.addoption("--gate-against", metavar="REV", help="compare the working tree with this revision")
    group.addoption("--gate-json", type=Path, default=CACHE / "gate.json", help="all that was measured")
    group.addoption("--gate-markdown", type=Path, help="the verdicts as a table")
    group.addoption(
        "--gate-allow",
        action="append",
        default=[],
        metavar="ID-PATTERN=REASON",
        help="let cases that are slower or gone pass, and say why; * and ? are wildcards, brackets are not",
    )
    group.addoption("--gate-strict", action="store_true", help="fail inconclusive cases and changed answers too")
    group.addoption("--gate-rule", type=rule_of, default={}, help="as in screen=4,confirm=16,blocks=8,tolerated=0.01")
    group.addoption("--gate-limit", type=float, default=300.0, help="seconds for one request to a worker")


def outputs_of(config: pytest.Config) -> dict[str, Path]:
    """Return the files that a run writes, by option.

    Args:
        config: of the pytest run.
    """
    given = {option: config.getoption(name, None) for option, name in OUTPUTS.items()}
    return {option: Path(os.path.expandvars(path)).expanduser() for option, path in given.items() if path}


@contextmanager
def in_one_line() -> Iterator[None]:
    """End the run with a line and code 2 where the gate says why it cannot go on, or the disk is full or read-only."""
    from .rule import VOID, GateError

    try:
        yield
    except (GateError, Unwritable, OSError) as error:
        pytest.exit(str(error), returncode=VOID)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Lay out both sides; a mistake ends the run with code 2 before anything is collected."""
    revision = config.getoption("gate_against")
    if revision is None:
        return
    from rl_impls import backends

    from .allowed import allowances, check_allowed
    from .rule import GateError, rule_with
    from .run import opened

    selection, variants = config.stash[SELECTED]
    able = [variant for variant in variants if not backends.get(variant.backend).missing()]
    stack = ExitStack()
    config.add_cleanup(stack.close)
    with in_one_line():
        if not revision.strip():
            raise GateError(f"--gate-against: got {revision!r}, wanted a revision")
        rule, allowed = rule_with(config.getoption("gate_rule")), allowances(config.getoption("gate_allow"))
        write = {k: stack.enter_context(reserved(path, ROOM, k)) for k, path in outputs_of(config).items()}
        seed, limit = config.getoption("seed"), config.getoption("gate_limit")
        config.stash[GATE] = stack.enter_context(opened(ROOT, revision, able, selection, rule, seed, limit))
        config.stash[ALLOWED], config.stash[WRITE] = allowed, write
        check_allowed(allowed, names_of(config))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the gate's test out of other runs, and all others out of the gate's."""
    if collection_path.suffix != ".py":
        return None
    return True if (collection_path == TEST) != (config.getoption("gate_against") is not None) else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is compared."""
    gate = config.stash.get(GATE, None)
    if gate is None:
        return []
    states = [record.state for record in gate.records.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return [f"gate: {gate.head} (the working tree) against {gate.base[:12]}: {counts}"]


def names_of(config: pytest.Config) -> list[str]:
    """Return the selected cases, and those that are gone.

    Args:
        config: of the pytest run.
    """
    _, variants = config.stash[SELECTED]
    return list(dict.fromkeys([*(variant.id for variant in variants), *config.stash[GATE].records]))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per case."""
    if "gated" in metafunc.fixturenames:
        names = names_of(metafunc.config)
        metafunc.parametrize("gated", names, ids=names)


def logger(config: pytest.Config) -> Callable[[str], None]:
    """Return what prints a line while tests run.

    Args:
        config: of the pytest run.
    """
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def log(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return log


@pytest.fixture(scope="session")
def gate_outcome(request: pytest.FixtureRequest) -> Any:
    """Run the gate and write what it measured; where that fails, so does the test that asks for it, the only one.

    Args:
        request: that of the test that asks.
    """
    from .rule import GateError

    gate, log = request.config.stash[GATE], logger(request.config)
    gate.log = log
    try:
        artifact = gate.run()
        artifact.allowed = request.config.stash[ALLOWED]
        artifact.strict = request.config.getoption("gate_strict")
        outcome = artifact.decide()
        write(artifact, outcome, request.config.stash[WRITE], log)
    except (GateError, Unwritable, OSError) as error:
        request.session.shouldstop = str(error)
        pytest.fail(str(error), pytrace=False)
    request.config.stash[DONE] = artifact, outcome
    return outcome


def write(
    artifact: Any, outcome: Any, files: Mapping[str, Callable[[bytes], None]], log: Callable[[str], None]
) -> None:
    """Write the artifact and the table; the verdicts are told where that cannot be.

    Args:
        artifact: all that was measured.
        outcome: what is concluded from it.
        files: what writes each file, by the option that names it.
        log: prints a line.

    Raises:
        Unwritable: a file cannot be written.
    """
    from . import report

    try:
        files["--gate-json"](artifact.model_dump_json().encode())
        if "--gate-markdown" in files:
            files["--gate-markdown"](report.markdown(artifact, outcome).encode())
    except Unwritable:
        log("\n".join(report.summary(outcome)))
        raise


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Exit with the gate's code: 0 passed, 1 where a case fails, 2 void, or where the JUnit file cannot be written."""
    config = session.config
    if GATE not in config.stash:
        return (yield)
    from .rule import VOID

    junit = outputs_of(config).get("--junitxml")
    with in_one_line(), naming(junit, "--junitxml") if junit else nullcontext():
        result = yield
    if DONE in config.stash and session.exitstatus in (0, 1):
        session.exitstatus = config.stash[DONE][1].code
    elif not config.option.collectonly:
        session.exitstatus = VOID
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts that are not `ok`, the canaries and the outcome."""
    from . import report

    if DONE not in config.stash:
        return
    artifact, outcome = config.stash[DONE]
    terminalreporter.section("gate")
    for words in report.summary(outcome):
        terminalreporter.write_line(words)
    for words in outcome.wrong:
        terminalreporter.write_line(words, red=True)
    terminalreporter.write_line(
        f"{report.WORDS[outcome.code]}: {report.counted(outcome.findings)}, {artifact.seconds / 60:.1f} min; "
        f"all that was measured: {config.getoption('gate_json')}"
    )
