"""Tests and options that cannot be compared are one clear line, and leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .made import FLAT_TESTS, QUICK, Gated, Repository, environment, eventually, flat, work

FILE = "benchmarks/test_sorting.py"
HEAD = """import os

import numpy as np
import pytest

from toy import sorting


def counted():
    np.sort(np.zeros(200))
    return 1


"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("input") / "toy", flat())
    yield toy
    assert toy.leftovers() == []


CHANGED = {"toy/sorting.py": work(slow=101, kept=100)}
TESTS = {
    "never": ("def test_never(benchmark):\n    pass\n", "it never calls benchmark: call benchmark(function, ...)"),
    "twice": (
        "def test_twice(benchmark):\n    benchmark(counted)\n    benchmark(counted)\n",
        "its test failed: it calls benchmark twice: split the test",
    ),
    "awaited": (
        "async def awaited():\n    pass\n\n\ndef test_awaited(benchmark):\n    benchmark(awaited)\n",
        "its test failed: the timed function is async, so a call does no work",
    ),
    "teardown": (
        "@pytest.fixture\ndef left():\n    yield\n    assert 100 not in sorting.slow.__code__.co_consts\n\n\n"
        "def test_teardown(benchmark, left):\n    benchmark(counted)\n",
        "base: its teardown failed: AssertionError",
    ),
    "assertion": (
        "def test_assertion(benchmark):\n    assert benchmark(counted) == 2\n",
        "head: its test failed: AssertionError: assert 1 == 2",
    ),
    "one_side": (
        "def test_one_side(benchmark):\n    benchmark(counted)\n    assert 101 in sorting.slow.__code__.co_consts\n",
        "base: its test failed: AssertionError",
    ),
    "skipped": (
        "def test_skipped(benchmark):\n    if 100 in sorting.slow.__code__.co_consts:\n"
        "        pytest.skip('not here')\n"
        "    benchmark(counted)\n",
        "base: skipped: not here",
    ),
    "fixture": (
        "@pytest.fixture\ndef made():\n    if 100 in sorting.slow.__code__.co_consts:\n"
        "        raise OSError('no server')\n\n\ndef test_fixture(benchmark, made):\n"
        "    benchmark(sorting.kept, np.arange(10.0))\n",
        "base: its set-up failed: OSError: no server",
    ),
    "exits": ("def test_exits(benchmark):\n    benchmark(os._exit, 3)\n", "ended with code 3"),
    "grows": (
        "HELD = []\n\n\ndef grow():\n    HELD.append(1)\n    return np.sort(np.zeros(200 + 2 * len(HELD)))[0]\n\n\n"
        "def test_grows(benchmark):\n    assert benchmark(grow) == 0\n",
        "its samples drift by +",
    ),
    "runs_out": (
        "LEFT = list(range(90))\n\n\ndef take():\n    np.sort(np.zeros(500))\n    return LEFT.pop()\n\n\n"
        "def test_runs_out(benchmark):\n    benchmark(take)\n",
        "IndexError: pop from empty list",
    ),
}
OTHER = "def test_other(benchmark):\n    benchmark(sorting.kept, np.arange(10.0))\n"
# half of all tests are errors at once; the drift, seen after three pairs, makes them more than half
OTHERS = [OTHER.replace("other", f"other_{number}") for number in range(len(TESTS) - 3)]


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    toy.at("start")
    toy.commit("tests", {FILE: "\n\n".join([HEAD + OTHER, *OTHERS, *(text for text, _ in TESTS.values())])})
    toy.at("tests", CHANGED)
    yield toy.gate("HEAD", tmp_path_factory.mktemp("ran"), rule="screen=3,confirm=1,looks=1,blocks=4,level=0.5")
    assert toy.leftovers() == []


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_cannot_be_timed_is_an_error_with_its_reason(ran, name):
    verdict, said = ran.findings[f"{FILE}::test_{name}"]
    assert verdict == "error"
    assert TESTS[name][1] in said
    assert f"{FILE}::test_{name}: error, " in ran.text


def test_a_run_with_mostly_errors_is_invalid_and_times_the_others(ran):
    assert ran.code == 2, ran.text
    assert ran.findings[f"{FILE}::test_other"][0] != "error"
    assert "Traceback" not in ran.text


@pytest.fixture(scope="module")
def passed(toy, tmp_path_factory):
    skips = FLAT_TESTS.replace("def test_slow", "@pytest.mark.skip(reason='later')\ndef test_slow")
    toy.at("start", {**CHANGED, FILE: f"{skips}\n\n{TESTS['fixture'][0]}"})
    yield toy.gate("HEAD", tmp_path_factory.mktemp("passed"), rule=QUICK)
    assert toy.leftovers() == []


