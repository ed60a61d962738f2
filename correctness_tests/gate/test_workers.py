"""The processes of a pair as the gate sees them: what they answer, how they end, what their end is called."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlgauge.workers import SIDE, Side, Worker, WorkerError, both

from .toy import eventually

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
    ("errors", "words"), [(b"first\nlast", "; last"), (b"first\n last \n\n", "; last"), (b"", ""), (b"\n", "")]
)
def test_last_words_are_the_last_line_that_is_not_empty_whole_or_not(errors, words):
    assert Worker.last_words(SimpleNamespace(errors=io.BytesIO(errors))) == words
