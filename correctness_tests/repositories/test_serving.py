"""A worker that runs tests: what it answers to each request, and what pytest tells it of a test and of a file."""

from __future__ import annotations

import gc
import io
import json
import os
import random
import signal
import sys
from types import ModuleType, SimpleNamespace

import pytest

from rlgauge import answer_files, answers, canary
from rlgauge.benchmarks import worker
from rlgauge.benchmarks.fixture import Benchmarked
from rlgauge.benchmarks.worker import Tests as Worker
from rlgauge.benchmarks.worker import last_line, reason, seed_all, words


@pytest.fixture
def side(tmp_path):
    """A worker in a folder of its own. -> the worker, whose requests are written by ``side.told``"""

    def told(*requests):
        made.requests = io.StringIO("".join(json.dumps(request) + "\n" for request in requests))

    made = Worker(io.StringIO(), io.StringIO(), {"packages": ["toy"], "root": "/root", "folder": "/root/side"})
    made.told = told
    return made


def said(side):
    text = side.replies.getvalue()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def ended_report(when, outcome, why=None):
    return SimpleNamespace(
        when=when, failed=outcome == "failed", skipped=outcome == "skipped", longrepr=("file", 1, f"Skipped: {why}")
    )


class Known:
    """A canary of which nothing is timed."""

    def __init__(self):
        self.closed = 0

    def settle(self):
        return [7]

    def close(self):
        self.closed += 1


def test_a_canary_is_prepared_and_closed_without_a_test(side, tmp_path, monkeypatch):
    monkeypatch.setitem(canary.CANARIES, "canary[same]", Known)
    assert side.prepare("canary[same]", str(tmp_path / "a.answer")) == {"counters": {}}
    answer_files.save(tmp_path / "b.answer", [7])
    assert answers.same(tmp_path / "a.answer", tmp_path / "b.answer", 0.0)
    known = side.prepared["canary[same]"]
    assert side.close("canary[same]") == {}
    assert (known.closed, side.prepared, side.closed) == (1, {}, False)


def test_a_test_that_is_not_there_is_not_run(side):
    side.broken = {"a.py": {"failed": "SyntaxError"}}
    assert side.prepare("a.py::test_it") == {"failed": "it cannot be collected: SyntaxError"}
    assert side.prepare("b.py::test_it") == {"failed": "it is not collected here"}


@pytest.mark.parametrize("skipped", [True, False])
def test_where_all_is_broken_every_test_is_missing_for_that_reason(side, skipped):
    side.broken = {"": {"skipped": "all"} if skipped else {"failed": "all", "absent": "toy"}}
    wanted = {"skipped": "all"} if skipped else {"failed": "it cannot be collected: all", "absent": "toy"}
    assert side.missing("a.py::test_it") == wanted


def test_a_test_is_run_from_a_seed_beside_those_that_share_its_fixtures(side):
    seen = []

    def protocol(item, nextitem):
        seen.append((item, nextitem, dict(side.asked), side.reports, side.raised, side.fixture, side.closed))
        seen.append(random.random())
        side.fixture, side.closed = SimpleNamespace(used=True, counting=False, extra_info={}), True

    parent, hook = object(), SimpleNamespace(pytest_runtest_protocol=protocol)
    one, other = (SimpleNamespace(parent=parent, config=SimpleNamespace(hook=hook)) for _ in range(2))
    side.items = {"a": one, "b": other}
    side.session = SimpleNamespace(_setupstate=SimpleNamespace(teardown_exact=lambda item: seen.append(item)))
    side.reports, side.raised, side.fixture, side.closed = ["old"], KeyError(), "old", True
    assert side.prepare("a", "file") == {}
    wanted = one, other, {"identity": "a", "answer": "file", "counted": False, "fault": ""}, [], None, None, False
    assert seen == [one, wanted, random.Random(0).random()]


@pytest.mark.parametrize("error", [OSError("no server\nat all"), pytest.fail.Exception("it is left")])
def test_what_tests_shared_and_cannot_be_torn_down_is_said_of_the_test_before(side, error):
    def fails(item):
        if item is other:
            raise error

    ran = []
    hook = SimpleNamespace(pytest_runtest_protocol=lambda item, nextitem: ran.append(item))
    one, other = (SimpleNamespace(parent=object(), config=SimpleNamespace(hook=hook)) for _ in range(2))
    side.items = {"a": one, "b": other}
    side.session = SimpleNamespace(_setupstate=SimpleNamespace(teardown_exact=fails))
    side.prepare("a")
    why = "OSError: no server" if isinstance(error, OSError) else "it is left"
    assert side.prepare("b") == {"failed": f"what a shares with others cannot be torn down: {why}"}
    assert ran == [one]


