"""Files of measurements: lines are appended, and a wrong file is a one-line error."""

import json

import pytest

from rlgauge.measurements import append, read
from rlgauge.rule import GateError

KINDS = "machine", "pair"


def test_lines_are_appended_and_read_back(tmp_path):
    file = tmp_path / "a" / "b" / "kept.jsonl"
    lines = [{"what": "machine", "cores": 2}, {"what": "pair", "said": {"a": [0.5, 1e-9]}}, {"what": "pair"}]
    append(file, lines[:1])
    append(file, lines[1:])
    assert [json.loads(line) for line in file.read_text().splitlines()] == lines
    assert file.read_text().endswith("\n")
    assert read(file, KINDS, "a command") == lines
    assert read(file, ("pair", "other", "machine"), "a command") == lines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"what": "pair"}\n{"what": "round"}\n', "line 2: unknown line 'round' (choose from machine, pair)"),
        ('{"what": "pair"}\n{"what": ', "line 2: Expecting value"),
        ("7\n", "line 1: 'int' object is not subscriptable"),
    ],
)
def test_wrong_file_is_an_error_that_names_the_command(tmp_path, text, words):
    file = tmp_path / "kept.jsonl"
    file.write_text(text)
    with pytest.raises(GateError) as error:
        read(file, KINDS, "a command")
    assert str(error.value).startswith(f"{file}: not a file that a command writes: {words}")
    assert str(error.value).endswith("; give another file")  # the option's name depends on the command
