"""Workers that die, hang or are interrupted: an error is shown, other tests go on, and nothing is left behind."""

import shutil
import signal
from pathlib import Path

import pytest

from correctness_tests.waiting import alive
from rlgauge.__main__ import main

from .made import CLOCK, QUICK, SLOWED, Gated, Repository, eventually, flat, work

FILE = "benchmarks/test_endings.py"
KILLED, LEAVES, KEPT = (f"{FILE}::test_{name}" for name in ("killed", "leaves", "kept"))
TESTS = """import os
import subprocess
import time
from multiprocessing import resource_tracker, shared_memory

import pytest

from toy import endings

NUMBERS = [*range(50)]


@pytest.mark.parametrize("end", ["exits", "quits", "sleeps"])
def test_closing(benchmark, end):
    benchmark(endings.kept, NUMBERS)
    getattr(endings, end)()


@pytest.mark.parametrize("name", ["hangs"])
def test_hanging(benchmark, name):
    benchmark(endings.hangs, NUMBERS)


class Held:
    def __init__(self):
        self.memory = shared_memory.SharedMemory(create=True, size=8)
        tracker = resource_tracker.getfd()  # children of multiprocessing have it too
        self.child = subprocess.Popen(["sleep", "600"], pass_fds=[tracker])
        with open(os.environ["HELD"], "a") as file:
            print(self.child.pid, self.memory.name, file=file)

    def close(self):
        self.child.kill()
        self.child.wait()
        self.memory.close()
        self.memory.unlink()


def test_killed(benchmark, request):
    request.addfinalizer(Held().close)
    benchmark(endings.killed, NUMBERS)


"""
TESTS += "\n\n".join(
    f"def test_{name}(benchmark):\n    benchmark(endings.{name}, NUMBERS)\n" for name in ("leaves", "kept")
)
BEFORE = """from .sorting import kept

hangs = killed = leaves = kept


def exits():
    pass


quits = sleeps = exits
"""
AFTER = """import itertools
import os
import signal
import subprocess
import time

import pytest

from .sorting import kept


def ending(end):
    calls = itertools.count()

    def call(numbers):
        if next(calls) == 5:
            end()
        return kept(numbers)

    return call


def sleeps():
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)


def exits():
    os._exit(3)


def quits():
    pytest.exit("no display")


killed, leaves, hangs = ending(lambda: os.kill(os.getpid(), signal.SIGKILL)), ending(exits), ending(sleeps)
"""
LONG = "screen=1000,confirm=7,blocks=2"
SLOW = "benchmarks/test_sorting.py::test_slow"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("endings") / "toy", flat())
    toy.commit("slower", {"toy/sorting.py": work(slow=110, kept=100)})
    toy.at("start")
    toy.commit("endings", {FILE: TESTS, "toy/endings.py": BEFORE, "benchmarks/test_sorting.py": None})
    return toy


@pytest.fixture(autouse=True)
def tidied(toy):
    yield
    for folder in toy.root.glob(".git/rlgauge/run-*"):
        shutil.rmtree(folder)


@pytest.fixture
def started(toy):
    """Return a function that starts a command, waits until its workers measure and returns the process."""
    processes = []

    def start(*command):
        processes.append(toy.start(*command))
        assert eventually(lambda: list(toy.root.glob(".git/rlgauge/run-*/head.output")), 60)
        assert eventually(toy.processes), "no worker runs"
        return processes[0]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def ended(process, folder=None):
    text, _ = process.communicate(timeout=60)
    return Gated(process.returncode, text, folder)


WORDS = {
    KILLED: "head: the process of the tests was killed by SIGKILL",
    LEAVES: "head: the process of the tests ended with code 3",
}


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    """A run with an anchor, in which the workers of two of three tests die."""
    toy.at("endings", {"toy/endings.py": AFTER})
    folder = tmp_path_factory.mktemp("ran")
    options = "-k", "killed or leaves or kept", "--gate-anchor=HEAD"
    ran = toy.gate("HEAD", folder, *options, rule=QUICK, HELD=folder / "held")
    assert toy.leftovers() == []
    return ran


def test_workers_that_die_end_their_tests_alone(ran):
    assert ran.code == 2, ran.text
    assert (ran.findings[KEPT], ran.findings[SLOWED]) == (("ok",), ("inconclusive",))  # the run stopped early
    for name, words in WORDS.items():
        assert f"\n{name}: error, {words}" in ran.text
        assert ran.text.count(f"{name}: ") == 1
        assert f"\nFAILED {name}" in ran.text
        verdict, *empty, why = ran.rows[name]
        assert (verdict, *empty) == ("error", "", "", "", "", "")
        assert why.startswith(words)
    assert "gate: stopping early: no further pair could make this run valid\n" in ran.text
    assert "invalid run, no verdict: 2 error, 1 ok, " in ran.text
    assert "\n2 of 3 tests could not be measured; fix the errors\n" in ran.text
    assert ran.markdown.splitlines()[0].endswith(": invalid run, no verdict")
    assert "FAILURES" not in ran.text
    assert "Traceback" not in ran.text
    assert main(["replay", str(ran.folder / "gate.json")]) == 2


def test_the_anchor_is_not_measured_if_the_comparison_with_base_is_invalid(ran):
    assert ran.artifact["anchor"] is None
    assert "gate: the anchor is not measured: the comparison with base is invalid\n" in ran.text


