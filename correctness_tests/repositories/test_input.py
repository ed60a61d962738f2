"""Invalid tests and options: an error of one line, and nothing is left behind."""

import re
import subprocess
import sys

import pytest

from rlgauge.allowed import check_allowed
from rlgauge.rule import GateError

from .made import QUICK, Gated, Repository, environment, flat, tidy, work

FILE = "benchmarks/test_sorting.py"
CHANGED = {"toy/sorting.py": work(slow=101, kept=100)}
NEEDS_NEW = {"toy/new.py": "VALUE = 1\n", "benchmarks/conftest.py": "from toy.new import VALUE\n"}
READS_IGNORED = {
    "benchmarks/conftest.py": "open('benchmarks/local.json').close()\n", "benchmarks/local.json": "{}",
    ".gitignore": "__pycache__/\nlocal.json\n",
}  # fmt: skip

toy = tidy(flat())


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (NEEDS_NEW, [], "ended with code 1; benchmarks/conftest.py cannot be imported "
         "on this side: "
         "ModuleNotFoundError: No module named 'toy.new'; both sides use"),
        (READS_IGNORED, [], "ended with code 1; benchmarks/conftest.py cannot be imported "
         "on this side: "
         "FileNotFoundError: [Errno 2] No such file or directory: 'benchmarks/local.json'"),
        ({"own.ini": "[pytest]\n", ".gitignore": "__pycache__/\nown.ini\n"}, ["-c", "own.ini"],
         "git ignores own.ini, pytest's configuration file, so neither side has it; remove it from .gitignore"),
        ({"ci/own.ini": "[pytest]\n"}, ["-c", "ci/own.ini"], "/benchmarks/test_sorting.py is outside rootdir "),
        ({}, ["--gate-limit=0.01"],
         "base: no reply within 0.01 s; if listing the tests, preparing a test or two calls of it may take longer"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(toy, tmp_path, files, options, message):
    toy.at("start", {**CHANGED, **files})
    ran = toy.gate("HEAD", tmp_path, *options, rule=QUICK)
    assert ran.code in (2, 4), ran.text
    assert ran.only_says(message), ran.text
    assert ("both sides use" in ran.text) == ("both sides use" in message)
    assert not (tmp_path / "gate.json").exists()
    assert toy.leftovers() == []


def test_a_pattern_that_allows_no_benchmark_suggests_one():
    names = [f"{FILE}::test_slow", f"{FILE}::test_kept[10]"]
    check_allowed([("*slow", "why"), (names[1], "why")], names)
    words = f"--gate-allow 'tst': no benchmark matches; did you mean {names[0]}?"
    with pytest.raises(GateError, match=f"^{re.escape(words)}$"):
        check_allowed([("tst", "why")], names)
    with pytest.raises(GateError, match=r"^--gate-allow '!!!': no benchmark matches; change the pattern$"):
        check_allowed([("!!!", "why")], names)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path):
    toy = Repository(tmp_path / "toy", flat())
    toy.write({".git/rlgauge": "a file", **CHANGED})
    ran = toy.gate("HEAD", tmp_path, rule=QUICK)
    assert ran.code == 2
    assert ran.only_says(f"{toy.root / '.git/rlgauge'}"), ran.text


def test_sides_that_do_not_fit_on_the_disk_are_one_line_and_leave_nothing(toy, tmp_path):
    toy.at("start", {**CHANGED, "large.bin": "0" * (3 << 20)})
    limited = ["bash", "-c", 'ulimit -f 2048; exec "$@"', "bash", sys.executable, "-m"]  # blocks of 1 KiB
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
    assert f"is above the repository {toy.root}: add --rootdir={toy.root}; if you gave --gate-json FILE, " in text


def test_the_paths_of_all_benchmarks_together_may_be_longer_than_an_argument_of_a_process(tmp_path):
    folder = "/".join(["tests", *["long" * 50] * 10])
    files = {f"{folder}/test_{number}.py": "def test_it(benchmark):\n    benchmark(len, '')\n" for number in range(70)}
    assert sum(map(len, files)) > 1 << 17  # Linux limits an argument to 128 KiB
    toy = Repository(tmp_path / "toy", files | {"toy/__init__.py": ""})
    toy.write({"toy/__init__.py": "VALUE = 1\n"})
    assert "70 benchmarks, 70 to time" in toy.output(0, *toy.command("start", tmp_path, "--collect-only", rule=QUICK))
