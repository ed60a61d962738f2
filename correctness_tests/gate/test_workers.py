"""The processes of a pair as the gate sees them: what they answer, how they end, what their end is called."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from correctness_tests.repositories.made import eventually
from rlgauge import workers
from rlgauge.workers import SIDE, Side, Worker, WorkerError, both

STAND_IN = """
import json, os, signal, subprocess, sys, time

for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "hang":
        time.sleep(600)
    if request["do"] == "leave":
        print("no room left", file=sys.stderr, flush=True)
        os._exit(3)
    if request["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if request["do"] == "long":
        request["text"] = "x" * 200_000
    if request["do"] == "where":
        request["where"] = os.getcwd(), os.environ["ITS"], os.getsid(0) == os.getpid()
    if request["do"] == "start":
        request["child"] = subprocess.Popen(["sleep", "600"]).pid
    print(json.dumps({**request, "arguments": sys.argv[1:]}), flush=True)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("side")
    (root / "stand_in.py").write_text(STAND_IN)
    return root


WORKER = "-m", "stand_in", "some", "words"


def worker(root, name="head", limit=30.0):
    return Worker(Side(name, root, Path(sys.executable), WORKER), [0, 1], 2, limit)


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_workers_answer_what_they_are_asked_on_their_cores_and_threads(root):
    with worker(root, "base") as base, worker(root) as head:
        answer = {"do": "prepare", "identity": "a", "arguments": ["some", "words", "0,1", "2", "kept"]}
        assert both([base, head], "prepare", identity="a") == [answer, answer]
        processes = [base.process, head.process]
    assert [process.returncode for process in processes] == [0, 0]


def ask(head, do, limit):
    """Ask a worker, once it has started."""
    both([head], "hello")
    head.limit = limit
    both([head], do)


@pytest.mark.parametrize(
    ("do", "limit", "words"),
    [
        ("hang", 0.2, r"^head: no answer in 0.2 s$"),
        ("leave", 30.0, r"^head: ended with code 3; no room left$"),
        ("die", 30.0, r"^head: killed by SIGKILL$"),
    ],
)
def test_a_worker_that_does_not_answer_is_ended_and_its_last_words_kept(root, do, limit, words):
    head = worker(root)
    with pytest.raises(WorkerError, match=words), head:
        ask(head, do, limit)
    assert head.process.returncode is not None


def test_what_a_worker_started_ends_with_it(root):
    with worker(root) as head:
        (answer,) = both([head], "start")
        assert alive(answer["child"])
    assert eventually(lambda: not alive(answer["child"]))


def test_a_worker_gets_another_hash_seed_each_time_and_nothing_of_this_run(root, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    side = Side("base", root, Path(sys.executable), WORKER, {"ITS": "own"})
    first, second = (side.environment() for _ in range(2))
    assert first["PYTHONHASHSEED"] != second["PYTHONHASHSEED"]
    assert (first["PYTHONPATH"], first[SIDE], first["ITS"]) == (str(root), "base", "own")
    assert not [name for name in first if name.startswith("PYTEST_")]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (b"first\nlast", "; last"),
        (b"first\n last \n\n", "; last"),
        (b"", ""),
        (b"\n", ""),
        (b"a\n\xff b\n", "; \ufffd b"),
    ],
)
def test_last_words_are_the_last_line_that_is_not_empty_whole_or_not(errors, words):
    assert Worker.last_words(SimpleNamespace(errors=io.BytesIO(errors))) == words


def test_a_worker_runs_in_its_side_s_folder_with_its_variables_and_memory_and_a_session_of_its_own(root):
    side = Side("base", root, Path(sys.executable), WORKER, {"ITS": "own"}, "default")
    with Worker(side, [3], 1, 30.0) as base:
        (answer,) = both([base], "where")
    assert answer["where"] == [str(root), "own", True]
    assert answer["arguments"] == ["some", "words", "3", "1", "default"]


def test_answers_come_one_by_one_in_the_order_of_the_questions_however_long_they_are(root):
    with worker(root) as head:
        for do in ("first", "long", "last"):
            head.ask(do, number=len(do))
        answers = [head.reply() for _ in range(3)]
    assert [(answer["do"], answer["number"]) for answer in answers] == [("first", 5), ("long", 4), ("last", 4)]
    assert answers[1]["text"] == "x" * 200_000


