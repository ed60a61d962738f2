"""Invalid options and tests of the gate: one line and an exit code, before anything is measured."""

import os
import sys
from pathlib import Path

import pytest

from correctness_tests.repositories.made import Gated, Repository
from rlgauge import plugin

TEST = "def test_it(benchmark):\n    pass\n"
FILES = {
    "test_plain.py": TEST,
    "test_parameter.py": f"import pytest\n\n\n@pytest.mark.parametrize('benchmark', ['a parameter'])\n{TEST}",
    "test_replaced.py": f"import pytest\n\n\n@pytest.fixture\ndef benchmark():\n    return print\n\n\n{TEST}",
    "broken.py": "import gone\n",
    "notes.txt": "",
    "test_skipped.py": "import pytest\n\npytest.importorskip('gone')\n",
    "own/conftest.py": "def pytest_addoption(parser):\n    parser.addoption('--junitxl')\n",
    "test_codspeed.py": TEST.replace("benchmark", "codspeed_benchmark"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("options") / "toy", {"toy.py": "", **FILES}).root


@pytest.fixture
def run_gate(monkeypatch, capfd, folder):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.chdir(folder)

    def run(*options):
        alone = ["-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:faulthandler"]
        code = pytest.main([*alone, "-p", "no:unraisableexception", *options], plugins=[plugin])
        return Gated(int(code), "".join(capfd.readouterr()))

    return run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate-against= \t"], "--gate-against ' \\t': no revision is given; give one, for "),
        (["--gate-anchor= "], "--gate-anchor ' ': no revision is given; give one, for example --gate-anchor=main"),
        (["--gate-allow=known"], "--gate-allow: invalid value 'known'; write ID-PATTERN=REASON"),
        (["--gate-shard=3/2"], "--gate-shard: invalid value '3/2'; write I/N, for example 2/4"),
        (["--gate-shard=0/2"], "--gate-shard: invalid value '0/2'; write I/N, for example 2/4"),
        (["--gate-json={folder}"], "--gate-json {folder}: cannot be written: not a regular file"),
        (["--junitxml={file}/b/a.xml"], "--junitxml {file}/b/a.xml: cannot be written: Not a directory"),
        (["--gate-rule=screen=4,"], "--gate-rule: invalid value 'screen=4,'; write NAME=VALUE[,NAME=VALUE]"),
        (["--gate-rule=tolerated=2%"], "--gate-rule: tolerated: '2%' is not a finite number; write 0.02"),
    ],
)
def test_a_mistake_is_one_line_and_overwrites_nothing(run_gate, tmp_path, options, message):
    (tmp_path / "file").write_text("as it was")
    names = {"folder": tmp_path, "file": tmp_path / "file"}
    ran = run_gate("--gate-against=main", *(option.format(**names) for option in options))
    assert ran.code == 2
    assert ran.only_says(message.format(**names)), ran.text
    assert (tmp_path / "file").read_text() == "as it was"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["test_parameter.py", "-k", "it"],
         "of 1 selected test, none uses the 'benchmark' fixture or mark, and -k 'it' may deselect others"),
        (["test_replaced.py"],
         "test_replaced replaces the plugin's fixture: define it only if the plugin is not installed"),
        (["test_skipped.py", "-k", "nothing"],
         "-k 'nothing' matches none; change the selection; test_skipped.py was skipped: could not import"),
        (["test_plain.py"],
         "of pytest-benchmark, which is not loaded: remove -p no:benchmark or PYTEST_DISABLE_PLUGIN_AUTOLOAD"),
        (["test_codspeed.py"],
         f"of pytest-codspeed, which is not installed: run {sys.executable} -m pip install pytest-codspeed"),
        (["test_plain.py", "-p", "pytest_benchmark.plugin", "--gate-renamed=old.py::test_it=test_plain.py::test_it"],
         "--gate-renamed: it has no effect without --gate-own-benchmarks; add that option"),
    ],
)  # fmt: skip
def test_a_selection_that_cannot_be_measured_is_one_line(run_gate, options, message):
    ran = run_gate("--gate-against=main", "--import-mode=importlib", *options)
    assert ran.code == 2
    assert ran.only_says(message), ran.text


@pytest.mark.parametrize("option", ["--gate-anchor=v1", "--gate-allow=a=b", "--gate-strict", "--gate-json=a.json"])
def test_an_option_without_gate_against_is_refused_unless_it_comes_from_the_settings(run_gate, monkeypatch, option):
    ran = run_gate(option)
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert ran.only_says(f"{option.partition('=')[0]}: it has no effect without --gate-against; add "), ran.text
    monkeypatch.setenv("PYTEST_ADDOPTS", option)
    ran = run_gate("-k", "nothing", Path("test_plain.py"))
    assert ran.code == pytest.ExitCode.NO_TESTS_COLLECTED, ran.text


@pytest.mark.parametrize("words", [["--gate-agianst=main"], ["--gate-agianst", "main"]])
def test_an_unknown_option_suggests_one_of_the_gate(run_gate, words):
    ran = run_gate(*words)
    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert ran.only_says("unrecognized arguments: --gate-agianst"), ran.text
    assert ran.only_says("did you mean: --gate-against"), ran.text


def test_an_unknown_option_or_id_in_a_run_of_the_gate_suggests_one_of_pytest(run_gate):
    own = run_gate("--gate-against=main", "own", "--junitxl=a.xml", "--unlike-any")  # conftest.py adds the first
    assert own.only_says("unrecognized arguments: --unlike-any"), own.text
    assert "did you mean" not in own.text
    assert run_gate("--gate-against=main", "--junitxm=a.xml").only_says("did you mean: --junitxml")
    assert "did you mean" not in run_gate("--junitxm=a.xml").text
    for test in ("test_plain.py::test_i", "test_plain.py::test_it[1]"):
        ran = run_gate("--gate-against=main", "test_skipped.py", test)
        assert ran.code == pytest.ExitCode.USAGE_ERROR
        assert ran.only_says(f"ERROR: {test}; did you mean test_plain.py::test_it?"), ran.text
    assert "ModuleNotFoundError" not in run_gate("--gate-against=main", "notes.txt::test_it").text
    assert run_gate("--gate-against=main", "broken.py::test_it").text.count("ERROR broken.py") == 1
