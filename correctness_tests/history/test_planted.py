"""A history that is measured with a known change in it, and read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perf_tests.history import __main__ as command
from perf_tests.history import planted
from perf_tests.history.entries import Entry, append, timed
from perf_tests.suite.cases import variants
from rlgauge.rule import GateError

CASE = "pirl.train_step[full-torch-batch256-order2]"
NOISE = (-0.004, -0.003, -0.002, -0.001, 0.0, 0.0, 0.001, 0.002, 0.003, 0.004)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [("flat", [0.0] * 8), ("step", [0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0]), ("drift", [0.01] * 8)],
)
def test_each_commit_slows_by_what_its_history_is_to_show(kind, parts):
    assert planted.parts_of(kind, 2) == parts


@pytest.fixture
def read_of(tmp_path, monkeypatch):
    """Plant a kind of history in a copy of a repository, and read one of these log-ratios. -> is it right, last line"""
    root = tmp_path / "repository"
    source = root / "rl_impls" / "pirl" / "_torch.py"
    source.parent.mkdir(parents=True)
    source.write_text("def train_step():\n    pass\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", root, *words], check=True)
    chosen = [variants()[CASE]]

    def run(kind, ratios, failed=()):
        said, copies = [], []

        def measure(self, since):
            copies.append(self.root)
            git = ["git", "-C", str(self.root), "rev-list", "--reverse", f"{since}..HEAD"]
            self.failed += failed
            commits = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
            assert (len(commits), since, self.pairs, self.minutes, self.seed) == (8, self.anchor, 12, 3.0, 17)
            known = {"machine": self.file.stem, "date": "", "anchor": since, "case": CASE, "version": 1}
            append(self.file, [
                Entry.model_validate({**known, "commit": commit, **timed([ratio + each for each in NOISE])})
                for commit, ratio in zip(commits, ratios, strict=True)
            ])  # fmt: skip

        monkeypatch.setattr(planted.History, "measure", measure)
        right = planted.found(root, chosen, CASE, kind, 12, 3.0, 17, said.append)
        assert not any(Path(copy).exists() for copy in copies)
        return right, said[-1]

    return run


STEP = [0.0] * 6 + [0.05] * 2


def test_a_history_that_shows_what_was_planted_is_right(read_of):
    assert read_of("flat", [0.0] * 8) == (True, f"planted: flat of {CASE}: right")
    assert read_of("drift", [0.01 * n for n in range(1, 9)]) == (True, f"planted: drift of {CASE}: right")
    right, said = read_of("step", STEP)
    assert right
    assert said.endswith(f" of {CASE}: right")


@pytest.mark.parametrize(
    ("kind", "ratios"), [("flat", STEP), ("step", [0.0] * 8), ("step", STEP[::-1]), ("drift", [0.0] * 8)]
)
def test_one_that_shows_something_else_is_wrong(read_of, kind, ratios):
    right, said = read_of(kind, ratios)
    assert not right
    assert said.endswith(f"of {CASE}: WRONG")


def test_a_case_that_cannot_be_measured_is_told(read_of):
    with pytest.raises(GateError, match=r"^it died$"):
        read_of("flat", [0.0] * 8, failed=["it died", "again"])


def test_the_case_and_the_gate_tier_of_its_workload_and_backend_are_measured(monkeypatch):
    asked = []
    monkeypatch.setattr(planted, "found", lambda root, chosen, *rest: asked.append((chosen, rest)) or len(asked) == 1)
    words = ["planted", "step", "--case", "pirl.train_step[naive-torch-batch32-order2]", "--pairs", "3", "--seed", "5"]
    assert [command.main(words), command.main(words)] == [0, 1]
    chosen, rest = asked[0]
    assert rest == ("pirl.train_step[naive-torch-batch32-order2]", "step", 3, 12.0, 5)
    ids = [variant.id for variant in chosen]
    assert ids[0] == rest[0]
    gated = {v.id for v in variants().values() if (v.case.workload, v.backend, v.tier) == ("pirl", "torch", "gate")}
    assert len(ids) == len({*ids})
    assert {*ids} == {ids[0], *gated}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["step", "--case", "pirl.none"], "unknown case 'pirl.none'"),
        (["step", "--pairs", "0"], "--pairs: got 0, wanted 1 or more"),
        (["drift", "--minutes", "nan"], "--minutes: got nan, wanted a finite number above 0"),
        (["fall"], "invalid choice: 'fall'"),
    ],
)
def test_what_cannot_be_planted_is_one_line(words, message, capsys):
    try:
        code = command.main(["planted", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
