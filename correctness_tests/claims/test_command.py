"""``python -m perf_tests.claims``: its arguments, the file of comparisons, and a run of two claims."""

import json
import signal
import subprocess
import sys

import pytest

from perf_tests.claims.__main__ import main
from perf_tests.claims.catalogue import claims_of
from perf_tests.claims.measure import Measured, as_toml, measure
from perf_tests.report.html import claims as shown
from rlgauge.compare_file import read
from rlgauge.plan import Plan
from rlgauge.two_tests import DIFFER

from ..commands import ROOT, environment, python
from .toy import OTHER, claim


def run(*arguments):
    done = python("-m", "perf_tests.claims", *arguments, limit=900)
    return done.returncode, done.stdout, done.stderr


def test_list_prints_a_line_for_each_claim(capsys):
    assert main(["snake,pirl", "--list"]) == 0
    wanted = [claim.id for name in ("snake", "pirl") for claim in claims_of(name)]
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == wanted


def test_a_mistake_is_one_line_and_code_2(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["chess"])
    assert ended.value.code == 2
    assert "unknown workload 'chess' (choose from mario, pirl, " in capsys.readouterr().err.splitlines()[-1]


def test_rlgauge_reads_the_file_of_comparisons(tmp_path):
    comparisons = [claim.comparison(context) for claim in claims_of("procgen") for context in claim.contexts]
    file = tmp_path / "comparisons.toml"
    file.write_text(as_toml(comparisons))
    found = read(file, Plan(minutes=0.0))
    assert [(each.a, each.b) for each, _ in found.values()] == [(each.a, each.b) for each in comparisons]
    assert [plan.threads_a for _, plan in found.values()] == [each.threads_a for each in comparisons]
    assert {plan.minutes for _, plan in found.values()} == {0.0}


@pytest.mark.parametrize(("minutes", "rounds"), [(1.0, 3), (0.0, 1)])
def test_unclear_comparisons_get_more_pairs_while_there_is_time(tmp_path, minutes, rounds):
    wide, sure = (claim().comparison("alone"), claim(contexts={"alone": OTHER}).comparison("alone"))

    def measured(comparisons, number, folder):
        return {one: Measured([float(number)] * 6) for one in comparisons}

    found = measure(
        [wide, sure], tmp_path, minutes, lambda known: [wide] if len(known[wide].values) < 18 else [], measured
    )
    assert found[wide].values == [float(number) for number in range(rounds) for _ in range(6)]
    assert found[sure].values == [0.0] * 6


@pytest.mark.parametrize(("error", "kept"), [("no reply", ""), (f"a and b: {DIFFER}", f"a and b: {DIFFER}")])
def test_pairs_count_although_a_later_round_fails_and_no_more_are_added(tmp_path, error, kept):
    one = claim().comparison("alone")

    def measured(comparisons, number, folder):
        return {one: Measured(error=error) if number == 1 else Measured([2.0] * 6)}

    found = measure([one], tmp_path, 1.0, lambda known: [one] if len(known[one].values) < 12 else [], measured)
    assert found[one] == Measured([2.0] * 6, error=kept)


def test_comparisons_that_failed_leave_their_place_to_others(tmp_path):
    five = [claim(threads_a=number).comparison("alone") for number in range(1, 6)]

    def measured(comparisons, number, folder):
        return {one: Measured([float(number)], error="no reply" if number else "") for one in comparisons}

    found = measure(five, tmp_path, 1.0, lambda known: five, measured)
    assert [found[one].values for one in five] == [*4 * [[0.0, 1.0]], [0.0, 2.0]]


def test_a_figure_whose_benchmark_fails_is_named_and_code_1(tmp_path, monkeypatch, capsys):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho {}\n")  # finds no limits of the machine, and runs no benchmark
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert main(["--only=pirl-latency-b1", "--output", str(tmp_path / "claims.json")]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "claims that could not be measured: pirl-latency-b1"


@pytest.mark.slow
def test_two_claims_are_measured_and_written(tmp_path):
    out = tmp_path / "claims.json"
    chosen = ["treasure-vmap-observe", "pirl-latency-b1"]
    code, text, err = run(*(f"--only={name}" for name in chosen), "--minutes=0", "--output", out)
    assert code == 0, err
    latency, observe = json.loads(out.read_text())["claims"]
    assert [latency["id"], observe["id"]] == chosen[::-1]
    assert observe["contexts"][0]["verdict"] == "holds"
    assert observe["contexts"][0]["n"] == 6
    assert 0 < latency["figures"][0]["ours"] < 1
    assert "treasure-vmap-observe [alone]: holds, " in text
    assert [claim.id for claim in shown.read(out).claims] == chosen[::-1]


@pytest.mark.slow
def test_an_interrupted_ledger_is_one_line_and_resumed(tmp_path):
    out = tmp_path / "claims.json"
    arguments = ["--only=treasure-vmap-observe", "--only=treasure-stack", "--minutes=0", "--output", out]
    command = [sys.executable, "-m", "perf_tests.claims", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=environment()
    )
    for line in process.stdout:
        if line.startswith("compare: 1 of 4: "):
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 2, rest
    assert rest.splitlines()[-1].startswith("interrupted: repeat the command to continue; finished comparisons are in ")
    assert not out.exists()
    code, _, err = run(*arguments)
    assert code == 0, err
    assert "compare: resuming with " in err
