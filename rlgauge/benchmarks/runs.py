"""Runs of tests on request: a test waits in its call of ``benchmark``, with its fixtures alive, while it is timed.

It continues when the gate closes the case. A test that asks for one call is run again for each sample, see
:mod:`.once`.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from importlib import import_module
from numbers import Real
from types import ModuleType
from typing import Any, TextIO

import pytest

from rlgauge import worker
from rlgauge.parameters import describe_parameters
from rlgauge.workers import SIDE, TEMPORARY

from .fixture import Benchmark
from .items import asks_for_fixture, has_fixture, last_line, skip_reason, uses_fixture
from .once import OnceRuns, Trial
from .seeds import seed_all
from .timed import MisuseError, TimedFunction, compiling_anew

OWN_FIXTURE = "it measures with a BenchmarkFixture of its own: use the fixture benchmark"
IN_USE = "; the fixtures of both sides are alive at once, so a fixed port serves only one of them: use port 0"
PHASES = {"setup": "set-up", "call": "test", "teardown": "teardown"}


@contextmanager
def alarm_paused() -> Iterator[None]:
    """Pause the process's alarm timer, with which a fixture may limit the time of a test."""
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)


class Runs(worker.Requests):
    """Requests that the gate sends to a worker about tests.

    Args:
        requests: stream of requests, one line of JSON each.
        replies: stream for replies.
        settings: ``packages``: names of those that must come from this side; ``root``: top level of the repository;
            ``folder`` and ``tree`` of this side; ``renamed``: head's test ids by base's.

    Attributes:
        items: all tests of this side, by id.
        broken: why files could not be collected, by node id.
        request: the current test's ``prepare`` request.
        fixture: the current test's ``benchmark`` fixture.
        closed: whether the gate has closed the current case.
        again: whether the test is run once more when it ends.
        trial: finds out whether a test that asks for one call can be called again.
        once_runs: the runs that give the samples of the current request, if a test is called once per run.
        reports: pytest's reports of the current test's phases.
        raised: first exception raised by the current test.
        previous: id of the previous test.
        temporary: directory for temporary files.
        is_head: whether this is head's worker.
        hidden: paths that differ between processes, which are left out of outputs and parameters.
    """

    def __init__(self, requests: TextIO, replies: TextIO, settings: dict[str, Any]) -> None:
        super().__init__()
        self.requests, self.replies, self.packages = requests, replies, settings["packages"]
        self.root, self.folder, self.tree = settings["root"], settings["folder"], settings["tree"]
        self.temporary = os.environ[TEMPORARY]  # read now, as a fixture of the project may clear the variables
        self.is_head = os.environ.get(SIDE) == "head"
        self.hidden = [self.folder, self.temporary]
        self.renamed: Mapping[str, str] = settings.get("renamed", {})
        self.items: dict[str, pytest.Item] = {}
        self.broken: dict[str, dict[str, Any]] = {}
        self.session: pytest.Session | None = None
        self.request: dict[str, Any] = {}
        self.fixture: Benchmark | None = None
        self.closed = self.again = False
        self.trial: Trial | None = None
        self.once_runs: OnceRuns | None = None
        self.reports: list[pytest.TestReport] = []
        self.raised: BaseException | None = None
        self.previous = ""

    def handle_until(self, finished: Callable[[], bool]) -> None:
        """Handle requests until `finished()` returns true or there are no more requests."""
        while not finished():
            line = self.requests.readline()
            if not line:
                self.signal_children(signal.SIGCONT)
                if any(isinstance(prepared, TimedFunction) for prepared in self.prepared.values()):
                    raise pytest.exit.Exception("the gate has ended", 0)  # a test is waiting: tear down its fixtures
                return
            reply = self.handle(line)
            if reply is not None:
                self.send(reply)

    def send(self, reply: dict[str, Any]) -> None:
        """Send a reply as a line of JSON; its error messages name files relative to this side's tree."""
        errors = {name: reply[name].replace(f"{self.tree}/", "") for name in ("failed", "absent") if name in reply}
        self.replies.write(worker.DUMPS(reply | errors) + "\n")

    def prepare(
        self,
        identity: str,
        output: str | None = None,
        exact: bool = False,
        fault: str = "",
        warm: bool = True,
        once: bool | None = None,
    ) -> Any:
        """Run a test: reply once when it calls ``benchmark``, and again when it ends after the case is closed.

        The first reply has the test's ``info``, a ``note`` for the report, and ``once`` as below. If the test cannot be
        timed, it has ``failed`` with the reason, and also ``absent`` if this revision lacks a name that the test needs.
        If the test is skipped, it has ``skipped`` with the reason.

        Args:
            identity: id of the test, or name of a canary.
            output: file for the output, if wanted.
            exact: whether the test's exact counts are wanted, at its end.
            fault: ``module:function`` that replaces head's timed callable with a slower one.
            warm: whether to warm up after the first call.
            once: whether each run of the test makes a single call; if None, find out.
        """
        from rlgauge.canary import SLOWDOWNS, create

        if identity in SLOWDOWNS:
            canary = create(identity, self.is_head)
            canary.clock = self.clock
            worker.save_output(output, canary.first_output())
            self.prepared[identity] = canary
            return {}
        item = self.items.get(identity)
        if item is None:
            return self.missing(identity)
        assert self.session
        asked = {"output": output, "exact": exact, "fault": fault, "warm": warm, "once": once}
        self.request = {"identity": identity, **asked}
        self.trial = self.once_runs = None
        try:
            self.session._setupstate.teardown_exact(item)  # fixtures that this test does not share
        except (Exception, pytest.fail.Exception) as error:
            return {"failed": f"the teardown of fixtures of {self.previous} failed: {one_line(error)}"}
        self.previous = identity
        self.run_test(item)
        while self.again:
            failed = any(report.failed for report in self.reports)
            if self.trial and self.trial.first_run:
                self.trial.end_first_run(not failed)
            elif failed:
                break
            self.run_test(item)
        try:
            self.session._setupstate.teardown_exact(self.sibling(item))
        except (Exception, pytest.fail.Exception) as error:
            return {"failed": f"its teardown failed: {one_line(error)}"}
        return self.outcome(identity)

    def run_test(self, item: pytest.Item) -> None:
        """Run a test from its set-up to its teardown; the fixtures of its module stay alive for another run."""
        self.reports, self.raised = [], None
        self.fixture, self.closed, self.again = None, False, False
        seed_all()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=copy(item))

    def sibling(self, item: pytest.Item) -> pytest.Item | None:
        """Return a test next to this one, so that their shared fixtures stay alive; any other test if there is none."""
        others = [other for other in self.items.values() if other is not item]
        return next((other for other in others if other.parent is item.parent), next(iter(others), None))

    @alarm_paused()
    def time_it(self, timed: TimedFunction) -> None:
        """Let the gate time the callable that a test passed to its fixture, until the case is closed."""
        identity, fault = self.request["identity"], self.request["fault"]
        timed.clock = self.clock
        if fault and self.is_head:
            module, _, function = fault.partition(":")
            timed.function = getattr(import_module(module), function)(timed.function)
        with compiling_anew() if timed.once else nullcontext():
            if not self.has_started(timed):
                self.again = True
                return
        self.prepared[identity] = timed
        with compiling_anew():
            self.handle_until(lambda: self.again or identity not in self.prepared)

    def has_started(self, timed: TimedFunction) -> bool:
        """Reply to the request that waits for this call; return False if that needs another run of the test."""
        if not self.once_runs:
            return self.start_timing(timed)
        if self.once_runs.add(timed.only_call()):
            return False
        runs, self.once_runs = self.once_runs, None
        self.send(runs.reply())
        return True

    def start_timing(self, timed: TimedFunction) -> bool:
        """Make the first call and reply to ``prepare``; return whether the test can be timed in this run."""
        once, note = self.request["once"] if timed.once else False, ""
        if self.trial:
            once, note, self.trial = self.trial.once(timed.only_call()), self.trial.note, None
        else:
            start = self.clock()
            first = timed.first_output()
            seconds = self.clock() - start
            timed.seconds = [seconds / timed.iterations]  # the test may read its stats even if this run is not timed
            worker.save_output(self.request["output"], first, self.hidden)
            timed.only = [first] if timed.once else []
            del first  # a cache of weak references would find it
            if once is None:
                self.trial = Trial(timed, seconds)
                return False
        if once is False:
            timed.only = []
            if self.request["warm"]:
                timed.warm_up()
        self.send({"info": self.extra_info(), "once": once is not False, "note": note})
        return True

    def extra_info(self) -> dict[str, Any]:
        """Return the numbers and texts in the current test's ``extra_info``, and a description of its inputs."""
        given = self.fixture.extra_info if self.fixture else {}
        info: dict[str, Any] = {
            str(name): value for name, value in given.items() if isinstance(value, int | float | str)
        }
        if "inputs" in given:  # may be of any type
            info["inputs"] = describe_parameters({"inputs": given["inputs"]}, self.hidden).get("inputs")
        return info

    def measure(self, identity: str, once: bool = False) -> dict[str, Any] | None:
        """Time calls as in :meth:`.Requests.measure`; with `once`, by further runs of the test."""
        if not once:
            return super().measure(identity)
        start = self.clock()

        def reply(seconds: list[float]) -> dict[str, Any]:
            wall = (self.clock() - start) / len(seconds)
            return {"calls": 1, "call": min(seconds), "wall": wall, "iterations": 1}

        self.run_again(OnceRuns(worker.SAMPLES, reply, self.clock, worker.LONG_SECONDS))
        return None

    def sample(
        self,
        identity: str,
        samples: int,
        calls: int | None = None,
        warm: bool = True,
        injected_slowdown: float = 0.0,
        iterations: int | None = None,
        once: bool = False,
    ) -> dict[str, Any] | None:
        """Time samples as in :meth:`.Requests.sample`; with `once`, each in a run of the test."""
        if not once:
            return super().sample(identity, samples, calls, warm, injected_slowdown, iterations)

        def reply(seconds: list[float]) -> dict[str, Any]:
            return {"seconds": sum(seconds[warm:]) + self.spin(injected_slowdown)}

        self.run_again(OnceRuns(samples + warm, reply, self.clock))
        return None

    def peak_memory(self, identity: str, allocated: bool = False) -> dict[str, Any]:
        """Return bytes like :meth:`.Requests.peak_memory`, unless it needs two calls and the test allows only one."""
        if allocated and getattr(self.prepared[identity], "only", None):
            return {"failed": "to count allocations, the test must allow a second call; choose another measure"}
        return super().peak_memory(identity, allocated)

    def run_again(self, runs: OnceRuns) -> None:
        """Let the current run of the test end, and run the test again for further samples; the reply is sent later."""
        self.once_runs, self.again, self.children = runs, True, []

    def close(self, identity: str) -> Any:
        """Close a canary, or let a test continue to its end; the reply of ``prepare`` then reports how it ended."""
        self.children = []
        prepared = self.prepared.pop(identity)
        if isinstance(prepared, TimedFunction):
            self.closed = True
            return None
        prepared.close()
        return {}

    def outcome(self, identity: str) -> dict[str, Any]:
        """Return how a test ended, either before its case was prepared or after it was closed."""
        self.prepared.pop(identity, None)
        session = getattr(self.items[identity].config, "_benchmarksession", None)
        measurements: list[object] = getattr(session, "benchmarks", [])
        measured = bool(measurements)
        measurements.clear()
        failed = [report for report in self.reports if report.failed]
        skipped = [report for report in self.reports if report.skipped]
        if failed:
            why = last_line(str(failed[0].longrepr)) if self.raised is None else one_line(self.raised)
            message = f"its {PHASES[str(failed[0].when)]} failed: {why}{self.remedy(self.raised)}"
            return {"failed": message, **self.absent_name(self.raised)}
        if skipped:
            return {"skipped": skip_reason(skipped[0])}
        if self.fixture is None and not uses_fixture(self.items[identity]):
            return {"failed": "a plugin runs the marked function by itself: call benchmark(function, ...) in the test"}
        if not self.reports:
            return {"failed": "a plugin runs the test by itself: disable it with -p no:NAME"}
        if self.fixture is None or not self.fixture.used:
            if measured:
                return {"failed": OWN_FIXTURE}
            if not asks_for_fixture(self.items[identity]):  # an autouse fixture requests it for all tests
                return {"skipped": "it does not use benchmark"}
            return {"failed": "it never calls benchmark: call benchmark(function, ...) in the test"}
        if not self.closed:
            return {"failed": "it catches an error of the timed function: catch the error inside that function"}
        if measured and not has_fixture(self.items[identity]):  # the whole test is timed, with its own measurement
            return {"failed": OWN_FIXTURE}
        return self.exact_counts() | self.figures()

    def exact_counts(self) -> dict[str, Any]:
        """Return the counts in ``extra_info["exact"]``, if they are wanted."""
        assert self.fixture
        counts = self.fixture.extra_info.get("exact", {}) if self.fixture.counting else {}
        if not isinstance(counts, dict):  # the project uses the key for something else
            return {}
        if not all(type(number) is int for number in counts.values()):
            return {"failed": f'extra_info["exact"]: {counts!r} is not a dictionary of whole numbers; use int values'}
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
        asked, identity = identity, next((own for own, name in self.renamed.items() if name == identity), identity)
        for node, reply in self.broken.items():
            if not node or identity.startswith((f"{node}::", f"{node}/")):
                if "skipped" in reply:
                    return reply
                return {**reply, "failed": f"it cannot be collected: {reply['failed']}"}
        function = identity.partition("[")[0]
        if any(name.partition("[")[0] == function for name in self.items):
            hint = "if their ids differ between processes, or depend on the number of cores, name them with ids=..."
            return {"failed": f"pytest collects it with other parameters on this side; {hint}"}
        return {"failed": f"pytest does not collect {'it' if identity == asked else identity} on this side"}

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

    def remedy(self, error: BaseException | None) -> str:
        """Return a hint if a port is in use, or if head lacks a file that the working tree has; else an empty text."""
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return IN_USE
        name = error.filename if isinstance(error, FileNotFoundError) else None
        if not self.is_head or not isinstance(name, str | os.PathLike):
            return ""
        try:
            name = os.path.relpath(os.path.realpath(name), self.tree)
        except FileNotFoundError:  # the test has removed its working directory
            return ""
        if name.startswith(os.pardir) or not os.path.exists(os.path.join(self.root, name)):
            return ""
        why = "git ignores it, or the setting include leaves it out"
        fix = "remove it from .gitignore and, if include is set in [tool.rlgauge], add it there"
        return f"; the working tree has {name}, but {why}; {fix}"


def one_line(error: BaseException | None) -> str:
    """Return an exception as one line."""
    if error is None:
        return "unknown reason"
    first = str(error).strip().partition("\n")[0]
    if isinstance(error, MisuseError | pytest.fail.Exception):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
