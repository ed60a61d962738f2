"""Bisect names the commit wherever it is."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager

import pytest

from correctness_tests.repositories.made import Repository
from rlgauge import bisect as search
from rlgauge.bisect import Step
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
def test_bisect_names_the_slow_commit_wherever_it_is(searched, place):
    noise = [0.001 * (-1) ** k for k in range(COMMITS)]
    found, compared = searched([0.1 * (k >= place) + noise[k] for k in range(COMMITS)])
    assert found == place
    confirm = Rule().confirm
    assert compared[0] == (0, COMMITS, confirm)
    assert compared[-1] == (place, place + 1, confirm)
    assert [(base, times) for base, _, times in compared[1:-1]] == [(0, confirm // 2)] * 3


def test_bisect_names_the_commit_with_more_than_half_of_the_slowdown(searched):
    assert searched([0.02, 0.02, 0.04, 0.04, 0.04, 0.1, 0.1, 0.1])[0] == 5


def test_bisect_skips_commits_that_cannot_be_measured(searched):
    found, compared = searched([0.0, 0.0, 0.0, None, 0.0, 0.1, 0.1, 0.1])
    assert found == 5
    assert all(head != 4 for _, head, _ in compared)


def test_bisect_lists_the_candidates_it_cannot_tell_apart(searched, toy):
    unsure = [toy.git("rev-parse", f"change-{k}")[:12] for k in (3, 4, 5)]
    with pytest.raises(GateError, match=f"the first slow commit is one of {', '.join(unsure)}; only the last of them"):
        searched([0.0, 0.0, 0.0, None, None, 0.1, 0.1, 0.1])


def test_bisect_names_no_commit_if_each_slowed_a_little(searched):
    with pytest.raises(GateError, match=r"^uncertain: the most likely commit is .* compared with its parent, p = 1$"):
        searched([0.009 * k for k in range(1, 9)])


def test_bisect_refuses_a_bad_commit_that_is_not_slower(searched):
    with pytest.raises(GateError, match=rf"^{re.escape(FIRST)} is not slower at \w+: .*, p = 1$"):
        searched([0.1] * 7 + [0.005])


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("change-7", "start", "change-7..start: no commits; the first revision must be an ancestor of the second"),
        ("comment", "change-7", "comment..change-7: no commits; the first revision must be an ancestor of the second"),
        ("start", "elsewhere", "unknown revision 'elsewhere'"),
    ],
)
def test_bisect_refuses_commits_that_are_not_in_order(toy, good, bad, message):
    with pytest.raises(GateError, match=f"^{message}$"):
        search.between(toy.root, good, bad)


def test_bisect_follows_first_parents(toy):
    tree, first, branch = toy.git("rev-parse", "change-0^{tree}", "change-0", "comment").split()
    merge = toy.git("commit-tree", tree, "-p", first, "-p", branch, "-m", "merge")
    assert search.between(toy.root, "start", merge) == [first, merge]
