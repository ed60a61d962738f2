"""Bisect on a small repository: it names the commit wherever it is; and how its own rate is counted."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from perf_tests.gate import planted, revisions
from perf_tests.gate.__main__ import main
from perf_tests.gate.bisect import Step
from perf_tests.gate.rule import GateError, Rule

from .toy import FIRST, SOURCE, Toy, source

RULE = "confirm=8,blocks=4"
VARIANT = SimpleNamespace(id=FIRST, backend="numpy", case=SimpleNamespace(workload="toy", op="first"))


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("comment", {SOURCE: source(more="# sorts")}, after="start")
    toy.commit("slower", {SOURCE: source(first=110)}, after="start")
    yield toy
    assert toy.leftovers() == []


def history(toy, slow):
    """Commit eight changes, the one at this place slower; return that commit."""
    toy.at("start")
    made = [
        toy.commit(f"change-{k}", {SOURCE: source(first=110 if k >= slow else 100, more=f"# {k}")}) for k in range(8)
    ]
    return made[slow]


def check_found(toy, slow):
    commit = history(toy, slow)
    ran = toy.run("perf_tests.gate", "bisect", FIRST, "start", "HEAD", "--rule", RULE)
    assert ran.code == 0, ran.text
    assert "8 commits" in ran.text.splitlines()[0]
    assert ran.text.splitlines()[-1].startswith(f"slowed by {commit[:12]} "), ran.text


def test_bisect_names_the_commit(toy):
    check_found(toy, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_bisect_names_the_commit_wherever_it_is(toy, seed):
    check_found(toy, random.Random(seed).randrange(8))


def test_bisect_names_no_commit_where_each_slowed_a_little(toy):
    toy.at("start")
    for k in range(1, 9):
        toy.commit(f"little-{k}", {SOURCE: source(first=100 + k)})
    ran = toy.run("perf_tests.gate", "bisect", FIRST, "start", "HEAD", "--rule", RULE)
    assert ran.code == 2, ran.text
    assert ran.text.splitlines()[-1].startswith("uncertain: it looks like "), ran.text


def test_planted_counts_how_often_bisect_is_right(toy):
    toy.at("start")
    commits = toy.git("rev-list", "--all", "--count")
    ran = toy.run("perf_tests.gate", "planted", "--case", FIRST, "--tries", "1", "--rule", RULE)
    assert ran.code == 0, ran.text
    assert ran.text.splitlines()[0].startswith(f"{FIRST}: slowed by 10 % in commit ")
    assert ran.text.splitlines()[-1] == "bisect names the commit: 1/1 [2.5 %, 100.0 %]", ran.text
    assert toy.git("rev-list", "--all", "--count") == commits
    assert not toy.git("status", "--porcelain")
    assert not toy.leftovers()


def test_one_of_the_commits_is_slowed(toy):
    toy.at("start")
    try:
        made = planted.plant(toy.root, VARIANT, 0.1, 3)
        assert toy.git("rev-list", "--count", "start..HEAD") == str(planted.COMMITS)
        assert toy.git("log", "--format=%H", "-S_Slowed", "start..HEAD") == made
        assert made == toy.git("rev-parse", f"HEAD~{planted.COMMITS - 4}")
    finally:
        toy.at("start")


@pytest.mark.parametrize("answer", ["another", "none", "right"])
def test_another_commit_or_none_is_not_found(toy, answer, monkeypatch):
    def bisect(root, good, bad, *rest, **named):
        if answer == "none":
            raise GateError("not slower")
        wanted = revisions.git(root, "log", "--format=%H", "-S_Slowed", f"{good}..{bad}").decode().strip()
        return Step(wanted if answer == "right" else good, 0.1, 0.1, 0.1, 16, 0.001)

    toy.at("start")
    monkeypatch.setattr(planted, "bisect", bisect)
    said = []
    assert planted.found(toy.root, VARIANT, 0.1, Rule(), 0, said.append) is (answer == "right")
    assert len(said) == 2


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--tries", "0", "--tries: got 0, wanted at least 1"),
        ("--slowdown", "-1", "--slowdown: got -1.0, wanted a part such as 0.1, up to 10"),
        ("--slowdown", "nan", "--slowdown: got nan, wanted a part such as 0.1, up to 10"),
        ("--slowdown", "much", "--slowdown: invalid float value: 'much'"),
        ("--case", "toy.zeroth[full-numpy]", "unknown case 'toy.zeroth[full-numpy]'"),
    ],
)
def test_planted_says_in_one_line_what_it_cannot_do(option, value, message, capsys):
    try:
        code = main(["planted", f"{option}={value}"])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FIRST, "slower", "start"), "slower does not come before start: there is no commit to find"),
        ((FIRST, "start", "start"), "start does not come before start: there is no commit to find"),
        ((FIRST, "comment", "slower"), "comment does not come before slower: there is no commit to find"),
        ((FIRST, "start", "elsewhere"), "unknown revision 'elsewhere'"),
        (("toy.zeroth[full-numpy]", "start", "slower"), "unknown case 'toy.zeroth[full-numpy]'"),
        ((FIRST, "start", "comment"), f"{FIRST} is not slower at comment: "),
    ],
)
def test_bisect_says_in_one_line_why_there_is_nothing_to_find(toy, arguments, message):
    toy.at("start")
    ran = toy.run("perf_tests.gate", "bisect", *arguments, "--rule", "confirm=7,blocks=2")
    assert ran.code == 2
    assert ran.only_says(message), ran.text
