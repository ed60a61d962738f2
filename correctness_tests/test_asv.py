"""ASV: it has the benchmarks of the gate tier, times commits and publishes them."""

import itertools
import json
import shutil
import sys

import pytest

from perf_tests.asv import benchmarks
from perf_tests.recorded import benchmarks as recorded

from .commands import ROOT, python
from .repositories.made import Repository

CLASSES = {made.time_call.benchmark_name: made for made in vars(benchmarks).values() if hasattr(made, "time_call")}


def combinations(made):
    return [values for values in itertools.product(*made.params) if values not in made.skip_params]


def test_asv_has_every_benchmark_of_the_gate_tier():
    found = []
    for name, made in CLASSES.items():
        for values in combinations(made):
            params = dict(zip(made.param_names, values))
            found.append((made.ids[values], name, params))
    gated = [(b.id, f"{b.workload}.{b.op}.time_call", dict(b.params)) for b in recorded() if b.tier == "gate"]
    assert sorted(found, key=repr) == sorted(gated, key=repr)


def test_benchmark_is_built_once_per_process():
    made = CLASSES["pirl.forward.time_call"]()
    values = next(values for values in combinations(made) if "numpy" in values)
    made.setup(*values)
    built = made.recorded
    made.time_call(*values)
    made.setup(*values)
    assert made.recorded is built
    made.time_call(*values)


@pytest.mark.usefixtures("torch")
def test_each_sample_starts_from_a_reset():
    made = CLASSES["treasurehunt.turn.time_call"]()
    values = next(values for values in combinations(made) if "torch" in values)
    outputs = []
    for _ in range(2):
        made.setup(*values)
        result = made.recorded.function(*made.recorded.args)
        outputs.append(repr(made.recorded.keywords["output"](result)))
    assert outputs[0] == outputs[1]
    assert (made.number, made.rounds, made.warmup_time) == (1, 1, 0)


@pytest.mark.slow
def test_asv_runs_and_publishes_commits_and_skips_older_ones(tmp_path):
    checkout, installed = tmp_path / "checkout", tmp_path / "installed"
    for name in ("perf_tests", "rl_impls", "rlgauge"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "asv.conf.json", checkout)
    problem = checkout / "rl_impls/pirl/problem.py"
    text = problem.read_text()
    problem.unlink()
    made = Repository(checkout, {})
    made.commit("new", {"rl_impls/pirl/problem.py": text})

    def asv(*arguments):
        variables = {"HOME": str(tmp_path), "ASV_PYTHONPATH": str(installed)}
        done = python("-m", "asv", *arguments, cwd=checkout, limit=300, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    asv("machine", "--yes", "--machine", "box")
    one = r"^pirl\.forward\.time_call\('full', 'numpy', 32,"
    printed = {}
    for commit in made.git("log", "--reverse", "--format=%H").split():
        made.git("worktree", "add", "--quiet", "--force", "--detach", str(installed), commit)
        here = ("--environment", f"existing:{sys.executable}", "--set-commit-hash", commit)
        printed[commit] = asv("run", *here, "--show-stderr", "--bench", one)
        made.git("worktree", "remove", "--force", str(installed))
    asv("publish")
    old, new = printed
    assert "this commit has no rl_impls/pirl/problem.py" in printed[old]
    assert "skipped" not in printed[new]
    pages = checkout / ".asv/html"
    listed = json.loads((pages / "index.json").read_text())
    assert listed["benchmarks"]["pirl.forward.time_call"]["param_names"][:2] == ["form", "backend"]
    (graph,) = pages.glob("graphs/branch-HEAD/**/pirl.forward.time_call.json")
    shown = {listed["revision_to_hash"][str(revision)]: values for revision, values in json.loads(graph.read_text())}
    assert not any(shown.get(old) or [])
    assert sum(value is not None for value in shown[new]) == 1
