"""This suite's benchmarks as the gate takes them: what is a case, what is laid out, what a side is told to run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perf_tests.gate import source as suite
from perf_tests.gate.starts import COMPILERS, WORKER
from perf_tests.selection import Selection
from perf_tests.suite.cases import variants
from perf_tests.suite.process import CACHE
from rl_impls import backends
from rlgauge.rule import GateError
from rlgauge.source import TOLERANCE, Case
from rlgauge.workers import PYTHON, Side

from .sources import suite_of, variant

HERE = Side("head", Path.cwd(), Path(sys.executable), WORKER)


@pytest.mark.parametrize(("cores", "all_cores"), [("one", False), ("all", True), ("own", True)])
def test_a_case_has_all_cores_unless_it_is_of_one(cores, all_cores):
    one = variants()["pirl.act[full-numpy]"]
    made = suite.case_of(replace(one, case=replace(one.case, cores=cores)))
    assert made == Case(one.id, all_cores, TOLERANCE)


def test_a_case_has_the_tolerance_of_its_precision():
    full, half = (variants()[f"treasurehunt.train_step[{form}-torch-agents5]"] for form in ("full", "bfloat16"))
    assert (suite.case_of(full).tolerance, suite.case_of(half).tolerance) == (TOLERANCE, 1e-2)


def test_cases_whose_backends_are_missing_are_not_timed_and_say_why(monkeypatch, tmp_path):
    missing = {"torch": "torch is not installed", "numpy": None}
    monkeypatch.setattr(backends.Backend, "missing", lambda self: missing[self.name])
    given = variant("a"), variant("b", "torch"), variant("c", cores="all"), variant("d", "torch")
    made = suite_of(monkeypatch, tmp_path / "gate", *given)
    assert [(case.id, case.all_cores) for case in made.cases()] == [("a", False), ("c", True)]
    assert made.unable() == {"b": "torch: torch is not installed", "d": "torch: torch is not installed"}
    assert (made.cache, made.artifact) == (tmp_path / "gate", tmp_path / "gate.json")


def test_what_a_run_keeps_is_in_the_cache():
    made = suite.Suite(Selection(ops=("act",), workloads=("pirl",)))
    assert (made.cache, made.artifact) == (CACHE / "gate", CACHE / "gate.json")
    assert {one.case.op for one in made.selected} == {"act"}


def test_base_lists_what_is_selected_here_or_would_be(monkeypatch, tmp_path):
    def known(name, tier="gate", op="first", backend="numpy", **axes):
        return [name, tier, "toy", op, "full", backend, axes]

    rows = [
        known("here", "full", "second"), known("same"), known("bench", "bench"), known("full", "full"),
        known("op", op="second"), known("backend", backend="jax"), known("axis", batch=1), known("other", batch=2),
    ]  # fmt: skip
    asked = []
    monkeypatch.setattr(suite, "told", lambda *of: asked.append(of) or f"printed\n{json.dumps(rows)}\n")
    selection = {"tier": "bench", "ops": ("first",), "backends": ("numpy",)}
    made = suite_of(monkeypatch, tmp_path, variant("here"), **selection)
    assert made.listed(tmp_path, "a side") == ["here", "same", "bench", "axis", "other"]
    made.selection = Selection(**selection, axes={"batch": ("1",)})
    assert made.listed(tmp_path, "a side") == ["here", "axis"]
    assert asked == [("a side", tmp_path, suite.LISTING)] * 2


def test_a_side_has_the_code_of_one_revision_and_the_benchmarks_of_another(monkeypatch, tmp_path):
    code, benchmarks, folder = (tmp_path / name for name in ("code", "benchmarks", "sides/base"))
    for place, text in ((code, "base's"), (benchmarks, "head's")):
        for name in ("rl_impls/toy/problem.py", "rl_impls/toy/_numpy.py", "perf_tests/it.py", "rlgauge/it.py"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
    side = suite_of(monkeypatch, tmp_path).lay_out("base", code, benchmarks, folder, PYTHON)
    assert side == Side("base", folder, PYTHON, WORKER, COMPILERS, "kept")
    found = {path.name: path.read_text() for path in (folder / "rl_impls/toy").iterdir()}
    assert found == {"problem.py": "head's", "_numpy.py": "base's"}
    assert [(folder / name / "it.py").read_text() for name in ("perf_tests", "rlgauge")] == ["head's"] * 2


def test_a_fingerprint_is_of_the_workload_of_the_case_and_taken_once(monkeypatch, tmp_path):
    taken = []
    monkeypatch.setattr(suite, "digest", lambda folder, workload: taken.append((folder, workload)) or len(taken))
    other = SimpleNamespace(**vars(variant("c")) | {"case": SimpleNamespace(workload="other", cores="one")})
    made = suite_of(monkeypatch, tmp_path, variant("a"), variant("b"), other)
    cases = made.cases()
    assert [made.fingerprint(tmp_path / "x", case) for case in cases] == [1, 1, 2]
    assert made.fingerprint(tmp_path / "y", cases[0]) == 3
    assert taken == [(tmp_path / "x", "toy"), (tmp_path / "x", "other"), (tmp_path / "y", "toy")]


def test_environments_are_those_of_the_lock_file_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "environments", lambda *of: of)
    assert suite_of(monkeypatch, tmp_path).environments() == (tmp_path, "requirements/py311.txt")


def test_in_the_end_fresh_memory_is_counted_of_what_was_to_be_timed(monkeypatch, tmp_path):
    counted, said, first, second = [], [], variant("first"), variant("second")
    monkeypatch.setattr(suite.memory, "measure", lambda *of: counted.append(of))
    gate = SimpleNamespace(log=said.append, sides="sides", limit=7.0, folder=tmp_path, records={"a": "record"})
    made = suite_of(monkeypatch, tmp_path, first, second)
    made.finish(gate, [Case("second")])
    assert counted == [("sides", 7.0, tmp_path, {"a": "record"}, [second])]
    assert said == ["gate: fresh memory, with default malloc"]


def test_a_case_is_found_by_its_id_whatever_is_selected(monkeypatch, tmp_path):
    made = suite_of(monkeypatch, tmp_path, variant("first"), variant("second", cores="all"))
    made.selected = ()
    assert made.case("second") == Case("second", True, TOLERANCE)
    with pytest.raises(GateError, match=r"^unknown case 'third'; pytest --collect-only .* --tier full lists them$"):
        made.case("third")


@pytest.mark.parametrize(("minutes", "measured"), [(0, 0), (0.5, 1)])
def test_power_is_measured_over_all_cases_where_there_is_time_and_read_from_its_file(
    monkeypatch, tmp_path, minutes, measured
):
    from perf_tests.gate.selfcheck import power, power_table

    asked, made = [], suite_of(monkeypatch, tmp_path)
    monkeypatch.setattr(suite, "everything", lambda: "everything")
    monkeypatch.setattr(power, "measure", lambda *of: asked.append(of))
    monkeypatch.setattr(power_table, "read", lambda file: f"of {file}")
    monkeypatch.setattr(power_table, "table", lambda found, rule: (found, rule))
    file = tmp_path / "pairs"
    assert made.power(tmp_path, file, minutes, "rule", 9.0) == (f"of {file}", "rule")
    assert made.power(tmp_path, None, 0, "rule", 9.0) == (f"of {power.POWER}", "rule")
    assert asked == [("everything", tmp_path, file, minutes)] * measured


def test_the_machine_of_a_run_is_that_of_all_results(monkeypatch, tmp_path):
    monkeypatch.setattr(suite.machine, "info", lambda root: {"root": root})
    assert suite_of(monkeypatch, tmp_path).machine(tmp_path) == {"root": tmp_path}


def test_a_run_of_pytest_has_what_it_selected_and_anything_else_all_there_is(monkeypatch):
    selected = Selection(workloads=("pirl",), ops=("act",), tier="full")
    monkeypatch.setattr(suite, "selection_of", lambda config: {"a run": selected}[config])
    assert suite.source("a run").selection == selected
    assert suite.source().selection == suite.everything().selection == Selection(tier="full")
    assert {one.id for one in suite.everything().selected} == set(variants())


def test_a_side_runs_lines_in_a_folder_whose_packages_it_sees(tmp_path):
    side = replace(HERE, variables={"ITS": "own"})
    (tmp_path / "of_the_folder.py").write_text("NAME = 'found'\n")
    code = "import os, sys, of_the_folder; print(of_the_folder.NAME, os.getcwd(), os.environ['ITS'], sys.argv[1:])"
    assert suite.told(side, tmp_path, code, "a", "b") == f"found {tmp_path} own ['a', 'b']\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit('first\\nlast')", "head: its import fails: last"),
        ("import sys; sys.exit(3)", "head: its import fails: no message"),
    ],
)
def test_lines_that_fail_are_an_error_with_their_last_words(tmp_path, code, words):
    with pytest.raises(GateError, match=f"^{words}$"):
        suite.told(HERE, tmp_path, code)


def test_lines_that_do_not_end_are_an_error(monkeypatch, tmp_path):
    def run(command, timeout, **how):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(suite.subprocess, "run", run)
    with pytest.raises(GateError, match=rf"^head: its import takes more than {suite.LIMIT:g} s$"):
        suite.told(HERE, tmp_path, "")


def test_a_listing_is_of_all_that_a_folder_has_and_empty_without_cases(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "rl_impls" / name).mkdir(parents=True)
        (tmp_path / "rl_impls" / name / "__init__.py").touch()
    (tmp_path / "rl_impls/__init__.py").touch()
    assert suite.told(HERE, tmp_path, suite.LISTING) == "[]\n"
    (tmp_path / "perf_tests/suite/cases").mkdir(parents=True)
    (tmp_path / "perf_tests/suite/cases/__init__.py").write_text("""
from types import SimpleNamespace as Named
case = Named(workload="first", op="act")
def variants():
    return {"a[x]": Named(tier="full", case=case, form="naive", backend="numpy", axes={"batch": 3})}
""")
    found = json.loads(suite.told(HERE, tmp_path, suite.LISTING))
    assert found == [["a[x]", "full", "first", "act", "naive", "numpy", {"batch": 3}]]
    (tmp_path / "rl_impls/second/__init__.py").write_text("1 / 0")
    with pytest.raises(GateError, match=r"^head: its import fails: ZeroDivisionError: division by zero$"):
        suite.told(HERE, tmp_path, suite.LISTING)
