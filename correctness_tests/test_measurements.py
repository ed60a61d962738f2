"""Files of measurements: what is added comes last, and what is no such file is one line."""

from __future__ import annotations

import json

import pytest

from rlgauge.measurements import keep, read
from rlgauge.rule import GateError

KINDS = "machine", "pair"


def test_lines_are_added_to_a_file_which_is_made_with_its_folders(tmp_path):
    file = tmp_path / "a" / "b" / "kept.jsonl"
    lines = [{"what": "machine", "cores": 2}, {"what": "pair", "said": {"a": [0.5, 1e-9]}}, {"what": "pair"}]
    for line in lines:
        keep(file, line)
    assert [json.loads(line) for line in file.read_text().splitlines()] == lines
    assert file.read_text().endswith("\n")
    assert read(file, KINDS, "a command") == lines
    assert read(file, ("pair", "other", "machine"), "a command") == lines


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "kept.jsonl").touch()
    assert read(tmp_path / "kept.jsonl", KINDS, "a command") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"what": "pair"}\n{"what": "round"}\n{"what": "other"}\n', "a line is of 'round', wanted machine, pair"),
        ('{"what": "pair"}\n{"seconds": 1}\n', "'what'"),
        ('{"what": "pair"}\n{"what": ', "Expecting value"),
        ("[1]\n", "list indices must be"),
        ("7\n", "'int' object is not subscriptable"),
    ],
)
def test_a_file_of_something_else_is_named_with_the_command_that_writes_such(tmp_path, text, words):
    file = tmp_path / "kept.jsonl"
    file.write_text(text)
    with pytest.raises(GateError) as error:
        read(file, KINDS, "a command")
    assert str(error.value).startswith(f"{file}: not what a command writes: {words}")


def test_where_nothing_was_measured_the_command_is_said(tmp_path):
    with pytest.raises(GateError, match=r"^nothing was measured yet: a command$"):
        read(tmp_path / "kept.jsonl", KINDS, "a command")
    with pytest.raises(GateError, match=rf"^{tmp_path}: not what a command writes: .*Is a directory"):
        read(tmp_path, KINDS, "a command")
