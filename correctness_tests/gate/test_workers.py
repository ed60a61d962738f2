"""Worker processes: replies, environments, and the errors of workers that die or hang."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from correctness_tests.repositories.made import eventually
from correctness_tests.waiting import alive
from rlgauge.pairs import Pairs
from rlgauge.sampling import cores
from rlgauge.workers import SIDE, Side, Worker, WorkerError, ask_both

STAND_IN = """
import json, os, signal, subprocess, sys, time

os.makedirs(os.environ["RLGAUGE_TEMPORARY"])
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "hang":
        time.sleep(600)
    while request["do"] == "drip":
        sys.stdout.write("x")
        sys.stdout.flush()
        time.sleep(0.05)
    if request["do"] == "leave":
        print("no room left", file=sys.stderr, flush=True)
        os._exit(3)
    if request["do"] == "errors":
        sys.exit("E   ModuleNotFoundError: No module named 'a'\\nE   KeyError: 'b'\\n2 errors in 0.1s")
    if request["do"] == "usage":
        sys.exit("ERROR: usage: pytest.main()\\npytest.main(): error: unrecognized arguments: --a\\n  rootdir: /")
    if request["do"] == "orphan" and os.fork() == 0:
        time.sleep(600)
    if request["do"] in ("die", "orphan"):
        os.kill(os.getpid(), signal.SIGKILL)
    if request["do"] == "where":
        request["where"] = os.getcwd(), os.environ["ITS"], os.getsid(0) == os.getpid()
    if request["do"] == "seed":
        request["seed"] = os.environ["PYTHONHASHSEED"]
    if request["do"] == "ignore":  # as the process that it starts does, too
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if request["do"] in ("start", "ignore"):
        request["child"] = subprocess.Popen(["sleep", "600"]).pid
    if request["do"] == "stop":
        script = "trap ': > terminated; exit' TERM; echo; while :; do sleep 0.01; done"
        child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
        child.stdout.readline()  # it has set its trap
        child.send_signal(signal.SIGSTOP)
    print(json.dumps({**request, "arguments": sys.argv[1:]}), flush=True)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("side")
    (root / "stand_in.py").write_text(STAND_IN)
    return root


WORKER = "-m", "stand_in", "some", "words"


def worker(root):
    return Worker(Side("head", root, Path(sys.executable), WORKER), [0, 1], 2, 30.0)


def ask(head, do, limit):
    """Wait until a worker has started, then send it a request."""
    ask_both([head], "hello")
    head.limit = limit
    ask_both([head], do)


@pytest.mark.parametrize(
    ("do", "limit", "words"),
    [
        ("hang", 0.2, r"^head: no reply within 0.2 s; if listing the tests, preparing a test or two calls of it may "),
        ("drip", 0.5, r"^head: no reply within 0.5 s; "),
        ("leave", 30.0, r"^head: the process of the tests ended with code 3; no room left$"),
        ("errors", 30.0, r"ended with code 1; ModuleNotFoundError: No module named 'a'$"),
        ("usage", 30.0, r"^head: the process of the tests ended with code 1; unrecognized arguments: --a$"),
        ("die", 30.0, r"was killed by SIGKILL, perhaps because both sides together need too much memory$"),
        ("orphan", 30.0, r"^head: the process of the tests was killed by SIGKILL, "),
    ],
)
def test_a_worker_without_a_reply_is_ended_with_a_reason(root, do, limit, words):
    head = worker(root)
    with pytest.raises(WorkerError, match=words), head:
        ask(head, do, limit)
    assert head.process.returncode is not None
    assert not Path(head.temporary).exists()


@pytest.mark.parametrize("do", ["start", "ignore"])
def test_processes_that_a_worker_started_end_with_it_although_they_ignore_sigterm(root, do):
    with worker(root) as head:
        (reply,) = ask_both([head], do)
        assert alive(reply["child"])
    assert eventually(lambda: not alive(reply["child"]))


def test_a_stopped_process_that_a_worker_started_can_handle_sigterm(root):
    with worker(root) as head:
        ask_both([head], "stop")
    assert (root / "terminated").exists()


def test_a_worker_runs_in_its_own_folder_variables_memory_and_session(root):
    side = Side("base", root, Path(sys.executable), WORKER, {"ITS": "own"}, "default")
    with Worker(side, [3], 1, 30.0) as base:
        (reply,) = ask_both([base], "where")
    assert reply["where"] == [str(root), "own", True]
    assert reply["arguments"] == ["some", "words", "3", "1", "default"]


def test_a_worker_gets_the_environment_without_variables_of_this_run(root, monkeypatch):
    for name in ("COV_CORE_SOURCE", "COVERAGE_PROCESS_START", "PYTEST_ADDOPTS", "GLIBC_TUNABLES", "PYTEST_OF_PROJECT"):
        monkeypatch.setenv(name, "given")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    side = Side("head", root, Path(sys.executable), WORKER, {"ITS": "own"})
    given = side.environment()
    assert [name for name in given if name.startswith(("COV", "PYTEST_", "GLIBC"))] == ["PYTEST_OF_PROJECT"]
    assert (given["PYTEST_OF_PROJECT"], given["PYTHONPATH"], given[SIDE], given["ITS"]) == (
        "given", str(root), "head", "own",
    )  # fmt: skip
    assert len({len(side.environment()["RLGAUGE_PADDING"]) for _ in range(20)}) > 1  # it shifts the stack


@pytest.mark.parametrize(("all_cores", "hashes"), [(False, "random"), (True, "random"), (False, "0")])
def test_both_sides_of_a_pair_have_the_same_hash_seed_and_threads(root, all_cores, hashes, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", hashes)
    place, seeds = cores(all_cores), []
    sides = [Side(name, root, Path(sys.executable), WORKER) for name in ("base", "head")]
    measuring = Pairs(sides, 1, 30.0, {}, None, random.Random(0))
    for _ in range(2):
        with measuring.workers(place) as workers:
            assert [worker.side.name for worker in workers] == ["base", "head"]
            base, head = ask_both(workers, "seed")
        assert base["seed"] == head["seed"]
        given = [str(len(os.sched_getaffinity(0)) if all_cores else 1), "kept"]  # threads and memory
        assert base["arguments"][3:] == head["arguments"][3:] == given
        seeds.append(base["seed"])
    assert len({*seeds}) == (1 if hashes == "0" else 2)


def test_interpreter_options_that_change_the_time_are_passed_to_workers():
    command = "from rlgauge.workers import interpreter_options; print(*interpreter_options())"
    options = "-O", "-X", "utf8", "-X", "int_max_str_digits=0"
    done = subprocess.run([sys.executable, *options, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-O", "-X", "utf8", "-X", "int_max_str_digits=0"]


def test_tests_of_a_file_run_one_after_the_other_in_pytests_order_or_its_reverse(tmp_path):
    pairs = Pairs((), 1, 1.0, {}, tmp_path, random.Random(0))
    names = [f"{file}.py::test[{number}]" for file in "ab" for number in range(4)]
    orders = {tuple(pairs.shuffled(names)) for _ in range(3000)}
    assert len(orders) == 2 * 8 * 8  # of files, and for each of them its first test and the direction
    for order in orders:
        for part in (order[:4], order[4:]):
            numbers = [names.index(name) for name in part]
            assert {(after - before) % 4 for before, after in itertools.pairwise(numbers)} in ({1}, {3})
