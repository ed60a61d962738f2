"""The gate from the command line: what each command passes on, and what it writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rlgauge import __main__ as command
from rlgauge import bisect
from rlgauge.rule import Rule

from .test_merge import CASES, shards


def test_the_gate_is_a_run_of_pytest_with_all_that_follows(monkeypatch):
    asked = []
    monkeypatch.setattr(pytest, "main", lambda arguments: asked.append(arguments) or 1)
    assert command.main(["gate", "HEAD~1", "benchmarks", "-k", "fast"]) == 1
    assert asked == [["--gate-against", "HEAD~1", "benchmarks", "-k", "fast"]]


@pytest.fixture
def source(monkeypatch, tmp_path):
    """The source of the folder that a command is called in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.rlgauge.rule]\nscreen = 3\nblocks = 4\n")
    found = SimpleNamespace(cache=tmp_path / "cache", case=lambda name: f"the case {name}", power=lambda *_: "")
    monkeypatch.setattr(command, "source_of", lambda config, root: found)
    return found


@pytest.mark.parametrize(
    ("options", "minutes", "rule", "limit"),
    [
        ([], 0, Rule(screen=3, blocks=4), 300),
        (["--rule=blocks=2", "--limit=7", "--minutes=5"], 5, Rule(screen=3, blocks=2), 7),
    ],
)
def test_power_is_measured_as_the_settings_and_the_options_say(
    source, monkeypatch, tmp_path, capsys, options, minutes, rule, limit
):
    asked = []
    monkeypatch.setattr(command, "measured_rates", lambda *how: asked.append(how) or "the rates")
    assert command.main(["power", *options]) == 0
    assert command.main(["power", *options, "--file", "kept"]) == 0
    assert capsys.readouterr().out == "the rates\n" * 2
    files = tmp_path / "cache" / "power.jsonl", Path("kept")
    assert asked == [(source, tmp_path, file, minutes, rule, limit) for file in files]
    source.power = lambda *how: f"{how[1:] == (Path('kept'), minutes, rule, limit)}"
    assert command.main(["power", *options, "--file", "kept"]) == 0
    assert (capsys.readouterr().out, len(asked)) == ("True\n", 2)


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
        Path(files[-1]).write_text(part.model_dump_json())
    written = tmp_path / "all.json", tmp_path / "all.md"
    assert command.main(["merge", *files, "--json", str(written[0]), "--markdown", str(written[1])]) == 0
    told = capsys.readouterr().out
    assert written[1].read_text() == told
    assert command.main(["replay", str(written[0])]) == 0
    assert capsys.readouterr().out == told
