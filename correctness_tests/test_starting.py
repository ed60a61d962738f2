"""Worker processes forked from a server: their modules, cores and signals, and their end with their parent."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from correctness_tests.quick import quick
from correctness_tests.waiting import alive, started, state_of, until
from rl_impls.common.starting import PREALLOCATE, THREAD_VARIABLES, threads_of_started

ROOT = Path(__file__).parents[1]
SCRIPT = """
import json, multiprocessing, os, signal, sys
from multiprocessing import forkserver
from rl_impls.common.starting import THREAD_VARIABLES
from rl_impls.common.workers import Workers


class Reporter:
    def __init__(self):
        self.found = "rl_impls.common.batching" in sys.modules

    def report(self):
        modules = [module.__file__ for name, module in sys.modules.items() if name.startswith("rl_impls")]
        variables = [os.environ[name] for name in THREAD_VARIABLES]
        return {"found": self.found, "modules": modules, "variables": variables, "cores": len(os.sched_getaffinity(0)),
                "pid": os.getpid()}

    def large(self):
        return bytes(100_000_000)


def say(threads=1):
    workers = Workers(2, Reporter, lambda index, life: (), threads, needs=("rl_impls.common.batching",))
    workers.tell([("report",)] * 2)
    return workers, workers.answers()


if __name__ == "__main__":
    ONE
"""


def script(tmp_path, lines):
    """Return a command that runs these lines in a directory with a wrong ``rl_impls``, and its process's options."""
    (tmp_path / "rl_impls").mkdir()
    (tmp_path / "rl_impls" / "__init__.py").write_text("raise RuntimeError('the wrong rl_impls was imported')")
    path = tmp_path / "elsewhere" / "script.py"
    path.parent.mkdir()
    path.write_text(SCRIPT.replace("ONE", "\n    ".join(lines)))
    return [sys.executable, str(path)], {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}}


def said(tmp_path, *lines):
    command, options = script(tmp_path, lines)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_single_threaded_workers_are_forked_onto_the_parents_present_cores_and_others_are_spawned(tmp_path):
    forked, spawned, cores = said(
        tmp_path,
        "os.sched_setaffinity(0, range(os.cpu_count()))  # this test may have fewer",
        "found = [say(threads)[1] for threads in (1, 2)]",
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the fork server keeps all",
        "print(json.dumps([*found, [each['cores'] for each in say()[1]]]))",
    )
    for threads, answers in ((1, forked), (2, spawned)):
        assert [each["found"] for each in answers] == [threads == 1] * 2
        for each in answers:
            assert each["variables"] == [str(threads)] * len(THREAD_VARIABLES)
            assert all(Path(path).is_relative_to(ROOT) for path in each["modules"])
    assert cores == [1, 1]


@pytest.mark.parametrize("preallocate", [None, "true"])
def test_variables_are_set_only_while_a_process_starts(monkeypatch, preallocate):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.delenv(PREALLOCATE, raising=False)
    if preallocate:
        monkeypatch.setenv(PREALLOCATE, preallocate)
    with threads_of_started(2):
        assert {os.environ[name] for name in THREAD_VARIABLES} == {"2"}
        assert os.environ["NPROC"] == "2"
        assert os.environ[PREALLOCATE] == ("true" if preallocate else "false")
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    assert os.environ.get(PREALLOCATE) == preallocate


def test_workers_are_spawned_where_the_temporary_path_is_too_long_for_a_socket(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("long" * 30)))
    (tmp_path / ("long" * 30)).mkdir()
    assert [each["found"] for each in said(tmp_path, "print(json.dumps(say()[1]))")] == [False] * 2


@pytest.mark.parametrize("number", quick([signal.SIGINT], [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_workers_survive_a_group_signal_that_the_parent_handles(tmp_path, number):
    before, after = said(
        tmp_path,
        "os.setsid()",
        f"signal.signal({int(number)}, lambda *_: None)",
        "workers, before = say()",
        f"os.killpg(0, {int(number)})",
        "workers.tell([('report',)] * 2)",
        "print(json.dumps([before, workers.answers()]))",
    )
    assert [each["pid"] for each in before] == [each["pid"] for each in after]


EARLIER = """
import tempfile
folder = tempfile.TemporaryDirectory()  # so that its finalizer and those after it run after multiprocessing's
"""


def test_stopped_worker_does_not_keep_the_parent_from_ending(tmp_path):
    lines = [
        "workers, found = say()",
        "print(json.dumps([each['pid'] for each in found]), flush=True)",
        "sys.stdin.read()",
    ]
    command, options = script(tmp_path, lines)
    path = Path(command[1])
    path.write_text(EARLIER + path.read_text())
    with started(command, stdin=subprocess.PIPE, **options) as first:
        pids = json.loads(first.stdout.readline())
        os.kill(pids[0], signal.SIGSTOP)
        until(lambda: state_of(pids[0]) == "T", "the worker to stop")
        first.stdin.close()
        assert first.wait(20) == 0
    until(lambda: not any(map(alive, pids)), "the end of the workers")


def test_worker_that_writes_an_answer_ends_with_its_parent(tmp_path):
    lines = [
        "workers, found = say()",
        "workers.tell([('large',)] * 2)",
        "print(json.dumps([each['pid'] for each in found]), flush=True)",
        "sys.stdin.read()",
    ]
    command, options = script(tmp_path, lines)
    with started(command, stdin=subprocess.PIPE, **options) as first:
        pids = json.loads(first.stdout.readline())
        first.kill()
        until(lambda: not any(map(alive, pids)), "the end of the workers")


FAST = [(os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT), (os.kill, signal.SIGKILL), (None, None)]
SIGNALS = [*FAST, (os.kill, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.killpg, signal.SIGHUP)]


@pytest.mark.parametrize(("send", "how"), quick(FAST, SIGNALS))
def test_workers_end_with_their_parent_and_leave_no_file(tmp_path, tmp_path_factory, send, how):
    lines = [
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it",
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this one",
        "workers, found = say()",
        "pids = forkserver._forkserver._forkserver_pid, *(each['pid'] for each in found)",
        "print(json.dumps(pids), flush=True)",
        "sys.stdin.read()",
    ]
    command, options = script(tmp_path, lines)
    temporary = tmp_path_factory.mktemp("t")  # a short path, for a socket
    options["env"] |= {"TMPDIR": str(temporary)}
    with started(command, stdin=subprocess.PIPE, start_new_session=True, stderr=subprocess.DEVNULL, **options) as first:
        pids = json.loads(first.stdout.readline())
        assert len(pids) == 3
        assert all(map(alive, pids))
        assert len(list(temporary.iterdir())) == 1
        send(first.pid, how) if send else first.stdin.close()
        first.wait()
        until(lambda: not any(map(alive, pids)), "the end of the workers")
    assert list(temporary.iterdir()) == []
