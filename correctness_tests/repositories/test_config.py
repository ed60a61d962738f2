"""The settings of a repository: defaults, overrides, and errors with their line."""

import pytest

from rlgauge import revisions
from rlgauge.config import Config, read, settings_folder
from rlgauge.rule import GateError, Rule

TABLE = "[tool.rlgauge]\n"


def test_settings_default_without_a_file_or_a_table(tmp_path):
    assert read(tmp_path) == Config()
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nbuild = 'make'\n")
    assert read(tmp_path) == Config()


def test_settings_come_from_the_nearest_file_that_has_some(tmp_path):
    revisions.git(tmp_path, "init", "--quiet")
    part = tmp_path / "part"
    part.mkdir()
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (part / "pyproject.toml").write_text('[project]\nname = "part"\n\n[tool.pytest.ini_options]\n')
    assert settings_folder(part) == tmp_path
    (part / "pyproject.toml").write_text(TABLE)
    assert settings_folder(part) == settings_folder(tmp_path, part) == part  # where pytest was started


def test_the_command_line_overrides_the_settings(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f"{TABLE}rule = {{ screen = 3, blocks = 4 }}\n")
    assert read(tmp_path).rules() == Rule(screen=3, blocks=4)
    assert read(tmp_path).rules({"blocks": "2"}) == Rule(screen=3, blocks=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{TABLE}\nbuild_ = 1\n", r"line 3, tool.rlgauge.build_: unknown key; did you mean 'build'\?$"),
        (f"{TABLE}benchmarks = ['a', 1]\n", "line 2, tool.rlgauge.benchmarks.1: 1 is not text in quotes$"),
        ("[tool.rlgauge.tolerances]\na = 0.0\nb = -0.1\n", "line 3, tool.rlgauge.tolerances.b: -0.1 is out of range; "),
        (f"{TABLE}rule.level = 2\n", "line 2, tool.rlgauge.rule: rule: level: "),
        (f"{TABLE}rule = {{ tolerated = '2%' }}\n", "line 2, .*tolerated: '2%' is not a finite number; write 0.02$"),
        (f"{TABLE}build = \n", r"Invalid value \(at line 2, column 9\)"),
        ("[other]\nbuild = 1\n[tool.rlgauge]\nlock = ''\nbuild = 1\n", "line 5, tool.rlgauge.build: "),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_reported_with_its_line(tmp_path, text, message):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(GateError, match=rf"^pyproject\.toml(, |: ){message}"):
        read(tmp_path)
