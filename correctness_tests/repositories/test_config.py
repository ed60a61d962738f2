"""The settings of a repository: which of them there are, and the line of one that is wrong."""

from __future__ import annotations

import pytest

from rlgauge.config import Config, read
from rlgauge.rule import GateError, Rule

TABLE = "[tool.rlgauge]\n"


def test_without_a_file_or_a_table_settings_are_the_default_ones(tmp_path):
    assert read(tmp_path) == Config()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nbuild = 'make'\n")
    assert read(tmp_path) == Config()


def test_the_command_line_changes_what_the_settings_say(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f"{TABLE}rule = {{ screen = 3, blocks = 4 }}\n")
    assert read(tmp_path).rules() == Rule(screen=3, blocks=4)
    assert read(tmp_path).rules({"blocks": "2"}) == Rule(screen=3, blocks=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"\n{TABLE}build = 1\n", "line 3, tool.rlgauge.build: got 1; give text in quotes$"),
        (f"{TABLE}nonsense = 1\n", "line 2, tool.rlgauge.nonsense: unknown key; choose from benchmarks, build, "),
        (f"{TABLE}\nbuild_ = 1\n", r"line 3, tool.rlgauge.build_: unknown key; did you mean 'build'\?$"),
        (f"{TABLE}benchmarks = ['a', 1]\n", "line 2, tool.rlgauge.benchmarks.1: got 1; give text in quotes$"),
        (f"{TABLE}benchmarks = 'a'\n", "line 2, tool.rlgauge.benchmarks: got 'a'; give a list$"),
        ("[tool]\nrlgauge = 1\n", "line 1, tool.rlgauge: got 1; give a table of keys and values$"),
        (f"{TABLE}rule.screen = true\n", "line 2, tool.rlgauge.rule.screen: got True; give a finite number$"),
        (f"{TABLE}cores = {{ 'a' = 'two' }}\n", "line 2, tool.rlgauge.cores.a: got 'two'; choose from one, all$"),
        (f"{TABLE}tolerances = {{ 'a' = nan }}\n", "line 2, tool.rlgauge.tolerances.a: got nan; give a finite number$"),
        (f"{TABLE}tolerances = {{ 'a' = 0.1, 'b' = 1.0 }}\n", "line 2, tool.rlgauge.tolerances.b: got 1.0; give a "),
        ("[tool.rlgauge.tolerances]\na = 0.0\nb = -0.1\n", "line 3, tool.rlgauge.tolerances.b: got -0.1; give a "),
        (f"{TABLE}rule.level = 2\n", "line 2, tool.rlgauge.rule: rule, level: "),
        (f"{TABLE}build = \n", r"Invalid value \(at line 2, column 9\)"),
        ("[other]\nbuild = 1\n[tool.rlgauge]\nlock = ''\nbuild = 1\n", "line 5, tool.rlgauge.build: "),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(GateError, match=rf"^pyproject\.toml(, |: ){message}"):
        read(tmp_path)