def test_a_new_test_whose_fixture_needs_what_base_lacks_is_new(passed):
    assert passed.code == 0, passed.text
    assert passed.findings[f"{FILE}::test_fixture"] == ("new", "base: its set-up failed: OSError: no server")


def test_a_test_that_skips_on_both_sides_is_skipped(passed):
    assert passed.findings[f"{FILE}::test_slow"][0] == "skipped"
    assert "1 skipped" in passed.text


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (
            {FILE: HEAD + "def test_it():\n    pass\n"},
            [],
            "no benchmark is selected: none of 1 test uses the fixture or mark benchmark",
        ),
        ({}, ["-k", "nothing"], "no test is selected: -k 'nothing' matches none; change the selection"),
        ({}, ["-n", "2"], "--gate-against: tests that run in parallel disturb the timing: add -n 0"),
        ({}, ["--gate-build", "make 'all"], '--gate-build: "make \'all" is not a shell command: No closing quotation'),
        ({}, ["--gate-benchmarks", "nowhere"], "--gate-benchmarks nowhere: give an existing file or folder of this"),
        ({}, ["--gate-benchmarks", "."], "no package under test: all modules are benchmarks, in .; "),
        ({}, ["--gate-build", "python -c 'raise SystemExit(\"no compiler\")'"], "the build failed: no compiler"),
        ({}, ["--gate-shard", "3/2"], "--gate-shard '3/2': write I/N, for example 2/4"),
        (
            {"pyproject.toml": "[tool.rlgauge]\nbuilds = 1\n"},
            [],
            "pyproject.toml, line 2, tool.rlgauge.builds: unknown",
        ),
    ],
)
def test_a_mistake_is_one_line(toy, tmp_path, files, options, message):
    toy.at("start", {**CHANGED, **files})
    ran = toy.gate("HEAD", tmp_path, *options, rule=QUICK)
    assert ran.code in (2, 4), ran.text
    assert ran.only_says(message), ran.text
    assert not (tmp_path / "gate.json").exists()
    assert toy.leftovers() == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path):
    toy = Repository(tmp_path / "toy", flat())
    toy.write({".git/rlgauge": "a file", **CHANGED})
    ran = toy.gate("HEAD", tmp_path, rule=QUICK)
    assert ran.code == 2
    assert ran.only_says(f"{toy.root / '.git/rlgauge'}"), ran.text


def test_sides_that_do_not_fit_on_the_disk_are_one_line_and_leave_nothing(toy, tmp_path):
    toy.at("start", {**CHANGED, "large.bin": "0" * (3 << 20)})
    limited = ["bash", "-c", 'ulimit -f 2048; exec "$@"', "bash", sys.executable, "-m"]  # of 1 KiB
    command = [*limited, *map(str, toy.command("HEAD", tmp_path, rule=QUICK))]
    done = subprocess.run(command, cwd=toy.root, env=environment(), capture_output=True, text=True, timeout=60)
    ran = Gated(done.returncode, done.stdout + done.stderr)
    assert ran.code == 2
    assert ran.only_says("File too large"), ran.text
    assert toy.leftovers() == []


def test_an_option_without_an_equals_sign_is_explained(toy, tmp_path):
    (tmp_path / "there.json").touch()
    toy.at("start", CHANGED)
    code, text = toy.run("pytest", "--gate-against=HEAD", "--gate-markdown", tmp_path / "there.json")
    assert code == 2
    assert f"is above the repository {toy.root}: write --gate-json=FILE with =, not a space" in text


def test_a_package_that_is_not_of_its_own_side_is_an_error(toy, tmp_path):
    elsewhere = tmp_path / "site" / "toy"
    elsewhere.mkdir(parents=True)
    for name, content in {"__init__.py": "", "sorting.py": work(slow=100, kept=100)}.items():
        (elsewhere / name).write_text(content)
    front = f"import sys\n\nsys.path.insert(0, {str(elsewhere.parent)!r})\n"
    toy.at("start", {**CHANGED, "benchmarks/conftest.py": front})
    ran = toy.gate("HEAD", tmp_path, rule=QUICK)
    assert ran.code == 2
    assert f"base imports toy from {elsewhere / '__init__.py'} instead of its own tree" in ran.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(toy, tmp_path, number):
    toy.at("start", CHANGED)
    process = toy.start(*toy.command("HEAD", tmp_path, rule="screen=1000"))
    assert eventually(lambda: list(toy.root.glob(".git/rlgauge/run-*/head.output")), 60)
    process.send_signal(number)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 2, text
    assert "passed" not in text
    assert " interrupted: no verdict !" in text
    assert "interrupts.py" not in text
    assert [path.name for path in tmp_path.iterdir()] in ([], ["junit.xml"])  # pytest's own, without a pass
    assert toy.leftovers() == []
