"""A worker that runs the tests of one side, started as a main module with ``SETTINGS ARGUMENTS CORES THREADS MEMORY``.

``SETTINGS`` is JSON, see :class:`WorkerPlugin`; ``ARGUMENTS`` are those of the worker's own pytest, which handles
requests instead of running all tests.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from rlgauge import worker

if __name__ == "__main__":  # before the project imports NumPy, which reads its number of threads at import
    from rlgauge import process

    REQUESTS, REPLIES = os.fdopen(os.dup(0)), worker.begin()  # pytest captures the standard streams
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # with pytest's -s, processes that a test starts would read requests
    process.set_up(int(sys.argv[-2]), sys.argv[-1])

import pytest
from _pytest import runner
from _pytest.unittest import TestCaseFunction

from rlgauge.benchmarks import codspeed, command, marks
from rlgauge.benchmarks.finder import PackageFinder, is_inside, leave_working_tree, real_path
from rlgauge.benchmarks.fixture import NO_WEAVE, Benchmark
from rlgauge.benchmarks.items import PLUGINS, has_fixture, is_benchmark, last_line, missing_plugin, skip_reason
from rlgauge.benchmarks.loaded import EarlyFiles, LoadedFiles, imported_files, mapped_libraries
from rlgauge.benchmarks.runs import Runs, one_line
from rlgauge.benchmarks.seeds import seed_all, seed_of
from rlgauge.benchmarks.timed import MisuseError
from rlgauge.options import OVERRIDDEN, add_options
from rlgauge.parameters import describe_parameters
from rlgauge.plugin import MARK

FORKED = "pytest_forked"  # runs marked tests in a child, which would answer the requests
SLOW_TO_END = "hypothesispytest"  # imports all of hypothesis for a summary that is not shown
CONFTEST_HINT = "; both sides use head's version: if base lacks a name, import it inside the function that uses it"
OPTIONS: dict[str, Any] = {  # options of pytest and its plugins, with their values in a worker
    **OVERRIDDEN, "continue_on_collection_errors": True, "xmlpath": None, "htmlpath": None, "json_report": False,
}  # fmt: skip
MAX_ID = 100  # characters of a text up to which pytest 9 uses it as an id


class WorkerPlugin(Runs):
    """The requests of a worker that runs tests, and a plugin of the worker's own pytest.

    Args:
        requests: stream of requests, one line of JSON each.
        replies: stream for replies.
        settings: see :class:`.runs.Runs`; also ``trace``: record which files of the tree are loaded; ``prefix``, as
            below; ``own_benchmarks``: each side runs its own. :func:`main` uses the others.

    Attributes:
        prefix: ``sys.prefix`` of the gate's process.
        last_words: why pytest ends before the gate does, such as a ``conftest.py`` that cannot be imported.
        by_conftests: what the ``conftest.py`` files have loaded, see :meth:`loaded`.
    """

    def __init__(self, requests: TextIO, replies: TextIO, settings: dict[str, Any]) -> None:
        super().__init__(requests, replies, settings)
        self.files = LoadedFiles(settings["tree"]) if settings.get("trace") else None
        self.last_words, self.prefix = "", settings["prefix"]
        self.hint = "" if settings.get("own_benchmarks") else CONFTEST_HINT
        self.by_conftests: dict[str, Any] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config, parser: pytest.Parser
    ) -> Generator[None, object, object]:
        """Disable pytest-cov, accept options of pytest-randomly, and record which ``conftest.py`` fails to import.

        Of the files that are loaded before the session, only those that the ``conftest.py`` files load count.
        """
        options = early_config.known_args_namespace
        if hasattr(options, "cov_source"):
            options.cov_source = []
        if not hasattr(options, "gate_against"):  # this environment has no entry point of the gate's plugin
            add_options(parser)
        if not hasattr(options, "randomly_reorganize"):  # pytest-randomly is disabled
            parser.addoption("--randomly-seed", default=worker.SEED, type=seed_of)
            for option in ("--randomly-dont-reset-seed", "--randomly-dont-reorganize"):
                parser.addoption(option, action="store_true")
        seed_all()
        try:
            result = yield
            self.by_conftests = self.files.take() if self.files else {}
            return result
        except Exception as error:  # pytest has no public class for it
            if path := getattr(error, "path", None):
                hint = self.hint if isinstance(error.__cause__, ImportError | AttributeError) else ""
                where = f"{os.path.relpath(path)} cannot be imported on this side"
                self.last_words = f"{where}: {one_line(error.__cause__)}{hint}"
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
        """Register the marks."""
        config.addinivalue_line("markers", "benchmark: mark a test with custom benchmark settings.")
        config.addinivalue_line("markers", "codspeed_benchmark: mark a whole test as a benchmark.")
        config.addinivalue_line("markers", MARK)

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
            error = MisuseError(NO_WEAVE)
            fixturedef.cached_result = None, fixturedef.cache_key(request), (error, None)  # or it is not torn down
            raise error
        if "codspeed_benchmark" in fixturedef.argnames:  # pytest-codspeed's own `benchmark`, which returns this fixture
            return None
        fixture = self.create_fixture(request.node)
        fixturedef.cached_result = fixture, fixturedef.cache_key(request), None
        return fixture

    def create_fixture(self, item: Any) -> Benchmark:
        """Create the fixture for a test and remember it."""
        mark = item.get_closest_marker("benchmark")
        counting = bool(self.request.get("exact"))
        settings = mark.kwargs if mark else {}
        timer = settings.get("timer") or self.timer_of(str(item.config.getoption("benchmark_timer", "")))
        disable_gc = bool(settings.get("disable_gc", item.config.getoption("benchmark_disable_gc", False)))
        self.fixture = Benchmark(self.time_it, item, settings.get("group"), counting, timer, disable_gc)
        return self.fixture

    def timer_of(self, name: str) -> Callable[[], float]:
        """Return the timer that an option of pytest-benchmark names, such as ``time.process_time``."""
        if name in ("", "time.perf_counter"):  # which a test or a fixture may have replaced
            return self.clock
        from pytest_benchmark.utils import load_timer

        timer: Callable[[], float] = load_timer(name).target  # type: ignore[no-untyped-call]
        return timer

    @pytest.hookimpl
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Time the whole function of a test with the mark and no fixture; reject an async test that nothing awaits.

        Plugins that await tests run before: they use ``tryfirst``, or replace the function with one that is not async.
        """
        function = pyfuncitem.obj
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise MisuseError(
                "the test is an async function, and no plugin awaits it; enable a plugin such as pytest-asyncio, or "
                "time a function that calls asyncio.run"
            )
        if has_fixture(pyfuncitem) or self.fixture:  # a fixture of the project may have requested it by itself
            return None
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        self.create_fixture(pyfuncitem).pedantic(function, kwargs=arguments)  # it may need new fixtures for each call
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Time the whole method of a ``unittest.TestCase`` with the mark, which runs without the hook above."""
        method = getattr(item, "obj", None)
        asynchronous = inspect.iscoroutinefunction(method)  # such a method needs the event loop of its class
        if not isinstance(item, TestCaseFunction) or not inspect.ismethod(method) or asynchronous or has_fixture(item):
            return

        @functools.wraps(method)
        def timed() -> None:
            if self.fixture:  # a fixture of the project may have requested it by itself
                method()
            else:
                self.create_fixture(item).pedantic(method)

        item.obj = timed
        setattr(method.__self__, item.name, timed)  # pytest-django runs this one

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
            cause, message = error.__cause__, last_line(str(report.longrepr))
            message = (one_line(cause) if isinstance(cause, SyntaxError) else message) + self.remedy(error)
            self.broken[report.nodeid] = {"failed": message, **self.absent_name(error)}
        elif report.skipped:
            self.broken[report.nodeid] = {"skipped": skip_reason(report)}
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Remember all tests, including those that a hook deselects, because the gate has already made the selection.

        A hook may change ids. An id may contain a path in this side's tree, for example that of a parameter's file: the
        gate knows it by its path in the working tree.
        """
        collected = list(items)
        result = yield
        codspeed.add_those_without_option(session, collected, items, self)
        own = {item.nodeid.replace(self.tree, self.root): item for item in collected}
        self.items = {self.renamed.get(name, name): item for name, item in own.items()}
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Disable the hooks of pytest-benchmark and pytest-codspeed, and forget the files that plugins have opened.

        The plugins' names stay registered, and ``--codspeed`` is set, because a ``conftest.py`` may skip all benchmarks
        without them. Neither plugin has this hook, whose caller must not change while it runs.
        """
        config = session.config
        for plugin in config.pluginmanager.get_plugins():  # whose name depends on how it is loaded
            if getattr(plugin, "__name__", "").partition(".")[0] in PLUGINS:
                name = config.pluginmanager.get_name(plugin)
                config.pluginmanager.unregister(plugin)
                config.pluginmanager.register(object(), name)
        if config.pluginmanager.hasplugin(FORKED):
            config.pluginmanager.unregister(name=FORKED)
        codspeed.set_option(config)
        if self.files:
            self.files.take()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Handle requests until there are no more; pytest then tears down the fixtures."""
        self.session = session
        worker.collect_as_usual()
        self.clock = time.perf_counter  # a test or a fixture may replace it, for example to freeze the time
        self.handle_until(lambda: False)
        if session.config.pluginmanager.hasplugin(SLOW_TO_END):
            session.config.pluginmanager.unregister(name=SLOW_TO_END)
        return True

    @pytest.hookimpl
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record why pytest ends, for example because a test calls ``pytest.exit``."""
        self.last_words = one_line(excinfo.value)

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

    def outcome(self, identity: str) -> dict[str, Any]:
        """Return how a test ended; it fails if it has imported a module of the working tree, which both sides share."""
        found, strays = super().outcome(identity), self.strays() if self.tree != self.root else {}
        for name in strays:
            del sys.modules[name]  # the next test that imports it fails too
        if not strays or found.keys() & {"failed", "skipped"}:
            return found
        hint = "both sides would run the same code; locate the file relative to the test's own file"
        return {"failed": f"it imports {min(strays.values())} from the repository instead of its own tree, so {hint}"}

    def hello(self) -> dict[str, Any]:
        """Report that all tests are collected, with the values of their parameters on this side."""
        params = {
            identity: describe_parameters(item.callspec.params, self.hidden)
            for identity, item in self.items.items()
            if isinstance(item, pytest.Function) and hasattr(item, "callspec") and is_benchmark(item)
        }
        return {"parameters": params}

    def listing(self, deselected: bool = False) -> dict[str, Any]:
        """Return the selected benchmarks with their mark settings, what selects them, and broken and imported files."""
        assert self.session
        selected = set(self.items.values() if deselected else self.session.items)
        chosen = {name: item for name, item in self.items.items() if item in selected and is_benchmark(item)}
        broken = {node: reply["failed"] for node, reply in self.broken.items() if "failed" in reply}
        config = self.session.config
        return {
            "listing": {name: marks.of(item) for name, item in chosen.items()},
            "files": config.args if config.args_source.name == "ARGS" else [],  # others come from the settings
            "imported": imported_files(self.tree),
            "broken": broken,
            "selection": command.selection(config),
            "inipath": str(config.inipath) if config.inipath else "",
            "pythonpath": list(map(str, config.getini("pythonpath"))),
        }

    def loaded(self, copies: Sequence[str] = ()) -> dict[str, Any]:
        """Return the files of this side's tree loaded since the last request, and whether a process was started.

        Also return the file of each of the modules `copies` that is imported from outside the tree.
        """
        assert self.files
        early, self.by_conftests = self.by_conftests, {}
        found = self.files.take()
        spawned = found["spawned"] or bool(early.get("spawned"))
        imported = {name: getattr(sys.modules.get(name), "__file__", None) for name in copies}
        outside = {name: file for name, file in imported.items() if file and not is_inside(file, [self.tree])}
        files = sorted({*found["files"], *early.get("files", ())})
        return {"files": files, "spawned": spawned, "copies": outside}

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
        strays, libraries = sorted(self.strays().values()), sorted(filter(self.is_shared, mapped_libraries()))
        found = {"origins": origins, "imported": imported, "missing": missing}
        return {**found, "strays": strays, "libraries": libraries}

    def strays(self) -> dict[str, str]:
        """Return the loaded modules that belong to the repository itself instead of to this side, with their files."""
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        return {name: file for name, file in files.items() if isinstance(file, str) and self.is_shared(file)}

    def is_shared(self, file: str) -> bool:
        """Return whether a file belongs to the repository itself, so that both sides share it."""
        inside = f"{self.root}{os.sep}"
        if not os.path.isabs(file) or "site-packages" in file or file.startswith(f"{self.folder}{os.sep}"):
            return False
        real = file if file.startswith(inside) else real_path(file)  # a folder above may be a link
        if not real.startswith(inside):
            return False
        paths = self.folder, self.prefix, sys.prefix, sys.base_prefix, self.temporary, str(Path(__file__).parents[1])
        kept = [f"{path}{os.sep}" for path in (*paths, *map(real_path, paths)) if path.startswith(inside)]
        return not real.startswith(tuple(kept))


def main(requests: TextIO, replies: TextIO) -> None:
    """Run the worker's pytest."""
    settings = json.loads(sys.argv[1])
    leave_working_tree(settings)
    if settings["import_folders"]:
        PackageFinder(settings["packages"], settings["import_folders"], settings["sources"])
    plugin = WorkerPlugin(requests, replies, settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that fixtures are torn down
    os.register_at_fork(after_in_child=worker.restore_sigterm)
    os.mkdir(plugin.temporary, 0o700)  # fixtures may share the folder above pytest's with processes of pytest-xdist
    arguments = [*sys.argv[2:-3], f"--basetemp={plugin.temporary}/0"]
    # a project may use test settings if this names pytest, and skip benchmarks without the option
    sys.argv = ["pytest", "--benchmark-only", *arguments]
    code = pytest.main(arguments, plugins=[plugin, *([EarlyFiles(plugin.files)] if plugin.files else [])])
    if plugin.last_words:
        sys.stderr.write(f"{plugin.last_words}\n")
    elif plugin.session is None and code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.stderr.write("pytest ended before it collected anything\n")  # otherwise pytest has printed the reason
    with suppress(Exception):
        atexit._run_exitfuncs()  # of the project, which may remove files; the rest of a normal exit takes long
    shutil.rmtree(plugin.temporary, ignore_errors=True)
    sys.stderr.flush()
    os._exit(0 if plugin.session else 1)


if __name__ == "__main__":
    main(REQUESTS, REPLIES)
