"""A whole run of the gate on a small repository: each verdict, its exit code, and what is written about it."""

from __future__ import annotations

import hashlib
import math
import os
from types import SimpleNamespace

import pytest

from rlgauge import canary
from rlgauge import run as gate_run
from rlgauge.__main__ import main
from rlgauge.rule import SAME_ON_ALL, SLOWED_ON_ALL, Record, Rule
from rlgauge.run import Gate
from rlgauge.source import Case

from .sources import Given
from .toy import CASES, FILES, FIND, FIRST, ROOT, SAME, SECOND, SLOWED, SOURCE, Toy, cases, source

OPS = ("kept", "slow", "fast", "other", "copying", "passing", "dropped")
BEFORE = f"{' = '.join(OPS)} = first\n"
AFTER = """
import gc
import os
import pathlib

FOLDER = pathlib.Path({folder!r})


def watched(call):
    def seen(x):
        cores = sorted(os.sched_getaffinity(0))
        if os.getsid(0) == os.getpid():  # not in a fork, which times nothing
            FOLDER.joinpath(f"seen-{{os.getpid()}}").write_text(f"{{cores}} {{gc.isenabled()}}")
        return call(x)

    return seen


def op(units, factor=1):
    return lambda spec, example, *, knobs, target: work(units, factor)


def fast(spec, example, *, knobs, target):
    return watched(work(90, 1))


def copying(spec, example, *, knobs, target):
    call = work(100, 1)
    return lambda x: call(np.repeat(x, 1000)[::1000])


def passing(spec, example, *, knobs, target):
    FOLDER.joinpath(f"built-{{os.getpid()}}").touch()
    return work(110 if len(list(FOLDER.glob("built-*"))) <= 1 else 100, 1)


kept, slow, other, fresh = op(100), op(110), op(90, 2), op(100)
"""
JAX = """def first(spec, example, *, knobs, target):
    import jax.numpy as jnp

    ascending = target.lower(jnp.sort, example)
    return lambda x: {answer}
"""


def named(op):
    return f"toy.{op}[full-numpy]"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = Toy(tmp_path_factory.mktemp("toy"))
    toy.commit("docs", {"README.md": "# A toy\n", "rl_impls/README.md": "# Its code\n"}, after="start")
    toy.commit("comment", {SOURCE: source(more="# sorts")}, after="start")
    toy.commit("slower", {SOURCE: source(first=110)}, after="start")
    toy.commit("before", {SOURCE: source(more=BEFORE), CASES: cases(*OPS)}, after="start")
    once = {CASES: cases("first", backend="jax"), "rl_impls/toy/_jax.py": JAX.format(answer="ascending(x)")}
    toy.commit("traced-once", once, after="start")
    toy.commit("traced-twice", {"rl_impls/toy/_jax.py": JAX.format(answer="(ascending(x), ascending(x[1:]))[0]")})
    yield toy
    assert toy.leftovers() == []


@pytest.fixture(scope="module")
def ran(toy, tmp_path_factory):
    """The working tree, in which each case has another fate, compared with the commit it is based on."""
    folder = tmp_path_factory.mktemp("ran")
    after = {SOURCE: source(more=AFTER.format(folder=str(folder))), CASES: cases(*OPS[:-1], "fresh")}
    toy.at("before", after)
    return toy.gate("HEAD", folder, "--junitxml", folder / "junit.xml")


def test_each_case_gets_its_verdict(ran):
    assert ran.code == 1, ran.text
    found = {name: tuple(w for w in words if "allocated" not in w) for name, words in ran.findings.items()}
    assert found == {
        named("kept"): ("ok",),
        named("slow"): ("slower",),
        named("fast"): ("faster",),
        named("other"): ("ok", "answer changed"),  # would be faster
        named("copying"): ("ok",),
        named("passing"): ("ok",),
        named("dropped"): ("gone",),
        named("fresh"): ("new", "base: toy has no op 'fresh' on numpy"),
        SAME: ("ok",),
        SLOWED: ("slower",),
    }


def test_only_what_is_slower_or_gone_fails_its_test(ran):
    failed = {name for name, (_, *failures) in ran.junit.items() if failures}
    assert failed == {named("slow"), named("dropped")}
    assert ran.junit.keys() == {named(op) for op in (*OPS, "fresh")}
    for name in failed:
        assert f"\nFAILED {name} - " in ran.text
    assert "Traceback" not in ran.text


