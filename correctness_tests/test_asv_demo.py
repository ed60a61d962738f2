"""A range of commits for ASV, and the demonstration that ASV names one that was made slower."""

from __future__ import annotations

import json
import os
import signal
import string
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from perf_tests import asv, asv_demo
from perf_tests.asv_demo import Demo, DemoError, demonstrate, named, quiet

from .commands import ROOT, environment
from .waiting import alive, until

NAMES = string.ascii_letters  # of commits
PLANTED, NEXT = (40 * letter for letter in NAMES[asv_demo.BEFORE :][:2])


@pytest.fixture
def measured(monkeypatch):
    """Let ASV time commits by the work that they hold, on a machine that is as loud as it is told to be."""
    loud = {"spread": 0.02}

    def measured(folder, units, number):
        seconds = units * (1 + loud["spread"] * (number % 3) / 2)
        return NAMES[number] * 40, seconds

    published = {"named": None}
    monkeypatch.setattr(asv_demo, "start", lambda folder: None)
    monkeypatch.setattr(asv_demo, "measured", measured)
    monkeypatch.setattr(asv_demo, "asv", lambda *arguments: None)
    monkeypatch.setattr(asv_demo, "pack", lambda pages: None)
    monkeypatch.setattr(asv_demo, "named", lambda pages: published["named"])
    return loud, published


@pytest.mark.parametrize(
    ("flat", "found", "right"),
    [
        (False, [PLANTED], True),
        (False, [], False),
        (False, [NEXT], False),
        (False, [PLANTED, NEXT], False),
        (True, [], True),
        (True, [PLANTED], False),
    ],
)
def test_right_is_the_planted_commit_and_no_other(measured, tmp_path, flat, found, right):
    measured[1]["named"] = found
    demo = demonstrate(tmp_path, flat)
    assert demo.right is right
    assert str(demo).endswith("right" if right else "WRONG")
    assert demo.planted == (None if flat else PLANTED)


@pytest.mark.parametrize("spread", [0.02, 0.1])
def test_three_spreads_are_planted(measured, tmp_path, spread):
    measured[0]["spread"], measured[1]["named"] = spread, []
    demo = demonstrate(tmp_path, False)
    assert demo.spread == pytest.approx(spread, rel=0.1)
    assert demo.part == pytest.approx(3 * demo.spread, abs=0.5 / asv_demo.UNITS)
    thresholds = json.loads((tmp_path / "asv.conf.json").read_text())["regressions_thresholds"]
    assert thresholds[".*"] == pytest.approx(demo.part / 2, abs=0.01)


def test_a_quiet_machine_gets_two_per_cent(measured, tmp_path):
    measured[0]["spread"], measured[1]["named"] = 0.0, []
    assert demonstrate(tmp_path, False).part == pytest.approx(0.02)
    assert json.loads((tmp_path / "asv.conf.json").read_text())["regressions_thresholds"] == {".*": pytest.approx(0.01)}


def test_a_loud_machine_shows_nothing(measured, tmp_path):
    measured[0]["spread"] = 0.5
    message = r"^the same code differs by 40 % here, wanted 25 % or less: too loud$"
    with pytest.raises(DemoError, match=message):
        demonstrate(tmp_path, False)


def test_a_commit_is_named_by_its_place_in_the_pages(tmp_path):
    (tmp_path / "index.json").write_text(json.dumps({"revision_to_hash": {"0": "a", "1": "b", "2": "c"}}))
    jumps = [[None, 1, 1.0, 2.0], [1, 2, 2.0, 3.0]]
    found = {"regressions": [["name", "graph.json", {}, None, 3.0, 1.0, jumps]]}
    (tmp_path / "regressions.json").write_text(json.dumps(found))
    assert named(tmp_path) == ["b", "c"]


