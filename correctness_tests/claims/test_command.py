"""The command that measures claims: its arguments, its processes, what it keeps."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests.claims import __main__ as command
from perf_tests.claims import measure, pages, returns
from perf_tests.suite.claims import claims_of, workloads

from ..commands import ROOT, environment
from .toy import ACTING, EVERY, OBSERVE, claim, row, said


def test_what_starts_threads_or_processes_is_measured_apart():
    names = [[claim.name for claim in part] for part in command.apart(claims_of("snake"))]
    assert sorted(names[1]) == ["snake-async", "snake-ddp"]
    assert len(names[0]) + 2 == len(claims_of("snake"))
    assert [len(command.apart(claims_of(name))) for name in ("pirl", "procgen")] == [1, 2]


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Measure claims by processes of 100 s that nobody starts; the call returns those asked for, and what all said."""
    now = [0.0]
    monkeypatch.setattr(command, "KEPT", tmp_path)
    monkeypatch.setattr(command, "code", lambda workload: "of now")
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])

    def run(*ratios, claims=(), **options):
        asked, left = [], iter(ratios)

        def fresh(module, words, count, first):
            now[0] += 100
            asked.append((first, words))
            yield from said(next(left))

        monkeypatch.setattr(command, "fresh_processes", fresh)
        options = {"threads": 1, "fresh": False, "processes": 2, "minutes": 9} | options
        *_, found = command.processes("toy", claims or [claim()], SimpleNamespace(**options))
        return asked, [each["claims"]["toy"]["alone"]["ratio"] for each in found]

    return run


def test_processes_go_on_from_those_that_were_measured_alike(processes):
    words = ["toy", "--threads", "1", "--only=toy"]
    assert processes(2.0, 2.0) == ([(0, words), (1, words)], [2.0, 2.0])
    assert processes(2.1, processes=3) == ([(2, words)], [2.0, 2.0, 2.1])
    assert processes(minutes=-1, processes=3) == ([], [2.0, 2.0, 2.1])  # a moment has passed
    for other in ({"fresh": True}, {"threads": 2}, {"claims": [claim(), claim()]}):
        asked, found = processes(3.0, 3.0, **other)
        assert ([first for first, _ in asked], found) == ([0, 1], [3.0, 3.0])


@pytest.mark.parametrize(
    ("minutes", "least", "count"),
    [(8.3, 2, 2), (8.4, 2, 5), (13.3, 2, 5), (13.4, 2, 8), (8.4, 3, 3), (0, 2, 2), (99, 2, 12), (99, 6, 12)],
)
def test_processes_are_as_many_as_make_an_interval_narrow_or_three_more_end_in_time(processes, minutes, least, count):
    assert len(processes(*[1.0, 2.0] * 6, minutes=minutes, processes=least)[0]) == count


def test_further_processes_go_on_to_three_where_they_were_interrupted(processes):
    with pytest.raises(RuntimeError, match="StopIteration"):
        processes(1.0, 2.0, 1.0, minutes=99)
    assert len(processes(1.0, 1.0, minutes=0.1)[1]) == 5


def test_after_as_many_as_were_asked_for_what_is_open_is_measured_alone(processes):
    whole = ["toy", "--threads", "1", "--only=toy"]
    some = [*whole, "--context=toy:alone"]
    both = [claim(contexts={"alone": OBSERVE, "from full": ACTING})]  # fewer sides are expected to take less
    for minutes, further in ((5.9, 3), (5.8, 0)):
        asked, _ = processes(1.9, 2.1, 2.0, 2.0, 2.0, claims=both, minutes=minutes, fresh=True)
        assert asked == [(0, whole), (1, whole), (2, some), (3, some), (4, some)][: 2 + further], minutes


@pytest.mark.usefixtures("processes")
def test_workloads_take_turns_each_with_time_of_its_own(monkeypatch):
    asked = []

    def fresh(module, words, count, first):
        clock.sleep(100)
        asked.append((words[0], first))
        yield from said([1.0, 3.0][first % 2] if words[0] == "wide" else 2.0)

    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(command, "time", clock)
    monkeypatch.setattr(command, "fresh_processes", fresh)
    claims = {"clear": [claim()], "wide": [claim()]}
    options = SimpleNamespace(threads=1, fresh=False, processes=2, minutes=8.4, claims=claims)
    told = [(workload, len(found)) for workload, found in command.in_turns(options)]
    assert asked == [("clear", 0), ("wide", 0), ("clear", 1), ("wide", 1), ("wide", 2), ("wide", 3), ("wide", 4)]
    assert len(told) == len(asked) + 2  # what is known of each at first


