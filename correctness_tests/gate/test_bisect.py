"""Bisect names the commit wherever it is."""

from __future__ import annotations

import math
import random
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from correctness_tests.repositories.made import Repository
from rlgauge import __main__ as command
from rlgauge import bisect as search
from rlgauge.bisect import Step
from rlgauge.pairs import PairError
from rlgauge.rule import GateError, Rule
from rlgauge.source import Case

FIRST, COMMITS = "benchmarks/test_first.py::test_first", 8


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("toy") / "toy", {"a.txt": "start"})
    toy.commit("comment", {"b.txt": "beside"})
    toy.at("start")
    for k in range(COMMITS):
        toy.commit(f"change-{k}", {"a.txt": str(k)})
    return toy


@pytest.fixture
def searched(toy, monkeypatch):
    """Search with the log-slowdown of each commit given. -> what is named, and the commits and pairs compared"""

    def run(slowdowns):
        commits = [toy.git("rev-parse", name) for name in ("start", *(f"change-{k}" for k in range(COMMITS)))]
        at, compared = dict(zip(commits, [0.0, *slowdowns], strict=True)), []

        @contextmanager
        def comparison(*rest):
            def compare(base, head, times):
                if at[head] is None:
                    raise GateError("its test fails")
                compared.append((commits.index(base), commits.index(head), times))
                more = at[head] - at[base]
                return Step(head, more, more, more, times, 0.001 if more > math.log1p(Rule().tolerated) else 1.0)

            yield compare

        monkeypatch.setattr(search, "comparison", comparison)
        found = search.bisect(None, toy.root, "start", commits[-1], Case(FIRST), Rule(), log=lambda line: None)
        return commits.index(found.commit) - 1, compared

    return run


@pytest.mark.parametrize("place", range(COMMITS))
def test_a_search_names_the_commit_wherever_it_is(searched, place):
    noise = [0.001 * (-1) ** k for k in range(COMMITS)]
    found, compared = searched([0.1 * (k >= place) + noise[k] for k in range(COMMITS)])
    assert found == place
    confirm = Rule().confirm
    assert compared[0] == (0, COMMITS, confirm)
    assert compared[-1] == (place, place + 1, confirm)
    assert [(base, times) for base, _, times in compared[1:-1]] == [(0, confirm // 2)] * 3


def test_a_search_names_the_commit_with_more_than_half_of_the_slowdown(searched):
    assert searched([0.02, 0.02, 0.04, 0.04, 0.04, 0.1, 0.1, 0.1])[0] == 5


def test_a_search_skips_commits_that_cannot_be_measured(searched):
    found, compared = searched([0.0, 0.0, 0.0, None, 0.0, 0.1, 0.1, 0.1])
    assert found == 5
    assert all(head != 4 for _, head, _ in compared)


def test_a_search_names_the_commits_that_it_cannot_tell_from_each_other(searched, toy):
    unsure = [toy.git("rev-parse", f"change-{k}")[:12] for k in (3, 4, 5)]
    with pytest.raises(GateError, match=f"the first slow commit is one of {', '.join(unsure)}; those before the last"):
        searched([0.0, 0.0, 0.0, None, None, 0.1, 0.1, 0.1])


def test_a_search_names_no_commit_where_each_slowed_a_little(searched):
    with pytest.raises(GateError, match=r"^uncertain: it looks like .* against the commit before it, p = 1$"):
        searched([0.009 * k for k in range(1, 9)])


def test_a_search_ends_where_the_bad_commit_is_not_slower(searched):
    with pytest.raises(GateError, match=rf"^{re.escape(FIRST)} is not slower at \w+: .*, p = 1$"):
        searched([0.1] * 7 + [0.005])


@pytest.fixture
def comparing(monkeypatch, tmp_path):
    """Compare a case on all cores with pairs that are given. -> the step, and how each pair was measured"""

    def run(values, state="timed"):
        asked, source = [], SimpleNamespace()

        @contextmanager
        def laid_out(given, root):
            assert (given, root) == (source, tmp_path)
            yield SimpleNamespace(side=lambda commit, name: (commit, name), folder="a folder")

        class Measuring:
            def __init__(self, *how):
                *self.how, rng = how[:6]
                sides = ("b" * 40, "base"), ("h" * 40, "head")
                assert self.how == [sides, 4, 7.0, {FIRST: 0.25}, "a folder"]
                assert (rng.random(), how[6:]) == (random.Random(5).random(), ())

            def measure(self, records, names, place, phase, thorough):
                asked.append((*names, place.one, phase, thorough))
                if state == "no worker":
                    raise PairError("head: its worker does not start")
                records[FIRST].state, records[FIRST].words = state, "Killed"
                records[FIRST].confirm.append([(1.0, math.exp(values[len(asked) - 1]))])

        monkeypatch.setattr(search, "laid_out", laid_out)
        monkeypatch.setattr(search, "Pairs", Measuring)
        case = Case(FIRST, all_cores=True, tolerance=0.25)
        with search.comparison(source, tmp_path, case, Rule(blocks=4), 5, 7.0) as compare:
            return compare("b" * 40, "h" * 40, len(values)), asked

    return run


def test_commits_are_compared_by_thorough_pairs_on_the_cores_of_the_case(comparing):
    values = [0.05 + k / 1000 for k in range(6)]
    found, asked = comparing(values)
    assert asked == [(FIRST, None, "confirm", True)] * 6
    assert (found.commit, found.pairs, found.p) == ("h" * 40, 6, pytest.approx(2**-6))
    assert (found.low, found.slowdown, found.high) == pytest.approx((0.05, 0.0525, 0.055))
    assert str(found) == "hhhhhhhhhhhh +5.4 % [+5.1, +5.7], n = 6 pairs"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("error", f"{re.escape(FIRST)} cannot be compared at h{{12}}: error, Killed"),
        ("skipped", f"{re.escape(FIRST)} cannot be compared at h{{12}}: skipped, Killed"),
        ("no worker", "head: its worker does not start"),
    ],
)
def test_a_commit_that_cannot_be_compared_ends_the_search_with_a_line(comparing, state, message):
    with pytest.raises(GateError, match=f"^{message}$"):
        comparing([0.1], state)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("change-7", "start", "change-7 does not come before start: there is no commit to find"),
        ("start", "start", "start does not come before start: there is no commit to find"),
        ("comment", "change-7", "comment does not come before change-7: there is no commit to find"),
        ("start", "elsewhere", "unknown revision 'elsewhere'"),
        ("", "change-7", "unknown revision ''"),
    ],
)
def test_a_search_needs_commits_one_after_the_other(toy, good, bad, message):
    with pytest.raises(GateError, match=f"^{message}$"):
        search.between(toy.root, good, bad)


