"""A worker that runs the tests of one side, started as a main module with ``SETTINGS CORES THREADS MEMORY``.

``SETTINGS`` is JSON, see :class:`WorkerPlugin`. To prepare a case, the worker runs its test up to the call of
``benchmark``. The test waits there, with its fixtures alive, while the case is timed, and continues when the case is
closed.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from rlgauge import worker

if __name__ == "__main__":  # before the project imports NumPy, which reads its number of threads at import
    from rlgauge import process

    REQUESTS, REPLIES = os.fdopen(os.dup(0)), worker.begin()  # pytest captures the standard streams
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # with pytest's -s, processes that a test starts would read requests
    process.set_up(int(sys.argv[-2]), sys.argv[-1])

import pytest
from _pytest import runner

from rlgauge.benchmarks import marks
from rlgauge.benchmarks.finder import PackageFinder
from rlgauge.benchmarks.fixture import (
    NO_WEAVE,
    PLUGINS,
    Benchmark,
    MisuseError,
    TimedFunction,
    has_fixture,
    is_benchmark,
    missing_plugin,
)
from rlgauge.benchmarks.loaded import LoadedFiles
from rlgauge.options import OVERRIDDEN
from rlgauge.parameters import describe_parameters
from rlgauge.plugin import MARK
from rlgauge.workers import SIDE

SLOW_TO_END = "hypothesispytest"  # imports all of hypothesis for a summary that is not shown
CONFTEST_HINT = (
    "both sides use head's version: import names that base lacks only inside the fixtures or tests that use them"
)
OPTIONS: dict[str, Any] = {  # options of pytest and its plugins, with their values in a worker
    **OVERRIDDEN, "benchmark_only": True,  # a conftest.py may skip or deselect benchmarks without it
    "continue_on_collection_errors": True, "numprocesses": 0, "dist": "no", "tx": [],
}  # fmt: skip
MAX_ID = 100  # characters of a text up to which pytest 9 uses it as an id
PHASES = {"setup": "set-up", "call": "test", "teardown": "teardown"}


class WorkerPlugin(worker.Requests):
    """Requests that the gate sends to a worker that runs tests; also a plugin of the worker's own pytest.

    Args:
        requests: stream of requests, one line of JSON each.
        replies: stream for replies.
        settings: ``packages``: names of those that must come from this side; ``root``: top level of the repository;
            ``folder`` and ``tree`` of this side; ``trace``: record which files of the tree are loaded;
            ``own_benchmarks``: this side has its own benchmarks; ``renamed``: head's test ids by base's. :func:`main`
            uses the others.

    Attributes:
        items: all tests of this side, by id.
        broken: why files could not be collected, by node id.
        request: the current test's ``prepare`` request.
        fixture: the current test's ``benchmark`` fixture.
        closed: whether the gate has closed the current case.
        reports: pytest's reports of the current test's phases.
        raised: first exception raised by the current test.
        previous: id of the previous test.
        conftest: error message for a ``conftest.py`` that cannot be imported.
    """

    def __init__(self, requests: TextIO, replies: TextIO, settings: dict[str, Any]) -> None:
        super().__init__()
        self.requests, self.replies, self.packages = requests, replies, settings["packages"]
        self.root, self.folder, self.tree = settings["root"], settings["folder"], settings["tree"]
        self.files = LoadedFiles(settings["tree"]) if settings.get("trace") else None
        self.renamed: Mapping[str, str] = settings.get("renamed", {})
        self.items: dict[str, pytest.Item] = {}
        self.broken: dict[str, dict[str, Any]] = {}
        self.session: pytest.Session | None = None
        self.request: dict[str, Any] = {}
        self.fixture: Benchmark | None = None
        self.closed = False
        self.reports: list[pytest.TestReport] = []
        self.raised: BaseException | None = None
        self.previous = ""
        self.conftest = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config, parser: pytest.Parser
    ) -> Generator[None, object, object]:
        """Disable pytest-cov, accept options of pytest-randomly, and record which ``conftest.py`` fails to import."""
        options = early_config.known_args_namespace
        if hasattr(options, "cov_source"):
            options.cov_source = []
        if not hasattr(options, "randomly_reorganize"):  # pytest-randomly is disabled
            parser.addoption("--randomly-seed")
            for option in ("--randomly-dont-reset-seed", "--randomly-dont-reorganize"):
                parser.addoption(option, action="store_true")
        try:
            return (yield)
        except Exception as error:  # pytest has no public class for it
            if path := getattr(error, "path", None):
                self.conftest = f"{os.path.relpath(path)} cannot be imported here: {one_line(error.__cause__)}"
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, object, object]:
        """Disable the gate's own plugin, and override other options, before any plugin reads them."""
        for name in vars(config.option):  # the gate's options may also come from the project's settings
            if name.startswith("gate_"):
                setattr(config.option, name, [] if isinstance(getattr(config.option, name), list) else None)
        for name, value in OPTIONS.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the marks, and disable the hooks of pytest-benchmark and pytest-codspeed."""
        config.addinivalue_line("markers", "benchmark: mark a test with custom benchmark settings.")
        config.addinivalue_line("markers", "codspeed_benchmark: mark a whole test as a benchmark.")
        config.addinivalue_line("markers", MARK)
        for plugin in config.pluginmanager.get_plugins():  # whose name depends on how it is loaded
            if getattr(plugin, "__name__", "").partition(".")[0] in PLUGINS:
                config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self) -> bool:
        """Disable pytest-timeout's timer, even if a mark requests one: a test waits here while others are timed."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        """Replace a plugin's fixture with this worker's; a project's own override of the fixture wraps this one."""
        if str(getattr(fixturedef.func, "__module__", "")).partition(".")[0] not in PLUGINS:
            return None
        if fixturedef.argname == "benchmark_weave":
            raise MisuseError(NO_WEAVE)
        if "codspeed_benchmark" in fixturedef.argnames:  # pytest-codspeed's own `benchmark`, which returns this fixture
            return None
        fixture = self.create_fixture(request.node)
        fixturedef.cached_result = fixture, fixturedef.cache_key(request), None
        return fixture

    def create_fixture(self, item: Any) -> Benchmark:
        """Create the fixture for a test and remember it."""
        mark = item.get_closest_marker("benchmark")
        counting = bool(self.request.get("exact"))
        self.fixture = Benchmark(self.time_it, item, mark and mark.kwargs.get("group"), counting)
        return self.fixture

    @pytest.hookimpl
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Time the whole function of a test with the mark and no fixture; reject an async test that nothing awaits.

        Plugins that await tests run before: they use ``tryfirst``, or replace the function with one that is not async.
        """
        function = pyfuncitem.obj
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise MisuseError(
                "it is async def, and no plugin awaits it; enable a plugin such as pytest-asyncio, or time a function "
                "that calls asyncio.run"
            )
        if has_fixture(pyfuncitem):
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        self.create_fixture(pyfuncitem)(function, **arguments)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_make_parametrize_id(self, val: object) -> str | None:
        """Name a path in this side's tree by its path in the working tree, unless that is too long for an id there."""
        if not isinstance(val, str) or not val.startswith(self.tree):
            return None
        path = val.replace(self.tree, self.root, 1)
        return path if len(path) <= MAX_ID and path.isascii() else None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Record why a file cannot be collected; seed the random generators it may use during import."""
        seed_all()
        report = yield
        if report.failed:
            error = report.call.excinfo.value
            message = last_line(str(report.longrepr)) + self.left_out(error)
            self.broken[report.nodeid] = {"failed": message, **self.absent_name(error)}
        elif report.skipped:
            self.broken[report.nodeid] = {"skipped": skip_reason(report)}
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remember all tests, including those deselected afterwards, as the gate has made the selection.

        An id may contain a path in this side's tree, for example that of a parameter's file: the gate knows it by its
        path in the working tree.
        """
        own = {item.nodeid.replace(self.tree, self.root): item for item in items}
        self.items = {self.renamed.get(name, name): item for name, item in own.items()}

    def pytest_sessionstart(self) -> None:
        """Forget the files that pytest has read for its own configuration."""
        if self.files:
            self.files.take()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Handle requests until there are no more; pytest then tears down the fixtures."""
        self.session = session
        gc.collect()
        gc.freeze()
        gc.enable()  # timed code may depend on it
        self.clock = time.perf_counter  # a test or a fixture may replace it, for example to freeze the time
        self.handle_until(lambda: False)
        if session.config.pluginmanager.hasplugin(SLOW_TO_END):
            session.config.pluginmanager.unregister(name=SLOW_TO_END)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test once: a plugin may rerun a flaky test, which would prepare the case again when it is closed."""
        return runner.pytest_runtest_protocol(item, nextitem)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Record the report of each phase of a test."""
        report = yield
        self.reports.append(report)
        if self.raised is None and call.excinfo is not None and not report.skipped:
            self.raised = call.excinfo.value
        return report

    def handle_until(self, finished: Callable[[], bool]) -> None:
        """Handle requests until `finished()` returns true or there are no more requests."""
        while not finished():
            line = self.requests.readline()
            if not line:
                if any(isinstance(prepared, TimedFunction) for prepared in self.prepared.values()):
                    raise pytest.exit.Exception("the gate has ended", 0)  # a test is waiting: tear down its fixtures
                return
            reply = self.handle(line)
            if reply is not None:
                self.send(reply)

    def send(self, reply: dict[str, Any]) -> None:
        """Send a reply as a line of JSON."""
        self.replies.write(json.dumps(reply) + "\n")

    def prepare(
        self, identity: str, output: str | None = None, exact: bool = False, fault: str = "", warm: bool = True
    ) -> Any:
        """Run a test: reply once when it calls ``benchmark``, and again when it ends after the case is closed.

        The first reply has the test's ``info``; or ``failed``, why it cannot be timed, with ``absent`` if this revision
        does not have what it needs; or ``skipped``, with the reason.

        Args:
            identity: id of the test, or name of a canary.
            output: file for the output, if wanted.
            exact: whether the test's exact counts are wanted, at its end.
            fault: ``module:function`` that replaces head's timed callable with a slower one.
            warm: whether to warm up after the first call.
        """
        from rlgauge.canary import CANARIES

        if identity in CANARIES:
            canary = CANARIES[identity]()
            canary.clock = self.clock
            worker.save_output(output, canary.first_output())
            self.prepared[identity] = canary
            return {}
        item = self.items.get(identity)
        if item is None:
            return self.missing(identity)
        assert self.session
        self.request = {"identity": identity, "output": output, "exact": exact, "fault": fault, "warm": warm}
        self.reports, self.raised = [], None
        self.fixture, self.closed = None, False
        seed_all()
        try:
            self.session._setupstate.teardown_exact(item)  # fixtures that only tests of other files share
        except (Exception, pytest.fail.Exception) as error:
            return {"failed": f"the teardown of fixtures shared with {self.previous} failed: {one_line(error)}"}
        self.previous = identity
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.sibling(item))
        return self.outcome(identity)

    def sibling(self, item: pytest.Item) -> pytest.Item | None:
        """Return a test next to this one, so that their shared fixtures stay alive; any other test if there is none."""
        others = [other for other in self.items.values() if other is not item]
        return next((other for other in others if other.parent is item.parent), next(iter(others), None))

    def time_it(self, timed: TimedFunction) -> None:
        """Let the gate time the callable that a test passed to its fixture, until the case is closed."""
        identity, fault = self.request["identity"], self.request["fault"]
        timed.clock = self.clock
        if fault and os.environ[SIDE] == "head":
            module, _, function = fault.partition(":")
            timed.function = getattr(import_module(module), function)(timed.function)
        worker.save_output(self.request["output"], timed.first_output(), [self.folder])
        if self.request["warm"]:
            timed.warm_up()
        self.prepared[identity] = timed
        extra_info = self.fixture.extra_info if self.fixture else {}
        info: dict[str, Any] = {
            str(name): value for name, value in extra_info.items() if isinstance(value, int | float | str)
        }
        if "inputs" in extra_info:  # may be of any type
            info["inputs"] = describe_parameters({"inputs": extra_info["inputs"]}, [self.folder]).get("inputs")
        self.send({"info": info})
        self.handle_until(lambda: identity not in self.prepared)

    def close(self, identity: str) -> Any:
        """Close a canary, or let a test continue to its end; the reply of ``prepare`` then reports how it ended."""
        prepared = self.prepared.pop(identity)
        if isinstance(prepared, TimedFunction):
            self.closed = True
            return None
        prepared.close()
        return {}

    def outcome(self, identity: str) -> dict[str, Any]:
        """Return how a test ended, either before its case was prepared or after it was closed."""
        self.prepared.pop(identity, None)
        failed = [report for report in self.reports if report.failed]
        skipped = [report for report in self.reports if report.skipped]
        if failed:
            why = last_line(str(failed[0].longrepr)) if self.raised is None else one_line(self.raised)
            message = f"its {PHASES[str(failed[0].when)]} failed: {why}{self.left_out(self.raised)}"
            return {"failed": message, **self.absent_name(self.raised)}
        if skipped:
            return {"skipped": skip_reason(skipped[0])}
        if self.fixture is None or not self.fixture.used:
            return {"failed": "it never calls benchmark: call benchmark(function, ...) in the test"}
        if not self.closed:
            return {"failed": "it catches an error of the timed function: let the test fail"}
        return self.exact_counts() | self.figures()

    def exact_counts(self) -> dict[str, Any]:
        """Return the counts in ``extra_info["exact"]``, if they are wanted."""
        assert self.fixture
        counts = self.fixture.extra_info.get("exact", {}) if self.fixture.counting else {}
        if not isinstance(counts, dict) or not all(type(number) is int for number in counts.values()):
            return {"failed": f'extra_info["exact"]: {counts!r} is not a dictionary of whole numbers'}
        return {"exact": {str(name): number for name, number in counts.items()}} if counts else {}

    def figures(self) -> dict[str, Any]:
        """Return the numbers in ``extra_info["figures"]``, if any."""
        assert self.fixture
        figures = self.fixture.extra_info.get("figures")
        if not isinstance(figures, Mapping):
            return {}
        return {"figures": {str(name): float(value) for name, value in figures.items() if isinstance(value, Real)}}

    def missing(self, identity: str) -> dict[str, Any]:
        """Return why this side does not have a test."""
        identity = next((own for own, name in self.renamed.items() if name == identity), identity)
        for node, reply in self.broken.items():
            if not node or identity.startswith((f"{node}::", f"{node}/")):
                if "skipped" in reply:
                    return reply
                return {**reply, "failed": f"it cannot be collected: {reply['failed']}"}
        function = identity.partition("[")[0]
        if any(name.partition("[")[0] == function for name in self.items):
            hint = "if their ids differ between processes, name them with ids=..."
            return {"failed": f"pytest collects it with other parameters on this side; {hint}"}
        return {"failed": "pytest does not collect it on this side"}

    def absent_name(self, error: BaseException | None) -> dict[str, str]:
        """Return the error as ``absent`` if its cause is a name that the code under test lacks on this side."""
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            module = None
            if isinstance(error, ImportError):
                module = error.name
            elif isinstance(error, AttributeError):
                owner = error.obj if isinstance(error.obj, ModuleType | type) else type(error.obj)
                module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
            if module and module.partition(".")[0] in self.packages:
                return {"absent": one_line(error)}
            error = error.__cause__ or error.__context__
        return {}

    def left_out(self, error: BaseException | None) -> str:
        """Return a hint if head lacks a file that the working tree has; else an empty text."""
        name = error.filename if isinstance(error, FileNotFoundError) else None
        if os.environ.get(SIDE) != "head" or not isinstance(name, str | os.PathLike):
            return ""
        try:
            name = os.path.relpath(os.path.realpath(name), self.tree)
        except FileNotFoundError:  # the test has removed its working directory
            return ""
        if name.startswith(os.pardir) or not os.path.exists(os.path.join(self.root, name)):
            return ""
        return f"; the working tree has {name}, but git ignores it, or include in [tool.rlgauge] leaves it out"

    def hello(self) -> dict[str, Any]:
        """Report that all tests are collected, with the values of their parameters on this side."""
        params = {
            identity: describe_parameters(item.callspec.params, [self.folder])
            for identity, item in self.items.items()
            if isinstance(item, pytest.Function) and hasattr(item, "callspec") and is_benchmark(item)
        }
        return {"parameters": params}

    def listing(self, deselected: bool = False) -> dict[str, Any]:
        """Return the selected benchmarks with their mark settings, the arguments that select them, and broken files."""
        assert self.session
        selected = set(self.items.values() if deselected else self.session.items)
        chosen = {name: item for name, item in self.items.items() if item in selected and is_benchmark(item)}
        listing = {name: marks.of(item) for name, item in chosen.items()}
        broken = {node: reply["failed"] for node, reply in self.broken.items() if "failed" in reply}
        return {"listing": listing, "files": self.session.config.args, "broken": broken}

    def loaded(self) -> dict[str, Any]:
        """Return the files of this side's tree loaded since the last request, and whether a process was started."""
        assert self.files
        return self.files.take()

    def origins(self) -> dict[str, Any]:
        """Return the file or directory from which each package under test is imported, if it is found."""
        origins = {}
        for name in self.packages:
            try:
                spec = find_spec(name)
            except (ImportError, ValueError):
                continue
            paths = [spec.origin] if spec and spec.origin else [*((spec and spec.submodule_search_locations) or ())]
            if paths:
                origins[name] = str(Path(paths[0]).resolve())
        imported = [name for name in origins if name in sys.modules]
        missing = {name: message for name, item in self.items.items() if (message := missing_plugin(item))}
        return {"origins": origins, "imported": imported, "strays": sorted(self.strays()), "missing": missing}

    def strays(self) -> Iterator[str]:
        """Yield the files of loaded modules that belong to the repository itself instead of to this side."""
        prefixes = [path for path in (sys.prefix, sys.base_prefix) if path.startswith(f"{self.root}{os.sep}")]
        allowed = (self.folder, *prefixes, str(Path(__file__).parents[1]))
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None) or ""
            inside = file.startswith(f"{self.root}{os.sep}") and "site-packages" not in file
            if inside and not file.startswith(tuple(f"{folder}{os.sep}" for folder in allowed)):
                yield file


