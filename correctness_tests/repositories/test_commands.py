"""The gate from the command line: what each command passes on, and what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlgauge import __main__ as command
from rlgauge import bisect, revisions
from rlgauge.artifact import Artifact
from rlgauge.fields import parse
from rlgauge.rule import SLOWED, GateError, Record, Rule

from .test_merge import CANARIES, CASES, artifact, shards


def test_the_gate_is_a_run_of_pytest_with_all_that_follows(monkeypatch):
    asked = []
    monkeypatch.setattr(pytest, "main", lambda arguments: asked.append(arguments) or 1)
    assert command.main(["gate", "HEAD~1", "benchmarks", "-k", "fast"]) == 1
    assert asked == [["--gate-against", "HEAD~1", "benchmarks", "-k", "fast"]]


@pytest.fixture
def source(monkeypatch, tmp_path):
    """The source of the folder that a command is called in."""
    monkeypatch.chdir(tmp_path)
    revisions.git(tmp_path, "init", "--quiet")
    (tmp_path / "pyproject.toml").write_text("[tool.rlgauge.rule]\nscreen = 3\nblocks = 4\n")
    kept = tmp_path / "cache" / "gate.json"
    found = SimpleNamespace(artifact=kept, case=lambda name: f"the case {name}")
    monkeypatch.setattr(command, "Benchmarks", lambda root, config, run: found)
    return found


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], (0, Rule(screen=3, blocks=4), 300, {}, [])),
        (["--rule=blocks=2", "--limit=7", "--minutes=5"], (5, Rule(screen=3, blocks=2), 7, {}, [])),
        (
            ["--fault=a.b:c", "-k", "x", "--fault=a.b:d=*y"],
            (0, Rule(screen=3, blocks=4), 300, {"a.b:c": ["*"], "a.b:d": ["*y"]}, ["-k", "x"]),
        ),
    ],
)
def test_power_is_measured_as_the_settings_and_the_options_say(source, monkeypatch, tmp_path, capsys, options, asked):
    done = []
    monkeypatch.setattr(command, "measured_rates", lambda *how: done.append(how) or "the rates")
    assert command.main(["power", *options]) == 0
    assert command.main(["power", *options, "--file", "kept"]) == 0
    assert capsys.readouterr().out == "the rates\n" * 2
    files = tmp_path / "cache" / "power.jsonl", Path("kept")
    assert done == [(source, tmp_path, file, *asked) for file in files]


def test_rates_of_the_canaries_have_a_file_and_a_number_of_pairs(source, monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(command, "canary_rates", lambda *how: asked.append(how) or "the rates")
    assert command.main(["power", "--canaries", "7", "--limit=9"]) == 0
    assert command.main(["power", "--canaries", "7", "--limit=9", "--file", "kept"]) == 0
    files = tmp_path / "cache" / "canaries.jsonl", Path("kept")
    assert asked == [(source, tmp_path, file, 7, Rule(screen=3, blocks=4), 9) for file in files]
    assert command.main(["power", "--canaries", "0"]) == 2
    assert capsys.readouterr() == ("the rates\n" * 2, "--canaries: got 0, wanted 1 or more\n")


@pytest.mark.parametrize(
    ("options", "rule", "limit"),
    [([], Rule(screen=3, blocks=4), 300), (["--rule=blocks=2", "--limit=7"], Rule(screen=3, blocks=2), 7)],
)
def test_a_search_is_made_as_the_settings_and_the_options_say(
    source, monkeypatch, tmp_path, capsys, options, rule, limit
):
    asked = []
    monkeypatch.setattr(bisect, "bisect", lambda *how, **named: asked.append((*how, named)) or "a commit")
    assert command.main(["bisect", "a", "good", "bad", *options]) == 0
    assert capsys.readouterr().out == "slowed by a commit\n"
    assert asked == [(source, tmp_path, "good", "bad", "the case a", rule, {"limit": limit})]


def test_what_is_merged_is_written_and_decides_the_same_again(tmp_path, capsys):
    files = []
    for name, part in shards(CASES, 2).items():
        files.append(str(tmp_path / name))
        Path(files[-1]).write_text(part.to_json())
    written = tmp_path / "all.json", tmp_path / "all.md"
    assert command.main(["merge", *files, "--json", str(written[0]), "--markdown", str(written[1])]) == 0
    told = capsys.readouterr().out
    assert written[1].read_text() == told
    assert command.main(["replay", str(written[0])]) == 0
    assert capsys.readouterr().out == told


@pytest.fixture
def kept(tmp_path):
    """Write artifacts of these records. -> their files"""

    def run(records, count=2):
        for name, part in shards(records, count).items():
            (tmp_path / name).write_text(part.to_json())
        return [str(tmp_path / name) for name in shards(records, count)]

    return run


def test_a_merge_ends_with_the_code_of_the_whole_and_writes_only_what_is_asked_for(kept, tmp_path, capsys):
    files = kept(CASES | {"b": CANARIES[SLOWED]})
    assert command.main(["merge", *files]) == 1
    told = capsys.readouterr().out
    assert "| `b` | slower |" in told
    assert {path.name for path in tmp_path.iterdir()} == {"1.json", "2.json"}
    assert command.main(["merge", *files, "--markdown", str(tmp_path / "all.md")]) == 1
    assert (tmp_path / "all.md").read_text() == told == capsys.readouterr().out
    assert command.main(["merge", *files, "--json", str(tmp_path / "all.json")]) == 1
    assert parse(Artifact, json.loads((tmp_path / "all.json").read_text())).decide().failed == ["b"]


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_merge_that_cannot_be_written_is_a_line_that_names_the_option(kept, tmp_path, capsys, option):
    assert command.main(["merge", *kept(CASES), option, str(tmp_path)]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors) == ("", f"{option} {tmp_path}: cannot be written: it is no file\n")


def test_artifacts_that_do_not_fit_together_are_named_by_their_files(kept, capsys):
    first, _ = kept(CASES)
    assert command.main(["merge", first]) == 2
    assert capsys.readouterr().err == "shard 2 of 2: got 0 artifacts of it, wanted one\n"
    assert command.main(["merge", first, f"{first}.none"]) == 2
    assert capsys.readouterr().err == f"{first}.none: it cannot be read: No such file or directory\n"


@pytest.mark.parametrize(("options", "code", "verdict"), [([], 0, "ok"), (["--rule=tolerated=0.001"], 1, "slower")])
def test_a_replay_decides_by_the_run_s_own_rule_with_the_numbers_that_are_given(
    tmp_path, capsys, options, code, verdict
):
    found = [[(1.0, 1.009 + 0.0001 * k)] for k in range(7)]
    records = CANARIES | {"a": Record(screen=found[:2], confirm=found)}
    (tmp_path / "gate.json").write_text(artifact(records).to_json())
    assert command.main(["replay", str(tmp_path / "gate.json"), *options]) == code
    assert f"| `a` | {verdict} |" in capsys.readouterr().out  # seven pairs confirm by its own rule alone


def test_what_a_search_cannot_do_is_a_line(source, monkeypatch, capsys):
    def refuse(*how, **named):
        raise GateError("a is not slower")

    monkeypatch.setattr(bisect, "bisect", refuse)
    assert command.main(["bisect", "a", "good", "bad"]) == 2
    assert capsys.readouterr() == ("", "a is not slower\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["gate"], "the following arguments are required: revision"),
        (["bisect", "a", "good"], "the following arguments are required: bad"),
        (["merge"], "the following arguments are required: FILE"),
        (["replay", "a.json", "--rule", "confirm"], "--rule: got 'confirm', wanted name=value[,name=value]"),
        (["bisect", "a", "b", "c", "--limit", "long"], "--limit: invalid float value: 'long'"),
        (["power", "--minutes", "long"], "--minutes: invalid float value: 'long'"),
        (["replay", "a.json", "--limit", "7"], "unrecognized arguments: --limit 7"),
        (["merge", "a.json", "--rule", "confirm=3"], "unrecognized arguments: --rule confirm=3"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_code_2_and_says_why(capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        command.main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_arguments_are_those_of_the_process_unless_they_are_given(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command.sys, "argv", ["rlgauge", "replay", str(tmp_path / "none.json")])
    assert command.main() == 2
    assert capsys.readouterr().err == f"{tmp_path / 'none.json'}: it cannot be read: No such file or directory\n"


def test_on_another_system_than_linux_no_command_is_run(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command.sys, "platform", "darwin")
    assert command.main(["replay", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err == "rlgauge: it runs on Linux, this is darwin\n"


def test_where_modules_of_unix_are_missing_the_command_still_says_so():
    code = """
import sys
import multiprocessing, packaging.requirements, pytest  # they look for the platform themselves
sys.platform = "win32"
sys.modules |= dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios"))
from rlgauge import __main__, plugin
from rlgauge.benchmarks import builds
sys.exit(__main__.main(["gate", "HEAD"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "rlgauge: it runs on Linux, this is win32\n")