def test_of_a_merged_branch_only_the_merge_is_searched(toy):
    tree, first, branch = toy.git("rev-parse", "change-0^{tree}", "change-0", "comment").split()
    merge = toy.git("commit-tree", tree, "-p", first, "-p", branch, "-m", "merge")
    assert search.between(toy.root, "start", merge) == [first, merge]


def test_bisect_refuses_an_unknown_case(capsys):
    assert command.main(["bisect", "benchmarks/test_zeroth.py::test_zeroth", "start", "slower"]) == 2
    assert capsys.readouterr().err.startswith("unknown case 'benchmarks/test_zeroth.py::test_zeroth'")


@pytest.fixture
def scripted(monkeypatch):
    """Search commits of which each pair of them says what is given. -> what is named, compared, said and asked"""

    def run(steps, confirm=8, level=0.01, **named):
        compared, said, asked = [], [], []
        commits = ["good's", *(f"c{number}" for number in range(1, 5))]

        @contextmanager
        def comparison(*how):
            asked.append(how)

            def compare(base, head, times):
                compared.append((base, head, times))
                slowdown, p = steps[base, head]
                return Step(head, slowdown, slowdown, slowdown, times, p)

            yield compare

        rule = Rule(confirm=confirm, level=level, screen=1)
        monkeypatch.setattr(search, "comparison", comparison)
        monkeypatch.setattr(search.revisions, "resolve", lambda root, name: f"{name}'s")
        monkeypatch.setattr(search, "between", lambda root, good, bad: commits[1:])
        found = search.bisect("source", "root", "good", "bad", Case(FIRST), rule, log=said.append, **named)
        return found.commit, compared, said, (asked, rule)

    return run


def test_a_search_halves_with_half_of_the_pairs_rounded_up_and_says_each_step(scripted):
    steps = {("good's", "c4"): (0.1, 0.01), ("good's", "c2"): (0.05, 1.0), ("good's", "c3"): (0.0501, 1.0)}
    found, compared, said, (asked, rule) = scripted(steps | {("c2", "c3"): (0.04, 0.01)}, confirm=9, seed=3, limit=7.0)
    assert found == "c3"
    assert compared == [("good's", "c4", 9), ("good's", "c2", 5), ("good's", "c3", 5), ("c2", "c3", 9)]
    assert [line.rpartition(": ")[2] for line in said] == ["the whole slowdown, 4 commits", "before it", "after it"]
    assert [line.split(" ")[0] for line in said] == ["c4", "c2", "c3"]
    assert asked == [("source", "root", Case(FIRST), rule, 3, 7.0)]


def test_a_search_starts_from_chance_0_with_the_usual_limit(scripted):
    steps = {("good's", name): (0.1, 0.01) for name in ("c4", "c2", "c1")}
    found, _, _, (asked, _) = scripted(steps)
    assert (found, asked[0][4:]) == ("c1", (0, 300.0))


def test_a_search_is_decided_by_the_level_at_its_beginning_and_its_end(scripted):
    steps = {("good's", name): (0.1, 0.01) for name in ("c4", "c2", "c1")}
    with pytest.raises(GateError, match=r"is not slower at bad: c4 \+10.5 % .*, p = 0.011$"):
        scripted(steps | {("good's", "c4"): (0.1, 0.0111)})
    with pytest.raises(GateError, match=r"^uncertain: it looks like c1 \+10.5 % .*, p = 0.011$"):
        scripted(steps | {("good's", "c1"): (0.1, 0.0111)})


def test_a_slowdown_of_a_step_is_told_of_twelve_characters_of_its_commit():
    few = Step("0123456789abcdef", math.log(1.1), math.log(0.9), math.log(1.2), 3, 0.5)
    assert str(few).startswith("0123456789ab +10.0 % ")
    assert str(few).endswith(", n = 3 pairs")
    assert "-10.0" in str(few)
    assert "+20.0" in str(few)
