"""The file of a history: what stands there stays, and what is no entry is one line."""

from __future__ import annotations

import json
import math
import re

import pytest

from perf_tests.history import entries
from perf_tests.history.entries import Entry, append, label, read, timed
from rlgauge.rule import GateError

from .made import MACHINE, entry, unchanged


@pytest.fixture
def file(tmp_path):
    return tmp_path / "history" / f"{MACHINE}.jsonl"


def test_entries_come_back_as_they_were_written(file):
    kept = [entry(1, 0, [0.01, 0.02, 0.03]), unchanged(2, 0, 1, 1.02, 3), entry(3, 0, state="lacking", n=0)]
    append(file, kept[:1])
    append(file, kept[1:])
    assert read(file) == kept
    assert len(file.read_text().splitlines()) == 3


def test_the_bytes_before_are_those_after(file):
    append(file, [entry(1, 0, [0.01])])
    before = file.read_bytes().replace(b'":', b'": ')  # as another version may have written it
    file.write_bytes(before)
    append(file, [entry(2, 0, [0.02])])
    assert file.read_bytes().startswith(before)
    assert len(read(file)) == 2


def test_there_is_nothing_where_there_is_no_file(file):
    assert read(file) == []


def test_a_ratio_is_that_of_the_median_pair():
    found = entry(1, 0, [math.log(ratio) for ratio in (1.01, 1.02, 1.5)])
    assert (found.ratio, found.low, found.high, found.n) == pytest.approx((1.02, 1.01, 1.5, 3), abs=1e-5)
    many = timed([0.01 * k for k in range(20)])
    assert 0 < math.log(many["low"]) < math.log(many["ratio"]) < math.log(many["high"]) < 0.19


def changed(**fields):
    """Return the line of an entry with other fields."""
    return json.dumps(json.loads(entry(1, 0, [0.01]).model_dump_json()) | fields) + "\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (changed()[:-1], "it is cut off, wanted an entry of a history, format 1"),
        (changed()[:40] + "\n", "wanted an entry of a history, format 1: Invalid JSON"),
        ("{}\n", "wanted an entry of a history, format 1: machine: Field required"),
        (changed(format=2), "wanted an entry of a history, format 1: format: Input should be 1"),
        (changed(more=1), "more: Extra inputs are not permitted"),
        (changed(commit="HEAD"), "commit: String should match"),
        (changed(ratio=-1.0), "ratio: Input should be greater than 0"),
        (changed(ratio=None), "timed, and a ratio of None"),
        (changed(n=2), "timed, 2 pairs and 1 log-ratios"),
        (changed(state="unchanged"), "unchanged, and the same as None"),
        (changed(machine="elsewhere"), "machine: got elsewhere, wanted a-machine"),
    ],
)
def test_what_is_no_entry_is_one_line_and_stays_as_it_is(file, line, message):
    append(file, [entry(1, 0, [0.01])])
    text = file.read_text() + line
    file.write_text(text)
    for ask in (lambda: read(file), lambda: append(file, [entry(2, 0, [0.01])])):
        with pytest.raises(GateError, match=rf"^a-machine.jsonl, line 2: .*{re.escape(message)}") as caught:
            ask()
        assert len(str(caught.value).splitlines()) == 1
    assert file.read_text() == text


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    (tmp_path / "history").write_text("no folder")
    with pytest.raises(GateError, match="cannot be written"):
        append(tmp_path / "history" / f"{MACHINE}.jsonl", [entry(1, 0, [0.01])])


def test_a_machine_has_a_label_without_strange_letters():
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", label())


def test_an_entry_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        entry(1, 0, [0.01]).ratio = 2.0
    assert Entry.model_validate_json(changed()) == entry(1, 0, [0.01])


def test_what_pairs_say_is_kept_to_six_digits():
    found = timed([0.12345678, -0.1, 0.2])
    assert found == {
        "state": "timed", "ratio": 1.131401, "low": 0.904837, "high": 1.221403, "n": 3,
        "log_ratios": (0.123457, -0.1, 0.2),
    }  # fmt: skip


def test_a_machine_is_called_by_its_processor_its_vectors_and_all_of_its_cores(monkeypatch):
    monkeypatch.setattr(entries.machine, "cpu_model", lambda: "A (R) CPU")
    monkeypatch.setattr(entries.machine, "vectors", lambda: "avx9")
    monkeypatch.setattr(entries.os, "cpu_count", lambda: 64)
    assert label() == "a-r-cpu-avx9-64-cores"


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(GateError, match=rf"^{tmp_path}: cannot be read: Is a directory$"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"state": "lacking"}, "lacking, and a ratio of 1.01005"),
        ({"same_as": "0" * 40}, "timed, and the same as 0000"),
        ({"state": "unchanged", "same_as": "0" * 40}, "unchanged, 1 pairs and 1 log-ratios"),
        ({"anchor": "v1"}, "anchor: String should match"),
        ({"n": -1}, "n: Input should be greater than or equal to 0"),
        ({"low": 0.0}, "low: Input should be greater than 0"),
        ({"high": math.inf}, "high: Input should be a finite number"),
        ({"state": "slow"}, "state: Input should be 'timed', 'unchanged' or 'lacking'"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(file, fields, message):
    file.parent.mkdir()
    file.write_text(changed(**fields))
    with pytest.raises(GateError, match=rf"^a-machine.jsonl, line 1: .*{re.escape(message)}"):
        read(file)