@pytest.mark.parametrize(
    ("outcomes", "code"), [(["a"], 0), (["b"], 1), (["a", "a"], 0), (["a", "b"], 1), ([], 2)], ids=str
)
def test_the_code_says_whether_every_run_was_right(monkeypatch, tmp_path, capsys, outcomes, code):
    left = iter(outcomes)

    def demonstrate(folder, flat):
        assert folder.is_dir()
        found = next(left, None)
        if found is None:
            raise DemoError("asv run ended with code 2: why")
        return Demo(folder, 0.01, 0.03, "a", [found])

    monkeypatch.setattr(asv_demo, "demonstrate", demonstrate)
    monkeypatch.setattr(asv_demo.tempfile, "tempdir", str(tmp_path))
    assert asv_demo.main(["--runs", str(max(1, len(outcomes)))]) == code
    said = capsys.readouterr()
    if code == 2:
        assert said.err == "asv run ended with code 2: why\n"
    else:
        assert said.out.splitlines()[-1] == f"right: {outcomes.count('a')} of {len(outcomes)}"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_neither_files_nor_processes(tmp_path, number):
    variables = environment(TMPDIR=str(tmp_path))
    command = [sys.executable, "-m", "perf_tests.asv_demo"]
    with subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.PIPE) as process:
        started = []

        def running():
            for path in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):  # it just ended, or belongs to somebody else
                    if str(tmp_path) in os.readlink(path / "cwd"):
                        started.append(int(path.name))
            return started

        until(running, "ASV")
        process.send_signal(number)
        assert process.wait(60) == 130
    until(lambda: not any(map(alive, started)), "its end")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_a_process_is_started_is_heard_once_it_can_be_ended(monkeypatch, tmp_path):
    began, popen = [], subprocess.Popen

    class Starting(popen):
        def __init__(self, command, **options):
            os.kill(os.getpid(), signal.SIGINT)
            super().__init__(command, **options)
            began.append(self)

    monkeypatch.setattr(asv_demo.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", Starting)
    assert asv_demo.main([]) == 130
    assert began
    assert began[-1].args[:3] == [sys.executable, "-m", "asv"]  # those of git before it were waited for
    assert all(process.returncode is not None for process in began)
    assert os.listdir(tmp_path) == []


def test_a_range_has_both_its_ends(monkeypatch):
    asked = {}

    def between(root, first, last):
        asked["between"] = first, last
        return ["b", "c"]

    monkeypatch.setattr(asv, "resolve", lambda root, revision: {"v1": "a"}[revision])
    monkeypatch.setattr(asv, "between", between)
    assert asv.commits("v1..main") == ["a", "b", "c"]
    assert asked["between"] == ("v1", "main")


@pytest.mark.parametrize("text", ["", "HEAD", "..HEAD", "HEAD..", "a...b", "HEAD..HEAD", "HEAD..nowhere"])
def test_what_is_no_range_is_one_line(text, capsys):
    with pytest.raises(SystemExit) as end:
        asv.main([text])
    assert end.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("python -m perf_tests.asv: error: ")


def test_commits_that_are_known_are_left_out_where_that_is_asked_for(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(asv, "commits", lambda text: ["a", "b"])
    monkeypatch.setattr(asv, "asv", lambda *arguments, only="": ran.append(arguments))
    monkeypatch.setattr(asv, "pack", lambda pages: None)
    for arguments in (["x..y"], ["x..y", "--new"]):
        asv.main(arguments)
    runs = [arguments[1:] for arguments in ran if arguments[0] == "run"]
    skipped = "--skip-existing-commits"
    assert runs == [
        ("a^!", "--show-stderr"),
        ("b^!", "--show-stderr"),
        ("a^!", "--show-stderr", skipped),
        ("b^!", "--show-stderr", skipped),
    ]


@pytest.mark.parametrize("known", [False, True])
def test_asv_learns_of_the_machine_once_and_starts_no_process_for_what_does_not_exist(monkeypatch, tmp_path, known):
    ran = []
    if known:
        (tmp_path / ".asv-machine.json").touch()
    monkeypatch.setattr(asv.Path, "home", lambda: tmp_path)
    monkeypatch.setattr(asv, "commits", lambda text: ["a"])
    monkeypatch.setattr(asv, "existing", lambda: "^these$")
    monkeypatch.setattr(asv, "pack", ran.append)
    monkeypatch.setattr(asv, "asv", lambda *arguments, only="": ran.append((*arguments, only)))
    asv.main(["x..y"])
    assert ran == [
        *([] if known else [("machine", "--yes", "")]), ("check", ""), ("run", "a^!", "--show-stderr", "^these$"),
        ("publish", "--no-pull", ""), asv.PAGES,
    ]  # fmt: skip


def test_a_failure_of_asv_is_that_of_the_command_and_pip_tries_once_unless_told_otherwise(monkeypatch):
    tries, codes = [], iter([0, 3])

    def run(command, cwd, env):
        tries.append((command[3:], env["PIP_RETRIES"], cwd))
        return subprocess.CompletedProcess(command, next(codes))

    monkeypatch.setattr(asv.subprocess, "run", run)
    monkeypatch.delenv("PIP_RETRIES", raising=False)
    asv.asv("check")
    monkeypatch.setenv("PIP_RETRIES", "5")
    with pytest.raises(SystemExit, match="3"):
        asv.asv("run", only="^these$")
    assert tries == [(["check"], "0", asv.ROOT), (["run", "--bench", "^these$"], "5", asv.ROOT)]


def test_a_machine_that_is_loud_after_the_planted_commit_shows_nothing(measured, tmp_path, monkeypatch):
    quiet_one = asv_demo.measured
    monkeypatch.setattr(
        asv_demo,
        "measured",
        lambda folder, units, number: (
            (NAMES[number] * 40, 9.0 * units) if number == asv_demo.BEFORE + 3 else quiet_one(folder, units, number)
        ),
    )
    with pytest.raises(DemoError, match="too loud"):
        demonstrate(tmp_path, False)


def test_of_a_session_are_also_those_in_groups_of_their_own():
    script = "set -m; sleep 60 & echo $!; wait"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as leader:
        inner = int(leader.stdout.readline())
        try:
            assert os.getpgid(inner) != leader.pid
            assert set(asv_demo.of_session(leader.pid)) == {leader.pid, inner}
        finally:
            os.kill(inner, signal.SIGKILL)
            leader.kill()


def test_many_commits_of_the_same_work_come_first_and_four_after_and_then_the_pages(monkeypatch, tmp_path):
    log = []

    def measured(folder, units, number):
        log.append((units, number))
        return NAMES[number] * 40, 1.0 + 0.01 * (number % 3 - 1)

    def pages(folder, *arguments):
        log.append((*arguments, json.loads((folder / "asv.conf.json").read_text())["regressions_thresholds"]))

    monkeypatch.setattr(asv_demo, "start", lambda folder: log.append(folder))
    monkeypatch.setattr(asv_demo, "measured", measured)
    monkeypatch.setattr(asv_demo, "asv", pages)
    monkeypatch.setattr(asv_demo, "pack", lambda folder: log.append(("packed", folder)))
    monkeypatch.setattr(asv_demo, "named", lambda folder: [str(folder)])
    for flat, units in ((False, 212), (True, 200)):
        log.clear()
        demo = demonstrate(tmp_path, flat)
        html = tmp_path / "html"
        assert log == [
            tmp_path, *((200, k) for k in range(48)), *((units, k) for k in range(48, 52)),
            ("publish", "--no-pull", {".*": pytest.approx(0.03)}), ("packed", html),
        ]  # fmt: skip
        assert demo == Demo(
            html, pytest.approx(0.02), pytest.approx(units / 200 - 1), None if flat else PLANTED, [str(html)]
        )


@pytest.mark.parametrize(("before", "least", "most"), [(6, 0.4, 0.75), (asv_demo.BEFORE, 0.97, 1.0)])
def test_a_step_of_three_spreads_is_found_after_a_long_history_and_not_after_a_short_one(before, least, most):
    from asv.step_detect import detect_regressions, detect_steps

    random, named = np.random.default_rng(1), []
    for _ in range(200):
        seconds = 1 + 0.004 * random.standard_normal(before + asv_demo.AFTER)
        part = max(asv_demo.TIMES * quiet(seconds[:before]), asv_demo.LEAST)
        seconds[before:] *= 1 + part
        _, _, steps = detect_regressions(detect_steps(list(seconds)), threshold=part / 2)
        named.append([step[1] for step in steps or ()] == [before])
    assert least <= np.mean(named) <= most


def test_a_demonstration_is_told_in_a_line(tmp_path):
    names = [letter * 40 for letter in "ab"]
    assert str(Demo(tmp_path, 0.012, 0.0345, names[0], names)) == (
        f"spread 1.2 %, {'a' * 12} is slower by 3.5 %; ASV names {'a' * 12}, {'b' * 12}: WRONG"
    )
    assert str(Demo(tmp_path, 0.012, 0.0, None, [])) == "spread 1.2 %, nothing is slower; ASV names no commit: right"


def test_times_may_differ_by_a_quarter_of_their_median():
    assert quiet([*(9 * [8.0]), 7.0, 9.0]) == 0.25
    with pytest.raises(DemoError, match="differs by 26 % here"):
        quiet([*(9 * [8.0]), 6.96, 9.04])


def test_the_spread_is_the_band_about_the_median_of_nine_in_ten_whatever_the_others_are():
    seconds = [8.0 + 0.1 * number for number in range(-10, 11)]
    assert quiet(seconds) == pytest.approx(2 * 0.9 / 8)
    for disturbed in (18.0, 180.0):
        assert quiet([*(17 * [8.0]), 7.0, 9.0, disturbed]) == 0.25


def test_each_commit_holds_its_work_and_has_the_time_that_asv_has_of_it(monkeypatch, tmp_path):
    asked, values = [], iter([[None], [2.5]])

    def results(folder, machine, commit):
        asked.append((folder, machine, commit))
        for _ in range(2):
            yield SimpleNamespace(get_result_value=lambda name, params: next(values) if name == asv_demo.NAME else [])

    ran = []
    monkeypatch.setattr(asv_demo, "asv", lambda folder, *arguments: ran.append(arguments))
    monkeypatch.setattr("asv.results.iter_results_for_machine_and_hash", results)
    asv_demo.start(tmp_path)
    commit, seconds = asv_demo.measured(tmp_path, 7, 3)
    assert (commit, seconds) == (asv_demo.git(tmp_path, "rev-parse", "main").decode().strip(), 2.5)
    assert asked == [(str(tmp_path / "results"), "scratch", commit)]
    assert asv_demo.git(tmp_path, "log", "-1", "--format=%s").decode() == "change 3\n"
    written = asv_demo.git(tmp_path, "show", "HEAD:sorting.py").decode()
    assert "in range(7):" in written
    assert written.endswith("# change 3\n")
    assert ran == [
        ("machine", "--yes", "--machine", "scratch"),
        ("run", "--environment", f"existing:{sys.executable}", "--machine", "scratch", "--set-commit-hash", commit,
         "--show-stderr"),
    ]  # fmt: skip
    assert (tmp_path / "benchmarks" / "quiet.py").read_text() == asv_demo.BENCHMARK
    assert (tmp_path / "benchmarks" / "__init__.py").exists()
    values = iter([[None], []])
    with pytest.raises(DemoError, match=r"^ASV has no figure of quiet\.Sort\.track_sort at "):
        asv_demo.measured(tmp_path, 7, 4)


def test_the_case_is_a_multiple_of_the_same_sorting_however_fast_the_machine_is(monkeypatch):
    clock, sorts, paces = [0.0], [], iter([1, 1, 2, 2, 9, 1, 5, 5, 1, 1])  # the third pair is disturbed in between

    def sort(numbers):
        sorts.append(len(numbers))
        clock[0] += pace[len(sorts) - 1]

    pace = [1.0 * pace for pace, count in zip(paces, 5 * [asv_demo.UNITS, 3 * asv_demo.UNITS]) for _ in range(count)]
    until = iter([0.0, 0.2, 0.4, 0.6, 0.8, 0.99])
    case = {}
    work = SimpleNamespace(work=lambda numbers: [sort(numbers) for _ in range(3 * asv_demo.UNITS)])
    monkeypatch.setitem(sys.modules, "sorting", work)
    exec(asv_demo.BENCHMARK, case)
    case["np"] = SimpleNamespace(sort=sort, median=np.median, random=np.random)
    case["time"] = SimpleNamespace(process_time=lambda: clock[0], perf_counter=lambda: next(until, 1.0))
    sorting = case["Sort"]()
    sorting.setup()
    assert sorting.track_sort() == 3.0
    assert sorts == 5 * 4 * asv_demo.UNITS * [1_000]


def test_what_asv_is_told_of_the_repository(tmp_path):
    asv_demo.configure(tmp_path, {".*": 0.5})
    found = json.loads((tmp_path / "asv.conf.json").read_text())
    assert found == {
        "version": 1, "project": "scratch", "repo": ".", "branches": ["main"], "benchmark_dir": "benchmarks",
        "environment_type": "existing", "regressions_thresholds": {".*": 0.5},
    }  # fmt: skip


ASV = """#!/bin/sh
echo "$HOME $ASV_PYTHONPATH $PWD $*"
sleep 60 > /dev/null 2>&1 &
echo $!
[ "$3" = machine ]
"""


def test_asv_has_a_home_of_its_own_and_what_it_leaves_running_is_ended(monkeypatch, tmp_path):
    (tmp_path / "python").write_text(ASV.replace("echo $!", f"echo $! >> {tmp_path}/left"))
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(asv_demo.sys, "executable", str(tmp_path / "python"))
    asv_demo.asv(tmp_path, "machine", "--yes")
    with pytest.raises(DemoError) as failed:
        asv_demo.asv(tmp_path, "run", "--more")
    folder = str(tmp_path)
    said = f"{folder} {folder} {folder} -m asv run --more"
    assert str(failed.value) == f"asv run ended with code 1: ['{said}']"
    left = [int(line) for line in (tmp_path / "left").read_text().split()]
    assert len(left) == 2
    until(lambda: not any(map(alive, left)), "its end")


def test_nothing_is_planted_and_it_runs_as_often_as_is_asked_for(monkeypatch, capsys, tmp_path):
    asked = []

    def demonstrate(folder, flat):
        asked.append((folder, flat))
        return Demo(folder, 0.01, 0.0, None, [])

    monkeypatch.setattr(asv_demo, "demonstrate", demonstrate)
    monkeypatch.setattr(asv_demo.tempfile, "tempdir", str(tmp_path))
    assert asv_demo.main([]) == asv_demo.main(["--flat", "--runs", "2"]) == 0
    assert [flat for _, flat in asked] == [False, True, True]
    assert len({folder for folder, _ in asked}) == 3
    line = "spread 1.0 %, nothing is slower; ASV names no commit: right"
    assert capsys.readouterr().out.splitlines() == [line, "right: 1 of 1", line, line, "right: 2 of 2"]
    with pytest.raises(SystemExit, match="2"):
        asv_demo.main(["--runs", "0"])
    assert "--runs: got 0, wanted 1 or more" in capsys.readouterr().err


def test_pages_that_cannot_be_packed_are_a_line_and_the_last_commit_is_timed_unless_told_otherwise(monkeypatch):
    asked = []

    def fails(pages):
        raise ValueError("no copy of it")

    monkeypatch.setattr(asv, "commits", lambda text: asked.append(text) or [])
    monkeypatch.setattr(asv, "asv", lambda *arguments, only="": None)
    monkeypatch.setattr(asv, "pack", fails)
    with pytest.raises(SystemExit, match=r"^no copy of it$"):
        asv.main([])
    assert asked == ["HEAD~1..HEAD"]