@pytest.mark.usefixtures("ready_command")
def test_a_process_measures_the_contexts_that_are_named_alone():
    words = ["snake", "--only", "snake-int8", "--only", "snake-bf16-cpu", "--context=snake-bf16-cpu:alone"]
    options = command.parse(words)
    assert [(each.name, [*each.contexts]) for each in options.claims["snake"]] == [("snake-bf16-cpu", ["alone"])]


@pytest.fixture
def ready_command(monkeypatch):
    """The command in a process whose threads are left as they are."""
    monkeypatch.setattr(command.process, "set_up", lambda threads: None)


@pytest.mark.usefixtures("ready_command")
def test_a_claim_brings_those_that_it_is_compared_with():
    options = command.parse(["--only", "mario-lockfree-most"])
    names = {name: [claim.name for claim in claims] for name, claims in options.claims.items()}
    (most,) = [claim for claim in claims_of("mario") if claim.name == "mario-lockfree-most"]
    assert {name: set(found) for name, found in names.items()} == {"mario": {most.name, *most.most_of}}
    assert len(most.most_of) > 1


@pytest.mark.usefixtures("ready_command")
def test_each_process_draws_from_its_own_number(monkeypatch, capsys):
    monkeypatch.setattr(measure, "measured", lambda claims, workload, seed: [claims[0].name, workload, seed])
    command.main(["snake", "--only", "snake-int8", "--one", "3"])
    assert json.loads(capsys.readouterr().out) == ["snake-int8", "snake", 3]


@pytest.mark.usefixtures("ready_command")
def test_claims_that_are_not_measured_now_stay_and_a_failure_is_named(tmp_path, monkeypatch):
    path, said_of = tmp_path / "claims.json", {"snake-int8": {"ratio": 2.5, "same": True}, "snake-ddp": {"error": "no"}}

    def measured(workload, claims, options):
        names = [claim.name for claim in claims]
        contexts = {claim.name: dict.fromkeys(claim.contexts, said_of[claim.name]) for claim in claims}
        yield [{"claims": contexts, "sides": {side.label: {} for claim in claims for side in claim.sides}}] * len(names)

    monkeypatch.setattr(command, "processes", measured)
    monkeypatch.setattr(command, "KEPT", tmp_path)
    monkeypatch.setattr(command, "TURNS", tmp_path)
    command.main(["snake", "--only", "snake-int8", "--output", str(path)])
    with pytest.raises(SystemExit) as ended:
        command.main(["snake", "--only", "snake-ddp", "--output", str(path)])
    assert ended.value.code == "could not be measured: snake-ddp"
    assert [row["id"] for row in pages.read(path)["claims"]] == ["snake-int8", "snake-ddp"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["chess"], "unknown workload 'chess'"),
        (["--only", "snake-none"], "unknown claim 'snake-none'"),
        (["--processes", "0"], "got --processes 0"),
        (["--threads", "99"], "got --threads 99"),
    ],
)
def test_bad_input_is_one_line(words, message, capsys, monkeypatch):
    monkeypatch.setattr(command.process, "set_up", lambda threads: None)
    with pytest.raises(SystemExit) as end:
        command.parse(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_a_claim_is_measured_in_fresh_processes_and_an_unwritable_output_costs_nothing(tmp_path):
    root = Path(command.__file__).parents[2]
    output = tmp_path / "claims.json"

    def run(*words):
        asked = [
            sys.executable,
            "-m",
            "perf_tests.claims",
            "treasurehunt",
            "--only",
            "treasure-vmap-observe",
            "--fresh",
        ]
        return subprocess.run([*asked, *words], cwd=root, capture_output=True, text=True, timeout=300)

    done = run("--output", str(output))
    assert done.returncode == 0, done.stderr
    (found,) = pages.read(output)["claims"]
    assert (found["id"], found["contexts"][0]["verdict"]) == ("treasure-vmap-observe", "holds")
    assert found["contexts"][0]["n"] >= 6
    assert math.isfinite(found["contexts"][0]["ratio"])
    before = output.read_bytes()
    refused = run("--output", "/proc/claims.json")
    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1].startswith("--output /proc/claims.json: cannot be written")
    assert output.read_bytes() == before