def test_all_workers_are_asked_before_an_answer_is_waited_for():
    done = []

    class Noting:
        def __init__(self, name):
            self.name = name

        def ask(self, do, **arguments):
            done.append((self.name, do, arguments))

        def reply(self):
            done.append(self.name)
            return {"name": self.name}

    assert both([Noting("base"), Noting("head")], "sample", samples=2) == [{"name": "base"}, {"name": "head"}]
    assert done == [("base", "sample", {"samples": 2}), ("head", "sample", {"samples": 2}), "base", "head"]


def test_one_that_has_died_says_so_whenever_it_is_asked_again(root):
    with worker(root, "base") as base:
        for _ in range(3):
            base.ask("leave")
            with pytest.raises(WorkerError, match=r"^base: ended with code 3; no room left$"):
                base.reply()


def test_the_variables_of_a_worker_are_this_process_s_but_for_what_would_lead_it_elsewhere(root, monkeypatch):
    for name in ("COV_CORE_SOURCE", "COVERAGE_PROCESS_START", "PYTEST_CURRENT_TEST", "GLIBC_TUNABLES"):
        monkeypatch.setenv(name, "given")
    monkeypatch.setenv("OTHER_PYTEST_COV_", "given")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    side = Side("head", root, Path(sys.executable), WORKER)
    given = side.environment()
    assert not {name for name in given if name.startswith(("COV", "PYTEST_", "GLIBC"))}
    assert (given["OTHER_PYTEST_COV_"], given["PYTHONPATH"], given[SIDE]) == ("given", str(root), "head")
    assert given["PYTHONDONTWRITEBYTECODE"] == "1"
    assert len({len(side.environment()["RLGAUGE_PADDING"]) for _ in range(20)}) > 1  # so that the stack is another
    own = {"PYTHONPATH": "/its/own", "PYTHONHASHSEED": "0", "PATH": "/bin"}
    given = Side("head", root, Path(sys.executable), WORKER, own).environment()
    assert {name: given[name] for name in own} == own
    assert all(0 <= int(side.environment()["PYTHONHASHSEED"]) < 1 << 32 for _ in range(20))


@pytest.fixture
def ending(monkeypatch):
    """End a worker whose process is a stand-in. -> what was done, in order"""

    def run(error=None, late=False, broken=False):
        done = []

        def close():
            done.append("told that there is no more")
            if broken:
                raise BrokenPipeError

        def wait(limit=None):
            done.append(limit)
            if late:
                raise subprocess.TimeoutExpired("a worker", limit)

        found = object.__new__(Worker)
        closing = {name: SimpleNamespace(close=lambda name=name: done.append(name)) for name in ("stdout", "errors")}
        found.errors = closing["errors"]
        found.process = SimpleNamespace(stdin=SimpleNamespace(close=close), stdout=closing["stdout"], wait=wait)
        monkeypatch.setattr(Worker, "end_group", lambda self: done.append("its group is ended"))
        found.__exit__(type(error) if error else None, error, None)
        return done

    return run


def test_a_worker_has_five_seconds_to_end_and_after_a_failure_one(ending):
    end = ["its group is ended", "stdout", "errors"]
    told = "told that there is no more"
    assert ending() == ending(late=True) == ending(broken=True) == [told, 5, *end]
    assert ending(WorkerError("no answer")) == ending(KeyboardInterrupt(), late=True) == [told, workers.GRACE, *end]
    assert workers.GRACE == 1.0


def test_the_limit_is_of_a_whole_answer_and_not_of_each_part_of_it(monkeypatch):
    clock, waits = [100.0], []

    def select(reading, writing, failing, seconds):
        waits.append(seconds)
        clock[0] += 4.0
        return (reading if seconds > 4 and len(waits) < 5 else []), [], []

    found = object.__new__(Worker)
    found.buffer, found.limit, found.side = b"", 10.0, SimpleNamespace(name="head")
    found.process, found.errors = SimpleNamespace(stdout=SimpleNamespace(fileno=lambda: -1)), io.BytesIO(b"waiting\n")
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(workers, "select", SimpleNamespace(select=select))
    monkeypatch.setattr(workers, "os", SimpleNamespace(read=lambda *of: b"a part"))
    with pytest.raises(WorkerError, match=r"^head: no answer in 10 s; waiting$"):
        found.reply()
    assert waits == [10.0, 6.0, 2.0]


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with code 0"), (3, "ended with code 3"), (-9, "killed by SIGKILL"), (-15, "killed by SIGTERM")],
)
def test_an_end_has_a_code_or_a_signal(code, words):
    assert Worker.cause(SimpleNamespace(process=SimpleNamespace(wait=lambda: code))) == words