def test_a_killed_worker_leaves_no_shared_memory_and_no_process(ran):
    held = [line.split() for line in (ran.folder / "held").read_text().splitlines()]
    assert len(held) >= 2, "both sides hold some"
    for child, memory in held:
        assert not alive(child)
        assert not Path("/dev/shm", memory).exists()


def test_no_failed_test_of_an_invalid_run_passes(ran):
    assert {name: verdict for name, (verdict, *_) in ran.junit.items()} == {
        "test_killed": "error",
        "test_leaves": "error",
        "test_kept": "ok",
    }
    for _, words in ran.junit.values():
        assert words.endswith("\ninvalid run: 2 of 3 tests could not be measured; fix the errors")
    assert ran.junit["test_kept"][1].startswith("invalid run, no verdict\nok, ")


@pytest.fixture(scope="module")
def unwritten(toy, tmp_path_factory):
    """A run whose code under test has an exit function, and makes gate.md a folder."""
    folder = tmp_path_factory.mktemp("unwritten")
    path = folder / "gate.md"
    module = f"""{BEFORE}

import atexit
import pathlib
import shutil
import tempfile

FOLDER = tempfile.mkdtemp(dir={str(folder)!r}, prefix="temporary-")
atexit.register(shutil.rmtree, FOLDER)


def kept(numbers, kept=kept):
    pathlib.Path({str(path)!r}).mkdir(exist_ok=True)
    return kept(numbers)
"""
    toy.at("endings", {"toy/endings.py": module})
    return toy.gate("HEAD", folder, KEPT, rule=QUICK)


def test_exit_functions_of_the_project_run_in_workers(unwritten):
    assert unwritten.findings[KEPT] == ("ok",), unwritten.text
    assert not list(unwritten.folder.glob("temporary-*"))


def test_a_file_that_cannot_be_written_in_the_end_is_a_line_and_the_measurements_are_kept(unwritten):
    assert unwritten.code == 2, unwritten.text
    assert f"--gate-markdown {unwritten.folder / 'gate.md'}: cannot be written: Is a directory" in unwritten.text
    assert SLOWED in unwritten.text, "the verdicts are printed"
    assert "passed: " not in unwritten.text
    assert unwritten.artifact["records"][KEPT]["screen"]


def test_a_run_that_no_worker_can_continue_keeps_its_measurements(toy, tmp_path):
    fails = f"""{CLOCK}

import pathlib

starts = pathlib.Path({str(tmp_path)!r}, "starts")
if os.environ.get("RLGAUGE_GATE_SIDE") == "head":
    with starts.open("a") as file:
        file.write("x")
    if starts.stat().st_size > 2:
        raise OSError("no space left")
"""
    toy.at("endings", {"benchmarks/conftest.py": fails, "toy/endings.py": f"{BEFORE}# changed"})
    ran = toy.gate("HEAD", tmp_path, KEPT, rule=QUICK.replace("screen=1", "screen=2"), code=2)
    assert "OSError: no space left; " in ran.text
    assert "to resume, repeat the command with --gate-resume" in ran.text
    assert toy.processes() == []
    assert len(ran.artifact["records"][KEPT]["screen"]) == 1


@pytest.mark.slow
def test_a_worker_that_hangs_or_leaves_while_its_test_ends_is_an_error_of_that_test_alone(toy, tmp_path):
    toy.at("endings", {"toy/endings.py": AFTER})
    ran = toy.gate("HEAD", tmp_path, "-k", "hanging or closing or kept", "--gate-limit", "15", rule=QUICK)
    for name, words in (
        ("test_hanging[hangs]", "head: no reply within 15 s"),
        ("test_closing[sleeps]", "head: no reply within 15 s"),
        ("test_closing[exits]", "head: the process of the tests ended with code 3"),
        ("test_closing[quits]", "head: the process of the tests ended with code 0; Exit: no display"),
    ):
        verdict, why = ran.findings[f"{FILE}::{name}"]
        assert (verdict, why[: len(words)]) == ("error", words), ran.text
    assert ran.findings[KEPT] == ("ok",)
    assert "WorkerError" not in ran.text  # no traceback
    assert toy.leftovers() == []


@pytest.mark.slow
def test_an_interrupted_search_leaves_nothing(toy, started):
    toy.at("slower")
    process = started("rlgauge", "bisect", SLOW, "start", "HEAD", "--rule", "confirm=1000,blocks=2")
    process.send_signal(signal.SIGTERM)
    ran = ended(process)
    assert ran.code != 0
    assert "slowed by" not in ran.text
    assert eventually(lambda: not toy.processes())
    assert toy.leftovers() == []


@pytest.mark.slow
def test_workers_of_a_killed_run_end_by_themselves_and_the_next_run_tidies_up(toy, tmp_path, started):
    toy.at("slower")
    process = started(*toy.command("start", tmp_path, rule=LONG))
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    assert eventually(lambda: not toy.processes())
    assert [path.name.split("-")[1] for path in toy.root.glob(".git/rlgauge/run-*")] == [str(process.pid)]
    toy.at("start", {"README.md": "# A toy\n"})
    assert toy.gate("HEAD", tmp_path).code == 0
    assert toy.leftovers() == []
