"""Options, threads and machine of a run; nothing heavy is imported before the number of threads is set."""

from __future__ import annotations

import argparse
import functools
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from perf_tests.gate.selfcheck.dosed import DOSED
from perf_tests.suite import limits as machine_limits
from perf_tests.suite import machine, process
from rl_impls.backends import BACKENDS, OPTIONAL, PACKAGES, BackendUnavailable, choose, get
from rlgauge import files
from rlgauge.interrupts import by_sigterm
from rlgauge.machine import cpu_model, git_state
from rlgauge.plugin import logger
from rlgauge.workers import SIDE

ROOT = Path(__file__).parent
collect_ignore_glob = ["perf_tests/test_[!p]*.py", "perf_tests/test_p[!e]*.py"]  # unless they are named
WRONG = pytest.StashKey[list[str]]()
SELECTION = pytest.StashKey[Any]()
VARIANTS = pytest.StashKey[list[Any]]()
LIMITS = pytest.StashKey[Mapping[str, float]]()
RUN = pytest.StashKey[Any]()
REMOVED = pytest.StashKey[str]()
DIFFERENT = pytest.StashKey[str]()
WRITE = pytest.StashKey[Callable[[bytes], None]]()
GROUPINGS = ("group", "name", "func", "fullname", "fullfunc", "param", "param:variant")
TABLE_OPTIONS = tuple(f"--benchmark-{name}" for name in ("columns", "sort", "group-by", "name", "verbose"))
IN_WORKER = SIDE in os.environ  # of a gate, which has set up the process and selected the tests
ROOM, HEAD = 2048, 8  # bytes of JSON for each sample, and as how many samples the rest of a benchmark counts