def test_what_a_test_gives_is_kept_settled_and_waits_until_its_case_is_closed(side, tmp_path):
    done = []
    made = Benchmarked(lambda: done.append("called") or ["/root/side/file"])
    made.settle = lambda: done.append("settled")
    side.asked = {"identity": "a", "answer": str(tmp_path / "a.answer"), "fault": ""}
    side.told({"do": "hello"}, {"do": "close", "identity": "a"}, {"do": "hello"})
    side.timed(made)
    assert done == ["called", "settled"]
    assert said(side) == [{"counters": {}, "info": {}}, {"parameters": {}}]  # closing is answered where it was prepared
    assert (side.prepared, side.closed) == ({}, True)
    assert json.loads(side.requests.readline()) == {"do": "hello"}
    answer_files.save(tmp_path / "b.answer", ["elsewhere/file"], ["elsewhere"])
    assert answers.same(tmp_path / "a.answer", tmp_path / "b.answer", 0.0)


def test_a_test_that_waits_ends_where_there_are_no_more_requests(side):
    side.told({"do": "hello"})
    side.prepared = {"canary[same]": Known()}
    side.answer_until(lambda: False)
    assert said(side) == [{"parameters": {}}]
    side.prepared["a"] = Benchmarked(len)
    with pytest.raises(pytest.exit.Exception, match="the gate has ended") as ended:
        side.answer_until(lambda: False)
    assert ended.value.returncode == 0


def test_nothing_is_answered_where_it_is_over(side):
    side.told({"do": "hello"})
    side.answer_until(lambda: True)
    assert said(side) == []


@pytest.mark.parametrize(("when", "part"), [("setup", "set-up"), ("call", "test"), ("teardown", "teardown")])
def test_the_first_part_of_a_test_that_fails_is_named_whatever_else_it_did(side, when, part):
    side.prepared, side.raised, side.closed = {"a": 1, "b": 2}, OSError("gone"), True
    side.reports = [ended_report("setup", "skipped", "why"), ended_report(when, "failed"), ended_report("x", "failed")]
    assert side.ended("a") == {"failed": f"its {part} fails: OSError: gone"}
    assert side.prepared == {"b": 2}


def test_a_test_that_fails_for_want_of_code_says_so(side):
    side.reports, side.raised = [ended_report("call", "failed")], ModuleNotFoundError("no toy.a", name="toy.a")
    assert side.ended("a")["absent"] == "ModuleNotFoundError: no toy.a"


def test_a_test_that_skips_says_why_and_needs_no_benchmark(side):
    side.reports = [ended_report("setup", "passed"), ended_report("call", "skipped", "not here")]
    assert side.ended("a") == {"skipped": "not here"}
    side.reports = []
    assert side.ended("a") == {"failed": "it never calls benchmark: there is nothing to time"}