@pytest.mark.usefixtures("processes")
def test_what_is_said_in_a_process_of_its_own_is_joined_with_the_rest(monkeypatch):
    shared, own = claim(), replace(claim(), name="own")
    asked = []

    def fresh(module, words, count, first):
        asked.append((module, words, count, first))
        (name,) = [word.removeprefix("--only=") for word in words if word.startswith("--only=")]
        yield {"claims": {name: {"alone": {"ratio": 2.0}}}, "sides": {name: {"seconds": 1.0}}}

    monkeypatch.setattr(command, "apart", lambda claims: [[shared], [own]])
    monkeypatch.setattr(command, "fresh_processes", fresh)
    options = SimpleNamespace(threads=1, fresh=False, processes=1, minutes=9)
    *_, found = command.processes("toy", [shared, own], options)
    assert [sorted(each["claims"]) for each in found] == [["own", "toy"]]
    assert [sorted(each["sides"]) for each in found] == [["own", "toy"]]
    words = ["toy", "--threads", "1"]
    assert asked == [("perf_tests.claims", [*words, f"--only={name}"], 1, 0) for name in ("toy", "own")]


def test_the_command_measures_all_workloads_with_all_cores_unless_told_otherwise(monkeypatch):
    threads = []
    monkeypatch.setattr(command.process, "set_up", threads.append)
    monkeypatch.setattr(command.process, "cores", lambda: 3)
    options = command.parse([])
    assert {name: len(claims) for name, claims in options.claims.items()} == {
        name: len(claims_of(name)) for name in workloads()
    }
    assert (options.threads, options.processes, options.minutes, options.output) == (3, 6, 9.5, command.RESULT)
    assert [options.fresh, options.list, options.pages, options.one] == [False, False, False, None]
    options = command.parse(["snake", "pirl", "--threads", "2", "--processes", "12", "--only", "snake-int8"])
    assert {name: [each.name for each in claims] for name, claims in options.claims.items()} == {
        "snake": ["snake-int8"]
    }
    assert threads == [3, 2]


@pytest.mark.usefixtures("ready_command")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--processes", "13"], "got --processes 13, wanted 1 to 12"),
        (["--threads", "0"], "got --threads 0, wanted 1 to "),
        (["pirl", "--only", "snake-int8"], "unknown claim 'snake-int8'; --list names them"),
        (["pirl,nosuch"], "unknown workload 'nosuch'; those with claims: "),
        (["--minutes", "nan"], "got --minutes nan, wanted 0 or more"),
        (["--minutes", "inf"], "got --minutes inf, wanted 0 or more"),
        (["--minutes", "-1"], "got --minutes -1.0, wanted 0 or more"),
        (["--pages", "--processes", "5"], "got --processes 5 with --pages, wanted 6 or more"),
    ],
)
def test_an_option_out_of_its_range_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.parse(words)
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("ready_command")
def test_a_list_has_a_line_for_each_claim(monkeypatch, capsys):
    monkeypatch.setattr(command, "processes", lambda *asked: pytest.fail("it was measured"))
    command.main(["snake", "--list"])
    assert capsys.readouterr().out.splitlines() == [
        f"{each.name}: {each.words} (promised: {each.promised})" for each in claims_of("snake")
    ]