def leave_working_tree(copied: Sequence[str]) -> None:
    """Import nothing from directories of the working tree that this side has copies of.

    Editable installs put them on ``sys.path`` or use an import finder.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) not in copied]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            mapping = getattr(module, "MAPPING", {})
            for package in [package for package, path in mapping.items() if is_inside(path, copied)]:
                del mapping[package]
            for paths in getattr(module, "NAMESPACES", {}).values():
                paths[:] = [path for path in paths if not is_inside(path, copied)]


def is_inside(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path is in one of some directories."""
    return any(os.path.realpath(path).startswith(f"{folder}{os.sep}") for folder in folders)


def seed_all() -> None:
    """Seed the global random generators, so that every test has the same inputs on both sides."""
    random.seed(worker.SEED)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(worker.SEED)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(worker.SEED)


def skip_reason(report: Any) -> str:
    """Return why a test or a file was skipped, or why a test was expected to fail."""
    if hasattr(report, "wasxfail"):
        return f"xfail: {report.wasxfail.removeprefix('reason: ')}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    return str(reason).removeprefix("Skipped: ")


def one_line(error: BaseException | None) -> str:
    """Return an exception as one line."""
    if error is None:
        return "unknown reason"
    first = str(error).strip().partition("\n")[0]
    if isinstance(error, MisuseError | pytest.fail.Exception):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def last_line(text: str) -> str:
    """Return the last non-empty line of an error report."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("E ").strip() if lines else "unknown reason"


def main(requests: TextIO, replies: TextIO) -> None:
    """Run the worker's pytest, which handles requests instead of running tests in order."""
    settings = json.loads(sys.argv[-4])
    leave_working_tree(settings["copied"])
    if settings["import_folders"]:
        PackageFinder(settings["packages"], settings["import_folders"])
    plugin = WorkerPlugin(requests, replies, settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that fixtures are torn down
    code = pytest.main(settings["arguments"], plugins=[plugin])
    if plugin.conftest:
        sys.stderr.write(f"{plugin.conftest}{'' if settings.get('own_benchmarks') else f'; {CONFTEST_HINT}'}\n")
    elif plugin.session is None and code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.stderr.write("pytest ended before it collected anything\n")  # otherwise pytest has printed the reason
    with suppress(Exception):
        atexit._run_exitfuncs()  # of the project, which may remove files; the rest of a normal exit takes long
    sys.stderr.flush()
    os._exit(0 if plugin.session else 1)


if __name__ == "__main__":
    main(REQUESTS, REPLIES)