def test_each_package_is_named_with_its_place_and_those_imported_apart(side, tmp_path, monkeypatch):
    for name in ("plainly/__init__.py", "apart/deep.py", "single.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "linked").symlink_to(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "linked"))
    monkeypatch.setitem(sys.modules, "odd", ModuleType("odd"))  # of which no specification is known
    monkeypatch.delitem(sys.modules, "single", raising=False)
    side.packages = ["plainly", "apart", "odd", "single", "no_such_module"]
    __import__("single")
    monkeypatch.setattr(side, "strays", lambda: iter(["/root/z.py", "/root/a.py"]))
    real = tmp_path.resolve()
    places = {"plainly": real / "plainly/__init__.py", "apart": real / "apart", "single": real / "single.py"}
    assert side.origins() == {
        "origins": {name: str(place) for name, place in places.items()},
        "imported": ["single"],
        "strays": ["/root/a.py", "/root/z.py"],
        "missing": {},
    }
    monkeypatch.delitem(sys.modules, "single")


def test_modules_of_the_repository_itself_are_strays(side, monkeypatch):
    files = ["/root/toy/a.py", "/root/side/toy/a.py", "/root/sides/b.py", "/rooted/c.py", "/other/d.py", None,
             "/root/env/lib/site-packages/e.py", "/root/own/lib/f.py", "/root/toy/g.py"]  # fmt: skip

    def strays(files, prefix, package):
        with monkeypatch.context() as patched:
            patched.setattr(worker.sys, "prefix", prefix)
            patched.setattr(worker, "__file__", package)
            patched.setattr(worker.sys, "modules", {str(k): SimpleNamespace(__file__=f) for k, f in enumerate(files)})
            return list(side.strays())

    elsewhere = "/other/rlgauge/benchmarks/worker.py"
    assert strays(files, "/root/own", elsewhere) == ["/root/toy/a.py", "/root/sides/b.py", "/root/toy/g.py"]
    assert strays(["/root/tool/a.py"], "/other", "/root/tool/benchmarks/worker.py") == []


def through(hook, report):
    """Have a hook that wraps others see what these return."""
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(report)
    return ended.value.value


def test_why_a_file_cannot_be_collected_is_kept(side):
    error = ImportError("no more", name="toy.more")
    call = SimpleNamespace(excinfo=SimpleNamespace(value=error))
    failed = SimpleNamespace(
        failed=True, skipped=False, nodeid="a.py", longrepr="x\nE   ImportError: no more\n", call=call
    )
    skipped = SimpleNamespace(failed=False, skipped=True, nodeid="b.py", longrepr=("b.py", 1, "Skipped: not here"))
    fine = SimpleNamespace(failed=False, skipped=False, nodeid="c.py")
    for report in (failed, skipped, fine):
        assert through(side.pytest_make_collect_report(None), report) is report
    assert side.broken == {
        "a.py": {"failed": "ImportError: no more", "absent": "ImportError: no more"},
        "b.py": {"skipped": "not here"},
    }


def test_how_each_part_of_a_test_ends_is_kept(side):
    error = OSError("gone")
    raised, none = SimpleNamespace(excinfo=SimpleNamespace(value=error)), SimpleNamespace(excinfo=None)
    reports = [ended_report("setup", "passed"), ended_report("call", "skipped"), ended_report("teardown", "failed")]
    for report, call, wanted in zip(reports, (none, raised, raised), (None, None, error)):
        assert through(side.pytest_runtest_makereport(None, call), report) is report
        assert side.raised is wanted
    assert side.reports == reports


@pytest.mark.parametrize("plugin", [True, False])
def test_requests_are_answered_in_the_place_of_tests(side, monkeypatch, plugin):
    done = []
    for name in ("collect", "freeze", "enable"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    manager = SimpleNamespace(hasplugin=lambda name: plugin and name == "hypothesispytest")
    manager.unregister = lambda name: done.append(name)
    session = SimpleNamespace(config=SimpleNamespace(pluginmanager=manager))
    side.told({"do": "hello"}, {"do": "hello"})
    assert side.pytest_runtestloop(session) is True
    assert side.session is session
    assert done == ["collect", "freeze", "enable", *["hypothesispytest"] * plugin]
    assert said(side) == [{"parameters": {}}] * 2


def test_every_library_that_draws_is_seeded_with_the_same(monkeypatch):
    import numpy as np

    seeds = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(manual_seed=seeds.append))
    seed_all()
    assert (random.random(), np.random.random()) == (random.Random(0).random(), np.random.RandomState(0).random())
    assert seeds == [0]


def test_why_something_was_skipped():
    assert reason(SimpleNamespace(longrepr=("file", 1, "Skipped: not here"))) == "not here"
    assert reason(SimpleNamespace(longrepr="not here")) == "not here"


def test_what_a_test_says_of_itself_has_no_class_and_lines_no_mark():
    with pytest.raises(pytest.fail.Exception) as failed:
        pytest.fail("too\nfew")
    assert words(failed.value) == "too"
    assert [words(error) for error in (ValueError("\n a \nb"), ValueError(" "))] == ["ValueError: a ", "ValueError"]
    assert last_line("E   a\nE   b: c\n   \n") == "b: c"
    assert last_line("Error") == "Error"


@pytest.fixture
def started(monkeypatch, capsys):
    """Run a worker's pytest that collects or not. -> what it was told, the code that it ends with, and what it says"""

    def run(collects, code):
        folders = {"root": "/r", "folder": "/f", "tree": "/f/tree", "copied": [], "first": []}
        told, handled, ends = {"arguments": ["-q", "a.py"], "packages": [], **folders}, [], []

        def main(arguments, plugins):
            (tests,) = plugins
            assert (tests.requests, tests.replies, tests.root, tests.folder) == ("requests", "replies", "/r", "/f")
            tests.session = collects or None
            assert arguments == ["-q", "a.py"]
            return code

        monkeypatch.setattr(sys, "argv", ["worker", json.dumps(told), "0,1", "2", "kept"])
        monkeypatch.setattr(worker.pytest, "main", main)
        monkeypatch.setattr(worker.signal, "signal", lambda *how: handled.append(how))
        monkeypatch.setattr(os, "_exit", ends.append)
        worker.main("requests", "replies")
        assert handled == [(signal.SIGTERM, signal.default_int_handler)]
        return ends, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("collects", "code", "end", "text"),
    [
        (True, pytest.ExitCode.OK, 0, ""),
        (True, pytest.ExitCode.NO_TESTS_COLLECTED, 0, ""),
        (False, pytest.ExitCode.OK, 1, "pytest ended before it collected anything\n"),
        (False, pytest.ExitCode.NO_TESTS_COLLECTED, 1, "pytest ended before it collected anything\n"),
        (False, pytest.ExitCode.USAGE_ERROR, 1, ""),
    ],
)
def test_a_worker_that_collects_nothing_ends_with_code_1(started, collects, code, end, text):
    assert started(collects, code) == ([end], text)


def test_of_two_skips_the_first_is_told(side):
    side.reports = [ended_report("call", "skipped", "first"), ended_report("teardown", "skipped", "second")]
    assert side.ended("a") == {"skipped": "first"}
