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
        (f"\n{TABLE}build = 1\n", "line 3, tool.rlgauge.build: Input should be a valid string, got 1"),
        (f"{TABLE}nonsense = 1\n", "line 2, tool.rlgauge.nonsense: unknown key; known: benchmarks, build, ignore, "),
        (f"{TABLE}tolerances = {{ 'a' = 0.1, 'b' = 1.0 }}\n", "line 2, tool.rlgauge.tolerances.b: got 1.0, "),
        ("[tool.rlgauge.tolerances]\na = 0.0\nb = -0.1\n", "line 3, tool.rlgauge.tolerances.b: got -0.1, "),
        (f"{TABLE}rule.level = 2\n", "line 2, tool.rlgauge.rule: rule, level: "),
        (f"{TABLE}build = \n", r"Invalid value \(at line 2, column 9\)"),
        ("[other]\nbuild = 1\n[tool.rlgauge]\nlock = ''\nbuild = 1\n", "line 5, tool.rlgauge.build: "),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(GateError, match=rf"^pyproject\.toml(, |: ){message}"):
        read(tmp_path)
