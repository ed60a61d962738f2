"""The commit that ``rlgauge bisect`` names, and the revisions that it refuses."""

import math

import pytest

from correctness_tests.repositories.made import Repository
from rlgauge.bisect import CommitComparison, commits_between, search
from rlgauge.rule import GateError, Rule

COMMITS = 8


def searched(slowdowns):
    """Search commits 0 to 8, where 1 to 8 have these log-slowdowns and None cannot be measured.

    Return the commit that was found, and each comparison as (base, head, pairs).
    """
    at, compared = [0.0, *slowdowns], []

    def compare(base, head, count):
        if at[int(head)] is None:
            raise GateError("its test fails")
        compared.append((int(base), int(head), count))
        more = at[int(head)] - at[int(base)]
        return CommitComparison(head, more, more, more, count, 0.001 if more > math.log1p(Rule().tolerated) else 1.0)

    found = search([str(number) for number in range(1 + COMMITS)], compare, "a test", Rule(), lambda line: None)
    return int(found.commit), compared


@pytest.mark.parametrize("place", range(1, 1 + COMMITS))
def test_bisect_names_the_slow_commit_wherever_it_is(place):
    found, compared = searched([0.1 * (k >= place) + 0.001 * (-1) ** k for k in range(1, 1 + COMMITS)])
    assert found == place
    confirm = Rule().confirm
    assert compared[0] == (0, COMMITS, confirm)
    assert compared[-1] == (place - 1, place, confirm)
    assert [(base, count) for base, _, count in compared[1:-1]] == [(0, confirm // 2)] * 3


def test_bisect_skips_commits_that_cannot_be_measured():
    found, compared = searched([0.0, 0.0, 0.0, None, 0.0, 0.1, 0.1, 0.1])
    assert found == 6
    assert all(head != 4 for _, head, _ in compared)


@pytest.mark.parametrize(
    ("slowdowns", "message"),
    [
        ([0, 0, 0, None, None, 0.1, 0.1, 0.1], "a test: the first slow commit is one of 4, 5, 6; only the last "),
        ([0.009 * k for k in range(1, 9)], "uncertain: the most likely commit, compared with its parent, is .* p = 1"),
        ([0.1] * 7 + [0.005], r"a test is not slower: 8 \+0\.5% .*, p = 1; give revisions "),
    ],
    ids=["candidates", "drift", "not slower"],
)
def test_bisect_names_no_commit_without_certainty(slowdowns, message):
    with pytest.raises(GateError, match=f"^{message}"):
        searched(slowdowns)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Repository(tmp_path_factory.mktemp("toy") / "toy", {"a.txt": "start"})
    toy.commit("comment", {"b.txt": "beside"})
    toy.at("start")
    toy.commit("change", {"a.txt": "0"})
    return toy


@pytest.mark.parametrize(("good", "bad"), [("change", "start"), ("comment", "change")])
def test_bisect_refuses_commits_that_are_not_in_order(toy, good, bad):
    reason = "no commits; the first revision must be an ancestor of the second along first parents"
    with pytest.raises(GateError, match=f"^{good}..{bad}: {reason}$"):
        commits_between(toy.root, good, bad)


def test_bisect_in_a_shallow_clone_says_so(toy, tmp_path):
    clone = Repository(tmp_path / "clone", {"a.txt": ""})
    clone.git("fetch", "--quiet", "--depth=1", f"file://{toy.root}", "tag", "change")
    clone.git("fetch", "--quiet", "--depth=1", f"file://{toy.root}", "+refs/tags/start:refs/tags/start")
    with pytest.raises(GateError, match=r"along first parents; this clone is shallow; run git fetch --unshallow$"):
        commits_between(clone.root, "start", "change")


def test_bisect_follows_first_parents(toy):
    tree, first, branch = toy.git("rev-parse", "change^{tree}", "change", "comment").split()
    merge = toy.git("commit-tree", tree, "-p", first, "-p", branch, "-m", "merge")
    assert commits_between(toy.root, "start", merge) == [first, merge]
    with pytest.raises(GateError, match=f"^comment..{merge}: no commits; .* along first parents$"):
        commits_between(toy.root, "comment", merge)