def words(text: str) -> tuple[str, ...]:
    """Split at commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def some_words(text: str) -> tuple[str, ...]:
    """Split at commas; nothing at all, as from an unset variable, is a mistake."""
    if not words(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted one or more names")
    return words(text)


def demanded() -> tuple[str, ...]:
    """Return the backends and packages whose absence is a failure."""
    return words(os.environ.get("RL_PERF_REQUIRE", ""))


def turn(config: pytest.Config) -> int:
    """Return the number of this worker of pytest-xdist, or 0; what it starts is to be no worker."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]
    worker: str = getattr(config, "workerinput", {}).get("workerid", "gw0")
    return int(worker.removeprefix("gw"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("rlgauge")
    for name in ("workload", "op", "form", "backend"):
        group.addoption(f"--{name}", type=some_words, default=(), metavar="NAME[,NAME]", help=f"only these {name}s")
    group.addoption("--axis", action="append", default=[], metavar="NAME=VALUE[,VALUE]", help="only these axis values")
    group.addoption("--tier", help="gate (what a gate compares, and its default), bench (all others' default) or full")
    group.addoption("--threads", type=int, default=process.cores(), help="threads of this process (default: all cores)")
    group.addoption("--seed", type=int, default=0, help="seed of all inputs (default: 0)")
    group.addoption(
        "--rounds", type=int, default=8, help="timed samples of each benchmark, of long ones half (default: 8)"
    )


def check_benchmark_options(config: pytest.Config) -> None:
    """Reject options of pytest-benchmark with which it would end in a traceback, after all was timed."""
    if config.getoption("benchmark_histogram") and find_spec("pygal") is None:
        raise ValueError("--benchmark-histogram: pygal is not installed (pip install 'pytest-benchmark[histogram]')")
    compared = config.getoption("benchmark_compare")
    if isinstance(compared, str) and len(Path(compared).parts) > 2 and not Path(compared).is_file():
        raise ValueError(
            f"--benchmark-compare: no file {compared!r} (give an existing file or the number of a run: 0001)"
        )
    for name in config.getoption("benchmark_group_by").split(","):
        if name not in GROUPINGS:
            raise ValueError(f"--benchmark-group-by: unknown grouping {name!r} (choose from {', '.join(GROUPINGS)})")


def make_ready(config: pytest.Config, stack: ExitStack) -> None:
    """Take room for the JSON before anything is timed, and tidy the compile caches."""
    path = config.getoption("benchmark_json")
    if path and not config.option.collectonly:
        room = ROOM * (HEAD + config.getoption("rounds")) * len(config.stash[VARIANTS])
        config.stash[WRITE] = stack.enter_context(files.reserved(path, room))
    if config.getoption("benchmark_only"):
        files.check_folder(process.CACHE)
    if config.getoption("benchmark_only") or config.getoption("gate_against"):
        config.stash[REMOVED] = files.remove_halves(process.CACHE / "inductor")


def pytest_configure(config: pytest.Config) -> None:
    """Set the threads, then read the selection: a mistake in it ends the run before anything is collected."""
    config.stash[WRONG] = []
    if IN_WORKER:
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    stack.enter_context(by_sigterm())
    try:
        if not config.getoption("numprocesses", None):  # what only hands out tests keeps all cores, for its workers
            process.set_up(config.getoption("threads"), turn=turn(config))
        from perf_tests.selection import select, selection_of

        if config.getoption("rounds") < 1:
            raise ValueError(f"--rounds: got {config.getoption('rounds')}, wanted 1 or more")
        if config.getoption("seed") < 0:
            raise ValueError(f"--seed: got {config.getoption('seed')}, wanted 0 or more")
        for name in demanded():
            modules = {module for backend in BACKENDS.values() for module in backend.modules}
            choose("name in RL_PERF_REQUIRE", name, {*BACKENDS, *modules, *PACKAGES, *OPTIONAL})
        check_benchmark_options(config)
        selection = config.stash[SELECTION] = selection_of(config)
        config.stash[VARIANTS] = select(selection)
        make_ready(config, stack)
    except ImportError as error:
        if config.getoption("gate_against") is None:
            raise pytest.UsageError(str(error)) from error
        pytest.exit(f"head: {error}", returncode=2)
    except (ValueError, RuntimeError) as error:
        raise pytest.UsageError(str(error)) from error
    except Exception as error:
        if config.getoption("gate_against") is None:
            raise
        pytest.exit(f"head: its import fails: {type(error).__name__}: {error}", returncode=2)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Set up pytest-benchmark: its JSON goes into the reserved file, its table is shown if its options ask for it."""
    config = session.config
    if IN_WORKER:
        return
    benchmarks = cast(Any, config)._benchmarksession
    if WRITE in config.stash:
        benchmarks.save_json = functools.partial(save_json, session)
    given = any(str(argument).startswith(TABLE_OPTIONS) for argument in config.invocation_params.args)
    if not (benchmarks.compare or benchmarks.histogram or given):
        benchmarks.quiet = True  # the suite's own table is enough
    if benchmarks.compare_fail and not benchmarks.compared_mapping:
        raise pytest.UsageError(
            "--benchmark-compare-fail: there is no run to compare with (save one with --benchmark-save=NAME, "
            "then add --benchmark-compare)"
        )


def save_json(session: pytest.Session, content: Any) -> None:
    """Write the JSON of a run that came to its end; where that fails, the run does, but shows its tables."""
    from pytest_benchmark.utils import safe_dumps

    if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    try:
        session.config.stash[WRITE](safe_dumps(content, indent=4).encode())  # type: ignore[no-untyped-call]
    except files.Unwritable as error:
        session.config.stash[WRONG].append(str(error))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--benchmark-only``, leave out the tests that measure nothing."""
    if config.getoption("benchmark_only"):
        dropped = [item for item in items if "benchmark" not in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=dropped)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what the figures depend on."""
    if IN_WORKER:
        return []
    return [
        f"machine: {cpu_model()}, {os.cpu_count()} cores",
        f"threads: {config.getoption('threads')}, OpenMP waits by {process.waiting_policy()}",
        f"selected: {len(config.stash[VARIANTS])} benchmarks, tier {config.stash[SELECTION].tier}, "
        f"seed {config.getoption('seed')}",
        *filter(None, [config.stash.get(REMOVED, ""), config.stash.get(DIFFERENT, "")]),
    ]


def few(variants: Sequence[Any]) -> set[str]:
    """Return the ids of the first variant of each op, form, backend and order, and of each op that torch compiles.

    Compiling takes long: there only the order with fewer terms is among them, and nowhere an op that always compiles.
    """
    variants = [variant for variant in variants if variant.case.op != "first_call"]
    found: dict[tuple[Any, ...], str] = {}
    for variant in sorted(variants, key=lambda variant: int(variant.axes.get("order", 0))):
        op, compiled = (variant.case.name, variant.backend), "compile" in variant.backend
        found.setdefault(op if compiled else (*op, variant.form, variant.axes.get("order")), variant.id)
    return set(found.values())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per selected variant, or per one that has a reference, most of them slow; named by its permanent id."""
    chosen = metafunc.config.stash[VARIANTS]
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", chosen, ids=[variant.id for variant in chosen])
    if "referenced_variant" in metafunc.fixturenames:
        wanted = [variant for variant in chosen if variant.case.reference]
        quick = few(wanted)
        marked = [pytest.param(v, id=v.id, marks=() if v.id in quick else pytest.mark.slow) for v in wanted]
        metafunc.parametrize("referenced_variant", marked)


@pytest.fixture(scope="session")
def threads(pytestconfig: pytest.Config) -> int:
    """Return the number of threads of this process."""
    return int(pytestconfig.getoption("threads"))


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """Return the seed of all inputs."""
    return int(pytestconfig.getoption("seed"))


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest, threads: int, seed: int) -> Any:
    """Time all benchmarks of this session; return what is known of each."""
    from perf_tests.passes import Run
    from perf_tests.report.table import duration

    config = request.config
    chosen = [cast(Any, item).callspec.params["variant"] for item in request.session.items if is_benchmark(item)]
    rounds = 1 if config.getoption("benchmark_disable") else config.getoption("rounds")
    dose = config.stash.get(DOSED, 0.0)
    timed = config.stash[RUN] = Run(chosen, threads, seed, rounds, logger(config), dose)
    timed.measure(lambda one: f"{duration(one.figures()['seconds_per_call']):>7}  {one.variant.id}")
    return timed


@pytest.fixture(scope="session")
def limits(pytestconfig: pytest.Config, threads: int) -> Mapping[str, float]:
    """Return this machine's ceilings, measured now."""
    found = pytestconfig.stash[LIMITS] = machine_limits.here(threads)
    return found


@pytest.fixture(scope="session")
def unavailable() -> Callable[[BackendUnavailable], None]:
    """Skip with the reason; fail where ``RL_PERF_REQUIRE`` names the backend or a package it lacks.

    What no backend needs, as Ray, it has to name itself.
    """

    def end(error: BackendUnavailable) -> None:
        named = {name for name in {*PACKAGES, *OPTIONAL} if error.reason.startswith(f"{name} ")}
        lacking = {module for module in {*get(error.backend).modules, *named} if find_spec(module) is None}
        asked_for = lacking if named & set(OPTIONAL) else {error.backend, *lacking}
        if asked_for & set(demanded()):
            pytest.fail(f"RL_PERF_REQUIRE={','.join(demanded())}, but {error}")
        pytest.skip(str(error))

    return end


def about_run(config: pytest.Config) -> dict[str, Any]:
    """Return what differs from run to run: commit, seed, measured limits of the machine, disturbances."""
    found = {"git": git_state(ROOT), "seed": config.getoption("seed")}
    if LIMITS in config.stash:
        found["limits"] = config.stash[LIMITS]
    if RUN in config.stash:
        found["loudness"] = config.stash[RUN].loudness()
    return found


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Add what the figures depend on and is the same in all runs; remove the CPU's present frequency, which is not."""
    from perf_tests.rows import FORMAT

    machine_info["rlgauge"] = {"format": FORMAT, **machine.environment(), "threads": config.getoption("threads")}
    for name in ("hz_actual", "hz_actual_friendly"):
        machine_info["cpu"].pop(name, None)


def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add what differs from run to run beside ``machine_info``, which is compared."""
    output_json["rlgauge"] = about_run(config)


def flattened(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested dictionaries, each with its names joined by dots."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from flattened(value, f"{name}.{key}" if name else key)
    else:
        yield name, found


@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    """Warn of a comparison with another machine, by the names of what differs."""
    from perf_tests.report.table import wrapped

    here, there = (
        dict(flattened(info)) for info in (json.loads(json.dumps(machine_info)), compared_benchmark["machine_info"])
    )
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    if names:
        values = (f"{name} {reprlib.repr(there.get(name))}, now {reprlib.repr(here.get(name))}" for name in names)
        config.stash[DIFFERENT] = wrapped(
            f"WARNING: the saved run of {compared_benchmark['datetime'][:16]} is of another machine or setup, so "
            f"its times may not be comparable: {'; '.join(values)}"
        )
    compared_benchmark["machine_info"] = machine_info  # or pytest-benchmark dumps both in a warning of its own


def is_benchmark(item: Any) -> bool:
    """Tell whether a test reports a benchmark."""
    return item.name.startswith("test_perf[") and "variant" in item.callspec.params


def _measured(config: pytest.Config) -> list[dict[str, Any]]:
    session = getattr(config, "_benchmarksession", None)
    return [b.extra_info for b in session.benchmarks if "id" in b.extra_info] if session else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that measured fewer benchmarks than it selected, or that --benchmark-compare-fail finds slower."""
    config = session.config
    if IN_WORKER or config.option.collectonly:
        return
    if config.getoption("benchmark_disable") or config.getoption("benchmark_skip"):
        return
    asked = [item for item in session.items if is_benchmark(item)]
    reporter = config.pluginmanager.getplugin("terminalreporter")
    nodes = {item.nodeid for item in asked}
    reports = [r for kind in ("skipped", "failed", "error") for r in (reporter.stats.get(kind, ()) if reporter else ())]
    ended = len(nodes & {getattr(report, "nodeid", "") for report in reports})
    measured = len(_measured(config))
    wrong = config.stash[WRONG]
    benchmarks = cast(Any, config)._benchmarksession
    wrong += [f"--benchmark-compare-fail: {name}: {words}" for name, words in benchmarks.performance_regressions]
    benchmarks.performance_regressions = []  # or pytest-benchmark ends the run with a traceback
    if session.exitstatus != 0:
        return
    if asked and (measured == 0 or measured + ended < len(asked)):
        wrong.append(f"{len(asked)} benchmarks were selected and {measured} were measured")
    if wrong:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print each benchmark's time per call, rate and share of the machine's limit, then warnings and errors."""
    rows = _measured(config)
    if rows:
        from perf_tests.report.table import text_tables, warnings, wrapped

        terminalreporter.write_line("")
        terminalreporter.write_line(text_tables(rows))
        said = [*map(wrapped, warnings(about_run(config), rows)), config.stash.get(DIFFERENT, "")]
        for words in filter(None, said):
            terminalreporter.write_line(f"\n{words}", yellow=True)
    for words in config.stash[WRONG]:
        terminalreporter.write_line(f"ERROR: {words}", red=True)