def test_the_summary_says_what_was_found(ran):
    verdict, change, pairs, p, _ = ran.rows[named("slow")]
    assert (verdict, pairs) == ("slower", "3")
    assert float(p) <= 0.3
    assert 8 < float(change.split()[0]) < 12
    assert f"{named('slow')}: slower, {change}, n = 3 pairs, p = {p}" in ran.text
    assert f"{named('fresh')}: new, base: toy has no op 'fresh' on numpy" in ran.text
    counts = "1 slower, 1 gone, 1 faster, 1 new, 4 ok; 1 answer changed"
    assert f"failed: {counts}, " in ran.text
    assert f"\n{counts}; " in ran.markdown
    assert ran.markdown.splitlines()[0].endswith(": failed")
    assert named("fresh") not in ran.rows
    assert ran.rows[named("other")][-1] == "answer changed"


def test_a_slowdown_that_is_not_seen_again_is_let_go(ran):
    records = ran.artifact["records"]
    assert [len(records[name]["screen"]) for name in (named("passing"), SLOWED)] == [1, 1]
    assert [len(records[name]["confirm"]) for name in (named("passing"), SLOWED)] == [1, 3]
    assert "gate: confirm 1 of 3, 5 cases" in ran.text
    assert "gate: confirm 2 of 3, 4 cases" in ran.text
    assert ran.rows[named("passing")][2:4] == ["1", "stopped for futility after 1 pairs"]


def test_more_memory_is_named(ran):
    _, note = ran.findings[named("copying")]
    before, after = map(int, note.removeprefix("allocated_bytes ").split(" -> "))
    assert 8 * 100_000 <= after - before < 8 * 101_000
    assert ran.rows[named("copying")][-1] == note


def test_a_case_is_timed_on_the_last_core_without_collection(ran):
    seen = [file.read_text() for file in ran.folder.glob("seen-*")]
    assert len(seen) == 1 + 3, "pairs of the screen and of the confirmation"
    assert set(seen) == {f"{sorted(os.sched_getaffinity(0))[-1:]} False"}


def test_the_artifact_has_all_that_was_measured(toy, ran):
    artifact, commit = ran.artifact, toy.git("rev-parse", "before")
    assert (artifact["base"], artifact["head"]) == (commit, f"{commit[:12]}+dirty")
    said = f"gate: {commit[:12]}+dirty (the working tree) against {commit[:12]}: 7 timed, 1 gone\n"
    assert "collected" in ran.text.partition(said)[0]
    assert "gate: 7 cases, " in ran.text.partition(said)[2]
    numbers = ("screen", "confirm", "looks", "blocks", "level")
    assert ",".join(f"{name}={artifact['rule'][name]}" for name in numbers) == FIND
    record = artifact["records"][named("slow")]
    assert record["state"] == "timed"
    assert [len(pair) for pair in record["screen"]] == [2]
    assert [len(pair) for pair in record["confirm"]] == [2] * 3
    assert all(seconds > 0 for pair in record["confirm"] for block in pair for seconds in block)
    base, head = record["counters"]
    assert base == head
    assert base["allocated_bytes"] > 0


def replayed(capsys, *arguments):
    """Replay in this process. -> exit code, what is printed, errors"""
    code = main(["replay", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_replay_gives_the_same_verdicts_and_code(ran, capsys):
    assert replayed(capsys, ran.folder / "gate.json") == (ran.code, ran.markdown, "")


@pytest.mark.parametrize(("rule", "verdict"), [("confirm=20", "inconclusive"), ("tolerated=0.5,promised=0.6", "ok")])
def test_replay_decides_by_another_rule(ran, capsys, rule, verdict):
    code, text, _ = replayed(capsys, ran.folder / "gate.json", "--rule", rule)
    assert code == 2, text  # the slowed canary is not found either
    assert f"| `{named('slow')}` | {verdict} |" in text
    assert f"**{SLOWED} came out as {verdict} instead of slower**" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pyproject.toml", "not an artifact of the gate: "),
        ("absent.json", "it cannot be read: No such file or directory"),
    ],
)
def test_replay_refuses_what_is_no_artifact(capsys, name, words):
    code, _, errors = replayed(capsys, name)
    assert code == 2
    assert errors.startswith(f"{name}: {words}")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("rule", "message"), [("pairs=3", "rule, pairs: "), ("screen=none", "rule, screen: "), ("promised=0.001", "rule, ")]
)
def test_replay_refuses_a_rule_that_makes_no_sense(ran, capsys, rule, message):
    code, _, errors = replayed(capsys, ran.folder / "gate.json", "--rule", rule)
    assert code == 2
    assert errors.startswith(message)
    assert errors.count("\n") == 1


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


