"""A whole run of the gate on a small repository: each verdict, its exit code, and what is written about it."""

from __future__ import annotations

import random

import pytest

from perf_tests.gate import report
from perf_tests.gate.run import Artifact

from .toy import CASES, FIND, FIRST, QUICK, SAME, SECOND, SLOWED, SOURCE, Toy, cases, source

JAX = """def first(fixed, example, *, knobs, lower):
    import jax.numpy as jnp

    ascending = lower(jnp.sort, example)
    return lambda x: {answer}
"""
THIRD = "third = first"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("docs", {"README.md": "# A toy\n", "rl_impls/README.md": "# Its code\n"}, after="start")
    toy.commit("comment", {SOURCE: source(more="# sorts")}, after="start")
    toy.commit("slower", {SOURCE: source(first=110)}, after="start")
    other = source(first=90, second=90, factor=2, more=THIRD)
    toy.commit("faster", {SOURCE: other, CASES: cases("first", "second", "third")}, after="start")
    toy.commit("gone", {CASES: cases("first")}, after="start")
    once = {CASES: cases("first", backend="jax"), "rl_impls/toy/_jax.py": JAX.format(answer="ascending(x)")}
    toy.commit("traced-once", once, after="start")
    toy.commit("traced-twice", {"rl_impls/toy/_jax.py": JAX.format(answer="(ascending(x), ascending(x[1:]))[0]")})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def comment(toy, tmp_path_factory):
    toy.at("comment")
    return toy.gate("HEAD~1", tmp_path_factory.mktemp("comment"))


@pytest.fixture(scope="module")
def slower(toy, tmp_path_factory):
    toy.at("slower")
    return toy.gate("HEAD~1", tmp_path_factory.mktemp("slower"))


def test_documentation_alone_times_nothing(toy, tmp_path):
    toy.at("docs")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 0, ran.text
    assert ran.findings == {FIRST: ("unchanged",), SECOND: ("unchanged",)}
    assert all(not record["screen"] and not record["confirm"] for record in ran.artifact["records"].values())
    assert ": 2 unchanged" in ran.text
    assert "passed: 2 unchanged" in ran.text
    assert "gate: screen" not in ran.text
    assert "canary" not in ran.text + ran.markdown
    assert "2 unchanged" in ran.markdown
    assert ran.rows == {}


def test_code_that_changes_no_speed_is_ok(comment):
    assert comment.findings == {FIRST: ("ok",), SECOND: ("ok",), SAME: ("ok",), SLOWED: ("slower",)}
    assert comment.code == 0, comment.text
    assert comment.markdown.splitlines()[0].endswith(": passed")


def test_a_reason_is_not_given_where_there_is_nothing_to_allow(comment):
    artifact = Artifact.model_validate(comment.artifact | {"allowed": "some reason"})
    assert "some reason" not in report.markdown(artifact, artifact.decide())


def test_ten_per_cent_more_work_is_slower(toy, slower):
    assert slower.code == 1, slower.text
    assert slower.findings[FIRST] == ("slower",)
    assert slower.findings[SECOND] == ("ok",)
    assert f"FAILED perf_tests/test_gate.py::test_gate[{FIRST}]" in slower.text
    assert "failed: slower, or gone: " in slower.text
    assert "Traceback" not in slower.text
    assert slower.markdown.splitlines()[0].endswith(": failed: slower, or gone")
    verdict, change, pairs, p, *_ = slower.rows[FIRST]
    assert (verdict, pairs) == ("slower", "8")
    assert float(p) <= 0.01
    assert f"{FIRST}: slower, {change}, n = 8 pairs, p = {p}" in slower.text
    assert 8 < float(change.split()[0]) < 12


@pytest.mark.slow
def test_ten_per_cent_is_found_by_the_machine_s_clock(toy, tmp_path):
    toy.at("slower", {CASES: cases("first", "second", clock="")})
    ran = toy.gate("HEAD~1", tmp_path, rule="screen=4,confirm=16,blocks=8")
    assert ran.code == 1, ran.text
    assert ran.findings[FIRST] == ("slower",)
    assert ran.findings[SECOND][0] != "slower"


def test_the_artifact_has_all_that_was_measured(toy, slower):
    artifact = slower.artifact
    assert artifact["base"] == toy.git("rev-parse", "start")
    assert artifact["head"] == toy.git("rev-parse", "--short=12", "slower")
    assert ",".join(f"{name}={artifact['rule'][name]}" for name in ("screen", "confirm", "blocks")) == FIND
    record = artifact["records"][FIRST]
    assert record["state"] == "timed"
    assert [len(pair) for pair in record["screen"]] == [4] * 2
    assert [len(pair) for pair in record["confirm"]] == [4] * 8
    assert all(seconds > 0 for pair in record["confirm"] for block in pair for seconds in block)
    base, head = record["counters"]
    assert base == head
    assert base["allocated_bytes"] > 0


def test_replay_gives_the_same_verdicts_and_code(toy, slower):
    again = toy.run("perf_tests.gate", "replay", slower.folder / "gate.json")
    assert again.code == slower.code
    assert again.text == slower.markdown


@pytest.mark.parametrize(("rule", "verdict"), [("confirm=20", "inconclusive"), ("tolerated=0.5,promised=0.6", "ok")])
def test_replay_decides_by_another_rule(toy, slower, rule, verdict):
    again = toy.run("perf_tests.gate", "replay", slower.folder / "gate.json", "--rule", rule)
    assert again.code == 2, again.text  # the slowed canary is not found either
    assert f"| `{FIRST}` | {verdict} |" in again.text
    assert f"**{SLOWED} came out as {verdict}, wanted slower**" in again.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pyproject.toml",), "pyproject.toml: not what a run of the gate wrote: "),
        (("absent.json",), "absent.json: not what a run of the gate wrote: "),
    ],
)
def test_replay_refuses_what_is_no_artifact(toy, arguments, message):
    ran = toy.run("perf_tests.gate", "replay", *arguments)
    assert ran.code == 2
    assert ran.only_says(message), ran.text


