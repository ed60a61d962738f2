"""A whole run of the gate on a small repository: each verdict, its exit code, and what is written about it."""

from __future__ import annotations

import os

import pytest

from perf_tests.gate import report
from perf_tests.gate.run import Artifact

from .toy import CASES, FILES, FIND, FIRST, QUICK, SAME, SECOND, SLOWED, SOURCE, Toy, cases, source

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


PASSING = """import pathlib


def first(fixed, example, *, knobs, lower):
    folder = pathlib.Path({folder!r})
    folder.joinpath(str(len(list(folder.iterdir())))).touch()
    return work(110 if len(list(folder.iterdir())) <= 2 else 100, 1)
"""


def test_a_slowdown_that_is_not_seen_again_is_let_go(toy, tmp_path):
    (tmp_path / "seen").mkdir()
    toy.at("start", {SOURCE: source(more=PASSING.format(folder=str(tmp_path / "seen")))})
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    assert ran.findings[FIRST] == ("ok",)
    records = ran.artifact["records"]
    assert [len(records[name]["screen"]) for name in (FIRST, SLOWED)] == [2, 2]
    assert [len(records[name]["confirm"]) for name in (FIRST, SLOWED)] == [2, 8]
    assert "gate: confirm 2 of 8, 2 cases" in ran.text
    assert "gate: confirm 3 of 8, 1 cases" in ran.text
    assert ran.rows[FIRST][2] == "2"


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


@pytest.mark.parametrize(
    ("canary", "line", "wrong"),
    [
        (SLOWED, "SLOWDOWN = 40, 0.05", "SLOWDOWN = 40, 0.0"),
        (SAME, "SAME: lambda: Canary(UNITS)", "SAME: slowed"),
    ],
)
def test_a_canary_that_comes_out_wrong_voids_the_run(toy, tmp_path, canary, line, wrong):
    toy.at("comment")
    file = toy.root / "perf_tests/gate/canary.py"
    assert file.read_text().count(line) == 1
    file.write_text(file.read_text().replace(line, wrong))
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 2, ran.text
    assert f"{canary} came out as " in ran.text
    assert "void: nothing of it can be believed" in ran.text
    assert ran.markdown.splitlines()[0].endswith(": void: nothing of it can be believed")
    assert f"**{canary} came out as " in ran.markdown


COPYING = """def first(fixed, example, *, knobs, lower):
    call = work(UNITS["first"], 1)
    return lambda x: call(np.repeat(x, 1000)[::1000])
"""


def test_more_memory_is_named(toy, tmp_path):
    toy.at("start", {SOURCE: source(more=COPYING)})
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    verdict, note = ran.findings[FIRST]
    before, after = map(int, note.removeprefix("allocated_bytes ").split(" -> "))
    assert verdict == "ok"
    assert 8 * 100_000 <= after - before < 8 * 101_000
    assert ran.rows[FIRST][-1].startswith(note)


def test_a_workload_that_base_lacks_is_new(toy, tmp_path):
    files = {
        path.replace("toy", "other"): text.replace("toy", "other") for path, text in FILES.items() if "toy" in path
    }
    toy.at("start", files)
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    new = FIRST.replace("toy", "other")
    assert ran.findings[FIRST] == ("unchanged",)
    assert ran.findings[new][0] == "new"
    assert "other" in ran.findings[new][1]


WATCHED = """import gc
import os
import pathlib


def watched(op, call):
    def seen(x):
        cores = sorted(os.sched_getaffinity(0))
        pathlib.Path({folder!r}, f"{{op}}-{{os.getpid()}}").write_text(f"{{cores}} {{gc.isenabled()}}")
        return call(x)

    return seen


def first(fixed, example, *, knobs, lower):
    return watched("first", work(UNITS["first"], 1))


def second(fixed, example, *, knobs, lower):
    return watched("second", work(UNITS["second"], 1))
"""


def test_each_case_is_timed_on_the_cores_of_its_pass_without_collection(toy, tmp_path):
    given = cases("first", "second").replace('forms=("full",)', 'forms=("full",), all_cores=op == "second"')
    watched = source(more=WATCHED.format(folder=str(tmp_path)))
    toy.commit("watched", {SOURCE: watched, CASES: given}, after="start")
    toy.at("watched", {SOURCE: watched + "# more"})
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    here = sorted(os.sched_getaffinity(0))
    for op, cores in (("first", here[-1:]), ("second", here)):
        last = [file.read_text() for file in tmp_path.glob(f"{op}-*")]
        assert len(last) == 2 * 2, "two pairs of the screen"
        assert set(last) == {f"{cores} False"}


def test_junit_has_the_verdict_on_each_case(toy, tmp_path):
    toy.at(
        "start", {SOURCE: source(more="def second(fixed, example, *, knobs, lower):\n    raise KeyError('weights')")}
    )
    ran = toy.gate("HEAD", tmp_path, "--junitxml", tmp_path / "junit.xml", rule=QUICK)
    assert ran.code == 2, ran.text
    words = "head: KeyError: 'weights'"
    assert ran.findings[SECOND] == ("error", words)
    assert ran.junit == {FIRST: ran.findings[FIRST], SECOND: ("error", f"Failed: {SECOND}: error, {words}")}