@pytest.mark.parametrize(
    ("arguments", "files", "message"),
    [
        (["--gate-against=nothing-like-this"], {}, "unknown revision 'nothing-like-this'"),
        (["--gate-against=HEAD"], {CASES: "CASES = ("}, "head: perf_tests/suite/cases/toy.py: SyntaxError: "),
        (
            ["--gate-against=HEAD"],
            {CASES: "import nothing"},
            "head: perf_tests/suite/cases/toy.py, line 1: ModuleNotFoundError: No module ",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_line_and_void(toy, arguments, files, message):
    toy.at("start", files)
    ran = toy.run("pytest", "perf_tests", *arguments, "-p", "no:cacheprovider")
    assert ran.code == 2
    assert ran.only_says(message), ran.text


@pytest.fixture
def passed(tmp_path, monkeypatch):
    """Run a gate whose pairs are given. -> its outcome, and what was measured where: on all cores or not, and what"""
    slowed = {SLOWED: 0.06, SLOWED_ON_ALL: 0.06}

    def run(spread, state="timed"):
        measured = set()

        class Measuring:
            starting = 0.0

            def __init__(self, sides, blocks, limit, *rest):
                assert (blocks, limit) == (Rule().blocks, 7.0)

            def costly(self, name):
                return False

            def measure(self, records, names, place, phase, thorough):
                measured.add((place.one is None, *names))
                for name in names:
                    getattr(records[name], phase).append([(1.0, math.exp(slowed.get(name, 0.0)))])

        monkeypatch.setattr(gate_run, "Pairs", Measuring)
        source = Given([Case(name, many) for name, many in spread.items()], tmp_path)
        records = {name: Record(state=state, all_cores=many) for name, many in spread.items()}
        laid_out = "base", "head", (None, None), source.cases(), records, tmp_path
        gate = Gate(source, *laid_out, Rule(), 0, 7.0, log=lambda line: None)
        return gate.run().decide(), measured

    return run


ONE, ALL = (False, "a", SAME, SLOWED), (True, "b", SAME_ON_ALL, SLOWED_ON_ALL)
CONFIRMED = {ONE: (False, SLOWED), ALL: (True, SLOWED_ON_ALL)}


@pytest.mark.parametrize(
    ("spread", "passes"), [({"a": False}, [ONE]), ({"b": True}, [ALL]), ({"a": False, "b": True}, [ONE, ALL])]
)
def test_each_pass_has_its_canaries_and_no_pass_is_made_without_a_case(passed, spread, passes):
    outcome, measured = passed(spread)
    assert measured == {*passes, *(CONFIRMED[one] for one in passes)}  # the fourth pair has the slowed canary alone
    assert {name: found.pairs for name, found in outcome.findings.items()} == {
        name: 7 if "slowed" in name else 3 for name in outcome.findings
    }
    assert outcome.findings.keys() == {name for _, *names in passes for name in names}
    assert (outcome.wrong, outcome.code) == ([], 0)


def test_nothing_to_time_needs_no_canary(passed):
    outcome, measured = passed({"a": False, "b": True}, state="unchanged")
    assert (measured, outcome.findings.keys(), outcome.code) == (set(), {"a", "b"}, 0)


@pytest.mark.parametrize("cores", [1, 3])
def test_the_cores_of_a_canary_share_its_work(monkeypatch, cores):
    sha256, done = hashlib.sha256, []
    monkeypatch.setattr(canary, "UNITS", 20)
    monkeypatch.setattr(canary, "cores", lambda: cores)
    monkeypatch.setattr(hashlib, "sha256", lambda data: done.append(data) or sha256(data))
    counts = {}
    for side in ("base", "head"):
        monkeypatch.setenv(canary.SIDE, side)
        for name, make in canary.CANARIES.items():
            made = make()
            assert (made.threads is None) == (cores == 1)
            done.clear()
            (answer,) = made.settle()
            made.close()
            counts[side, name] = len(done)
            assert answer == sha256(canary.DATA).digest()
    units = cores * canary.UNITS
    assert counts == {
        (side, name): round(units * 1.05) if side == "head" and name in (SLOWED, SLOWED_ON_ALL) else units
        for side in ("base", "head")
        for name in (SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL)
    }


@pytest.mark.parametrize("cores", [1, 2])
def test_a_canary_offers_what_the_gate_uses_of_a_case(monkeypatch, cores):
    monkeypatch.setattr(canary, "cores", lambda: cores)
    clock = iter([10.0, 10.25])
    monkeypatch.setattr(canary, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    made, runs = canary.Canary(3), []
    run = made.run
    monkeypatch.setattr(made, "run", lambda: runs.append(run()))
    assert made.sample() == 0.25
    assert len(runs) == 1
    assert (made.calls, made.measure_calls(), made.reset()) == (1, 1, None)
    assert made.call() == hashlib.sha256(canary.DATA).digest()
    made.close()
    if made.threads:
        assert made.threads._max_workers == cores
        with pytest.raises(RuntimeError, match="shutdown"):
            made.threads.submit(int)


@pytest.mark.parametrize(("side", "units"), [("base", 40), ("head", 42)])
def test_the_slowed_canary_does_five_per_cent_more_on_head_alone(monkeypatch, side, units):
    monkeypatch.setattr(canary, "cores", lambda: 1)
    monkeypatch.setenv(canary.SIDE, side)
    assert [len(make().work) for make in canary.CANARIES.values()] == [40, units, 40, units]
    assert list(canary.CANARIES) == [SAME, SLOWED, SAME_ON_ALL, SLOWED_ON_ALL]


@pytest.mark.slow
def test_code_that_changes_no_speed_is_ok(toy, tmp_path):
    toy.at("comment")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.findings == {FIRST: ("ok",), SECOND: ("ok",), SAME: ("ok",), SLOWED: ("slower",)}
    assert ran.code == 0, ran.text
    assert ran.markdown.splitlines()[0].endswith(": passed")


@pytest.mark.slow
@pytest.mark.alone
def test_ten_per_cent_is_found_by_the_machine_s_clock(toy, tmp_path):
    canaries = "rlgauge/canary.py"
    toy.at("slower", {CASES: cases("first", "second", clock=""), canaries: (ROOT / canaries).read_text()})
    ran = toy.gate("HEAD~1", tmp_path, rule="screen=4,confirm=16,blocks=8")
    assert ran.code == 1, ran.text
    assert ran.findings[FIRST] == ("slower",)
    assert ran.findings[SECOND][0] != "slower"


@pytest.mark.slow
def test_more_compiled_graphs_are_slower(toy, tmp_path):
    toy.at("traced-twice")
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 1, ran.text
    assert ran.findings["toy.first[full-jax]"] == ("slower", "graphs 1 -> 2")
    assert "graphs 1 -> 2" in ran.text
    assert ran.rows["toy.first[full-jax]"][-1] == "graphs 1 -> 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "line", "changed"),
    [(SLOWED, "SLOWDOWN = 40, 0.05", "SLOWDOWN = 40, 0.0"), (SAME, "SAME: same", "SAME: slowed")],
)
def test_a_canary_that_comes_out_wrong_voids_the_run(toy, tmp_path, wrong, line, changed):
    toy.at("comment")
    file = toy.root / "rlgauge/canary.py"
    assert file.read_text().count(line) == 1
    file.write_text(file.read_text().replace(line, changed))
    ran = toy.gate("HEAD~1", tmp_path)
    assert ran.code == 2, ran.text
    assert f"{wrong} came out as " in ran.text
    assert "invalid run, no verdict" in ran.text
    assert ran.markdown.splitlines()[0].endswith(": invalid run, no verdict")
    assert f"**{wrong} came out as " in ran.markdown


@pytest.mark.slow
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


SPREAD = """
import os
import pathlib


def second(spec, example, *, knobs, target):
    call = work(UNITS["second"], 1)

    def seen(x):
        cores = sorted(os.sched_getaffinity(0))
        if os.getsid(0) == os.getpid():  # not in a fork, which times nothing
            pathlib.Path({folder!r}, f"seen-{{os.getpid()}}").write_text(str(cores))
        return call(x)

    return seen
"""


@pytest.mark.slow
def test_a_case_whose_work_is_spread_is_timed_on_all_cores_with_canaries_of_that_pass(toy, tmp_path):
    spread = 'cores="all" if op == "second" else "one"'
    given = cases("first", "second").replace('forms=("full",)', f'forms=("full",), {spread}')
    toy.commit("spread", {CASES: given}, after="start")
    toy.at("spread", {SOURCE: source(more=SPREAD.format(folder=str(tmp_path)))})
    ran = toy.gate("HEAD", tmp_path)
    assert ran.code == 0, ran.text
    seen = [file.read_text() for file in tmp_path.glob("seen-*")]
    assert seen == [str(sorted(os.sched_getaffinity(0)))], "one pair of the screen"
    assert (ran.findings[SAME_ON_ALL], ran.findings[SLOWED_ON_ALL]) == (("ok",), ("slower",))
