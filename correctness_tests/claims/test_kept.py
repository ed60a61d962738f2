"""What is kept of processes that were measured, and of which code it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf_tests.claims import kept
from rlgauge import files


def test_what_was_measured_is_kept_until_the_code_changes(tmp_path):
    path, process = tmp_path / "toy.jsonl", {"claims": {}, "sides": {}}
    assert kept.kept(path, {"code": "a"}) == []
    with path.open("a") as file:
        file.write(json.dumps(process) + "\n")
    assert kept.kept(path, {"code": "a"}) == [process]
    assert kept.kept(path, {"code": "b"}) == []
    path.write_text(path.read_text() + f'{json.dumps(process)}\n{{"cut')
    assert kept.kept(path, {"code": "b"}) == [process]
    assert path.read_text().splitlines() == [json.dumps({"code": "b"}), json.dumps(process)]
    for damage in (b"\x00", b"\xff\xfe", b"5", b"[]", b'{"claims": {}}'):
        path.write_bytes(json.dumps({"code": "b"}).encode() + b"\n" + json.dumps(process).encode() + b"\n" + damage)
        assert kept.kept(path, {"code": "b"}) == [process]
        path.write_bytes(damage)
        assert kept.kept(path, {"code": "b"}) == []


@pytest.mark.parametrize("other", [{"claims": ["b"]}, {"threads": 2}, {"machine": {"cpu": "b"}}])
def test_what_is_measured_of_other_claims_threads_or_machines_has_a_file_of_its_own(other):
    state = {"code": "1", "claims": ["a"], "threads": 1, "machine": {"cpu": "a"}}
    name = kept.file_of("toy", state)
    assert name == kept.file_of("toy", state | {"code": "2"})
    assert len({name, kept.file_of("toy", state | other), kept.file_of("toys", state)}) == 3


def test_figures_depend_on_all_that_measures_them_and_on_no_page(monkeypatch):
    before, read = kept.code("snake"), Path.read_bytes

    def changes(path):
        changed = kept.ROOT / "perf_tests" / path
        monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == changed))
        assert changed.exists()
        return kept.code("snake") != before

    parts = [f"claims/{name}.py" for name in ("measure", "resident", "sides")]
    parts += ["suite/prepared.py", "suite/claims/snake.py", "suite/cases/snake.py"]
    assert [path for path in parts if not changes(path)] == []
    assert [path for path in ("claims/pages.py", "suite/claims/pirl.py", "suite/cases/pirl.py") if changes(path)] == []


def test_figures_depend_on_the_workloads_code_too(monkeypatch):
    monkeypatch.setattr("rlgauge.revisions.digest", lambda root, paths: f"{root}")
    one = kept.code("snake")
    assert kept.code("snake") == one
    monkeypatch.setattr("rlgauge.revisions.digest", lambda root, paths: "changed")
    assert kept.code("snake") != one


def test_what_is_kept_is_written_whole_and_only_where_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "toy.jsonl"
    written = []
    monkeypatch.setattr(kept, "write_all", lambda contents: written.append(contents) or files.write_all(contents))
    for state in ({"code": "a"}, {"code": "a"}, {"code": "b"}):
        assert kept.kept(path, state) == []
    assert [json.loads(content) for each in written for content in each.values()] == [{"code": "a"}, {"code": "b"}]
