"""Workers that die, hang or are interrupted: a word about it, the others go on, and nothing is left behind."""

from __future__ import annotations

import shutil
import signal

import pytest

from .toy import CASES, FIRST, QUICK, SECOND, SLOWED, SOURCE, Toy, cases, ended, eventually, source

THIRD, FOURTH = "toy.third[full-numpy]", "toy.fourth[full-numpy]"
# a case is prepared by 10 calls
ENDINGS = """
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def ending(end):
    def build(spec, example, *, knobs, target):
        plain, calls = work(100, 1), itertools.count()

        def call(x):
            if next(calls) == 8:
                end()
            return plain(x)

        return call

    return build


def hang():
    Path(__file__).with_name("child").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    time.sleep(600)


def leave():
    print("no room left", file=sys.stderr, flush=True)
    os._exit(3)


def refusing(spec, example, *, knobs, target):
    raise KeyError("weights")


fourth = second
first = ending(lambda: os.kill(os.getpid(), signal.SIGKILL))
third = ending(leave)
"""
CLOSING = """
import os
import time


def first(spec, example, *, knobs, target):
    call = work(100, 1)
    call.close = lambda: {end}
    return call
"""
LONG = "screen=1000,confirm=7,blocks=2"
BISECT = ("rlgauge", "bisect", FIRST, "HEAD~1", "HEAD", "--rule", "confirm=1000,blocks=2")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("docs", {"README.md": "# A toy\n"}, after="start")
    toy.commit("slower", {SOURCE: source(first=110)}, after="start")
    four = {SOURCE: source(more="third = fourth = first"), CASES: cases("first", "second", "third", "fourth")}
    toy.commit("four", four, after="start")
    return toy


@pytest.fixture(autouse=True)
def tidied(toy):
    yield
    for folder in toy.root.glob(".cache/gate/run-*"):
        shutil.rmtree(folder)


@pytest.fixture
def started(toy):
    """Start a command, and wait until its workers measure. -> its process"""
    processes = []

    def start(*command):
        processes.append(toy.start(*command))
        assert eventually(lambda: list(toy.root.glob(".cache/gate/run-*/head.answer"))), processes[0].communicate(
            timeout=5
        )
        assert eventually(lambda: toy.processes("perf_tests.gate.worker")), "those of one pair may have ended"
        return processes[0]

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


WORDS = {FIRST: "head: killed by SIGKILL", THIRD: "head: ended with code 3; no room left"}


@pytest.fixture(scope="module")
def void(toy, tmp_path_factory):
    """A run in which the workers of two cases die and another cannot be prepared."""
    folder = tmp_path_factory.mktemp("void")
    toy.at("four", {SOURCE: source(more=ENDINGS + "second = refusing\n")})
    ran = toy.gate("HEAD", folder, "--junitxml", folder / "junit.xml", rule=QUICK)
    assert toy.leftovers() == []
    return ran


def test_workers_that_die_end_their_cases_alone(void):
    assert void.code == 2, void.text
    wanted = WORDS | {SECOND: "head: KeyError: 'weights'"}
    assert {name: void.findings[name] for name in wanted} == {name: ("error", words) for name, words in wanted.items()}
    assert (void.findings[FOURTH], void.findings[SLOWED]) == (("ok",), ("inconclusive",))  # it ends then
    for name, words in wanted.items():
        assert f"{name}: error, {words}" in void.text
        assert void.rows[name] == ["error", "", "", "", words]
    assert "invalid run, no verdict: 3 error, 1 ok, " in void.text
    assert "Traceback" not in void.text


def test_no_test_of_an_invalid_run_passes(void):
    assert {name: verdict for name, (verdict, *_) in void.junit.items()} == {
        FIRST: "error",
        SECOND: "error",
        THIRD: "error",
        FOURTH: "ok",
    }
    for name, (_, words) in void.junit.items():
        assert words.endswith(f"; invalid run: 3 of 4 tests could not be measured: {FIRST}: {WORDS[FIRST]}")
        assert f"\nFAILED {name} - " in void.text


@pytest.mark.slow
def test_a_worker_that_hangs_ends_its_case_alone(toy, tmp_path):
    toy.at("four", {SOURCE: source(more=ENDINGS + "second = ending(hang)\n")})
    ran = toy.gate("HEAD", tmp_path, "--gate-limit", "5", rule=QUICK)
    assert ran.code == 2, ran.text
    wanted = WORDS | {SECOND: "head: no answer in 5 s"}
    assert {name: ran.findings[name] for name in wanted} == {name: ("error", words) for name, words in wanted.items()}
    assert ran.findings[FOURTH] == ("ok",)
    assert toy.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(3)", "time.sleep(600)"])
def test_a_worker_that_fails_to_close_is_an_error_of_its_test_alone(toy, tmp_path, end):
    toy.at("start", {SOURCE: source(more=CLOSING.format(end=end))})
    ran = toy.gate("HEAD", tmp_path, "--gate-limit", "5", rule=QUICK)
    assert ran.code == 1, ran.text
    assert "failed: 1 error, 1 ok" in ran.text
    assert ("ended with code 3" if "exit" in end else "no answer in 5 s") in ran.text
    assert "WorkerError" not in ran.text  # of a traceback
    assert toy.leftovers() == []


@pytest.mark.slow
def test_a_worker_that_does_not_start_is_void_in_a_line(toy, tmp_path):
    toy.at("slower", {"perf_tests/gate/selfcheck/faults.py": "raise RuntimeError('no room')\n"})
    ran = toy.gate("HEAD~1", tmp_path, rule=QUICK)
    assert ran.code == 2
    assert "base: ended with code 1; RuntimeError: no room" in ran.text
    assert "Traceback" not in ran.text
    assert toy.leftovers() == []


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_an_interrupted_run_is_void_and_leaves_nothing(toy, tmp_path, started, number):
    toy.at("slower")
    process = started(*toy.gate_command("HEAD~1", tmp_path, rule=LONG))
    process.send_signal(number)
    ran = ended(process)
    assert ran.code == 2, ran.text
    assert "passed" not in ran.text
    assert not list(tmp_path.iterdir())
    assert toy.leftovers() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_leaves_nothing(toy, started, number):
    toy.at("slower")
    process = started(*BISECT)
    process.send_signal(number)
    ran = ended(process)
    assert ran.code != 0
    assert "slowed by" not in ran.text
    assert eventually(lambda: not toy.processes())
    assert toy.leftovers() == []


@pytest.mark.slow
def test_workers_of_a_killed_run_end_by_themselves_and_the_next_run_tidies_up(toy, tmp_path, started):
    toy.at("slower")
    process = started(*toy.gate_command("HEAD~1", tmp_path, rule=LONG))
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    assert eventually(lambda: not toy.processes())
    assert [path.name.split("-")[1] for path in toy.root.glob(".cache/gate/run-*")] == [str(process.pid)]
    toy.at("docs")
    assert toy.gate("HEAD~1", tmp_path).code == 0
    assert toy.leftovers() == []