@pytest.mark.parametrize(
    ("rule", "message"), [("pairs=3", "rule, pairs: "), ("screen=none", "rule, screen: "), ("promised=0.001", "rule, ")]
)
def test_replay_refuses_a_rule_that_makes_no_sense(toy, slower, rule, message):
    ran = toy.run("perf_tests.gate", "replay", slower.folder / "gate.json", "--rule", rule)
    assert ran.code == 2
    assert ran.only_says(message), ran.text


def test_the_working_tree_is_compared_and_a_slowdown_can_be_allowed(toy, tmp_path):
    toy.at("start", {SOURCE: source(first=110)})
    ran = toy.gate("HEAD", tmp_path, "--gate-allow", "one loop less to read")
    assert ran.code == 0, ran.text
    commit = toy.git("rev-parse", "--short=12", "start")
    assert f"gate: {commit}+dirty (the working tree) against {commit}: 2 timed" in ran.text
    assert ran.artifact["head"] == f"{commit}+dirty"
    assert ran.findings[FIRST] == ("slower",)
    assert f"{FIRST}: slower, " in ran.text
    assert "FAILED" not in ran.text
    assert "\nAllowed: one loop less to read\n" in ran.markdown
    again = toy.run("perf_tests.gate", "replay", tmp_path / "gate.json")
    assert (again.code, again.text) == (0, ran.markdown)


def test_faster_and_new_pass_and_another_answer_is_no_speed_up(toy, tmp_path):
    toy.at("faster")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 0, ran.text
    new = "toy.third[full-numpy]"
    assert ran.findings[FIRST] == ("faster",)
    assert ran.findings[SECOND] == ("ok", "answer changed")
    assert ran.findings[new] == ("new", "base: toy has no op 'third' on numpy")
    assert ran.rows[SECOND][0] == "ok"
    assert ran.rows[SECOND][-1].startswith("answer changed")
    assert new not in ran.rows
    for words in (f"{FIRST}: faster, -", "answer changed", f"{new}: new, base: toy has no op 'third' on numpy"):
        assert words in ran.text
    assert "1 faster, 1 new" in ran.markdown


def test_a_case_that_is_gone_fails_unless_that_is_allowed(toy, tmp_path):
    toy.at("gone")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 1, ran.text
    assert ran.findings[FIRST] == ("ok",)
    assert ran.findings[SECOND] == ("gone",)
    assert f"FAILED perf_tests/test_gate.py::test_gate[{SECOND}]" in ran.text
    assert ran.rows[SECOND][0] == "gone"
    assert Artifact.model_validate(ran.artifact | {"allowed": "nobody used it"}).decide().code == 0


def test_more_compiled_graphs_are_slower(toy, tmp_path):
    toy.at("traced-twice")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 1, ran.text
    assert ran.findings["toy.first[full-jax]"] == ("slower", "graphs 1 -> 2")
    assert "graphs 1 -> 2" in ran.text
    assert ran.rows["toy.first[full-jax]"][-1].startswith("graphs 1 -> 2")


def test_a_canary_that_is_not_found_voids_the_run(toy, tmp_path):
    canary = "perf_tests/gate/canary.py"
    text = (toy.root / canary).read_text()
    assert text.count("SLOWDOWN = 40, 0.05") == 1
    toy.at("comment", {canary: text.replace("SLOWDOWN = 40, 0.05", "SLOWDOWN = 40, 0.0")})
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 2, ran.text
    assert f"{SLOWED} came out as " in ran.text
    assert "void: nothing of it can be believed" in ran.text
    assert ran.markdown.splitlines()[0].endswith(": void: nothing of it can be believed")
    assert f"**{SLOWED} came out as " in ran.markdown


def test_junit_has_the_verdict_on_each_case(toy, tmp_path):
    toy.at(
        "start", {SOURCE: source(more="def second(fixed, example, *, knobs, lower):\n    raise KeyError('weights')")}
    )
    ran = toy.gate("HEAD", tmp_path, "--junitxml", tmp_path / "junit.xml", rule=QUICK)
    assert ran.code == 2, ran.text
    words = "head: KeyError: 'weights'"
    assert ran.findings[SECOND] == ("error", words)
    assert ran.junit == {FIRST: ran.findings[FIRST], SECOND: ("error", f"Failed: {SECOND}: error, {words}")}


def history(toy, slow):
    """Commit eight changes, the one at this place slower; return that commit."""
    toy.at("start")
    made = [
        toy.commit(f"change-{k}", {SOURCE: source(first=110 if k >= slow else 100, more=f"# {k}")}) for k in range(8)
    ]
    return made[slow]


def found(toy, slow, rule):
    commit = history(toy, slow)
    ran = toy.run("perf_tests.gate", "bisect", FIRST, "start", "HEAD", "--rule", rule)
    assert ran.code == 0, ran.text
    assert "8 commits" in ran.text.splitlines()[0]
    assert ran.text.splitlines()[-1].startswith(f"slowed by {commit[:12]} "), ran.text


def test_bisect_names_the_commit(toy):
    found(toy, 2, "confirm=8,blocks=4")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_bisect_names_the_commit_wherever_it_is(toy, seed):
    found(toy, random.Random(seed).randrange(8), "confirm=8,blocks=4")


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