@pytest.fixture
def one_claim(tmp_path, monkeypatch, ready_command):
    """The command that measures one claim into a file, of processes that nobody starts; what it put on pages."""
    shown = []

    def measured(workload, claims, options):
        for count in range(2):
            contexts = {each.name: {key: {"ratio": 2.5, "same": True} for key in each.contexts} for each in claims}
            yield [{"claims": contexts, "sides": {}}] * count

    monkeypatch.setattr(command, "processes", measured)
    monkeypatch.setattr(command, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(command, "TURNS", tmp_path / "turns")
    monkeypatch.setattr(pages, "show", shown.append)
    monkeypatch.setattr(pages, "kept_of", lambda machine: tmp_path / "published.json")
    asked = ["snake", "--only", "snake-int8", "--threads", "1", "--output", str(tmp_path / "claims.json")]
    return SimpleNamespace(run=lambda *more: command.main([*asked, *more]), shown=shown, path=tmp_path / "claims.json")


def test_a_ledger_says_of_which_code_and_machine_it_is_and_takes_its_pages_only_where_asked(
    one_claim, monkeypatch, capsys
):
    monkeypatch.setattr(command, "check_whole", lambda claims, rows: None)
    for state, dirty in (("abc+dirty", True), ("abc", False)):
        monkeypatch.setattr("rlgauge.machine.git_state", lambda root, state=state: state)
        one_claim.run(*([] if dirty else ["--pages"]))
        found = pages.read(one_claim.path)
        assert (found["commit"], found["dirty"], found["threads"]) == ("abc", dirty, 1)
        assert found["date"].endswith("+00:00")
        assert found["machine"]["cores"]
        assert {each["ratio"] for each in found["claims"][0]["contexts"]} == {2.5}
    assert one_claim.shown == [found]
    (line,) = [line for line in capsys.readouterr().out.splitlines()[:1]]
    assert line.startswith("snake-int8 [")


@pytest.mark.parametrize("other", ["code", "threads", "machine"])
def test_rows_of_an_earlier_ledger_stay_where_they_are_of_the_same_code_threads_and_machine(one_claim, capsys, other):
    one_claim.run()
    kept = pages.read(one_claim.path)
    kept["claims"].append(kept["claims"][0] | {"id": "snake-ddp"})
    one_claim.path.write_text(json.dumps(kept))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8", "snake-ddp"]
    assert "dropped" not in capsys.readouterr().out
    if other == "code":
        kept["claims"][1]["code"] = "of old"
    else:
        kept[other] = {"threads": 2, "machine": kept["machine"] | {"vectors": "beads"}}[other]
    one_claim.path.write_text(json.dumps(kept))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8"]
    dropped = 1 if other == "code" else 2
    said = (
        f"{dropped} claims of an earlier run are dropped: they are of other code or evidence, or of another machine\n"
    )
    assert capsys.readouterr().out.startswith(said)


def test_pages_take_all_claims_or_none(one_claim, tmp_path):
    with pytest.raises(SystemExit, match=r"^--pages: \d+ claims, as mario-\S+, are not measured with this code"):
        one_claim.run("--pages")
    assert not one_claim.path.exists()
    one_claim.run()
    codes = {workload: command.code(workload) for workload in workloads()}
    others = [row(one.name) | {"workload": workload, "code": codes[workload]} for workload, one in EVERY]
    for each, (workload, one) in zip(others, EVERY):
        each["contexts"] = [each["contexts"][0] | {"same_holds": returns.evidence(one, workload)}]
    published, old = tmp_path / "published.json", others[-1] | {"code": "of old"}
    ledger = pages.read(one_claim.path)
    published.write_text(json.dumps(ledger | {"claims": [*others[:-1], old]}))
    with pytest.raises(SystemExit, match=rf"^--pages: 1 claims, as {old['id']}, are not"):
        one_claim.run("--pages")
    assert one_claim.shown == []
    published.write_text(json.dumps(ledger | {"claims": others}))
    one_claim.run("--pages")
    ((*_, found),) = [one_claim.shown]
    ratios = {each["id"]: {context["ratio"] for context in each["contexts"]} for each in found["claims"]}
    assert ratios == {claim.name: {2.5 if claim.name == "snake-int8" else 1.5} for _, claim in EVERY}


def test_rows_go_where_the_evidence_says_something_else_by_now(one_claim, monkeypatch):
    one_claim.run()
    ledger = pages.read(one_claim.path)
    (workload, about), *_ = [each for each in EVERY if each[1].evidence]
    for known, gone in ((None, [True, False]), (True, [False]), (False, [True])):
        contexts = [row()["contexts"][0] | {"same_holds": same} for same in (True, False)]
        rows = [
            row(about.name) | {"workload": workload, "code": command.code(workload), "contexts": [context]}
            for context in contexts
        ]
        monkeypatch.setattr(returns, "evidence", lambda claim, workload, known=known: known)
        kept = command.still_so(ledger | {"claims": rows}, ledger)
        assert [each["contexts"][0]["same_holds"] for each in rows if each not in kept] == gone
    nothing = rows[0] | {"contexts": [contexts[0] | {"n": 0, "ratio": None}]}
    assert command.still_so(ledger | {"claims": [nothing]}, ledger) == [nothing]


def test_what_could_not_be_measured_is_tried_again(processes, monkeypatch):
    assert processes(2.0, 2.0)[1] == [2.0, 2.0]
    (file,) = command.KEPT.glob("*.jsonl")
    failed = {"claims": {"toy": {"alone": {"error": "OSError: no memory"}}}, "sides": {}}
    state, first, _ = file.read_text().splitlines()
    file.write_text(f"{state}\n{first}\n{json.dumps(failed)}\n")
    asked, found = processes(3.0, minutes=0)
    assert ([first for first, _ in asked], found) == ([1], [2.0, 3.0])


@pytest.mark.parametrize("name", ["code", "this_machine"])
def test_processes_of_other_code_or_another_machine_do_not_count(processes, monkeypatch, name):
    assert processes(2.0, 2.0)[1] == [2.0, 2.0]
    monkeypatch.setattr(command, name, lambda *asked: "another")
    asked, found = processes(3.0, 3.0)
    assert ([first for first, _ in asked], found) == ([0, 1], [3.0, 3.0])


def test_rows_stay_over_commits_that_change_none_of_their_code(one_claim):
    one_claim.run()
    kept = pages.read(one_claim.path)
    kept["claims"].append(kept["claims"][0] | {"id": "snake-ddp"})
    kept["machine"]["git"] = "of another commit"
    one_claim.path.write_text(json.dumps(kept))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8", "snake-ddp"]


def test_rows_are_of_the_code_that_was_there_before_they_were_measured(one_claim, monkeypatch):
    now = iter(["before", *["after"] * 9])
    monkeypatch.setattr(command, "code", lambda workload: next(now))
    one_claim.run()
    assert pages.read(one_claim.path)["claims"][0]["code"] == "before"


def test_a_cache_that_cannot_be_written_costs_nothing(one_claim, monkeypatch, tmp_path):
    (tmp_path / "kept").touch()
    monkeypatch.setattr(command, "processes", lambda *asked: pytest.fail("it was measured"))
    with pytest.raises(SystemExit, match=r"kept: cannot be written"):
        one_claim.run()


def test_a_claim_of_which_one_context_fails_is_named_and_no_other(one_claim, monkeypatch, tmp_path):
    def measured(workload, claims, options):
        contexts = {
            each.name: {
                key: {"error": "no"} if each.name == "snake-ddp" and not number else {"ratio": 2.5, "same": True}
                for number, key in enumerate(each.contexts)
            }
            for each in claims
        }
        yield [{"claims": contexts, "sides": {}}]

    monkeypatch.setattr(command, "processes", measured)
    with pytest.raises(SystemExit, match=r"^could not be measured: snake-ddp$"):
        one_claim.run("--only", "snake-ddp")
    one_claim.run()
    (kept,) = [each for each in pages.read(one_claim.path)["claims"] if each["id"] == "snake-ddp"]
    assert kept["contexts"][0]["verdict"] == "error"


def test_rows_of_a_workload_that_is_gone_go(one_claim):
    one_claim.run()
    ledger = pages.read(one_claim.path)
    gone = ledger["claims"][0] | {"id": "gone", "workload": "../../x"}
    one_claim.path.write_text(json.dumps(ledger | {"claims": [gone]}))
    one_claim.run()
    assert [each["id"] for each in pages.read(one_claim.path)["claims"]] == ["snake-int8"]


def test_a_device_is_no_output_and_is_not_read(one_claim):
    with pytest.raises(SystemExit, match=r"^--output /dev/zero: cannot be written: it is no file$"):
        one_claim.run("--output", "/dev/zero")


def test_what_measures_in_one_clone_takes_turns(one_claim, monkeypatch, tmp_path):
    log, turn, processes = [], command.turn, command.processes

    @contextmanager
    def logged(cache):
        with turn(cache):
            log.append(cache)
            yield
        log.append("given back")

    def measuring(*asked):
        log.append("measured")
        yield from processes(*asked)

    monkeypatch.setattr(command, "turn", logged)
    monkeypatch.setattr(command, "processes", measuring)
    one_claim.run()
    assert log == [tmp_path / "turns", "measured", "given back"]


def test_fewer_threads_than_cores_are_chosen_before_numpy_is_there():
    ran = subprocess.run(
        [sys.executable, "-m", "perf_tests.claims", "--list", "--threads", "1", "pirl"],
        cwd=ROOT, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("pirl-")


def test_evidence_is_asked_for_each_claim_of_its_workload(one_claim, monkeypatch):
    asked = []
    monkeypatch.setattr(returns, "evidence", lambda about, workload: asked.append((about.name, workload)))
    one_claim.run()
    assert asked == [("snake-int8", "snake")]


def test_an_interrupt_says_that_it_goes_on_and_what_cannot_be_kept_is_a_line(one_claim, monkeypatch, tmp_path, capsys):
    def interrupted(*asked):
        raise KeyboardInterrupt
        yield

    one_claim.path.write_text("{}")
    with pytest.raises(SystemExit, match=r"claims\.json: wanted what perf_tests\.claims writes"):
        one_claim.run()
    one_claim.path.unlink()
    monkeypatch.setattr(command, "processes", interrupted)
    with pytest.raises(SystemExit, match="130"):
        one_claim.run()
    said = f"interrupted: what was measured is kept in {tmp_path}/kept, and the same command goes on\n"
    assert capsys.readouterr().err.endswith(said)
    assert not one_claim.path.exists()
