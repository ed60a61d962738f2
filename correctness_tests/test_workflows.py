"""Workflows: restarts of the gate, cached environments, kept results, and the run on a GPU."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from .commands import ROOT
from .test_neuron_workflow import installed_by

NAMED = ("Makefile", "requirements/py311.txt", "pyproject.toml", "workloads/pyproject.toml", "VERSION")
SHARDS = ".github/workflows/gate-shards.yml"


def job(workflow, name):
    """Return a job of a workflow."""
    return yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())["jobs"][name]


def step(steps, name):
    """Return the step whose name or action starts with this text."""
    (found,) = (each for each in steps if (each.get("name") or each.get("uses", "")).startswith(name))
    return found


class Context(dict):
    """The context of an expression, in which missing names are empty."""

    def __getattr__(self, name):
        return self.get(name, Context())


def evaluated(text, **event):
    """Return a text with its expressions evaluated for a pull request event."""

    def value(found):
        python = found[1].replace("&&", " and ").replace("||", " or ").replace("!github", "not github")
        return str(eval(python, {"github": Context(ref="refs/pull/1/merge", event=Context(event))}))

    return re.sub(r"\$\{\{ (.*?) \}\}", value, text)


def test_only_its_own_label_restarts_the_gate():
    pushed, own, other = {}, {"label": Context(name="perf-ok")}, {"label": Context(name="docs")}
    assert job("gate", "gate")["needs"] == "allowed"
    condition = job("gate", "allowed")["if"]
    assert [evaluated(condition, **event) for event in (pushed, own, other)] == ["True", "True", "False"]
    group = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text())["concurrency"]["group"]
    first, second, third = (evaluated(group, **event) for event in (pushed, own, other))
    assert first == second != third  # a run for another label would otherwise cancel the gate's


def test_a_merge_group_is_compared_with_the_commit_that_it_is_added_to():
    workflow, action = (yaml.safe_load((ROOT / file).read_text()) for file in (SHARDS, "action.yml"))
    default = workflow[True]["workflow_call"]["inputs"]["against"]["default"]  # YAML reads the key "on" as true
    base = step(action["runs"]["steps"], "gate")["env"]["BASE"]
    group = Context(base_sha="abc")
    assert [evaluated(text, merge_group=group) for text in (default, base)] == ["abc", "abc"]


def test_an_environment_is_reused_as_long_as_the_files_that_name_it_are_the_same(tmp_path):
    for name in NAMED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def make(*arguments):
        return subprocess.run(["make", *arguments, "setup"], cwd=tmp_path, capture_output=True, text=True)

    stamp = tmp_path / re.search(r"^touch (\S+)$", make("--dry-run").stdout, re.M)[1]
    stamp.parent.mkdir()
    stamp.touch()
    os.utime(stamp, (0, 0))  # older than a fresh checkout, as in a cache
    assert make("--question").returncode == 0
    for name in NAMED[1:]:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{text}\n")
        assert make("--question").returncode == 1, name
        (tmp_path / name).write_text(text)
    assert make("--question").returncode == 0


def test_shards_and_the_other_jobs_share_the_cache_of_the_environment():
    setup = yaml.safe_load((ROOT / ".github/actions/setup/action.yml").read_text())["runs"]["steps"]
    files = re.findall(r"'(.+?)'", step(setup, "actions/cache")["with"]["key"])
    given = job("gate", "gate")["with"]
    assert given["cache-files"].split() == files == list(NAMED[1:])
    for name in ("shard", "verdict"):
        kept = step(job("gate-shards", name)["steps"], "actions/cache")["with"]
        key = kept["key"].replace("inputs.cache-files", ", ".join(map(repr, files)))
        assert key.replace("${{ inputs.cache }}", given["cache"]) == step(setup, "actions/cache")["with"]["key"]


@pytest.mark.parametrize(
    ("workflow", "name", "target"), [("tests", "tests", "bench-quick"), ("nightly", "bench", "bench")]
)
def test_the_results_of_benchmarks_are_kept(workflow, name, target):
    kept = step(job(workflow, name)["steps"], "actions/upload-artifact")["with"]
    printed = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True).stdout
    assert f" --json {kept['path']} " in printed
    assert kept["include-hidden-files"]  # .cache is hidden


def test_the_gpu_workflow_leaves_torch_and_jax_to_the_runner():
    assert not {"torch", "jax", "jaxlib"} & installed_by(step(job("cuda", "cuda")["steps"], "Install")["run"])


@pytest.mark.parametrize("code", [0, 1])
def test_the_gpu_workflow_fails_if_a_part_does(tmp_path, code):
    for name in ("tools", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / "tools/on_gpu.sh", tmp_path / "tools")
    python = tmp_path / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *"--backend torch "*) exit {code};; esac\n')
    python.chmod(0o755)
    command = ["bash", "-eo", "pipefail", "-c", step(job("cuda", "cuda")["steps"], "Test")["run"]]
    variables = {"PATH": os.environ["PATH"], "OUT": str(tmp_path / "out"), "PARTS": "torch:60 jax:60"}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"torch.txt", "jax.txt"}
