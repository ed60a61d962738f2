"""The gate as a pytest run: ``pytest perf_tests --gate-against REV``, one test per case of the gate tier."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from perf_tests.suite.process import CACHE

ROOT = Path(__file__).parents[2]
TEST = ROOT / "perf_tests" / "test_gate.py"
SELECTED = pytest.StashKey[Any]()  # selection and variants, set when the options are read
GATE = pytest.StashKey[Any]()  # the open gate
DOSED = pytest.StashKey[float]()  # part of its own time by which every sample of a plain run is slowed
DONE = pytest.StashKey[Any]()  # artifact and outcome


def rule_of(text: str) -> dict[str, str]:
    """Parse ``name=value,name=value``."""
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
    group.addoption("--gate-allow", default="", metavar="REASON", help="let slower and gone cases pass, and say why")
    group.addoption("--gate-rule", type=rule_of, default={}, help="as in screen=4,confirm=16,blocks=8,tolerated=0.01")
    group.addoption("--gate-limit", type=float, default=300.0, help="seconds for one request to a worker")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Lay out both sides; a mistake ends the run with code 2 before anything is collected."""
    if not config.getoption("gate_against"):
        return
    from rl_impls import backends

    from .rule import GateError, rule_with
    from .run import opened

    selection, variants = config.stash[SELECTED]
    able = [variant for variant in variants if not backends.get(variant.backend).missing()]
    stack = ExitStack()
    config.add_cleanup(stack.close)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    stack.callback(signal.signal, signal.SIGTERM, before)
    try:
        rule = rule_with(config.getoption("gate_rule"))
        seed, limit = config.getoption("seed"), config.getoption("gate_limit")
        revision = config.getoption("gate_against")
        config.stash[GATE] = stack.enter_context(opened(ROOT, revision, able, selection, rule, seed, limit))
    except GateError as error:
        pytest.exit(str(error), returncode=2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the gate's test out of other runs, and all others out of the gate's."""
    if collection_path.suffix != ".py":
        return None
    return True if (collection_path == TEST) != bool(config.getoption("gate_against")) else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is compared."""
    gate = config.stash.get(GATE, None)
    if gate is None:
        return []
    states = [record.state for record in gate.records.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return [f"gate: {gate.head} (the working tree) against {gate.base[:12]}: {counts}"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per selected case, and per case that is gone."""
    if "gated" in metafunc.fixturenames:
        gate, (_, variants) = metafunc.config.stash[GATE], metafunc.config.stash[SELECTED]
        names = dict.fromkeys([*(variant.id for variant in variants), *gate.records])
        metafunc.parametrize("gated", names, ids=names)


def teller(config: pytest.Config) -> Callable[[str], None]:
    """Return what prints a line while tests run."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def tell(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return tell


@pytest.fixture(scope="session")
def gate_outcome(pytestconfig: pytest.Config) -> Any:
    """Run the gate; write what it measured."""
    from rl_impls.params import write_whole

    from . import report
    from .rule import GateError

    gate = pytestconfig.stash[GATE]
    gate.tell = teller(pytestconfig)
    try:
        artifact = gate.run()
    except GateError as error:
        pytest.exit(str(error), returncode=2)
    artifact.allowed = pytestconfig.getoption("gate_allow")
    outcome = artifact.decide()
    pytestconfig.stash[DONE] = artifact, outcome
    files = {pytestconfig.getoption("gate_json"): artifact.model_dump_json()}
    if pytestconfig.getoption("gate_markdown"):
        files[pytestconfig.getoption("gate_markdown")] = report.markdown(artifact, outcome)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    return outcome


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Exit with the gate's code: 0 passed, 1 slower or gone, 2 void."""
    if DONE in session.config.stash and session.exitstatus in (0, 1):
        session.exitstatus = session.config.stash[DONE][1].code
    elif GATE in session.config.stash and not session.config.option.collectonly:
        session.exitstatus = 2


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts that are not `ok`, the canaries and the outcome."""
    from . import report

    if DONE not in config.stash:
        return
    artifact, outcome = config.stash[DONE]
    terminalreporter.section("gate")
    for name, finding in report.cases(outcome.findings).items():
        if finding.verdict not in ("ok", "unchanged") or finding.notes:
            terminalreporter.write_line(report.line(name, finding))
    if report.canaries(outcome.findings):
        terminalreporter.write_line(report.canaries(outcome.findings))
    for words in outcome.wrong:
        terminalreporter.write_line(words, red=True)
    terminalreporter.write_line(
        f"{report.WORDS[outcome.code]}: {report.counted(outcome.findings)}, {artifact.seconds / 60:.1f} min; "
        f"all that was measured: {config.getoption('gate_json')}"
    )
