"""Commands of ``rlgauge``: exit codes, files, helps, and one-line errors."""

import json
import subprocess
import sys

import pytest

from rlgauge import __main__ as command
from rlgauge.artifact import Artifact
from rlgauge.fields import parse
from rlgauge.rule import SLOWED, Record

from .made import Repository, flat
from .test_merge import CANARIES, CASES, artifact, shards


@pytest.fixture
def write_shards(tmp_path):
    """Return a function that writes one artifact per shard of a run, and returns the paths."""

    def run(records, count=2):
        for name, part in shards(records, count).items():
            (tmp_path / name).write_text(part.to_json())
        return [str(tmp_path / name) for name in shards(records, count)]

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    settings = {"pyproject.toml": "[tool.rlgauge]\nrule = {confirm = 6}\n"}
    toy = Repository(tmp_path_factory.mktemp("commands") / "toy", flat() | settings)
    toy.commit("later", {})
    return toy.root


def test_merge_has_the_exit_code_of_the_whole_run_and_writes_the_given_files(write_shards, tmp_path, capsys):
    files = write_shards(CASES | {"b": CANARIES[SLOWED]})
    assert command.main(["merge", *files]) == 1
    report = capsys.readouterr().out
    assert "| `b` | slower |" in report
    assert {path.name for path in tmp_path.iterdir()} == {"1.json", "2.json"}
    assert command.main(["merge", *files, "--markdown", str(tmp_path / "all.md")]) == 1
    assert (tmp_path / "all.md").read_text() == report == capsys.readouterr().out
    assert command.main(["merge", *files, "--json", str(tmp_path / "all.json")]) == 1
    assert parse(Artifact, json.loads((tmp_path / "all.json").read_text())).decide().failed == ["b"]
    capsys.readouterr()
    assert command.main(["replay", str(tmp_path / "all.json")]) == 1
    assert capsys.readouterr().out == report


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_merge_that_cannot_be_written_is_a_line_that_names_the_option(write_shards, tmp_path, capsys, option):
    assert command.main(["merge", *write_shards(CASES), option, str(tmp_path)]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors) == ("", f"{option} {tmp_path}: cannot be written: not a regular file; choose another path\n")


def test_a_missing_artifact_is_named(write_shards, capsys):
    first, _ = write_shards(CASES)
    assert command.main(["merge", first]) == 2
    assert capsys.readouterr().err == "shard 2 of 2: 0 artifacts given; give one\n"
    assert command.main(["merge", first, f"{first}.none"]) == 2
    assert capsys.readouterr().err == (
        f"{first}.none: cannot be read: No such file or directory; give a file that --gate-json wrote\n"
    )


@pytest.mark.parametrize("anchored", [False, True], ids=["base", "anchor"])
@pytest.mark.parametrize(
    ("options", "code", "verdict"),
    [
        ([], 0, "ok"),
        (["--rule=tolerated=0.001"], 1, "slower"),
        (["--rule=tolerated=0.5,promised=0.6"], 2, "ok"),  # the slowed canary is not found either
    ],
)
def test_replay_changes_the_given_numbers_of_the_rule(tmp_path, capsys, options, code, verdict, anchored):
    found = [[(1.0, 1.009 + 0.0001 * k)] for k in range(7)]  # seven pairs suffice only for the artifact's own rule
    run = artifact(CANARIES | {"a": Record(screen=found[:2], confirm=found)})
    if anchored:
        run = artifact(CANARIES | {"a": CASES["a"]}, anchor=run)
    (tmp_path / "gate.json").write_text(run.to_json())
    assert command.main(["replay", str(tmp_path / "gate.json"), *options]) == code
    text = capsys.readouterr().out
    assert f"| `a` | {verdict} |" in text
    wrong = f"**{SLOWED} is ok, but should be slower; repeat the run on an idle machine**"
    assert (wrong in text) is (code == 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay", "a.json", "--rule", "confirm"], "--rule: invalid value 'confirm'; write NAME=VALUE[,"),
        (["bisect", "a", "b", "c", "--limit", "long"], "--limit: 'long' is not a positive number of seconds"),
        (["compare", "a", "b", "--precision=2%"], "argument --precision: '2%' is not a number; write 0.02\n"),
        (["rank", "a", "--minutes=long"], "argument --minutes: 'long' is not a number; give one, for example 0.1\n"),
        (["merge", "a.json", "--markdwn=b"], "unrecognized arguments: --markdwn=b; did you mean --markdown?"),
        (["merge", "a.json", "--quick"], "unrecognized arguments: --quick\n"),
        (
            ["history", "--snce", "v1"],
            "rlgauge history: error: unrecognized arguments: --snce v1; did you mean --since?",
        ),
        (["history", "-k", "sort"], "history: error: the following arguments are required: --since\n"),
    ],
)
def test_a_wrong_command_line_is_code_2_and_says_why(capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_help_of_a_command_says_what_it_does(capsys):
    with pytest.raises(SystemExit):
        command.main(["rank", "--help"])
    assert "\nRank benchmarks by time or another measure; they may tie.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("compare a b --precision=0", "--precision: 0 is too small; choose 0.001 or more"),
        ("compare a b --items --measure=peak_rss",
         "--items: peak_rss has no value per item; leave out items or change the measure"),
        ("compare --file=none.toml",
         "--file none.toml: cannot be read: No such file or directory; give a TOML file with a [[comparison]] table "
         "per pair of benchmarks"),
        ("compare a", "rlgauge compare: give two benchmarks, A and B, or --file FILE"),
        ("compare a b --only waits", "--only: it has no effect without --file; add --file FILE"),
        ("rank * --measure=difference",
         "--measure: difference cannot be ranked (choose from seconds, spread, peak_rss, allocated, or a figure)"),
        ("history --since v1 --minutes nan", "--minutes: nan is not above 0; choose a larger number"),
        ("power --minutes=-1", "--minutes: -1 is out of range; choose 0 or more"),
        ("power --canaries=1 -k slow", "--canaries: canaries are measured alone; leave out -k slow"),
        ("power --slowdowns=5%", "--slowdowns: invalid value '5%'; give fractions above 0, for example 0.02,0.05"),
        ("power --fault=f", "--fault: invalid value 'f'; write MODULE:FUNCTION or MODULE:FUNCTION=PATTERN"),
        ("power --slowdowns=0.05 --minuts=60",
         "rlgauge power: --slowdowns --minuts=60 has no effect without --minutes; add --minutes 60"),
        ("power --rule=level=2", "--rule: level: 2 is out of range; choose a number between 0 and 1"),
        ("power --file=none", "nothing has been measured yet; run: rlgauge power --minutes 60"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_one_line_and_code_2(folder, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(folder)
    assert command.main(arguments.split()) == 2
    assert capsys.readouterr().err == f"{words}\n"


def test_bisect_obeys_the_rule_of_the_settings_and_lists_tests_for_longer_than_the_limit(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert command.main(["bisect", "*::test_slow", "start", "later", "--limit=0.01"]) == 2
    words = "rule: bisect cannot reach the level 0.01 with confirm 6; raise confirm or level\n"
    assert capsys.readouterr().err == words


def test_on_windows_the_command_says_that_it_runs_on_linux():
    code = """
import signal, sys
import multiprocessing, packaging.requirements, pytest  # they check the platform themselves
sys.platform = "win32"
del signal.SIGHUP
sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios"))
from rlgauge import __main__, plugin
from rlgauge.benchmarks import builds
sys.exit(__main__.main(["gate", "HEAD"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "rlgauge: win32 is not supported; run it on Linux\n")
